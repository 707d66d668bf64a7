//! The open spans, and those that each thread is in.
//!
//! The registry's extensions would serve, but allocate for each span.

use crate::otel::Otel;
use perfring_telemetry::{SpanId, TraceId};
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// A span's ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ids {
    pub(crate) trace: TraceId,
    pub(crate) span: SpanId,
}

/// An open span.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) ids: Ids,
    pub(crate) parent: Option<SpanId>,
    /// In ns on the clock of timestamps.
    pub(crate) start: u64,
}

/// An open span. It has a whole cache line.
///
/// Relaxed, but for the id: only the thread that opens a span and the one that closes it write here. Others that use the
/// span's id have got it from the first, and are waited for by the second: the subscriber counts them.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Entry {
    /// The span's number, 0 for none.
    id: AtomicU64,
    trace: [AtomicU64; 2],
    span: AtomicU64,
    /// 0 for none: no span's id is zero.
    parent: AtomicU64,
    start: AtomicU64,
    /// Whether there is something in [`Spans::noted`].
    has_note: AtomicU64,
}

impl Entry {
    /// Takes it for a span, if no span has it.
    #[inline]
    fn take(&self, id: u64) -> bool {
        self.id.load(Ordering::Relaxed) == 0
            && self.id.compare_exchange(0, id, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    #[inline]
    fn store(&self, span: &Span) {
        let (trace, _) = span.ids.trace.0.as_chunks();
        for (word, bytes) in self.trace.iter().zip(trace) {
            word.store(u64::from_ne_bytes(*bytes), Ordering::Relaxed);
        }
        let parent = span.parent.map_or(0, |parent| u64::from_ne_bytes(parent.0));
        self.span.store(u64::from_ne_bytes(span.ids.span.0), Ordering::Relaxed);
        self.parent.store(parent, Ordering::Relaxed);
        self.start.store(span.start, Ordering::Relaxed);
        self.has_note.store(0, Ordering::Relaxed);
    }

    #[inline]
    fn ids(&self) -> Ids {
        let [high, low] = self.trace.each_ref().map(|word| word.load(Ordering::Relaxed));
        let mut trace = [0; 16];
        trace[..8].copy_from_slice(&high.to_ne_bytes());
        trace[8..].copy_from_slice(&low.to_ne_bytes());
        let span = self.span.load(Ordering::Relaxed).to_ne_bytes();
        Ids { trace: TraceId(trace), span: SpanId(span) }
    }

    #[inline]
    fn span(&self) -> Span {
        let parent = self.parent.load(Ordering::Relaxed);
        let parent = (parent != 0).then(|| SpanId(parent.to_ne_bytes()));
        Span { ids: self.ids(), parent, start: self.start.load(Ordering::Relaxed) }
    }
}

/// Entries that are tried for a span.
const TRIES: usize = 8;
/// The bits of a registry's number for a span that are the same for no two open ones; the others count how often they were
/// used. (Numbers of other subscribers are numbers, too: this is for speed only.)
const OF_REGISTRY: u64 = (1 << 34) - 1;

/// A table of open spans, by number. It has no lock, and the next, larger one for those that find no place.
#[derive(Debug)]
struct Table {
    entries: Box<[Entry]>,
    next: OnceLock<Box<Table>>,
}

impl Table {
    fn new(entries: usize) -> Self {
        let entries = std::iter::repeat_with(Entry::default).take(entries).collect();
        Table { entries, next: OnceLock::new() }
    }

    /// Returns the entries that may have a span.
    #[inline]
    fn of(&self, id: u64) -> &[Entry] {
        let mixed = (id & OF_REGISTRY).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let at = mixed as usize % (self.entries.len() - TRIES + 1);
        &self.entries[at..at + TRIES]
    }
}

/// All open spans of a layer.
#[derive(Debug)]
pub(crate) struct Spans {
    table: Table,
    /// What the ends of spans will have of their `otel.` fields.
    noted: Mutex<HashMap<u64, Box<Otel>>>,
}

impl Spans {
    /// Of the first table.
    const ENTRIES: usize = 1024 + TRIES - 1;

    pub(crate) fn new() -> Self {
        Spans { table: Table::new(Self::ENTRIES), noted: Mutex::default() }
    }

    #[inline]
    pub(crate) fn insert(&self, id: u64, span: &Span) {
        let mut table = &self.table;
        loop {
            if let Some(entry) = table.of(id).iter().find(|entry| entry.take(id)) {
                return entry.store(span);
            }
            let larger = || Box::new(Table::new(4 * table.entries.len()));
            table = table.next.get_or_init(larger);
        }
    }

    #[inline]
    fn find(&self, id: u64) -> Option<&Entry> {
        let mut table = &self.table;
        loop {
            let found = table.of(id).iter().find(|entry| entry.id.load(Ordering::Relaxed) == id);
            if found.is_some() {
                return found;
            }
            table = table.next.get()?;
        }
    }

    #[inline]
    pub(crate) fn get(&self, id: u64) -> Option<Ids> {
        self.find(id).map(Entry::ids)
    }

    #[inline]
    pub(crate) fn remove(&self, id: u64) -> Option<(Span, Option<Box<Otel>>)> {
        let entry = self.find(id)?;
        let span = entry.span();
        let has_note = entry.has_note.load(Ordering::Relaxed) != 0;
        let otel = if has_note { self.lock().remove(&id) } else { None };
        entry.id.store(0, Ordering::Release); // pairs with `take`
        Some((span, otel))
    }

    /// Notes what the span's end will have.
    #[cold]
    pub(crate) fn note(&self, id: u64, otel: Otel) {
        if let Some(entry) = self.find(id) {
            entry.has_note.store(1, Ordering::Relaxed);
            self.lock().entry(id).or_default().update(otel);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Box<Otel>>> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner) // no map operation panics half way
    }
}

/// A span that this thread is in.
struct Entered {
    layer: u64,
    id: u64,
    ids: Ids,
    /// The thread is in it already: then the registry does not make it the current span.
    again: bool,
}

thread_local! {
    static ENTERED: RefCell<Vec<Entered>> = const { RefCell::new(Vec::new()) };
}

/// Returns the innermost span that this thread is in.
#[inline]
pub(crate) fn current(layer: u64) -> Option<Ids> {
    let current = ENTERED.try_with(|entered| {
        let entered = entered.try_borrow().ok()?;
        let found = entered.iter().rev().find(|one| one.layer == layer && !one.again);
        found.map(|one| one.ids)
    });
    current.ok().flatten()
}

pub(crate) fn enter(layer: u64, id: u64, ids: Ids) {
    let _ = ENTERED.try_with(|entered| {
        if let Ok(mut entered) = entered.try_borrow_mut() {
            let again = entered.iter().any(|one| one.layer == layer && one.id == id);
            entered.push(Entered { layer, id, ids, again });
        }
    });
}

pub(crate) fn exit(layer: u64, id: u64) {
    let _ = ENTERED.try_with(|entered| {
        if let Ok(mut entered) = entered.try_borrow_mut()
            && let Some(at) = entered.iter().rposition(|one| one.layer == layer && one.id == id)
        {
            entered.remove(at);
        }
    });
}
