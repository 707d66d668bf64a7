//! Objects that `create` makes for an end of the same process: a queue's two ends between threads,
//! a listening socket. They are kept here until that end takes them.

use perfring_bench::{BenchError, Result};
use std::any::Any;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The end that an object is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// The sender of this number.
    Sender(usize),
    /// The receiver of this number.
    Receiver(usize),
}

type Lying = (PathBuf, Whose, Box<dyn Any + Send>);

static LYING: Mutex<Vec<Lying>> = Mutex::new(Vec::new());

fn lying() -> MutexGuard<'static, Vec<Lying>> {
    // No thread panics while holding it, and the list is consistent at any time.
    LYING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes, when dropped, the objects that were not taken.
pub struct Held {
    path: PathBuf,
}

impl Held {
    /// Creates the holder for this path.
    pub fn new(path: &Path) -> Self {
        Held { path: path.to_owned() }
    }

    /// Stores an object for an end.
    pub fn lay<T: Any + Send>(&self, whose: Whose, what: T) {
        lying().push((self.path.clone(), whose, Box::new(what)));
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        lying().retain(|(path, _, _)| *path != self.path);
        // A socket's name. Most have none.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Takes the object of an end.
///
/// # Errors
/// There is no object of this type: this is another process, or it was taken before.
pub fn take<T: Any>(path: &Path, whose: Whose) -> Result<T> {
    let mut lying = lying();
    let found =
        lying.iter().position(|(at, who, what)| at == path && *who == whose && what.is::<T>());
    let taken = found.map(|at| lying.swap_remove(at).2).and_then(|what| what.downcast::<T>().ok());
    taken.map(|what| *what).ok_or_else(|| {
        let why = format!("{whose:?} of {} is not in this process", path.display());
        BenchError::Usage(why)
    })
}
