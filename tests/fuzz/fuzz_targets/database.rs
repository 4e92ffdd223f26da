#![no_main]

use std::cell::RefCell;
use std::fs::File;

thread_local! {
    static SCRATCH: RefCell<Option<File>> = RefCell::new(tempfile::tempfile().ok());
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    SCRATCH.with_borrow_mut(|scratch| {
        if let Some(scratch) = scratch {
            etcd_agent::backup::fuzzing::database(bytes, scratch);
        }
    });
});
