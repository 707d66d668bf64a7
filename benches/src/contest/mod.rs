//! The contestants: rings behind one pair of traits, so that the measuring code around them is the
//! same.

pub(crate) mod floor;
mod perfring;
pub mod ring;

pub use floor::{Floor, Waits};
pub use perfring::Perfring;
pub use ring::{Audience, Contestant, Policy, Receiver, Ring, Sender, Setup, failed};

/// Calls a generic body with the ring's type.
macro_rules! ringed {
    ($contestant:expr, $ring:ident => $body:expr) => {
        match $contestant {
            $crate::contest::Contestant::Floor => {
                type $ring = $crate::contest::Floor;
                $body
            }
            $crate::contest::Contestant::Perfring => {
                type $ring = $crate::contest::Perfring;
                $body
            }
            other => Err($crate::error::BenchError::Usage(format!("{} is no ring", other.name()))),
        }
    };
}
pub(crate) use ringed;
