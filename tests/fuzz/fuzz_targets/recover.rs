//! libFuzzer's program of the target `recover`.
#![no_main]
libfuzzer_sys::fuzz_target!(
    init: perfring_fuzz::seeds::write("recover"),
    |data: &[u8]| perfring_fuzz::run("recover", data)
);
