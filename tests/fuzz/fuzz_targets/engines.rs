//! libFuzzer's program of the target `engines`.
#![no_main]
libfuzzer_sys::fuzz_target!(
    init: perfring_fuzz::seeds::write("engines"),
    |data: &[u8]| perfring_fuzz::run("engines", data)
);
