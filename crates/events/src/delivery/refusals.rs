//! How long an output reports what its receiver refused for good.

use super::left_out::REPORTED;
use std::time::Instant;

/// What a receiver refused for good.
#[derive(Clone, Debug, Default)]
pub struct Refusals {
    /// The last complaint of the receiver, and when that came.
    last: Option<(Instant, String)>,
    /// Why it refused all of a request, until it accepts something of a later one.
    whole: Option<String>,
}

/// How much of a request the receiver refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Nothing, or not all.
    NotAll,
    /// All of it.
    All,
}

impl Refusals {
    /// Notes the answer to a request; `why` is the complaint, if there is one.
    pub fn answered(&mut self, refused: Refused, why: Option<String>) {
        self.whole = why.clone().filter(|_| refused == Refused::All);
        if let Some(why) = why {
            self.last = Some((Instant::now(), why));
        }
    }

    /// Returns why the receiver refused all of its last request, if it did.
    pub fn whole(&self) -> Option<&str> {
        self.whole.as_deref()
    }

    /// Returns what is to be reported.
    pub fn trouble(&self) -> Option<&str> {
        let last = self.last.as_ref().filter(|(at, _)| at.elapsed() < REPORTED);
        self.whole().or(last.map(|(_, why)| why.as_str()))
    }
}
