//! The limits: bare loops that move the same bytes and check nothing.
//!
//! They are no libraries: they are right only because the harness gives each one sender, one
//! receiver and one length of payload, and believes them.

mod floor;
mod slots;

pub use floor::Floor;
pub use slots::Slots;

use super::{Can, Home};

/// What bare loops can do.
fn can() -> Can {
    Can {
        payload: 65_472,
        lossless: Ok(()),
        senders: Err("a bare loop has one sender"),
        overwrite: Err("a bare loop that overwrites has no reader"),
        receivers: Err("a bare loop has one receiver"),
        sleeping: Err("a bare loop never sleeps"),
        refuses: Ok(()),
    }
}

const HOME: Home = Home::Processes;
