//! How the rings of a directory are read.

use crate::entry::RingEntry;
use crate::source::Source;
use perfring_consumer::{
    AttachError, Consumer, ConsumerOptions, Observer, ObserverOptions, Policy, Start, Trust,
};
use std::time::Duration;

/// Which rings of a directory are consumed, and which are only observed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadMode {
    /// Consumes drop rings, which must be emptied, and observes overwrite rings.
    #[default]
    Auto,
    /// Consumes all rings. A ring that another consumer has is [`DirEvent::Failed`](crate::DirEvent::Failed), and retried.
    Consume,
    /// Observes all rings: everything stays for other readers, and records that a producer overwrites first are
    /// [`DirEvent::Lost`](crate::DirEvent::Lost).
    Observe,
}

/// How [`Merge::follow_with`](crate::Merge::follow_with) reads the rings of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FollowOptions {
    /// The longest time that a record is held back so that others can be put before it: see
    /// [`Merge`](crate::Merge). Default 100 ms.
    pub delay: Duration,
    /// Which rings are consumed. Default [`ReadMode::Auto`].
    pub mode: ReadMode,
    /// The position at which observers start in rings that exist at first. Later rings are observed
    /// from their oldest record. Default [`Start::Oldest`].
    pub start: Start,
    /// The consumer's name, as `perfring stat` shows it. Default `None`: the program's name.
    pub name: Option<String>,
    /// Whether the rings' producers are trusted. Default [`Trust::Auto`].
    pub trust: Trust,
}

impl Default for FollowOptions {
    fn default() -> Self {
        FollowOptions {
            delay: Duration::from_millis(100),
            mode: ReadMode::default(),
            start: Start::default(),
            name: None,
            trust: Trust::Auto,
        }
    }
}

/// A ring of the directory, opened for reading.
pub(crate) struct OpenedRing {
    pub(crate) source: Box<dyn Source>,
    /// It is only observed.
    pub(crate) observed: bool,
}

impl FollowOptions {
    /// Opens a ring; `later` says that it was not there at first. Returns `None` if its path is another
    /// ring's by now.
    pub(crate) fn open(
        &self,
        entry: &RingEntry,
        later: bool,
    ) -> Result<Option<OpenedRing>, AttachError> {
        let observed = match self.mode {
            ReadMode::Auto => entry.layout.policy == Policy::Overwrite,
            ReadMode::Consume => false,
            ReadMode::Observe => true,
        };
        let trust = self.trust;
        let (source, uuid): (Box<dyn Source>, _) = if observed {
            let start = if later { Start::Oldest } else { self.start };
            let options = ObserverOptions { start, trust, ..ObserverOptions::default() };
            let observer = Observer::attach_with(&entry.path, &options)?;
            let uuid = observer.layout().uuid;
            (Box::new(observer), uuid)
        } else {
            let name = self.name.clone();
            let options = ConsumerOptions { name, trust, ..ConsumerOptions::default() };
            let consumer = Consumer::attach_with(&entry.path, &options)?;
            let uuid = consumer.layout().uuid;
            (Box::new(consumer), uuid)
        };
        Ok((uuid == entry.identity.uuid).then_some(OpenedRing { source, observed }))
    }
}
