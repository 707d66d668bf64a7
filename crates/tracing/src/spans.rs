//! The open spans, and those that each thread is in.
//!
//! The registry's extensions would serve, but allocate for each span.

use crate::otel::Otel;
use perfring_telemetry::{SpanId, TraceId};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// A span's ids, as words: `None` is a word, too. A copy of bytes of another alignment waits for the stores before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ids {
    trace: [u64; 2],
    span: NonZeroU64,
}

impl Ids {
    #[inline]
    pub(crate) fn new(trace: TraceId, span: SpanId) -> Self {
        let (words, _) = trace.0.as_chunks();
        let trace = [u64::from_ne_bytes(words[0]), u64::from_ne_bytes(words[1])];
        let span = NonZeroU64::new(u64::from_ne_bytes(span.0)).unwrap_or(NonZeroU64::MIN);
        Ids { trace, span }
    }

    #[inline]
    pub(crate) fn trace(&self) -> TraceId {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.trace[0].to_ne_bytes());
        bytes[8..].copy_from_slice(&self.trace[1].to_ne_bytes());
        TraceId(bytes)
    }

    #[inline]
    pub(crate) fn span(&self) -> SpanId {
        SpanId(self.span.get().to_ne_bytes())
    }

    /// Returns [`Ids::span`]'s bytes as a word.
    #[inline]
    pub(crate) fn span_word(&self) -> NonZeroU64 {
        self.span
    }
}

/// An open span.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) ids: Ids,
    pub(crate) parent: Option<NonZeroU64>,
    /// In ns on the clock of timestamps.
    pub(crate) start: u64,
    /// The place of its call site: see [`Sites`](crate::site::Sites).
    pub(crate) site: u32,
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
    site: AtomicU32,
    /// Whether there is something in [`Spans::noted`].
    has_note: AtomicBool,
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
        for (word, value) in self.trace.iter().zip(span.ids.trace) {
            word.store(value, Ordering::Relaxed);
        }
        self.span.store(span.ids.span.get(), Ordering::Relaxed);
        self.parent.store(span.parent.map_or(0, NonZeroU64::get), Ordering::Relaxed);
        self.start.store(span.start, Ordering::Relaxed);
        self.site.store(span.site, Ordering::Relaxed);
        self.has_note.store(false, Ordering::Relaxed);
    }

    #[inline]
    fn ids(&self) -> Ids {
        let trace = self.trace.each_ref().map(|word| word.load(Ordering::Relaxed));
        let span = NonZeroU64::new(self.span.load(Ordering::Relaxed));
        Ids { trace, span: span.unwrap_or(NonZeroU64::MIN) }
    }

    #[inline]
    fn span(&self) -> Span {
        let parent = NonZeroU64::new(self.parent.load(Ordering::Relaxed));
        let start = self.start.load(Ordering::Relaxed);
        Span { ids: self.ids(), parent, start, site: self.site.load(Ordering::Relaxed) }
    }
}

/// Entries that are tried for a span.
const TRIES: usize = 8;
/// The bits of a registry's number for a span that are the same for no two open ones: its place among those of its thread
/// (38 bits), and the thread (13). The others count how often the place was used. (Numbers of other subscribers are numbers,
/// too: this is for speed only.)
const OF_REGISTRY: u64 = (1 << 51) - 1;

/// A table of open spans, by number. It has no lock, and the next, larger one for those that find no place.
#[derive(Debug)]
struct Table {
    entries: Box<[Entry]>,
    next: OnceLock<Box<Table>>,
}

impl Table {
    /// `places` is a power of two.
    fn new(places: usize) -> Self {
        let entries = std::iter::repeat_with(Entry::default).take(places + TRIES - 1).collect();
        Table { entries, next: OnceLock::new() }
    }

