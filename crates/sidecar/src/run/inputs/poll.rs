//! Attaching to one ring.

use crate::config::Input;
use crate::engine::files::Appeared;
use crate::engine::{AttachFailure, Engine};
use crate::limits;
use crate::log::Say;
use crate::run::damaged::{Damaged, is_damage};
use crate::run::positions::Positions;
use crate::run::unreadable::Unreadable;
use perfring_consumer::{AttachError, Location};
use perfring_set::NotRead;
use std::collections::HashMap;
use std::time::Instant;

/// Rings that are read again although something failed: what was reported of each, which is not repeated, and the time from
/// which the ring may be removed.
pub(super) type Troubles = HashMap<[u8; 16], (String, Instant)>;

/// The context of polling inputs.
pub(super) struct Poll<'a, 'b> {
    pub(super) engine: &'a mut Engine,
    pub(super) positions: &'a Positions,
    pub(super) damaged: &'a mut Damaged,
    pub(super) troubles: &'a mut Troubles,
    pub(super) unreadable: &'a mut Unreadable,
    /// Why there is no room for one more ring. There may be at the next poll.
    pub(super) is_short: Option<String>,
    pub(super) say: &'a mut Say<'b>,
}

/// The result of an attempt.
pub(super) enum Tried {
    Attached,
    /// It may be possible later.
    Later(String),
    /// It will not be possible.
    Never(String),
    Gone,
}

impl Poll<'_, '_> {
    /// Attaches to a ring, unless it is read.
    pub(super) fn take(&mut self, location: &Location, input: &Input, uuid: [u8; 16]) -> Tried {
        match self.engine.file_appeared(&uuid, location) {
            Appeared::Read => {
                self.unreadable.readable(&location.path());
                Tried::Attached
            }
            Appeared::Copy(of) => {
                self.unreadable.copy(&location.path(), uuid);
                Tried::Later(format!(
                    "{location} is a copy of {of}, which is read: keep copies in directories that are no inputs"
                ))
            }
            // The position of the other file is saved once all that was read of it is delivered.
            Appeared::New if self.engine.has(&uuid) => Tried::Later(String::new()),
            Appeared::New => self.attach(location, input, uuid),
        }
    }

    pub(super) fn attach(&mut self, location: &Location, input: &Input, uuid: [u8; 16]) -> Tried {
        if self.is_short.is_none() {
            let shortage = limits::shortage(self.engine.attached());
            self.is_short = shortage.map(|shortage| shortage.to_string());
        }
        if let Some(why) = &self.is_short {
            self.unreadable.short(&location.path(), why, self.say);
            return Tried::Later(String::new());
        }
        match self.engine.attach(location, input, Some(uuid), |uuid| self.positions.get(uuid)) {
            Ok(_) => {
                self.unreadable.readable(&location.path());
                self.say.debug(&format!("{location} is read"));
                Tried::Attached
            }
            // The follower of the directory reports it.
            Err(AttachFailure::Replaced { .. }) => Tried::Gone,
            Err(AttachFailure::Attach(AttachError::NotFound { .. })) => Tried::Gone,
            Err(AttachFailure::Attach(
                error @ (AttachError::Bad { .. }
                | AttachError::Corrupt { .. }
                | AttachError::Truncated { .. }
                | AttachError::TooLargeToCopy { .. }),
            )) => {
                self.damaged.never(uuid, is_damage(&error), self.engine);
                self.unreadable.note(&location.path(), NotRead::of(&error), &error.to_string());
                Tried::Never(format!("{error}; it is set aside"))
            }
            Err(AttachFailure::Attach(error)) if error.is_shortage() => {
                let why = format!("{error}: {}", limits::RAISE_NOFILE);
                self.unreadable.short(&location.path(), &why, self.say);
                self.is_short = Some(why);
                Tried::Later(String::new())
            }
            Err(error) => {
                let reason = match &error {
                    AttachFailure::Attach(error) => NotRead::of(error),
                    _ => NotRead::Other,
                };
                self.unreadable.note(&location.path(), reason, &error.to_string());
                Tried::Later(format!("{error}; retrying"))
            }
        }
    }

    /// Reports a problem, unless it was the last one reported.
    pub(super) fn say_once(&mut self, why: String, reported: &mut String) {
        if why != *reported {
            self.say.warn(&why);
            *reported = why;
        }
    }
}
