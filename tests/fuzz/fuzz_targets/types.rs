//! libFuzzer's program of the target `types`.
#![no_main]
libfuzzer_sys::fuzz_target!(
    init: perfring_hostile::seeds::write("types"),
    |data: &[u8]| perfring_hostile::run("types", data)
);
