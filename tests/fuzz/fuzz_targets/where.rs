//! libFuzzer's program of the target `where`.
#![no_main]
libfuzzer_sys::fuzz_target!(
    init: perfring_fuzz::seeds::write("where"),
    |data: &[u8]| perfring_fuzz::run("where", data)
);
