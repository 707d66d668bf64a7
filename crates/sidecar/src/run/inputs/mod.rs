//! Inputs: directories that are followed, single rings, and the kernel's events.

mod kernel;
mod place;
mod poll;

use super::damaged::Damaged;
use super::drained;
use super::positions::Positions;
use super::unreadable::Unreadable;
use crate::config::{Input, InputSource};
use crate::engine::Engine;
use crate::log::Say;
use kernel::Kernel;
use perfring_consumer::Location;
use perfring_set::{Feed, NotRead};
use place::Place;
use poll::{Poll, Troubles};
use std::path::Path;
use std::time::{Duration, Instant};

/// The limit of changes that are handled in one poll: attaching takes time, too.
const CHANGES: usize = 64;
/// The interval of trying to open the kernel's events.
const AGAIN: Duration = Duration::from_secs(1);
/// The interval of checks for rings that may be removed.
const PRUNE: Duration = Duration::from_secs(1);
/// The interval of removing a ring that could not be removed: each try detaches.
const PRUNE_AGAIN: Duration = Duration::from_secs(60);

/// All inputs.
#[derive(Default)]
pub(crate) struct Inputs {
    feed: Feed,
    places: Vec<Place>,
    kernel: Vec<Kernel>,
    damaged: Damaged,
    again: Option<Instant>,
    prune: Option<Instant>,
    troubles: Troubles,
    pub(super) unreadable: Unreadable,
}

impl Inputs {
    pub(crate) fn add(&mut self, input: &Input) -> Result<(), String> {
        let id = match &input.source {
            InputSource::Dir(dir) => self.feed.add_dir(dir).map_err(|error| error.to_string())?,
            InputSource::Ring(location) => self.feed.add_ring(location),
            InputSource::Kernel { events, pid } => {
                self.again = None;
                self.kernel.push(Kernel::events(input, events, *pid));
                return Ok(());
            }
            InputSource::Bpf(options) => {
                self.again = None;
                self.kernel.push(Kernel::map(input, options));
                return Ok(());
            }
        };
        self.places.push(Place { id, input: input.clone(), is_missing: false });
        Ok(())
    }

    /// Tries again, at the next poll, what could not be attached to.
    pub(super) fn retry(&mut self) {
        self.again = None;
        self.feed.retry_now();
    }

    pub(crate) fn remove(&mut self, input: &Input) {
        for place in self.places.extract_if(.., |place| place.input == *input) {
            self.feed.leave(place.id);
        }
        self.kernel.retain(|kernel| kernel.input != *input);
        match &input.source {
            InputSource::Dir(dir) => self.unreadable.left(dir),
            InputSource::Ring(location) => self.unreadable.left(&location.path()),
            InputSource::Kernel { .. } | InputSource::Bpf(_) => {}
        }
    }

    /// Polls all inputs. Returns whether attaching to all present rings was attempted.
    pub(crate) fn poll(
        &mut self,
        engine: &mut Engine,
        positions: &Positions,
        say: &mut Say<'_>,
    ) -> bool {
        let Inputs { feed, places, damaged, troubles, unreadable, .. } = self;
        let mut poll = Poll {
            engine,
            positions,
            feed,
            places,
            damaged,
            troubles,
            unreadable,
            is_short: None,
            say,
        };
        let now = Instant::now();
        let mut left = CHANGES;
        while left > 0
            && let Some(change) = poll.feed.next(now)
        {
            left -= 1;
            poll.change(change);
        }
        // Not `left > 0`: ever more rings that wait may be tried again.
        let all = poll.feed.is_level();
        poll.report_missing();
        if self.again.is_none_or(|again| now >= again) {
            self.again = now.checked_add(AGAIN);
            self.kernel.iter_mut().for_each(|kernel| kernel.open(poll.engine, poll.say));
        }
        all
    }

    /// Sets a ring aside that was read until now, and is damaged.
    pub(super) fn set_aside(&mut self, uuid: [u8; 16], location: Option<Location>, why: &str) {
        self.feed.set_aside(uuid);
        if let Some(location) = location {
            self.unreadable.note(&location.path(), NotRead::Damaged, why);
        }
    }

    /// Notes that a ring is not read any more. It is attached to again if it is still there.
    pub(super) fn ended(&mut self, uuid: &[u8; 16]) {
        self.feed.ended(uuid);
    }

    /// Notes why a ring is not read for now that was read until now, and says it, once for each reason.
    pub(super) fn interrupted(
        &mut self,
        uuid: [u8; 16],
        path: &Path,
        why: &str,
        say: &mut Say<'_>,
    ) {
        self.unreadable.note(path, NotRead::Other, why);
        let now = Instant::now();
        let prune = now.checked_add(PRUNE_AGAIN).unwrap_or(now);
        let before = self.troubles.insert(uuid, (why.to_owned(), prune));
        if before.is_none_or(|(before, _)| before != why) {
            say.warn(why);
        }
    }

    /// Returns how many rings and directories could not be opened, as far as that is known.
    pub(super) fn not_opened(&self) -> usize {
        // A ring that cannot be read may wait, too.
        let waiting = self.feed.waiting().filter(|found| !self.unreadable.has(&found.ring.path));
        waiting.count() + self.unreadable.len() + self.missing_dirs().count()
    }

    fn missing_dirs(&self) -> impl Iterator<Item = &Path> {
        self.places.iter().filter(|place| place.is_missing).filter_map(|place| {
            match &place.input.source {
                InputSource::Dir(dir) => Some(dir.as_path()),
                _ => None,
            }
        })
    }

    /// Adds why directories and rings are not followed; rings for these reasons. A ring that does not exist yet is followed.
    pub(crate) fn not_followed(&self, counts: impl Fn(NotRead) -> bool, reasons: &mut Vec<String>) {
        let missing = self.missing_dirs().map(Path::display);
        reasons.extend(missing.map(|dir| format!("{dir} does not exist, or may not be read")));
        reasons.extend(self.kernel.iter().filter_map(Kernel::trouble).map(str::to_owned));
        self.unreadable.add_to(reasons, counts);
    }

    /// Removes rings that are no longer needed.
    pub(crate) fn prune(&mut self, engine: &mut Engine, say: &mut Say<'_>) {
        let now = Instant::now();
        if self.prune.is_some_and(|next| now < next)
            || !self.places.iter().any(|place| place.input.prune_after.is_some())
        {
            return;
        }
        self.prune = now.checked_add(PRUNE);
        for (id, ring) in engine.idle(now) {
            let crate::engine::Idle { location, uuid, refused } = ring;
            if self.troubles.get(&uuid).is_some_and(|(_, next)| now < *next) {
                continue;
            }
            engine.detach_delivered(id);
            let removed = drained::remove(&location, &uuid, &refused);
            if let Ok(true) = removed {
                engine.removed(id);
                self.troubles.remove(&uuid);
                say.info(&format!("{location} was read, and its producers ended: removed"));
                continue;
            }
            // The ring is still there, or another process removed the file: the feed finds out.
            engine.detach(id);
            if let Err(error) = removed {
                let why = format!("{location} cannot be removed: {error}; it is read again");
                self.interrupted(uuid, &location.path(), &why, say);
            }
        }
    }
}
