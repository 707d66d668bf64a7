//! Inputs: directories that are followed, and single rings.

mod poll;
mod single;

use super::damaged::{Damaged, is_damage};
use super::drained;
use super::positions::Positions;
use super::unreadable::Unreadable;
use crate::config::{Input, InputSource};
use crate::engine::Engine;
use crate::log::Say;
use perfring_consumer::{Location, files::RingFile};
use perfring_kernel::Target;
use perfring_set::{Change, Follower, NotRead, RingEntry};
use poll::{Poll, Tried, Troubles};
use single::Single;
use std::time::{Duration, Instant};

/// The limit of directory changes that are handled in one poll: attaching takes time, too.
const CHANGES: usize = 64;
/// The interval of polling single rings, and those that are attached to by others.
const AGAIN: Duration = Duration::from_secs(1);
/// The interval of checks for rings that may be removed.
const PRUNE: Duration = Duration::from_secs(1);
/// The interval of removing a ring that could not be removed: each try detaches.
const PRUNE_AGAIN: Duration = Duration::from_secs(60);
/// All inputs.
#[derive(Default)]
pub(crate) struct Inputs {
    dirs: Vec<Dir>,
    singles: Vec<Single>,
    kernel: Vec<Kernel>,
    /// Rings that could not be attached to, and may be later.
    waiting: Vec<Waiting>,
    damaged: Damaged,
    again: Option<Instant>,
    prune: Option<Instant>,
    troubles: Troubles,
    pub(super) unreadable: Unreadable,
}

struct Dir {
    input: Input,
    follower: Follower,
    reported_missing: bool,
}

/// A kernel input.
struct Kernel {
    input: Input,
    options: perfring_kernel::Options,
    opened: bool,
    reported: String,
}

pub(super) struct Waiting {
    pub(super) input: Input,
    pub(super) location: Location,
    pub(super) uuid: [u8; 16],
    /// Why it is not read.
    pub(super) reported: String,
}

impl Inputs {
    pub(crate) fn add(&mut self, input: &Input) -> Result<(), String> {
        match &input.source {
            InputSource::Dir(dir) => {
                let follower = Follower::new(dir).map_err(|error| error.to_string())?;
                self.dirs.push(Dir { input: input.clone(), follower, reported_missing: false });
            }
            InputSource::Ring(location) => self.singles.push(Single {
                input: input.clone(),
                location: location.clone(),
                uuid: None,
                is_missing: true,
                reported: String::new(),
            }),
            InputSource::Kernel { events, pid } => self.kernel.push(Kernel {
                input: input.clone(),
                options: perfring_kernel::Options {
                    events: events.clone(),
                    ..perfring_kernel::Options::of(pid.map_or(Target::System, Target::Process))
                },
                opened: false,
                reported: String::new(),
            }),
        }
        self.again = None;
        Ok(())
    }

    /// Tries again, at the next poll, what could not be attached to.
    pub(super) fn retry(&mut self) {
        self.again = None;
    }

    pub(crate) fn remove(&mut self, input: &Input) {
        self.dirs.retain(|dir| dir.input != *input);
        self.singles.retain(|single| single.input != *input);
        self.kernel.retain(|kernel| kernel.input != *input);
        self.waiting.retain(|waiting| waiting.input != *input);
        match &input.source {
            InputSource::Dir(dir) => self.unreadable.left(dir),
            InputSource::Ring(location) => self.unreadable.left(&location.path()),
            InputSource::Kernel { .. } => {}
        }
    }

