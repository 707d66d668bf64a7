//! Aeron IPC, through its C client and its C media driver.
//!
//! Records go through a log of three terms. The media driver decides how far a publication may go,
//! by polling the positions of its subscribers: in a thread of its own, or, as an invoker, when the
//! subscriber's thread calls it. Both are measured, each with terms of 64 MiB (its default) and of
//! 1 MiB, which stay in the caches.

mod driver;
mod ends;
mod frame;

pub use driver::Driver;
pub use ends::{Fragments, Publication};

use crate::CompareError;
use crate::contest::waits::Polls;
use crate::contestant::{About, Can, Contestant, Location, Setup, failed};
use crate::workload::Workload;
use frame::{HEADER, MTU, NAME};
use std::path::Path;

/// Aeron IPC: whether the subscriber's thread invokes the driver, and MiB of a term.
pub struct Aeron<const INVOKER: bool, const MIB: usize>;

impl<const INVOKER: bool, const MIB: usize> Contestant for Aeron<INVOKER, MIB> {
    type Sender = Publication;
    type Receiver = Fragments;
    type Held = Driver;

    fn can() -> Can {
        Can {
            payload: MTU - HEADER,
            lossless: Ok(()),
            senders: Ok(()),
            overwrite: Err("its publications are refused when a subscriber is behind"),
            receivers: Ok(()),
            sleeping: Err("nothing wakes its subscribers: they poll"),
            refuses: Ok(()),
        }
    }

    fn remark(workload: Workload) -> Option<&'static str> {
        const REMARK: &str = "each channel of theirs has a media driver of its own here, which is in the \
                              figure; a program would have one for all of its channels";
        matches!(workload, Workload::Cold | Workload::Memory).then_some(REMARK)
    }

    fn about(setup: &Setup) -> About {
        let name = match (INVOKER, MIB) {
            (true, 1) => "aeron invoker 1 MiB",
            (true, _) => "aeron invoker 64 MiB",
            (false, 1) => "aeron driver 1 MiB",
            (false, _) => "aeron driver 64 MiB",
        };
        let driver = if INVOKER {
            "media driver invoked by the first subscriber's thread each eighth of the window"
        } else {
            "media driver in a thread of its own on any core (SHARED, its backoff)"
        };
        let kind = if setup.senders > 1 { "one concurrent" } else { "an exclusive" };
        let settings = format!(
            "{driver}; {kind} publication, tryClaim and commit per record, three terms of {MIB} \
             MiB, not sparse and touched before, window half a term, MTU {MTU}; polls of up to \
             64 KiB"
        );
        let version = "Aeron C 1.54.0 (rusteron 0.2.16)".to_owned();
        About {
            name,
            version,
            location: Location::Processes,
            settings,
            waits: Polls::about(setup.pace),
        }
    }

    fn create(path: &Path, setup: &Setup) -> Result<Driver, CompareError> {
        if setup.overwrite {
            return Err(failed(NAME)("it never overwrites"));
        }
        Driver::launch(path, INVOKER, MIB << 20, setup.receivers)
    }

    fn sender(path: &Path, setup: &Setup, _: usize) -> Result<Publication, CompareError> {
        Publication::add(path, setup)
    }

    fn receiver(path: &Path, setup: &Setup, index: usize) -> Result<Fragments, CompareError> {
        Fragments::add(path, setup, index, MIB << 20)
    }
}
