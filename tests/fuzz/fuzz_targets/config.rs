//! libFuzzer's program of the target `config`.
#![no_main]
libfuzzer_sys::fuzz_target!(
    init: perfring_fuzz::seeds::write("config"),
    |data: &[u8]| perfring_fuzz::run("config", data)
);
