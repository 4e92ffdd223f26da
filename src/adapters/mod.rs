//! The adapters, one module for each technology.

pub mod clock;
mod dial;
pub mod dir;
pub mod disk;
pub mod etcd;
mod http1;
pub mod peers;
mod rate_limiter;
pub mod s3;
pub mod seal;
pub mod store;
pub mod store_check;
pub mod systemd;
pub mod tls;
