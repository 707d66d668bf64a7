//! What `create` makes for an end of the same process: a queue's two ends between threads, a socket
//! that listens. It lies here until that end takes it.

use crate::CompareError;
use perfring_bench::BenchError;
use std::any::Any;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Whose it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// Sender number so.
    Sender(usize),
    /// Receiver number so.
    Receiver(usize),
}

type Lying = (PathBuf, Whose, Box<dyn Any + Send>);

static LYING: Mutex<Vec<Lying>> = Mutex::new(Vec::new());

fn lying() -> MutexGuard<'static, Vec<Lying>> {
    // Nobody panics while holding it, and the list is whole at any time.
    LYING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes, when dropped, what nobody has taken.
pub struct Held {
    path: PathBuf,
}

impl Held {
    /// For this path.
    pub fn new(path: &Path) -> Self {
        Held { path: path.to_owned() }
    }

    /// Lays something down.
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

/// Takes what lies there.
///
/// # Errors
/// Nothing of this type lies there: this is another process, or it was taken before.
pub fn take<T: Any>(path: &Path, whose: Whose) -> Result<T, CompareError> {
    let mut lying = lying();
    let found =
        lying.iter().position(|(at, who, what)| at == path && *who == whose && what.is::<T>());
    let taken = found.map(|at| lying.swap_remove(at).2).and_then(|what| what.downcast::<T>().ok());
    taken.map(|what| *what).ok_or_else(|| {
        let why = format!("{whose:?} of {} is not in this process", path.display());
        BenchError::Usage(why).into()
    })
}
