//! What happens to the rings of the inputs.

use super::place::Place;
use crate::config::InputSource;
use crate::engine::{AttachFailure, Engine};
use crate::limits;
use crate::log::Say;
use crate::run::damaged::{Damaged, is_damage};
use crate::run::positions::Positions;
use crate::run::unreadable::Unreadable;
use perfring_consumer::{Start, files::RingFile};
use perfring_set::{Feed, FeedChange, Found, NoRing, NotRead, PlaceId};
use std::collections::HashMap;
use std::time::Instant;

/// Rings that are read again although something failed: what was reported of each, which is not repeated, and the time from
/// which the ring may be removed.
pub(super) type Troubles = HashMap<[u8; 16], (String, Instant)>;

/// The context of polling inputs.
pub(super) struct Poll<'a, 'b> {
    pub(super) engine: &'a mut Engine,
    pub(super) positions: &'a Positions,
    pub(super) feed: &'a mut Feed,
    pub(super) places: &'a mut [Place],
    pub(super) damaged: &'a mut Damaged,
    pub(super) troubles: &'a mut Troubles,
    pub(super) unreadable: &'a mut Unreadable,
    /// Why there is no room for one more ring. There may be at the next poll.
    pub(super) is_short: Option<String>,
    pub(super) say: &'a mut Say<'b>,
}

impl Poll<'_, '_> {
    pub(super) fn change(&mut self, change: FeedChange) {
        match change {
            FeedChange::Found(found) => self.found(found),
            FeedChange::Copy { found, of } => {
                let (uuid, location) = (found.ring.identity.uuid, &found.location);
                if of.is_none() {
                    return self.engine.file_replaced(&uuid);
                }
                self.unreadable.copy(&found.ring.path, uuid);
                let why = found.not_read(of.as_ref()).why;
                self.say.warn(&format!("{location} is {why}"));
            }
            FeedChange::Renamed(found) => {
                self.unreadable.readable(&found.ring.path);
                self.damaged.is_ring(&found.ring.path);
                self.engine.file_renamed(&found.ring.identity.uuid, &found.location);
            }
            FeedChange::Removed(found) => {
                let (path, uuid) = (found.ring.path, found.ring.identity.uuid);
                self.unreadable.readable(&path);
                self.troubles.remove(&uuid);
                self.engine.file_removed(&uuid);
                self.damaged.left(path, uuid);
            }
            FeedChange::NotRead(place, file) => self.not_read(place, &file),
            FeedChange::Left(path) => drop(self.unreadable.readable(&path)),
            _ => {}
        }
    }

    /// Attaches to a ring.
    fn found(&mut self, found: Found) {
        let Some(place) = self.places.iter_mut().find(|place| place.id == found.place) else {
            return;
        };
        let (path, uuid) = (found.ring.path.clone(), found.ring.identity.uuid);
        self.damaged.is_ring(&path);
        if self.is_short.is_none() {
            let shortage = limits::shortage(self.engine.attached());
            self.is_short = shortage.map(|shortage| shortage.to_string());
        }
        if let Some(why) = &self.is_short {
            self.unreadable.short(&path, why, self.say);
            self.feed.retry(found, "");
            return;
        }
        let positions = self.positions;
        let start = |uuid: &[u8; 16]| {
            let saved = positions.get(uuid).map(Start::At);
            saved.or(found.is_new.then_some(Start::Oldest))
        };
        let error = match self.engine.attach(&found.location, &place.input, Some(uuid), start) {
            Ok(_) => {
                let location = &found.location;
                let was_missing = place.is_missing && place.is_one_ring();
                // Of a ring whose trouble may be there still, nothing is repeated.
                match self.unreadable.readable(&path) || was_missing {
                    true if self.troubles.contains_key(&uuid) => {}
                    true => self.say.info(&format!("{location} is read now")),
                    false => self.say.debug(&format!("{location} is read")),
                }
                return self.feed.attached(found);
            }
            // The feed reports the ring that is there now.
            Err(AttachFailure::Replaced { .. }) => return,
            Err(AttachFailure::Attach(error)) => error,
        };
        if error.is_shortage() {
            let why = format!("{error}: {}", limits::RAISE_NOFILE);
            self.unreadable.short(&path, &why, self.say);
            self.is_short = Some(why);
            self.feed.retry(found, "");
            return;
        }
        let Some(failed) = self.feed.failed(found, &error) else { return };
        if !failed.is_retried && is_damage(&error) {
            self.engine.count_damaged(Some(uuid));
        }
        self.unreadable.note(&path, NotRead::of(&error), &error.to_string());
        self.say.warn(&failed.why);
    }

    fn not_read(&mut self, place: PlaceId, file: &NoRing) {
        let inspected = RingFile::inspect(file.path.as_path());
        let identity = inspected.and_then(|file| file.identity());
        if identity.as_ref().is_err_and(is_damage) {
            self.damaged.found(&file.path, self.engine);
        }
        // A file that is no ring is none of a directory's inputs, and a single one is one.
        if self.places.iter().any(|other| other.id == place && other.is_one_ring()) {
            self.unreadable.note(&file.path, file.reason, &file.why);
            return self.say.warn(&format!("{} is not read: {}", file.path.display(), file.why));
        }
        self.unreadable.refused(file, self.say);
        // Of a ring with a uuid, this says that it is a copy.
        if let (Ok(identity), NotRead::Foreign) = (identity, file.reason) {
            self.unreadable.copy(&file.path, identity.uuid);
        }
    }

    /// Reports places where nothing is, each once.
    pub(super) fn report_missing(&mut self) {
        let missing: Vec<PlaceId> = self.feed.missing().collect();
        for place in &mut *self.places {
            let was = std::mem::replace(&mut place.is_missing, missing.contains(&place.id));
            if was || !place.is_missing {
                continue;
            }
            match &place.input.source {
                InputSource::Dir(dir) => self.say.warn(&format!(
                    "{} does not exist yet, or may not be read: waiting for it",
                    dir.display()
                )),
                InputSource::Ring(location) => {
                    self.say.warn(&format!("{location} does not exist yet: waiting for it"));
                }
                InputSource::Kernel { .. } | InputSource::Bpf(_) => {}
            }
        }
    }
}