    /// Polls all inputs. Returns whether attaching to all present rings was attempted.
    pub(crate) fn poll(
        &mut self,
        engine: &mut Engine,
        positions: &Positions,
        say: &mut Say<'_>,
    ) -> bool {
        let (damaged, troubles) = (&mut self.damaged, &mut self.troubles);
        let unreadable = &mut self.unreadable;
        let mut poll =
            Poll { engine, positions, damaged, troubles, unreadable, is_short: None, say };
        let mut all = true;
        for dir in &mut self.dirs {
            let mut left = CHANGES;
            while left > 0 {
                let Some(change) = dir.follower.next() else { break };
                left -= 1;
                poll.change(change, &dir.input, &mut self.waiting);
            }
            all &= left > 0;
            if !dir.follower.is_there() && !dir.reported_missing {
                let dir = dir.follower.dir().display();
                let why = "does not exist yet, or may not be read: waiting for it";
                poll.say.warn(&format!("{dir} {why}"));
            }
            dir.reported_missing = !dir.follower.is_there();
        }
        let now = Instant::now();
        if self.again.is_none_or(|again| now >= again) {
            self.again = now.checked_add(AGAIN);
            self.singles.iter_mut().for_each(|single| single.poll(&mut poll));
            self.kernel.iter_mut().for_each(|kernel| kernel.poll(&mut poll));
            self.waiting.retain_mut(|waiting| waiting.retry(&mut poll));
        }
        all
    }

    /// Sets a ring aside that was read until now, and is damaged.
    pub(super) fn set_aside(&mut self, uuid: [u8; 16], location: Option<Location>, why: &str) {
        self.damaged.set_aside(uuid);
        if let Some(location) = location {
            self.unreadable.note(&location.path(), NotRead::Damaged, why);
        }
    }

    /// Attaches again to a ring that was read until now, and says why it is not read, once for each reason.
    pub(super) fn wait(&mut self, waiting: Waiting, say: &mut Say<'_>) {
        let (uuid, why) = (waiting.uuid, waiting.reported.clone());
        let path = waiting.location.path();
        self.waiting.push(waiting);
        if why.is_empty() {
            return;
        }
        self.unreadable.note(&path, NotRead::Other, &why);
        let now = Instant::now();
        let prune = now.checked_add(PRUNE_AGAIN).unwrap_or(now);
        let before = self.troubles.insert(uuid, (why.clone(), prune));
        if before.is_none_or(|(before, _)| before != why) {
            say.warn(&why);
        }
    }

    /// Returns how many rings and directories could not be opened, as far as that is known.
    pub(super) fn not_opened(&self) -> usize {
        let missing = self.dirs.iter().filter(|dir| dir.reported_missing).count();
        // A ring that cannot be read may wait, too.
        let waiting =
            self.waiting.iter().filter(|waiting| !self.unreadable.has(&waiting.location.path()));
        waiting.count() + self.unreadable.len() + missing
    }

    /// Adds why directories and rings are not followed; rings for these reasons. A ring that does not exist yet is followed.
    pub(crate) fn not_followed(&self, counts: impl Fn(NotRead) -> bool, reasons: &mut Vec<String>) {
        let missing = self.dirs.iter().filter(|dir| dir.reported_missing);
        reasons.extend(missing.map(|dir| {
            format!("{} does not exist, or may not be read", dir.follower.dir().display())
        }));
        let kernel =
            self.kernel.iter().filter(|kernel| !kernel.opened && !kernel.reported.is_empty());
        reasons.extend(kernel.map(|kernel| kernel.reported.clone()));
        self.unreadable.add_to(reasons, counts);
    }

    /// Removes rings that are no longer needed.
    pub(crate) fn prune(&mut self, engine: &mut Engine, say: &mut Say<'_>) {
        let now = Instant::now();
        if self.prune.is_some_and(|next| now < next)
            || !self.dirs.iter().any(|dir| dir.input.prune_after.is_some())
        {
            return;
        }
        self.prune = now.checked_add(PRUNE);
        for (id, ring) in engine.idle(now) {
            let crate::engine::Idle { location, input, uuid, refused } = ring;
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
            engine.detach(id);
            let reported = removed.err().map_or(String::new(), |error| {
                format!("{location} cannot be removed: {error}; it is read again")
            });
            // The ring is still there, or another process removed the file: the next attach tells.
            self.wait(Waiting { input, location, uuid, reported }, say);
        }
    }
}

