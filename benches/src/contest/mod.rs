//! The contestants: rings behind one pair of traits, so that the measuring code around them is the
//! same.

pub mod calls;
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
            $crate::contest::Contestant::Publish => {
                type $ring = $crate::contest::calls::Calls<$crate::contest::calls::Publish>;
                $body
            }
            $crate::contest::Contestant::PublishTimeout => {
                type $ring = $crate::contest::calls::Calls<$crate::contest::calls::PublishTimeout>;
                $body
            }
            $crate::contest::Contestant::ReserveTimeout => {
                type $ring = $crate::contest::calls::Calls<$crate::contest::calls::ReserveTimeout>;
                $body
            }
            $crate::contest::Contestant::PublishPod => {
                type $ring = $crate::contest::calls::Calls<$crate::contest::calls::PublishPod>;
                $body
            }
            other => Err($crate::error::BenchError::Usage(format!("{} is no ring", other.name()))),
        }
    };
}
pub(crate) use ringed;
