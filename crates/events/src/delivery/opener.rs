//! What opens an output of a configuration, any number of times.

use super::output::{Output, OutputError};
use super::terms::Terms;
use std::fmt;
use std::rc::Rc;

/// Opens an output of a name, any number of times.
#[derive(Clone)]
#[must_use]
pub struct Opener {
    check: Rc<Check>,
    open: Rc<Open>,
}

type Check = dyn Fn(&str) -> Result<(), OutputError>;
type Open = dyn Fn(&str, &Terms) -> Result<Box<dyn Output>, OutputError>;

impl fmt::Debug for Opener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opener").finish_non_exhaustive()
    }
}

impl Opener {
    /// Creates an opener of what checks the options, and of what opens the output.
    pub fn new(
        check: impl Fn(&str) -> Result<(), OutputError> + 'static,
        open: impl Fn(&str, &Terms) -> Result<Box<dyn Output>, OutputError> + 'static,
    ) -> Self {
        Opener { check: Rc::new(check), open: Rc::new(open) }
    }

    /// Checks what [`Opener::open`] would refuse, and makes nothing: places that cannot be written to, addresses that are
    /// none, files that cannot be read, values beyond their range. What is only found by doing it, as a port that another
    /// process has, is not checked.
    ///
    /// # Errors
    /// That of [`Opener::open`].
    pub fn check(&self, name: &str) -> Result<(), OutputError> {
        (self.check)(name)
    }

    /// Opens the output.
    ///
    /// # Errors
    /// What is wrong with its options, or with what they name.
    pub fn open(&self, name: &str, terms: &Terms) -> Result<Box<dyn Output>, OutputError> {
        self.check(name)?;
        (self.open)(name, terms)
    }
}
