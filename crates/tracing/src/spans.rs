//! The open spans, and those that each thread is in.
//!
//! The registry's extensions would serve, but allocate for each span.

use crate::otel::Otel;
use perfring_telemetry::{SpanId, TraceId};
use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::{Mutex, MutexGuard, PoisonError};

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
    pub(crate) name: &'static str,
    /// In ns on the layer's clock.
    pub(crate) start: u64,
}

/// A hash for slab indices.
#[derive(Default)]
pub(crate) struct Mix(u64);

impl Hasher for Mix {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 ^= self.0 >> 32;
    }
}

/// An open span, and what its end has of its `otel.` fields.
#[derive(Debug)]
struct Open {
    span: Span,
    otel: Option<Box<Otel>>,
}

type Map = HashMap<u64, Open, BuildHasherDefault<Mix>>;

/// Aligned so that threads with spans of their own share no cache lines.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Shard(Mutex<Map>);

/// All open spans of a layer.
#[derive(Debug)]
pub(crate) struct Spans {
    shards: Box<[Shard]>,
}

impl Spans {
    const SHARDS: usize = 64;

    pub(crate) fn new() -> Self {
        Spans { shards: (0..Self::SHARDS).map(|_| Shard::default()).collect() }
    }

    fn shard(&self, id: u64) -> MutexGuard<'_, Map> {
        let mixed = id.wrapping_mul(0xd6e8_feb8_6659_fd93) >> 40;
        let shard = &self.shards[mixed as usize % Self::SHARDS].0;
        shard.lock().unwrap_or_else(PoisonError::into_inner) // no map operation panics half way
    }

    pub(crate) fn insert(&self, id: u64, span: Span) {
        self.shard(id).insert(id, Open { span, otel: None });
    }

    /// Notes what the span's end will have.
    pub(crate) fn note(&self, id: u64, otel: Otel) {
        if let Some(open) = self.shard(id).get_mut(&id) {
            open.otel.get_or_insert_default().update(otel);
        }
    }

    pub(crate) fn get(&self, id: u64) -> Option<Span> {
        self.shard(id).get(&id).map(|open| open.span)
    }

    pub(crate) fn remove(&self, id: u64) -> Option<(Span, Option<Box<Otel>>)> {
        self.shard(id).remove(&id).map(|open| (open.span, open.otel))
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
