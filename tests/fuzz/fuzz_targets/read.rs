//! libFuzzer's program of the target `read`.
#![no_main]
libfuzzer_sys::fuzz_target!(
    init: perfring_fuzz::seeds::write("read"),
    |data: &[u8]| perfring_fuzz::run("read", data)
);