impl Poll<'_, '_> {
    fn change(&mut self, change: Change, input: &Input, waiting: &mut Vec<Waiting>) {
        let troubles = &mut *self.troubles;
        let mut removed = |ring: &RingEntry, engine: &mut Engine| {
            let (uuid, location) = (ring.identity.uuid, Location::from(ring.path.clone()));
            engine.file_removed(&uuid, &location);
            waiting.retain(|waiting| waiting.uuid != uuid || waiting.location != location);
            troubles.remove(&uuid);
        };
        let ring = match change {
            Change::Appeared(ring) => ring,
            Change::Replaced { before, now } => {
                removed(&before, self.engine);
                now
            }
            Change::Vanished(ring) => {
                self.unreadable.readable(&ring.path);
                removed(&ring, self.engine);
                return self.damaged.left(ring.path, ring.identity.uuid);
            }
            Change::Left(path) => {
                self.unreadable.readable(&path);
                return;
            }
            Change::Refused(other) => {
                let file = RingFile::inspect(other.path.as_path());
                let identity = file.and_then(|file| file.identity());
                if identity.as_ref().is_err_and(is_damage) {
                    self.damaged.found(&other.path, self.engine);
                }
                self.unreadable.refused(&other, self.say);
                // Of a ring with a uuid, this says that it is a copy.
                if let (Ok(identity), NotRead::Foreign) = (identity, other.reason) {
                    self.unreadable.copy(&other.path, identity.uuid);
                }
                return;
            }
            _ => return,
        };
        let was_unread = self.unreadable.readable(&ring.path);
        self.damaged.is_ring(&ring.path);
        let (location, uuid) = (Location::from(ring.path), ring.identity.uuid);
        if self.damaged.is_aside(&uuid) {
            return;
        }
        match self.take(&location, input, uuid) {
            Tried::Attached if was_unread => self.say.info(&format!("{location} is read now")),
            Tried::Attached | Tried::Gone => {}
            Tried::Never(why) => self.say.warn(&why),
            Tried::Later(why) => {
                if !why.is_empty() {
                    self.say.warn(&why);
                }
                waiting.push(Waiting { input: input.clone(), location, uuid, reported: why });
            }
        }
    }
}

impl Kernel {
    fn poll(&mut self, poll: &mut Poll<'_, '_>) {
        if self.opened {
            return;
        }
        match perfring_kernel::open(&self.options) {
            Ok(rings) => {
                self.opened = true;
                for ring in rings {
                    let name = match self.options.target {
                        Target::Process(pid) => format!("kernel-{pid}-{}", ring.cpu()),
                        _ => format!("kernel-{}", ring.cpu()),
                    };
                    poll.engine.add_kernel(&name, ring, &self.input);
                }
            }
            // It may be allowed later, or the process may start.
            Err(error) => {
                let why = format!("the kernel's events are not read: {error}");
                poll.say_once(why, &mut self.reported);
            }
        }
    }
}

impl Waiting {
    /// Returns whether it continues to wait.
    fn retry(&mut self, poll: &mut Poll<'_, '_>) -> bool {
        // The position where an observer continues is saved once all that was read is delivered.
        if poll.engine.has(&self.uuid) {
            return true;
        }
        match poll.attach(&self.location, &self.input, self.uuid) {
            // Of a ring whose trouble may be there still, nothing is repeated.
            Tried::Attached if poll.troubles.contains_key(&self.uuid) => {}
            Tried::Attached => poll.say.info(&format!("{} is read now", self.location)),
            Tried::Gone => {}
            Tried::Never(why) => poll.say.warn(&why),
            Tried::Later(why) => {
                poll.say_once(why, &mut self.reported);
                return true;
            }
        }
        false
    }
}
