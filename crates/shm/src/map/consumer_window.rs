//! The window by which a consumer reads a ring.

use crate::file::error::AttachError;
use crate::file::location::Location;
use crate::file::trust::Trust;
use crate::map::consumer_mapping::{ConsumerMapping, Lines};
use crate::map::copy_window::CopyWindow;
use crate::map::read_window::{Guarded, ReadWindow};
use perfring_abi::Policy;

/// A ring as its consumer reads it. The policy and the trust decide which records may be borrowed. Each of the three variants
/// has only the methods for that.
#[derive(Debug)]
pub enum ConsumerWindow {
    /// A drop ring: records are borrowed where they are.
    InPlace(ReadWindow),
    /// A drop ring that an untrusted process may write: records are copied before they are examined.
    Guarded(ReadWindow<Guarded>),
    /// An overwrite ring: records are copied, and the position is saved in the ring.
    Saving(CopyWindow<ConsumerMapping>),
}

impl ConsumerWindow {
    /// Takes the consumer's seat with `name`, and continues where the last consumer, or the last of this name, released, or
    /// saved its position.
    ///
    /// ```
    /// # use perfring_shm::{ConsumerWindow, Lines, RingOptions, Trust, create};
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("ring");
    /// create(&path, &RingOptions { mode: 0o666, ..RingOptions::default() })?;
    /// let window = ConsumerWindow::attach(&path, "name", Lines::Leave, Trust::Auto)?;
    /// assert!(matches!(window, ConsumerWindow::Guarded(_)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// See [`AttachError`].
    pub fn attach(
        location: impl Into<Location>,
        name: &str,
        lines: Lines,
        trust: Trust,
    ) -> Result<Self, AttachError> {
        let mapping = ConsumerMapping::attach(location, name, lines, trust)?;
        Ok(match (mapping.file().layout().policy, mapping.is_guarded()) {
            (Policy::Overwrite, _) => Self::Saving(CopyWindow::resume(mapping, name)?),
            (Policy::Drop, true) => Self::Guarded(ReadWindow::attach(mapping, name)?),
            (Policy::Drop, false) => Self::InPlace(ReadWindow::attach(mapping, name)?),
        })
    }
}
