//! libFuzzer's program of the target `recording`.
#![no_main]
libfuzzer_sys::fuzz_target!(
    init: perfring_hostile::seeds::write("recording"),
    |data: &[u8]| perfring_hostile::run("recording", data)
);
