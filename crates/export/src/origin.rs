//! Where records come from.

use perfring_consumer::{Anchors, Policy, Who};
use perfring_types::read::TypeTable;

/// A ring as outputs know it: one of perfring's, of the kernel's, or of a recording.
#[derive(Clone, Debug, Default)]
pub struct Origin {
    /// Its number among all that this process has read, never given to another.
    pub id: u32,
    /// What people call it: its file's name, or its name in its set.
    pub name: String,
    /// Where it is or was: a path, `shm:NAME`, or what a recording says.
    pub home: String,
    /// The ring's own id. It names the ring for ever, also once its file is gone.
    pub uuid: [u8; 16],
    /// How many producers had attached when it was opened.
    pub epoch: u64,
    /// What it does when it is full; `None` for a ring of the kernel.
    pub policy: Option<Policy>,
    /// Whether its records have stamps.
    pub timed: bool,
    /// Bytes of its data area.
    pub data_size: u64,
    /// Who produced into it when it was opened: hints, as the file has them.
    pub producer: Who,
    /// The types of its records, as far as they are known now. They become more.
    pub types: TypeTable,
    /// From stamps to wall-clock times, as known now.
    pub anchors: Anchors,
}

impl Origin {
    /// The uuid as people write it.
    #[must_use]
    pub fn uuid_text(&self) -> String {
        uuid::Uuid::from_bytes(self.uuid).hyphenated().to_string()
    }
}
