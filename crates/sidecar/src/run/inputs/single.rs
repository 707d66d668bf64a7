//! Single rings.

use super::poll::{Poll, Tried};
use crate::config::Input;
use crate::run::damaged::is_damage;
use perfring_consumer::{AttachError, Location, files::RingFile};
use perfring_set::NotRead;

pub(super) struct Single {
    pub(super) input: Input,
    pub(super) location: Location,
    pub(super) uuid: Option<[u8; 16]>,
    /// It does not exist yet.
    pub(super) is_missing: bool,
    pub(super) reported: String,
}

impl Single {
    pub(super) fn poll(&mut self, poll: &mut Poll<'_, '_>) {
        let file = RingFile::inspect(self.location.clone());
        let there = file.and_then(|file| file.identity()).map(|identity| identity.uuid);
        let now = there.as_ref().ok().copied();
        if let Some(uuid) = self.uuid.take_if(|uuid| Some(*uuid) != now) {
            poll.damaged.left(self.location.path(), uuid);
            poll.engine.file_removed(&uuid, &self.location);
        }
        if now.is_some() {
            poll.damaged.is_ring(&self.location.path());
        }
        if self.uuid.is_some() || now.is_some_and(|uuid| poll.damaged.is_aside(&uuid)) {
            return;
        }
        self.is_missing = matches!(there, Err(AttachError::NotFound { .. }));
        let why = match there {
            Ok(uuid) => match poll.take(&self.location, &self.input, uuid) {
                Tried::Attached => {
                    if !self.reported.is_empty() {
                        poll.say.info(&format!("{} is read now", self.location));
                    }
                    self.uuid = Some(uuid);
                    String::new()
                }
                Tried::Gone => return,
                Tried::Later(why) | Tried::Never(why) => why,
            },
            Err(AttachError::NotFound { .. }) => {
                poll.unreadable.readable(&self.location.path());
                format!("{} does not exist yet: waiting for it", self.location)
            }
            Err(error) => {
                let reason = NotRead::of(&error);
                poll.unreadable.note(&self.location.path(), reason, &error.to_string());
                if is_damage(&error) {
                    poll.damaged.found(&self.location.path(), poll.engine);
                }
                error.to_string()
            }
        };
        if !why.is_empty() && why != self.reported {
            poll.say.warn(&why);
        }
        self.reported = why;
    }
}
