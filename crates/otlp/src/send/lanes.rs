//! What the output and its sending threads share: a queue for each signal.

use crate::batch::{Batch, Credit};
use crate::mapping::Lane;
use perfring_events::{
    Figures,
    delivery::{
        dead_letters::DeadLetters,
        refusals::{Refusals, Refused},
        thread::Ended,
    },
    later,
};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How often files of secrets are compared during a pause, and whether a thread has ended while all is awaited.
const LOOK: Duration = Duration::from_secs(1);
/// A trouble is reported again after these minutes, and every hour.
const AGAIN: [u64; 5] = [1, 5, 15, 30, 60];

/// State that the threads and the output share.
#[derive(Debug)]
pub(super) struct Lanes {
    /// The output's name.
    name: String,
    letters: Option<DeadLetters>,
    /// Why a sending thread has ended by itself.
    pub(super) ended: Ended,
    /// Bytes that are queued or being sent. Relaxed: it guards nothing.
    bytes: AtomicUsize,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    lanes: [Queue; 3],
    figures: Figures,
    /// No more batches will arrive: all are to be sent until this deadline.
    closing: Option<Instant>,
    /// Whether threads end now.
    stop: bool,
    /// Threads that pause, and how often pauses were ended from outside.
    pausing: usize,
    ended_pauses: u64,
}

#[derive(Debug, Default)]
struct Queue {
    batches: VecDeque<Batch>,
    /// Oldest event and records of the batch that is being sent.
    sending: Option<(u64, u64)>,
    /// The present problem, and when problems began.
    trouble: Option<(Instant, String)>,
    refusals: Refusals,
}

/// What became of a batch.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// Items that were refused, by cause.
    pub(super) refused: Vec<(&'static str, u64)>,
    /// The last thing that the receiver complained about.
    pub(super) why: String,
}

impl Outcome {
    pub(super) fn refuse(
        &mut self,
        cause: &'static str,
        refused: u64,
        items: u64,
        why: &str,
        kept: &str,
    ) {
        self.refused.push((cause, refused));
        let why = if why.is_empty() { cause } else { why };
        self.why = format!("{refused} of {items} items were refused ({cause}): {why}{kept}");
    }
}

impl Queue {
    /// Describes the present problem. The text changes from time to time, so that a reader that
    /// reports changes reports it again, less and less often.
    fn trouble(&self) -> Option<String> {
        let (since, why) = self.trouble.as_ref()?;
        let minutes = since.elapsed().as_secs() / 60;
        let hours = minutes / 60 * 60;
        let passed = AGAIN.into_iter().chain([hours]).filter(|passed| *passed <= minutes).max();
        Some(match passed {
            None | Some(0) => why.clone(),
            Some(passed) => format!("{why} (for {passed} min)"),
        })
    }
}

