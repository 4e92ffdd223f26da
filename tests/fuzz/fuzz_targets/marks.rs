#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| etcd_agent::backup::fuzzing::marks(bytes));
