//! libFuzzer's program of the target `export`.
#![no_main]
libfuzzer_sys::fuzz_target!(
    init: perfring_hostile::seeds::write("export"),
    |data: &[u8]| perfring_hostile::run("export", data)
);