impl Lanes {
    pub(super) fn new(name: &str, letters: Option<DeadLetters>) -> Self {
        let (ended, state, changed) = (Ended::default(), Mutex::default(), Condvar::new());
        Lanes { name: name.to_owned(), letters, ended, bytes: AtomicUsize::new(0), state, changed }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner) // consistent between any two lines
    }

    pub(super) fn push(&self, lane: Lane, batch: Batch) {
        let mut state = self.lock();
        self.bytes.fetch_add(batch.message.len(), Ordering::Relaxed);
        state.lanes[lane as usize].batches.push_back(batch);
        drop(state);
        self.changed.notify_all();
    }

    /// Returns the bytes that wait or are being sent. Asked for each event, so no lock is taken.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
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
        let now = state.lanes.iter().find_map(Queue::trouble);
        let refusals = || state.lanes.iter().map(|queue| &queue.refusals);
        let refusing = refusals().find_map(Refusals::whole).map(str::to_owned);
        let refused = || refusals().find_map(Refusals::trouble).map(str::to_owned);
        let ended = self.ended.why().map(str::to_owned);
        let trouble = ended.or(now).or_else(|| refusing.clone()).or_else(refused);
        Figures { trouble, refusing, ..state.figures.clone() }
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
            let ended = self.ended.why().map(str::to_owned);
            if left.is_zero() || ended.is_some() {
                let queued = state.lanes.iter().flat_map(|queue| &queue.batches);
                let queued: u64 = queued.map(|batch| batch.credit.records).sum();
                let sending = state.lanes.iter().filter_map(|queue| queue.sending);
                let sending: u64 = sending.map(|(_, records)| records).sum();
                let trouble = state.lanes.iter().find_map(Queue::trouble);
                return Err((queued + sending, ended.or(trouble)));
            }
            let waited = self.changed.wait_timeout(state, left.min(LOOK)); // a panic wakes nobody
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
                let Batch { items, credit, message } = batch;
                self.done(lane, items, credit, message.len(), &Outcome::default());
                requests.push((lane, message));
            }
        }
        requests
    }

    #[cfg(feature = "fuzz")]
    fn next_now(&self, lane: Lane) -> Option<Batch> {
        self.lock().lanes[lane as usize].batches.pop_front()
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn letters(&self) -> Option<&DeadLetters> {
        self.letters.as_ref()
    }

    /// Returns the time that is left for an attempt.
    pub(super) fn left(&self) -> Duration {
        let deadline = self.lock().closing;
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        left.unwrap_or(Duration::MAX)
    }

    /// Counts a request that has its verdict: an attempt that nobody answers sends nothing.
    pub(super) fn sent(&self, bytes: usize) {
        self.lock().figures.bytes += bytes as u64;
    }

    /// Notes a problem, after which there is another attempt.
    pub(super) fn retrying(&self, lane: Lane, why: String) {
        let mut state = self.lock();
        state.figures.retries += 1;
        let since = state.lanes[lane as usize].trouble.take().map(|(since, _)| since);
        state.lanes[lane as usize].trouble = Some((since.unwrap_or_else(Instant::now), why));
    }

    /// Returns the next batch; `None` if the thread is to end.
    pub(super) fn next(&self, lane: Lane) -> Option<Batch> {
        let lane = lane as usize;
        let mut state = self.lock();
        loop {
            if state.stop {
                return None;
            }
            if let Some(batch) = state.lanes[lane].batches.pop_front() {
                state.lanes[lane].sending = Some((batch.credit.seq, batch.credit.records));
                return Some(batch);
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Ends all pauses. Returns whether there was one.
    pub(super) fn retry(&self) -> bool {
        let mut state = self.lock();
        state.ended_pauses += 1;
        self.changed.notify_all();
        state.pausing > 0
    }

    /// Waits before the next attempt; returns `false` if there is to be none. When closing begins,
    /// a pause that the receiver did not ask for ends at once, one time; and so does a pause once
    /// `other` says that the secrets are other ones. [`Lanes::retry`] ends any pause.
    pub(super) fn pause(
        &self,
        wait: Duration,
        asked: bool,
        closing: &mut bool,
        other: impl Fn() -> bool,
    ) -> bool {
        self.lock().pausing += 1;
        let goes_on = self.paused(wait, asked, closing, other);
        self.lock().pausing -= 1;
        goes_on
    }

    fn paused(
        &self,
        wait: Duration,
        asked: bool,
        closing: &mut bool,
        other: impl Fn() -> bool,
    ) -> bool {
        let until = later(Instant::now(), wait);
        let ended = self.lock().ended_pauses;
        loop {
            let mut state = self.lock();
            if state.stop {
                return false;
            }
            if state.ended_pauses != ended {
                return true;
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
            let waited = self.changed.wait_timeout(state, left.min(LOOK));
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            drop(state);
            if other() {
                return true;
            }
        }
    }

    /// Notes what became of a batch.
    pub(super) fn done(
        &self,
        lane: Lane,
        items: u64,
        credit: Credit,
        bytes: usize,
        outcome: &Outcome,
    ) {
        let lane = lane as usize;
        let records = credit.records;
        let mut state = self.lock();
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        state.lanes[lane].sending = None;
        state.lanes[lane].trouble = None;
        // An item may be of several records, and the answer does not say which items were refused.
        let refused: u64 = outcome.refused.iter().map(|(_, items)| items).sum();
        let is_all = items > 0 && refused >= items;
        let refused = if is_all { records } else { refused.min(records) };
        let mut left = refused;
        for (at, (cause, items)) in outcome.refused.iter().enumerate() {
            let is_last = at + 1 == outcome.refused.len();
            let count = if is_last { left } else { left.min(*items) };
            left -= count;
            state.figures.refuse(cause, count);
        }
        state.figures.delivered += records - refused;
        let why = Some(outcome.why.clone()).filter(|why| !why.is_empty());
        let all = if is_all { Refused::All } else { Refused::NotAll };
        state.lanes[lane].refusals.answered(all, why);
        drop(state);
        self.changed.notify_all();
    }
}
