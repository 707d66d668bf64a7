//! Inputs: directories that are followed, and single rings.

use super::damaged::{Damaged, is_damage};
use super::places::Places;
use crate::config::{Input, Place};
use crate::engine::{AttachFailure, Engine};
use perfring_consumer::{AttachError, Home, Idle, RingFile, Totals};
use perfring_kernel::Target;
use perfring_set::{Change, Follower};
use std::time::{Duration, Instant};

/// Changes of a directory that are looked at in one go: attaching takes time, too.
const CHANGES: usize = 64;
/// How often single rings, and those that others have, are looked at again.
const AGAIN: Duration = Duration::from_secs(1);
/// How often rings are looked for that could go.
const PRUNE: Duration = Duration::from_secs(1);
/// What is said, a sentence at a time.
pub(crate) type Say<'a> = &'a mut dyn FnMut(&str);

/// What inputs are looked at with.
struct Look<'a> {
    engine: &'a mut Engine,
    places: &'a Places,
    damaged: &'a mut Damaged,
    say: Say<'a>,
}

/// All inputs.
#[derive(Default)]
pub(crate) struct Inputs {
    dirs: Vec<Dir>,
    singles: Vec<Single>,
    kernel: Vec<Kernel>,
    /// Rings that could not be attached to, and may be later.
    waiting: Vec<Waiting>,
    pub(super) damaged: Damaged,
    again: Option<Instant>,
    prune: Option<Instant>,
}

struct Dir {
    input: Input,
    follower: Follower,
    told_missing: bool,
}

struct Single {
    input: Input,
    home: Home,
    uuid: Option<[u8; 16]>,
    told: String,
}

/// What the kernel is asked for.
struct Kernel {
    input: Input,
    options: perfring_kernel::Options,
    opened: bool,
    told: String,
}

struct Waiting {
    input: Input,
    home: Home,
    uuid: [u8; 16],
    told: String,
}

/// What became of a try.
enum Tried {
    Attached,
    /// It may be possible later.
    Later(String),
    /// It will not be.
    Never(String),
    Gone,
}

impl Inputs {
    pub(crate) fn add(&mut self, input: &Input) -> Result<(), String> {
        match &input.place {
            Place::Dir(dir) => {
                let follower = Follower::new(dir).map_err(|error| error.to_string())?;
                self.dirs.push(Dir { input: input.clone(), follower, told_missing: false });
            }
            Place::Ring(home) => self.singles.push(Single {
                input: input.clone(),
                home: home.clone(),
                uuid: None,
                told: String::new(),
            }),
            Place::Kernel { events, pid } => self.kernel.push(Kernel {
                input: input.clone(),
                options: perfring_kernel::Options {
                    events: events.clone(),
                    ..perfring_kernel::Options::of(pid.map_or(Target::System, Target::Process))
                },
                opened: false,
                told: String::new(),
            }),
        }
        self.again = None;
        Ok(())
    }

    pub(crate) fn remove(&mut self, input: &Input) {
        self.dirs.retain(|dir| dir.input != *input);
        self.singles.retain(|single| single.input != *input);
        self.kernel.retain(|kernel| kernel.input != *input);
        self.waiting.retain(|waiting| waiting.input != *input);
    }

    /// Whether all that there is to attach to was tried.
    pub(crate) fn look(&mut self, engine: &mut Engine, places: &Places, say: Say<'_>) -> bool {
        let mut look = Look { engine, places, damaged: &mut self.damaged, say };
        let mut all = true;
        for dir in &mut self.dirs {
            let mut left = CHANGES;
            while left > 0 {
                let Some(change) = dir.follower.next() else { break };
                left -= 1;
                look.change(change, &dir.input, &mut self.waiting);
            }
            all &= left > 0;
            if !dir.follower.is_there() && !dir.told_missing {
                let place = dir.follower.dir().display();
                let why = "is not there yet, or may not be read: it is looked for";
                (look.say)(&format!("{place} {why}"));
            }
            dir.told_missing = !dir.follower.is_there();
        }
        let now = Instant::now();
        if self.again.is_none_or(|again| now >= again) {
            self.again = now.checked_add(AGAIN);
            self.singles.iter_mut().for_each(|single| single.look(&mut look));
            self.kernel.iter_mut().for_each(|kernel| kernel.look(&mut look));
            self.waiting.retain_mut(|waiting| waiting.retry(&mut look));
        }
        all
    }

    /// Removes rings that nobody needs any more.
    pub(crate) fn prune(&mut self, engine: &mut Engine, say: Say<'_>) {
        let now = Instant::now();
        if self.prune.is_some_and(|next| now < next)
            || !self.dirs.iter().any(|dir| dir.input.prune_after_seconds.is_some())
        {
            return;
        }
        self.prune = now.checked_add(PRUNE);
        for (id, ring) in engine.idle(now) {
            let crate::engine::Idle { home, input, uuid } = ring;
            engine.let_loose(id);
            // Only when it is gone for good is told what no producer will tell any more.
            match remove(&home, &uuid) {
                Ok(Some(totals)) => {
                    engine.removed(id, &totals);
                    say(&format!("{home} was read and left: removed"));
                }
                // A producer came back, or the file went.
                Ok(None) => {
                    engine.detach(id);
                    self.waiting.push(Waiting { input, home, uuid, told: String::new() });
                }
                Err(error) => {
                    engine.detach(id);
                    say(&format!("{home} cannot be removed: {error}"));
                }
            }
        }
    }
}

