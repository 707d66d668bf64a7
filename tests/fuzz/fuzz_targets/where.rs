//! libFuzzer's program of the target `where`.
#![no_main]
libfuzzer_sys::fuzz_target!(
    init: perfring_hostile::seeds::write("where"),
    |data: &[u8]| perfring_hostile::run("where", data)
);
