//! libFuzzer's program of the target `recover`.
#![no_main]
libfuzzer_sys::fuzz_target!(
    init: perfring_hostile::seeds::write("recover"),
    |data: &[u8]| perfring_hostile::run("recover", data)
);
