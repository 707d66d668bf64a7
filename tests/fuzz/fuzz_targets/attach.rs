//! libFuzzer's program of the target `attach`.
#![no_main]
libfuzzer_sys::fuzz_target!(
    init: perfring_hostile::seeds::write("attach"),
    |data: &[u8]| perfring_hostile::run("attach", data)
);
