//! Sends one batch until all of it has a verdict.

use super::answer::{Answer, PARTIAL, TOO_LARGE, Verdict};
use super::batch::Request;
use super::client::Client;
use super::lanes::Lanes;
use crate::dead_letters::{Kept, Letter};
use crate::jitter::jittered;
use std::time::Duration;

/// The first pause.
const PAUSE: Duration = Duration::from_millis(100);
/// The longest pause, unless the receiver asks for another.
const LONGEST: Duration = Duration::from_secs(30);
/// The longest pause that the receiver can ask for.
const ASKED: Duration = Duration::from_secs(600);

/// The sender of one lane.
#[derive(Debug)]
pub(super) struct Post<'a> {
    lanes: &'a Lanes,
    client: Client,
    /// The receiver has refused a request of this size: smaller ones may be accepted.
    too_large: usize,
    pause: Pause,
}

/// A pause that grows.
#[derive(Debug)]
struct Pause {
    next: Duration,
    /// A pause has ended because closing began.
    closing: bool,
}

/// What became of a batch.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// Items that were refused, by cause.
    pub(super) refused: Vec<(&'static str, u64)>,
    /// The last thing that the receiver complained about.
    pub(super) why: String,
}

impl<'a> Post<'a> {
    pub(super) fn new(lanes: &'a Lanes, client: Client) -> Self {
        let pause = Pause { next: PAUSE, closing: false };
        Post { lanes, client, too_large: usize::MAX, pause }
    }

    /// Sends a request, in parts if it is too large; `None` if that is to end.
    pub(super) fn deliver(&mut self, request: Request) -> Option<Outcome> {
        self.pause.closing = false;
        let mut outcome = Outcome::default();
        let mut parts = vec![request];
        while let Some(part) = parts.pop() {
            let message = part.encode();
            let (items, size) = (part.items(), message.len());
            let verdict = match size >= self.too_large && items > 1 {
                true => Verdict::TooLarge { why: String::new() },
                false => self.send(message)?,
            };
            let (cause, refused, why, part) = match verdict {
                Verdict::Taken { rejected: 0, why } => {
                    if !why.is_empty() {
                        outcome.why = why;
                    }
                    continue;
                }
                Verdict::Taken { rejected, why } => (PARTIAL, rejected.min(items), why, part),
                Verdict::Malformed { cause, why } => (cause, items, why, part),
                Verdict::TooLarge { why } => {
                    self.too_large = self.too_large.min(size);
                    match part.halves() {
                        Ok((first, second)) => {
                            parts.extend([second, first]);
                            continue;
                        }
                        Err(single) => (TOO_LARGE, items, why, single),
                    }
                }
            };
            let kept = self.keep(cause, &why, refused, &part)?;
            outcome.refuse(cause, refused, items, &why, &kept);
        }
        Some(outcome)
    }

    /// Sends a message until it has a verdict.
    fn send(&mut self, message: Vec<u8>) -> Option<Verdict> {
        let body = self.client.body(message);
        self.pause.next = PAUSE;
        loop {
            let answer = self.client.send(&body, self.lanes.left());
            self.lanes.sent(body.len());
            match answer {
                Answer::Final(verdict) => return Some(verdict),
                Answer::Later { after, why } => self.wait(after, why)?,
            }
        }
    }

    /// Writes a dead letter, and returns where it is; waits while that cannot be done.
    fn keep(
        &mut self,
        cause: &str,
        reason: &str,
        refused: u64,
        request: &Request,
    ) -> Option<String> {
        let Some(letters) = self.lanes.letters() else { return Some(String::new()) };
        let (message, items) = (request.encode(), request.items());
        let signal = self.client.lane().name();
        let output = self.lanes.name();
        let letter = Letter { output, signal, cause, reason, items, refused, request: &message };
        let path = letters.path().display();
        self.pause.next = PAUSE;
        loop {
            match letters.keep(&letter) {
                Ok(Kept::Yes) => return Some(format!("; kept in {path}")),
                Ok(Kept::Full) => return Some(format!("; not kept, as {path} is full")),
                Err(error) => {
                    let why = format!(
                        "a dead letter cannot be written to {path}: {error}; records are held until \
                         it can"
                    );
                    self.wait(None, why)?;
                }
            }
        }
    }

    /// Waits before the next attempt; `None` if there is to be none.
    fn wait(&mut self, after: Option<Duration>, why: String) -> Option<()> {
        let asked = after.map(|after| after.min(ASKED));
        let wait = asked.unwrap_or_else(|| jittered(self.pause.next));
        self.pause.next = (self.pause.next * 2).min(LONGEST);
        let lane = self.client.lane();
        self.lanes.retrying(lane, why);
        let client = &self.client;
        let other = || client.has_other_secrets();
        self.lanes.pause(wait, asked.is_some(), &mut self.pause.closing, other).then_some(())
    }
}

impl Outcome {
    fn refuse(&mut self, cause: &'static str, refused: u64, items: u64, why: &str, kept: &str) {
        self.refused.push((cause, refused));
        let why = if why.is_empty() { cause } else { why };
        self.why = format!("{refused} of {items} items were refused ({cause}): {why}{kept}");
    }
}
