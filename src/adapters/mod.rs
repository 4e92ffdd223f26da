//! Adapters, by technology.

pub mod clock;
mod dial;
pub mod dir;
pub mod disk;
pub mod etcd;
mod pace;
pub mod peers;
pub mod s3;
mod s3_check;
mod s3_client;
mod s3_error;
mod s3_get;
mod s3_replace;
mod s3_sse;
mod s3_upload;
pub mod seal;
pub mod store;
pub mod store_check;
pub mod systemd;
pub mod tls;
