//! Ids of traces and spans.

use perfring_producer::fork_generation;
use std::cell::Cell;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// A trace id: 16 bytes, not all zero.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TraceId(pub [u8; 16]);

/// A span id: 8 bytes, not all zero.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpanId(pub [u8; 8]);

impl TraceId {
    /// Returns a new random id.
    #[must_use]
    #[inline]
    pub fn random() -> Self {
        TraceId::of(random())
    }

    /// Returns new random ids: of a trace, and of its first span.
    #[must_use]
    #[inline]
    pub fn random_with_span() -> (Self, SpanId) {
        let [low, high, span] = random();
        (TraceId::of([low, high]), SpanId::of([span]))
    }

    #[inline]
    fn of([low, high]: [u64; 2]) -> Self {
        TraceId((u128::from(high) << 64 | u128::from(low.max(1))).to_be_bytes())
    }
}

impl SpanId {
    /// Returns a new random id.
    #[must_use]
    #[inline]
    pub fn random() -> Self {
        SpanId::of(random())
    }

    #[inline]
    fn of([word]: [u64; 1]) -> Self {
        SpanId(word.max(1).to_be_bytes())
    }
}

macro_rules! hexadecimal {
    ($($trait:ident for $id:ident),*) => {$(
        impl fmt::$trait for $id {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }
    )*};
}

hexadecimal!(Display for TraceId, Debug for TraceId, Display for SpanId, Debug for SpanId);

thread_local! {
    /// The state of xoshiro256++ (Blackman, Vigna), and the generation of the process that seeded it: a forked child has the
    /// state of its parent, and seeds it again. `UNSEEDED` before the first use. It has no destructor, so it can be used while
    /// the thread's other values are destroyed.
    static STATE: Cell<([u64; 4], u64)> = const { Cell::new(([0; 4], UNSEEDED)) };
}

/// No process's generation.
const UNSEEDED: u64 = u64::MAX;

/// Returns random words, by one access to the state.
#[inline]
fn random<const N: usize>() -> [u64; N] {
    let (mut s, seeded) = STATE.get();
    let generation = u64::from(fork_generation());
    if seeded != generation {
        s = seed();
    }
    let words = std::array::from_fn(|_| {
        let word = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let shifted = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= shifted;
        s[3] = s[3].rotate_left(45);
        word
    });
    STATE.set((s, generation));
    words
}

#[cold]
fn seed() -> [u64; 4] {
    let mut bytes = [0; 32];
    if getrandom::fill(&mut bytes).is_err() {
        // The system has no random numbers: unlikely, and no reason to stop the program.
        let here = STATE.with(|state| std::ptr::from_ref(state).addr() as u64);
        bytes[..8].copy_from_slice(&nanos().to_ne_bytes());
        bytes[8..16].copy_from_slice(&here.to_ne_bytes());
        bytes[16..20].copy_from_slice(&std::process::id().to_ne_bytes());
    }
    let (words, _) = bytes.as_chunks::<8>();
    std::array::from_fn(|at| u64::from_ne_bytes(words[at]) | u64::from(at == 3))
}

/// `CLOCK_REALTIME`.
pub(crate) fn nanos() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// When this process, or its parent before a fork, created its first sink. 0 before that.
static STARTED: AtomicU64 = AtomicU64::new(0);

/// Returns the time that this process's sums count from: the same for all its sinks.
pub(crate) fn started() -> u64 {
    let now = nanos();
    match STARTED.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => now,
        Err(before) => before,
    }
}

/// Restarts that time, in a forked child that continues with a sink.
pub(crate) fn started_anew() -> u64 {
    let now = nanos();
    STARTED.store(now, Ordering::Relaxed);
    now
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn ids_differ_within_a_thread_and_between_threads() {
        let one = |n: u32| match n.is_multiple_of(2) {
            true => TraceId::random_with_span(),
            false => (TraceId::random(), SpanId::random()),
        };
        let some = move || (0..10_000).map(one).collect();
        let threads: Vec<_> = (0..4).map(|_| std::thread::spawn(some)).collect();
        let all: Vec<Vec<_>> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        let traces: HashSet<_> = all.iter().flatten().map(|(trace, _)| *trace).collect();
        let spans: HashSet<_> = all.iter().flatten().map(|(_, span)| *span).collect();
        assert_eq!((traces.len(), spans.len()), (40_000, 40_000));
        assert!(!spans.contains(&SpanId([0; 8])));
    }

    #[test]
    fn what_another_process_seeded_is_not_used() {
        let _ = SpanId::random();
        let (words, generation) = STATE.get();
        STATE.set((words, generation.wrapping_sub(1))); // as a forked child finds it
        let child = (SpanId::random(), TraceId::random());
        STATE.set((words, generation));
        assert_ne!(child, (SpanId::random(), TraceId::random()));
    }

    #[test]
    fn shown_as_opentelemetry_does() {
        assert_eq!(SpanId([0, 1, 2, 3, 4, 5, 0xfe, 0xff]).to_string(), "000102030405feff");
    }
}
