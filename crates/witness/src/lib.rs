//! The evidence for [`perfring_why`]: the kernel's context switches and page faults around the records of rings, and what /proc
//! says of the processes that have these rings open.
//!
//! A [`Witness`] opens the kernel's rings for its host, which reads them with its own. What the witness sees of processes it
//! publishes into a further ring: its records are those of [`perfring_why::witness`]. [`Recent`] keeps the evidence of the last
//! moments, for snapshots.
//!
//! | file | has |
//! |---|---|
//! | `witness` | when which process, seat or machine is looked at, and what is said of it |
//! | `process`, `seats`, `machine` | what a look finds |
//! | `calls`, `tasks` | the files of /proc about threads |
//! | `kernel`, `named_ring`, `voice` | the kernel's rings, and the witness's own with its writer |
//! | `recent`, `history` | the evidence of a snapshot, and the states of seats that held already when it begins |
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

mod calls;
mod error;
mod history;
mod kernel;
mod machine;
mod named_ring;
mod process;
mod recent;
mod seats;
mod tasks;
mod voice;
mod witness;

pub use error::WitnessError;
pub use kernel::missing;
pub use named_ring::NamedRing;
pub use recent::{FrozenRing, Recent};
pub use seats::{SeatSeen, seats};
pub use tasks::names;
pub use witness::{Files, Followed, Witness};
