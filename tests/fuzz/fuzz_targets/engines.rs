//! libFuzzer's program of the target `engines`.
#![no_main]
libfuzzer_sys::fuzz_target!(
    init: perfring_hostile::seeds::write("engines"),
    |data: &[u8]| perfring_hostile::run("engines", data)
);
