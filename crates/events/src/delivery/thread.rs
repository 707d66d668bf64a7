//! Threads of outputs, whose panic is an error of their output.

use std::any::Any;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};
use std::thread::{Builder, JoinHandle};

/// Why threads have ended before they were asked to: the first sentence.
#[derive(Clone, Debug, Default)]
pub struct Ended(Arc<OnceLock<String>>);

impl Ended {
    /// Returns what has ended a thread.
    pub fn why(&self) -> Option<&str> {
        self.0.get().map(String::as_str)
    }

    /// Starts a thread.
    ///
    /// # Errors
    /// The system's error.
    pub fn start(
        &self,
        name: String,
        run: impl FnOnce() + Send + 'static,
    ) -> io::Result<JoinHandle<()>> {
        let (ended, thread) = (self.clone(), name.clone());
        Builder::new().name(name).spawn(move || {
            // Nothing that the thread alone has is used again. What it shares is under a lock.
            if let Err(panic) = catch_unwind(AssertUnwindSafe(run)) {
                let why = format!("its thread {thread:?} has panicked: {}", message(&*panic));
                let _ = ended.0.set(why); // else it is not the first
            }
        })
    }
}

fn message(panic: &(dyn Any + Send)) -> &str {
    let literal = panic.downcast_ref::<&str>().copied();
    literal.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

/// Has a thread of an output panic, and checks that the output says so.
///
/// # Panics
/// If the output says something else.
#[cfg(feature = "testing")]
#[allow(clippy::panic, clippy::unwrap_used, reason = "a test that cannot continue has failed")]
pub fn is_an_error_of(output: &mut dyn super::output::Output, ended: &Ended) {
    assert!(output.flush().is_ok());
    ended.start("sender".to_owned(), || panic!("out of luck")).unwrap().join().unwrap();
    let error = output.flush().unwrap_err();
    assert_eq!(error.output, "out");
    assert!(error.sentence.contains("\"sender\" has panicked: out of luck"), "{error}");
}

#[cfg(test)]
mod tests {
    use super::Ended;

    #[test]
    fn a_panic_ends_with_its_message() {
        let ended = Ended::default();
        ended.start("one".to_owned(), || ()).unwrap().join().unwrap();
        assert_eq!(ended.why(), None);
        ended.start("two".to_owned(), || panic!("{} is odd", 7)).unwrap().join().unwrap();
        ended.start("three".to_owned(), || panic!("later")).unwrap().join().unwrap();
        assert_eq!(ended.why(), Some("its thread \"two\" has panicked: 7 is odd"));
    }
}
