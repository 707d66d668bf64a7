//! An output with a script, which records its events.
#![allow(dead_code, reason = "each test uses some of it")]

use perfring_export::{Event, Figures, LossCause, Output, OutputError, Took, What};
use perfring_producer::{Options, Policy, Producer};
use perfring_sidecar::{Engine, Turn};
use perfring_testkit::wait::{self, Watchdog};
use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// How long the engine of a test holds records back for older ones of other rings.
pub(crate) const DELAY: Duration = Duration::from_millis(1);

/// An event that an output received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reported {
    Began(String),
    Record(String, u64, Vec<u8>),
    Lost(String, &'static str, u64, u64),
    Ended(String),
}

/// The behaviour and the state of a scripted output.
#[derive(Debug, Default)]
pub(crate) struct Script {
    /// Events that it takes before it is busy.
    pub(crate) room: usize,
    /// Whether events are delivered at once.
    pub(crate) prompt: bool,
    /// It fails from now on.
    pub(crate) fails: bool,
    pub(crate) reported: Vec<Reported>,
    /// Events that are not delivered.
    pub(crate) held: Vec<u64>,
    pub(crate) last_seq: u64,
    pub(crate) closed: bool,
    /// It fails to close, and then reports no unsettled event.
    pub(crate) loses: bool,
    /// It was told that rules leave out records.
    pub(crate) knows_rules: bool,
    /// Called with each event that it takes.
    pub(crate) hook: Hook,
}

/// What a test does while an output takes an event. It must not use the output.
#[derive(Default)]
pub(crate) struct Hook(Option<OnTake>);

type OnTake = Box<dyn FnMut(&Reported)>;

impl Hook {
    pub(crate) fn new(on_take: impl FnMut(&Reported) + 'static) -> Self {
        Hook(Some(Box::new(on_take)))
    }
}

impl std::fmt::Debug for Hook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Hook")
    }
}

/// An output with a script that the test shares.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scripted(pub(crate) Rc<RefCell<Script>>);

impl Scripted {
    /// Creates an output with room for everything, delivering at once.
    pub(crate) fn ready() -> Self {
        let scripted = Scripted::default();
        scripted.set(|script| (script.room, script.prompt) = (usize::MAX, true));
        scripted
    }

    pub(crate) fn set(&self, change: impl FnOnce(&mut Script)) {
        change(&mut self.0.borrow_mut());
    }

    pub(crate) fn boxed(&self) -> Box<dyn Output> {
        Box::new(self.clone())
    }

    pub(crate) fn reported(&self) -> Vec<Reported> {
        self.0.borrow().reported.clone()
    }

    /// Returns the numbers of its records, in order.
    pub(crate) fn records(&self) -> Vec<u64> {
        let number = |reported: &Reported| match reported {
            Reported::Record(_, _, bytes) => {
                Some(u64::from_ne_bytes(bytes[..8].try_into().expect("eight bytes")))
            }
            _ => None,
        };
        self.0.borrow().reported.iter().filter_map(number).collect()
    }

    /// Returns the records that were reported to it as lost, by cause.
    pub(crate) fn lost(&self, of: &str) -> u64 {
        let lost = |reported: &Reported| match reported {
            Reported::Lost(_, cause, records, _) if *cause == of => *records,
            _ => 0,
        };
        self.0.borrow().reported.iter().map(lost).sum()
    }
}

impl Output for Scripted {
    fn take(&mut self, event: &Event<'_>) -> Result<Took, OutputError> {
        let mut script = self.0.borrow_mut();
        if script.fails {
            return Err(OutputError::new("scripted", "it fails, as the script says"));
        }
        if script.room == 0 {
            return Ok(Took::Busy);
        }
        script.room -= 1;
        assert!(event.seq > script.last_seq, "{} after {}", event.seq, script.last_seq);
        script.last_seq = event.seq;
        let ring = event.origin.name.clone();
        let reported = match &event.what {
            What::Began => Reported::Began(ring),
            What::Record(record) => Reported::Record(ring, record.pos, record.bytes.to_vec()),
            What::Lost(loss) => {
                let of_ring = matches!(loss.cause, LossCause::Ring(_));
                assert_eq!(loss.pos % 8 == 0, of_ring);
                assert!(script.knows_rules || !matches!(loss.cause, LossCause::Rule(_)));
                Reported::Lost(ring, loss.cause.name(), loss.records, loss.bytes)
            }
            What::Ended => Reported::Ended(ring),
        };
        if let Some(hook) = &mut script.hook.0 {
            hook(&reported);
        }
        script.reported.push(reported);
        if !script.prompt {
            script.held.push(event.seq);
        }
        Ok(Took::Yes)
    }

    fn flush(&mut self) -> Result<(), OutputError> {
        Ok(())
    }

    fn leaves_out(&mut self) {
        self.0.borrow_mut().knows_rules = true;
    }

    fn unsettled(&mut self) -> Option<u64> {
        self.0.borrow().held.first().copied()
    }

    fn close(&mut self, _: Instant) -> Result<(), OutputError> {
        let mut script = self.0.borrow_mut();
        script.closed = true;
        if script.loses {
            script.held.clear();
            return Err(OutputError::new("scripted", "it cannot deliver, as the script says"));
        }
        Ok(())
    }

    fn figures(&self) -> Figures {
        Figures { taken: self.records().len() as u64, ..Figures::default() }
    }
}

/// Creates a ring for a test.
pub(crate) fn ring(dir: &Path, name: &str, policy: Policy) -> Producer {
    let options = Options { size: 64 << 10, policy, time: true, ..Options::default() };
    Producer::create(dir.join(name), &options).expect("a ring")
}

/// Publishes numbers, as far as they fit; returns how many did.
pub(crate) fn publish(producer: &mut Producer, numbers: std::ops::Range<u64>) -> u64 {
    numbers.filter(|n| producer.publish(&n.to_ne_bytes()).is_ok()).count() as u64
}

/// Runs turns until the condition holds.
pub(crate) fn until(engine: &mut Engine, what: &str, mut holds: impl FnMut(&mut Engine) -> bool) {
    let dog = Watchdog::default();
    while !holds(engine) {
        if engine.turn() != Turn::More {
            engine.wait(DELAY);
        }
        dog.check(what);
    }
}

/// Waits until all that is published can come in the next turn: the engine holds records back for the delay.
pub(crate) fn all_due() {
    let since = Instant::now();
    wait::until("the delay is over", || since.elapsed() > 3 * DELAY);
}
