//! libFuzzer's program of the target `export`.
#![no_main]
libfuzzer_sys::fuzz_target!(
    init: perfring_fuzz::seeds::write("export"),
    |data: &[u8]| perfring_fuzz::run("export", data)
);
