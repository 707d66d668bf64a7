//! libFuzzer's program of the target `recording`.
#![no_main]
libfuzzer_sys::fuzz_target!(
    init: perfring_fuzz::seeds::write("recording"),
    |data: &[u8]| perfring_fuzz::run("recording", data)
);
