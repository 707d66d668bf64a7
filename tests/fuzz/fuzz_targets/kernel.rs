//! libFuzzer's program of the target `kernel`.
#![no_main]
libfuzzer_sys::fuzz_target!(
    init: perfring_hostile::seeds::write("kernel"),
    |data: &[u8]| perfring_hostile::run("kernel", data)
);
