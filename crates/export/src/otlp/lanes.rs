//! The sending threads: one for each signal, each with one request at a time.

use super::batch::Batch;
use super::http::{Answer, Client};
use super::options::Lane;
use crate::output::Figures;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The first pause.
const PAUSE: Duration = Duration::from_millis(100);
/// The longest pause, unless the receiver asks for another.
const LONGEST: Duration = Duration::from_secs(30);
/// The longest pause that the receiver can ask for.
const ASKED: Duration = Duration::from_secs(600);
/// How long a refusal is reported.
const REPORTED: Duration = Duration::from_secs(60);

/// State that the threads and the output share.
#[derive(Debug)]
pub(super) struct Lanes {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    lanes: [Queue; 3],
    /// Bytes that are queued or being sent.
    bytes: usize,
    figures: Figures,
    refused: Option<(Instant, String)>,
    /// No more batches will arrive: all are to be sent until this deadline.
    closing: Option<Instant>,
    /// Whether threads end now.
    stop: bool,
}

#[derive(Debug, Default)]
struct Queue {
    batches: VecDeque<Batch>,
    /// Oldest event, records and bytes of the batch that is being sent.
    sending: Option<(u64, u64, usize)>,
    /// The present problem.
    trouble: Option<String>,
}

impl Lanes {
    pub(super) fn start(clients: Vec<Client>) -> std::io::Result<Arc<Self>> {
        let lanes = Lanes { state: Mutex::default(), changed: Condvar::new() };
        let lanes = Arc::new(lanes);
        for client in clients {
            let its = Arc::clone(&lanes);
            let name = format!("otlp-{}", client.lane().name());
            let spawned = std::thread::Builder::new().name(name).spawn(move || its.run(&client));
            if let Err(bad) = spawned {
                lanes.stop();
                return Err(bad);
            }
        }
        Ok(lanes)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner) // consistent between any two lines
    }

    pub(super) fn push(&self, lane: Lane, batch: Batch) {
        let mut state = self.lock();
        state.bytes += batch.bytes;
        state.lanes[lane as usize].batches.push_back(batch);
        drop(state);
        self.changed.notify_all();
    }

    /// Returns the bytes that wait or are being sent.
    pub(super) fn bytes(&self) -> usize {
        self.lock().bytes
    }

    /// Returns the oldest event among them.
    pub(super) fn oldest(&self) -> Option<u64> {
        let state = self.lock();
        let queued = state.lanes.iter().flat_map(|queue| &queue.batches);
        let queued = queued.map(|batch| batch.credit.seq);
        let sending = state.lanes.iter().filter_map(|queue| queue.sending);
        queued.chain(sending.map(|(seq, ..)| seq)).min()
    }

    pub(super) fn figures(&self) -> Figures {
        let state = self.lock();
        let now = state.lanes.iter().find_map(|queue| queue.trouble.clone());
        let refused = state.refused.as_ref().filter(|(at, _)| at.elapsed() < REPORTED);
        let trouble = now.or_else(|| refused.map(|(_, why)| why.clone()));
        Figures { trouble, ..state.figures.clone() }
    }

    /// Waits until all is sent. Returns the number of records that were not, and why.
    pub(super) fn close(&self, deadline: Instant) -> Result<(), (u64, Option<String>)> {
        let mut state = self.lock();
        state.closing = Some(deadline);
        self.changed.notify_all();
        loop {
            let busy = |queue: &Queue| queue.sending.is_some() || !queue.batches.is_empty();
            if !state.lanes.iter().any(busy) {
                return Ok(());
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let queued = state.lanes.iter().flat_map(|queue| &queue.batches);
                let queued: u64 = queued.map(|batch| batch.credit.records).sum();
                let sending = state.lanes.iter().filter_map(|queue| queue.sending);
                let sending: u64 = sending.map(|(_, records, _)| records).sum();
                let trouble = state.lanes.iter().find_map(|queue| queue.trouble.clone());
                return Err((queued + sending, trouble));
            }
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    pub(super) fn stop(&self) {
        self.lock().stop = true;
        self.changed.notify_all();
    }

    /// Returns all waiting batches, encoded, as if they had been accepted: for `tests/fuzz`.
    #[cfg(feature = "fuzz")]
    pub(super) fn drain(&self) -> Vec<(Lane, Vec<u8>)> {
        let mut requests = Vec::new();
        for lane in Lane::ALL {
            while let Some(batch) = self.next_now(lane) {
                requests.push((lane, batch.request.encode()));
                let taken = Answer::Taken { rejected: 0, why: String::new() };
                self.done(lane as usize, &batch, &taken, 0);
            }
        }
        requests
    }

    #[cfg(feature = "fuzz")]
    fn next_now(&self, lane: Lane) -> Option<Batch> {
        self.lock().lanes[lane as usize].batches.pop_front()
    }

    fn run(&self, client: &Client) {
        let lane = client.lane() as usize;
        while let Some(batch) = self.next(lane) {
            let body = client.body(batch.request.encode());
            let mut pause = PAUSE;
            let mut closing = false;
            let answer = loop {
                let within = match self.lock().closing {
                    Some(deadline) => deadline.saturating_duration_since(Instant::now()),
                    None => Duration::MAX,
                };
                let answer = client.send(&body, within);
                let Answer::Later { after, why } = answer else { break answer };
                let asked = after.map(|after| after.min(ASKED));
                let wait = asked.unwrap_or_else(|| jittered(pause));
                pause = (pause * 2).min(LONGEST);
                let mut state = self.lock();
                state.figures.retries += 1;
                state.figures.bytes += body.len() as u64;
                state.lanes[lane].trouble = Some(why);
                drop(state);
                if !self.pause(wait, asked.is_some(), &mut closing) {
                    return;
                }
            };
            self.done(lane, &batch, &answer, body.len());
        }
    }

    /// Returns the next batch; `None` if the thread is to end.
    fn next(&self, lane: usize) -> Option<Batch> {
        let mut state = self.lock();
        loop {
            if state.stop {
                return None;
            }
            if let Some(batch) = state.lanes[lane].batches.pop_front() {
                let Batch { credit, bytes, .. } = batch;
                state.lanes[lane].sending = Some((credit.seq, credit.records, bytes));
                return Some(batch);
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits before the next attempt; returns `false` if there is to be none. When closing begins,
    /// a pause that the receiver did not ask for ends at once, one time.
    fn pause(&self, wait: Duration, asked: bool, closing: &mut bool) -> bool {
        let until = Instant::now() + wait;
        let mut state = self.lock();
        loop {
            if state.stop {
                return false;
            }
            if state.closing.is_some() && !std::mem::replace(closing, true) && !asked {
                return true;
            }
            let now = Instant::now();
            if state.closing.is_some_and(|deadline| deadline <= now) {
                return false;
            }
            let left = until.saturating_duration_since(now);
            if left.is_zero() {
                return true;
            }
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn done(&self, lane: usize, batch: &Batch, answer: &Answer, bytes: usize) {
        let records = batch.credit.records;
        let mut state = self.lock();
        state.bytes = state.bytes.saturating_sub(batch.bytes);
        state.lanes[lane].sending = None;
        state.lanes[lane].trouble = None;
        let figures = &mut state.figures;
        figures.bytes += bytes as u64;
        let (refused, why) = match answer {
            Answer::Taken { rejected: 0, why } => (0, why.clone()),
            Answer::Taken { rejected, why } => {
                // An item may be of several records, and the answer does not say which items were
                // rejected.
                let all = *rejected >= batch.items;
                let refused = if all { records } else { (*rejected).min(records) };
                let what = Lane::ALL.get(lane).map_or("", |lane| lane.name());
                let why = format!("{rejected} of {} {what} were refused: {why}", batch.items);
                (refused, why)
            }
            Answer::Never { why } | Answer::Later { why, .. } => {
                (records, format!("{records} records were refused: {why}"))
            }
        };
        figures.refused += refused;
        figures.delivered += records - refused;
        if !why.is_empty() {
            state.refused = Some((Instant::now(), why));
        }
        drop(state);
        self.changed.notify_all();
    }
}

/// Varies a pause, so that many clients of one server do not return all at once.
fn jittered(pause: Duration) -> Duration {
    let random = getrandom::u32().unwrap_or(0) & 0xffff;
    pause / 2 + pause / 2 / 65_536 * random
}
