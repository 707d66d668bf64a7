//! libFuzzer's program of the target `config`.
#![no_main]
libfuzzer_sys::fuzz_target!(
    init: perfring_hostile::seeds::write("config"),
    |data: &[u8]| perfring_hostile::run("config", data)
);