/// Removes a ring that is read to its end and that nobody holds. Its books, if it did.
fn remove(home: &Home, uuid: &[u8; 16]) -> Result<Option<Totals>, AttachError> {
    let idle = match Idle::hold(home.clone()) {
        Err(AttachError::Busy { .. } | AttachError::NotFound { .. }) => return Ok(None),
        held => held?,
    };
    if idle.file().identity()?.uuid != *uuid {
        return Ok(None);
    }
    let whole = idle
        .file()
        .totals()?
        .filter(|totals| totals.tail == totals.head && totals.stranded.records == 0);
    if whole.is_some() {
        idle.remove()?;
    }
    Ok(whole)
}

impl Look<'_> {
    fn change(&mut self, change: Change, input: &Input, waiting: &mut Vec<Waiting>) {
        let mut gone = |uuid: [u8; 16], engine: &mut Engine| {
            engine.vanish(&uuid);
            waiting.retain(|waiting| waiting.uuid != uuid);
        };
        let ring = match change {
            Change::Appeared(ring) => ring,
            Change::Replaced { before, now } => {
                gone(before.identity.uuid, self.engine);
                now
            }
            Change::Vanished(ring) => {
                self.damaged.left(ring.path, ring.identity.uuid);
                return gone(ring.identity.uuid, self.engine);
            }
            Change::Refused(other) => {
                if RingFile::look(other.path.as_path()).is_err_and(|error| is_damage(&error)) {
                    self.damaged.found(&other.path, self.engine);
                }
                return (self.say)(&format!("{} is not read: {}", other.path.display(), other.why));
            }
            _ => return,
        };
        self.damaged.is_ring(&ring.path);
        let (home, uuid) = (Home::from(ring.path), ring.identity.uuid);
        if self.damaged.is_aside(&uuid) || self.engine.reappear(&uuid, &home) {
            return;
        }
        match self.attach(&home, input, uuid) {
            Tried::Attached | Tried::Gone => {}
            Tried::Never(why) => (self.say)(&why),
            Tried::Later(why) => {
                (self.say)(&why);
                waiting.push(Waiting { input: input.clone(), home, uuid, told: why });
            }
        }
    }

    fn attach(&mut self, home: &Home, input: &Input, uuid: [u8; 16]) -> Tried {
        match self.engine.attach(home, input, Some(uuid), |uuid| self.places.get(uuid)) {
            Ok(_) => Tried::Attached,
            // Whoever follows the directory hears of it.
            Err(AttachFailure::Replaced { .. }) => Tried::Gone,
            Err(AttachFailure::Attach(AttachError::NotFound { .. })) => Tried::Gone,
            Err(AttachFailure::Attach(
                error @ (AttachError::Bad { .. }
                | AttachError::Corrupt { .. }
                | AttachError::Cut { .. }
                | AttachError::TooLargeToCopy { .. }),
            )) => {
                self.damaged.never(uuid, is_damage(&error), self.engine);
                Tried::Never(format!("{error}; it is set aside"))
            }
            Err(error) => Tried::Later(format!("{error}; it is tried again")),
        }
    }

    /// Says what is wrong, unless that was said last.
    fn say_once(&mut self, why: String, told: &mut String) {
        if why != *told {
            (self.say)(&why);
            *told = why;
        }
    }
}

impl Kernel {
    fn look(&mut self, look: &mut Look<'_>) {
        if self.opened {
            return;
        }
        match perfring_kernel::open(&self.options) {
            Ok(rings) => {
                self.opened = true;
                for ring in rings {
                    let name = format!("kernel-{}", ring.cpu());
                    look.engine.add_kernel(&name, ring, &self.input);
                }
            }
            // It may be allowed later, or the process may come.
            Err(error) => {
                let why = format!("the kernel's events are not read: {error}");
                look.say_once(why, &mut self.told);
            }
        }
    }
}

impl Waiting {
    /// Whether it goes on waiting.
    fn retry(&mut self, look: &mut Look<'_>) -> bool {
        match look.attach(&self.home, &self.input, self.uuid) {
            Tried::Attached => (look.say)(&format!("{} is read now", self.home)),
            Tried::Gone => {}
            Tried::Never(why) => (look.say)(&why),
            Tried::Later(why) => {
                look.say_once(why, &mut self.told);
                return true;
            }
        }
        false
    }
}

impl Single {
    fn look(&mut self, look: &mut Look<'_>) {
        let file = RingFile::look(self.home.clone());
        let there = file.and_then(|file| file.identity()).map(|identity| identity.uuid);
        let now = there.as_ref().ok().copied();
        if let Some(uuid) = self.uuid.take_if(|uuid| Some(*uuid) != now) {
            look.damaged.left(self.home.path(), uuid);
            look.engine.vanish(&uuid);
        }
        if now.is_some() {
            look.damaged.is_ring(&self.home.path());
        }
        if self.uuid.is_some() || now.is_some_and(|uuid| look.damaged.is_aside(&uuid)) {
            return;
        }
        let why = match there {
            Ok(uuid) if look.engine.reappear(&uuid, &self.home) => {
                self.uuid = Some(uuid);
                return;
            }
            Ok(uuid) => match look.attach(&self.home, &self.input, uuid) {
                Tried::Attached => {
                    if !self.told.is_empty() {
                        (look.say)(&format!("{} is read now", self.home));
                    }
                    self.uuid = Some(uuid);
                    String::new()
                }
                Tried::Gone => return,
                Tried::Later(why) | Tried::Never(why) => why,
            },
            Err(AttachError::NotFound { .. }) => {
                format!("{} is not there yet: it is looked for", self.home)
            }
            Err(error) => {
                if is_damage(&error) {
                    look.damaged.found(&self.home.path(), look.engine);
                }
                error.to_string()
            }
        };
        if !why.is_empty() && why != self.told {
            (look.say)(&why);
        }
        self.told = why;
    }
}
