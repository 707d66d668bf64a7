//! What the compiler refuses, and that the message says what to change.
//!
//! The rest of each text is rustc's and changes with it; these are of 1.95.

#[test]
fn a_struct_that_cannot_be_a_record_is_refused_in_words() {
    let tests = trybuild::TestCases::new();
    tests.compile_fail("tests/refused/*.rs");
}
