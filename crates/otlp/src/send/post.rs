//! The sending threads: each sends one batch at a time, until all of it has a verdict.

use super::answer::{Answer, PARTIAL, TOO_LARGE, Verdict};
use super::client::Client;
use super::lanes::{Lanes, Outcome};
use super::split::halves;
use crate::batch::Batch;
use perfring_events::{
    Terms,
    delivery::{
        backoff::Backoff,
        dead_letters::{DeadLetters, Letter},
    },
};
use prost::bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;

/// The first pause.
const PAUSE: Duration = Duration::from_millis(100);
/// The longest pause that the receiver can ask for.
const ASKED: Duration = Duration::from_secs(600);

/// The sender of one lane.
#[derive(Debug)]
struct Post<'a> {
    lanes: &'a Lanes,
    client: Client,
    /// The receiver has refused a request of this size: smaller ones may be accepted.
    too_large: usize,
    backoff: Backoff,
    /// A pause has ended because closing began.
    closing: bool,
}

/// Starts a thread for each client.
pub(super) fn start(
    name: &str,
    clients: Vec<Client>,
    letters: Option<DeadLetters>,
    terms: &Terms,
) -> std::io::Result<Arc<Lanes>> {
    let lanes = Arc::new(Lanes::new(name, letters));
    for client in clients {
        let its = Arc::clone(&lanes);
        let name = format!("otlp-{}", client.lane().name());
        let backoff = Backoff::new(terms, PAUSE);
        let run = move || Post::new(&its, client, backoff).run();
        if let Err(bad) = lanes.ended.start(name, run) {
            lanes.stop();
            return Err(bad);
        }
    }
    Ok(lanes)
}

impl<'a> Post<'a> {
    fn new(lanes: &'a Lanes, client: Client, backoff: Backoff) -> Self {
        Post { lanes, client, too_large: usize::MAX, backoff, closing: false }
    }

    /// Sends the lane's batches, until that is to end.
    fn run(mut self) {
        let lane = self.client.lane();
        while let Some(Batch { message, items, credit }) = self.lanes.next(lane) {
            let bytes = message.len();
            let Some(outcome) = self.deliver(message, items) else { return };
            self.lanes.done(lane, items, credit, bytes, &outcome);
        }
    }

    /// Sends a request, in parts if it is too large; `None` if that is to end.
    fn deliver(&mut self, message: Vec<u8>, items: u64) -> Option<Outcome> {
        self.closing = false;
        let lane = self.client.lane();
        let mut outcome = Outcome::default();
        let mut parts = vec![(Bytes::from(message), items)];
        while let Some((part, items)) = parts.pop() {
            if part.len() >= self.too_large
                && let Some((first, second)) = halves(lane, &part)
            {
                parts.extend([second, first].map(|(part, items)| (Bytes::from(part), items)));
                continue;
            }
            let verdict = self.send(&part)?;
            let (cause, refused, why) = match verdict {
                Verdict::Taken { rejected: 0, why } => {
                    if !why.is_empty() {
                        outcome.why = why;
                    }
                    continue;
                }
                Verdict::Taken { rejected, why } => (PARTIAL, rejected.min(items), why),
                Verdict::Malformed { cause, why } => (cause, items, why),
                Verdict::TooLarge { why } => {
                    self.too_large = self.too_large.min(part.len());
                    if let Some((first, second)) = halves(lane, &part) {
                        parts.extend(
                            [second, first].map(|(part, items)| (Bytes::from(part), items)),
                        );
                        continue;
                    }
                    (TOO_LARGE, items, why)
                }
            };
            let kept = self.keep(cause, &why, (refused, items), &part)?;
            outcome.refuse(cause, refused, items, &why, &kept);
        }
        Some(outcome)
    }

    /// Sends a message until it has a verdict.
    fn send(&mut self, message: &Bytes) -> Option<Verdict> {
        let body = self.client.body(message);
        self.backoff.end();
        loop {
            match self.client.send(&body, self.lanes.left()) {
                Answer::Final(verdict) => {
                    self.lanes.sent(body.len());
                    return Some(verdict);
                }
                Answer::Later { after, why } => self.wait(after, why)?,
            }
        }
    }

    /// Writes a dead letter, and returns where it is; waits while that cannot be done.
    fn keep(
        &mut self,
        cause: &str,
        reason: &str,
        (refused, items): (u64, u64),
        request: &[u8],
    ) -> Option<String> {
        let signal = self.client.lane().name();
        let output = self.lanes.name();
        let letter = Letter { output, signal, cause, reason, items, refused, request };
        self.backoff.end();
        loop {
            match DeadLetters::place(self.lanes.letters(), &letter) {
                Ok(place) => return Some(place),
                Err(why) => self.wait(None, why)?,
            }
        }
    }

    /// Waits before the next attempt; `None` if there is to be none.
    fn wait(&mut self, after: Option<Duration>, why: String) -> Option<()> {
        let asked = after.map(|after| after.min(ASKED));
        // It grows, too, while the receiver asks for another one.
        let own = self.backoff.pause();
        let wait = asked.unwrap_or(own);
        let lane = self.client.lane();
        self.lanes.retrying(lane, why);
        let client = &self.client;
        let other = || client.has_other_secrets();
        self.lanes.pause(wait, asked.is_some(), &mut self.closing, other).then_some(())
    }
}
