//! Files, named segments, mappings, locks and futexes for perfring: all of its unsafe code.
//!
//! The public APIs are the crates `perfring-producer` and `perfring-consumer`. Modules: `sys` wraps
//! system calls, `file` is a ring's file and its locks, `map` the mappings and the windows on them,
//! `perf` the kernel's own rings, `bpf` its BPF ring-buffer maps, `poll` descriptors for event loops.
//!
//! # What is sound here, and why
//!
//! * The header page and the control pages are only ever seen as `&Header` and `&Slot`: structs of
//!   atomics, for which any bit pattern is valid and which other processes may store to at any
//!   time.
//! * The type table behind them is seen as `&[AtomicU64]`, and added to only through a writable
//!   mapping.
//! * The data area is seen as `&[AtomicU64]` by the algorithm. Payload bytes are seen as `&mut
//!   [u8]` by the exclusive producer between reserve and commit, and as `&[u8]` by the
//!   consumer of a drop ring between the acquired head and the released tail. In both spans the
//!   protocol lets no other process write there; the consumer itself stores words back unchanged,
//!   between two borrows. Observers of an overwrite ring may *read* a reservation while it is
//!   filled: they do so by atomic loads in their own mapping, and discard the result; this has no
//!   effect on the producer.
//! * In a shared ring, reservations of several producers are open at the same time: each position
//!   is given out once, under the ring's lock, and the unpublished reservations are less than
//!   a ring, so no two of them overlap. A process that turns a dead producer's reservation into a
//!   hole writes its header word alone. The kernel's lock proves that the producer is dead: none of its threads
//!   runs.
//! * The AUX area is handed out in the same way, pinned by `aux_tail`. The kernel's rings are seen
//!   like a ring's header and words, and so are its BPF maps. The proofs stand at `Sight::pinned`, for reading, and at
//!   `deref_mut` of the two reservations, for writing.
//! * The metrics area is seen as `&[AtomicU64]`, and updated by single atomic operations: no block of it is exclusive.
//! * A forked child has private memory instead of its parent's mappings, see `sys/fork.rs`: a slice
//!   that it inherited is its own.
//! * A process that breaks the protocol (it can, if it may write the file) can change bytes under
//!   such a slice. A consumer borrows in place, and a producer lends the ring's bytes, only if no other
//!   user may write the file, or by a [`Promise`], see `file/trust.rs`. Otherwise, and in an observer,
//!   records are copies, and reservations are private memory, see `map/loan.rs`. No
//!   length or position that this code uses is read from the shared page without a check.
//! * A file that is truncated loses its pages, and touching them raises SIGBUS. In a process that
//!   called [`install_sigbus_handler`], or mapped a file that other users may write, private memory takes their
//!   place, see `sys/sigbus.rs`.
//! * Every attach maps the file again, so two handles in one process never share an address.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod bpf;
mod file;
mod map;
mod perf;
#[cfg(feature = "poll")]
mod poll;
mod sys;

pub use bpf::map::{BpfMap, BpfPlace, NoBpfMap};
pub use bpf::mapped::MappedBpf;
pub use file::appear::when_there;
pub use file::create::{RingOptions, create};
pub use file::create_dir::create_dir;
pub use file::create_error::CreateError;
pub use file::denied::irregular;
pub use file::draft_name::{dead_drafts, remove_dead_drafts};
pub use file::error::{AttachError, Role};
pub use file::file_system::FileSystem;
pub use file::location::{Location, cpu_of_ring, cpu_ring, is_in_set, is_priority};
pub use file::open::{Identity, RingFile, SeatId};
pub use file::open_or_create::{OpenError, create_if_missing, open_or_create};
pub use file::remove::{Idle, Removal, remove};
pub use file::trust::{Promise, Trust};
pub use map::attached::{Attached, LockedTypes};
pub use map::batch_reservation::BatchReservation;
pub use map::consumer_mapping::{ConsumerMapping, Lines};
pub use map::consumer_window::ConsumerWindow;
pub use map::copy_window::CopyWindow;
pub use map::cpu_slow::CpuSpace;
pub use map::cpu_window::{CpuWindow, NotHere};
pub use map::handler_mutex::{HandlerGuard, HandlerMutex};
pub use map::inspect::{SlotsSeen, anchors, named, peek, slots};
pub use map::metrics::{MetricBlock, MetricsMap};
pub use map::observer_mapping::ObserverMapping;
pub use map::pages::{Pages, PagesError};
pub use map::payload::{FrameBytes, bytes_of};
pub use map::pin_window::PinWindow;
pub use map::raw::{Raw, RawReader};
pub use map::read_window::{Guarded, InPlace, ReadWindow};
pub use map::recover::recover;
pub use map::reservation::{ExclusiveSpace, Reservation, Reserves, SharedSpace};
pub use map::shared_window::SharedWindow;
pub use map::sleeper::{ANY_MOST, Armed, Sleeper, Ticket, sleep_on_any};
pub use map::write_window::{Forked, WriteWindow};
pub use perf::attr::{Also, KernelEventSpec, Whose};
pub use perf::event::{KernelEvent, KernelEvents, NoEvent};
pub use perf::mapped::MappedKernel;
pub use perf::recorder::MappedRecorder;
#[cfg(feature = "poll")]
pub use poll::many::ManyWaits;
#[cfg(feature = "poll")]
pub use poll::pollable::{PollBy, PollError, Pollable};
pub use sys::clock::{ClockError, Clocks, CounterSample, MachineClock};
pub use sys::cpu_thread::CpuThread;
pub use sys::fork::generation as fork_generation;
pub use sys::futex::{SLICE, register_process, until_tick};
pub use sys::host::program_name;
pub use sys::process_context::{PROCESS_CONTEXT_MOST, publish_process_context};
pub use sys::rseq::{NoRseq, RseqRegistration};
pub use sys::sigbus::install_sigbus_handler;
pub use sys::thread_context::ThreadContext;

/// A ring's file and its surroundings: a ring's holders, the remains of dead processes, the properties of file systems. For
/// tools, and for programs that keep directories of rings.
pub mod files {
    pub use crate::file::create::create;
    pub use crate::file::draft_name::{dead_drafts, remove_dead_drafts};
    pub use crate::file::error::Role;
    pub use crate::file::file_system::FileSystem;
    pub use crate::file::location::is_priority;
    pub use crate::file::open::{Identity, RingFile, SeatId};
    pub use crate::file::open_or_create::create_if_missing;
    pub use crate::file::remove::{Idle, Removal, remove};
    #[doc(hidden)] // for `set`
    pub use crate::file::{
        denied::irregular,
        location::{cpu_of_ring, is_in_set},
    };
    pub use crate::map::recover::recover;
    pub use perfring_ring::Recovered;
}