    /// Returns the entries that may have a span.
    #[inline]
    fn of(&self, id: u64) -> &[Entry] {
        // The thread's bits reach no lower bits of the product.
        let mixed = (id & OF_REGISTRY).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 44;
        let at = mixed as usize & (self.entries.len() - TRIES); // a power of two, less one
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
    const PLACES: usize = 1024;

    pub(crate) fn new() -> Self {
        Spans { table: Table::new(Self::PLACES), noted: Mutex::default() }
    }

    #[inline]
    pub(crate) fn insert(&self, id: u64, span: &Span) {
        let mut table = &self.table;
        loop {
            if let Some(entry) = table.of(id).iter().find(|entry| entry.take(id)) {
                return entry.store(span);
            }
            let larger = || Box::new(Table::new(4 * (table.entries.len() - TRIES + 1)));
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
        let has_note = entry.has_note.load(Ordering::Relaxed);
        let otel = if has_note { self.lock().remove(&id) } else { None };
        entry.id.store(0, Ordering::Release); // pairs with `take`
        Some((span, otel))
    }

    /// Notes what the span's end will have.
    #[cold]
    pub(crate) fn note(&self, id: u64, otel: Otel) {
        if let Some(entry) = self.find(id) {
            entry.has_note.store(true, Ordering::Relaxed);
            self.lock().entry(id).or_default().update(otel);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Box<Otel>>> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner) // no map operation panics half way
    }
}

/// A span that this thread is in.
#[derive(Clone, Copy)]
struct Entered {
    layer: u64,
    id: u64,
    ids: Ids,
    /// How many spans [`OTHERS`] has, in [`LAST`].
    others: u32,
    /// The thread is in it already: then the registry does not make it the current span.
    again: bool,
}

impl Entered {
    fn is(&self, layer: u64, id: u64) -> bool {
        self.layer == layer && self.id == id
    }
}

thread_local! {
    /// The span that this thread entered last. It has no destructor, so an access is a load.
    static LAST: Cell<Option<Entered>> = const { Cell::new(None) };
    /// Those that the thread entered before, in order.
    static OTHERS: RefCell<Vec<Entered>> = const { RefCell::new(Vec::new()) };
}

/// Returns the innermost span that this thread is in.
#[inline]
pub(crate) fn current(layer: u64) -> Option<Ids> {
    let last = LAST.get()?;
    if last.layer == layer && !last.again { Some(last.ids) } else { current_of_others(layer) }
}

#[cold]
#[inline(never)]
fn current_of_others(layer: u64) -> Option<Ids> {
    let current = OTHERS.try_with(|others| {
        let others = others.try_borrow().ok()?;
        let found = others.iter().rev().find(|one| one.layer == layer && !one.again);
        found.map(|one| one.ids)
    });
    current.ok().flatten()
}

#[inline]
pub(crate) fn enter(layer: u64, id: u64, ids: Ids) {
    let one = Entered { layer, id, ids, others: 0, again: false };
    match LAST.get() {
        None => LAST.set(Some(one)),
        Some(last) => enter_within(last, one),
    }
}

#[inline(never)]
fn enter_within(last: Entered, one: Entered) {
    let _ = OTHERS.try_with(|others| {
        if let Ok(mut others) = others.try_borrow_mut() {
            others.push(last);
            let again = others.iter().any(|other| other.is(one.layer, one.id));
            LAST.set(Some(Entered { others: last.others + 1, again, ..one }));
        }
    });
}

#[inline]
pub(crate) fn exit(layer: u64, id: u64) {
    match LAST.get() {
        Some(last) if last.others == 0 && last.is(layer, id) => LAST.set(None),
        Some(last) => exit_within(last, layer, id),
        None => {}
    }
}

#[inline(never)]
fn exit_within(last: Entered, layer: u64, id: u64) {
    let _ = OTHERS.try_with(|others| {
        let Ok(mut others) = others.try_borrow_mut() else { return };
        let left = if last.is(layer, id) {
            others.pop()
        } else if let Some(at) = others.iter().rposition(|other| other.is(layer, id)) {
            others.remove(at);
            Some(last)
        } else {
            return;
        };
        let count = others.len() as u32;
        LAST.set(left.map(|left| Entered { others: count, ..left }));
    });
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot continue has failed")]
    use super::*;

    /// Returns how many tables these spans need.
    fn tables(ids: impl Iterator<Item = u64>) -> usize {
        let spans = Spans::new();
        let trace = TraceId::random();
        for id in ids {
            let ids = Ids::new(trace, SpanId::random());
            spans.insert(id, &Span { ids, parent: None, start: 0, site: 0 });
        }
        let (mut table, mut tables) = (&spans.table, 1);
        while let Some(next) = table.next.get() {
            (table, tables) = (next, tables + 1);
        }
        tables
    }

    /// Each thread's first span has the same place among those of its thread.
    #[test]
    fn the_first_spans_of_many_threads_do_not_collide() {
        assert_eq!(tables((0..100).map(|thread| (thread << 38) + 1)), 1);
        assert!(tables((0..1000).map(|thread| (thread << 38) + 1)) <= 3);
        assert!(tables((1..=1000).map(|place| place + (7 << 38) + (1 << 51))) <= 3);
        // A registry's own numbers, of threads that live at a time.
        let registry = std::sync::Arc::new(tracing_subscriber::registry());
        let (send, ids) = std::sync::mpsc::channel();
        let barrier = std::sync::Arc::new(std::sync::Barrier::new(101));
        let threads: Vec<_> = (0..100)
            .map(|_| {
                let (registry, send, barrier) = (registry.clone(), send.clone(), barrier.clone());
                std::thread::spawn(move || {
                    tracing::subscriber::with_default(registry.clone(), || {
                        let open = tracing::info_span!("open");
                        send.send(open.id().unwrap().into_u64()).unwrap();
                        barrier.wait();
                    });
                })
            })
            .collect();
        let ids: Vec<u64> = ids.iter().take(100).collect();
        assert!(tables(ids.into_iter()) <= 2);
        barrier.wait();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    }
}
