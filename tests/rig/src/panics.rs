//! Panics of an output's threads.

use perfring_events::Output;
use perfring_events::delivery::thread::Ended;

/// Has a thread of an output panic, and checks that the output says so.
///
/// # Panics
/// If the output says something else.
pub fn is_an_error_of(output: &mut dyn Output, ended: &Ended) {
    assert!(output.flush().is_ok());
    ended.start("sender".to_owned(), || panic!("out of luck")).unwrap().join().unwrap();
    let error = output.flush().unwrap_err();
    assert_eq!(error.output, "out");
    assert!(error.sentence.contains("\"sender\" has panicked: out of luck"), "{error}");
}
