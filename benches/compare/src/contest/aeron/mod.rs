//! Aeron IPC, through its C client and its C media driver.
//!
//! Records go through a log of three terms. The media driver decides how far a publication may go,
//! by polling the positions of its subscribers: in a thread of its own, or, as an invoker, when the
//! subscriber's thread calls it. The latter is measured, which was the faster one, with terms of 1
//! MiB, which stay in the caches (the default is 64 MiB).

mod driver;
mod ends;
mod frame;

pub use driver::Driver;
pub use ends::{Fragments, Publication};

use frame::{HEADER, MTU, NAME};
use perfring_bench::Result;
use perfring_bench::contestant::{About, Can, Contestant, Location, Setup};
use perfring_bench::error::failed;
use std::path::Path;

/// Aeron IPC, whose driver the subscriber's thread invokes.
pub struct AeronIpc;

/// Bytes of a term.
const TERM: usize = 1 << 20;

impl Contestant for AeronIpc {
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

    fn about(setup: &Setup) -> About {
        let kind = if setup.senders > 1 { "one concurrent" } else { "an exclusive" };
        let settings = format!(
            "media driver invoked by the first subscriber's thread each eighth of the window, one \
             for each channel (in its cold start and its memory); {kind} publication, tryClaim \
             and commit per record, three terms of {} KiB, not sparse and touched before, window \
             half a term, MTU {MTU}; polls of up to 64 KiB",
            TERM >> 10
        );
        let version = "Aeron C 1.54.0 (rusteron 0.2.16)".to_owned();
        About {
            name: NAME,
            version,
            location: Location::Processes,
            settings,
            waits: setup.pace.polls(),
        }
    }

    fn create(path: &Path, setup: &Setup) -> Result<Driver> {
        if setup.overwrite {
            return Err(failed(NAME)("it never overwrites"));
        }
        Driver::launch(path, TERM, setup.receivers)
    }

    fn sender(path: &Path, setup: &Setup, _: usize) -> Result<Publication> {
        Publication::add(path, setup)
    }

    fn receiver(path: &Path, setup: &Setup, index: usize) -> Result<Fragments> {
        Fragments::add(path, setup, index, TERM)
    }
}
