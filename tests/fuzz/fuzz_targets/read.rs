//! libFuzzer's program of the target `read`.
#![no_main]
libfuzzer_sys::fuzz_target!(
    init: perfring_hostile::seeds::write("read"),
    |data: &[u8]| perfring_hostile::run("read", data)
);
