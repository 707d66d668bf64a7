//! The trace that a thread works for: OpenTelemetry's thread context, OTEP 4947.
//!
//! A tracing library defines the thread-local variable `otel_thread_ctx_v1`, a pointer to a record of the span that
//! is active in the thread, or null. The dynamic linker finds it, if the library or the program exports it.

use nix::libc;
use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU8, Ordering, compiler_fence};

/// What a thread works for, as a tracing library of this process says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ThreadContext {
    /// The trace, as in W3C's trace context; never all zeros.
    pub trace_id: [u8; 16],
    /// The span, likewise.
    pub span_id: [u8; 8],
    /// W3C's trace flags: bit 0 says that the trace is sampled.
    pub trace_flags: u8,
}

/// The fixed part of a record. Its bytes have any alignment: the library promises 2.
#[repr(C)]
struct ContextHead {
    trace_id: [u8; 16],
    span_id: [u8; 8],
    valid: AtomicU8,
    trace_flags: u8,
}

type ContextSlot = AtomicPtr<ContextHead>;

thread_local! {
    /// This thread's variable; null where there is none.
    static SLOT: Cell<Option<*const ContextSlot>> = const { Cell::new(None) };
}

impl ThreadContext {
    /// Returns the context of the calling thread, if a tracing library has attached one.
    ///
    /// A thread looks once whether the process has the variable: a library that is loaded later is seen by threads
    /// that ask for the first time after that.
    ///
    /// What another process does has no part in this: only code of this process defines and writes the variable.
    #[must_use]
    pub fn current() -> Option<Self> {
        let slot = SLOT.get().unwrap_or_else(find);
        // SAFETY: null, or this thread's own variable, which lives as long as the thread. A library that defines it stays
        // loaded (the linker does not unload what has thread-local storage in use), and to define the name with another
        // meaning takes C, or `#[unsafe(no_mangle)]`, and breaks OTEP 4947, as it would break each profiler's reading.
        let record = unsafe { slot.as_ref() }?.load(Ordering::Relaxed);
        // SAFETY: by OTEP 4947 null or a record, readable while it is attached. Only this thread, or a signal handler
        // on it, attaches and detaches records, so none is freed while this function runs.
        let record = unsafe { record.as_ref() }?;
        // A signal handler may run in the middle of an update in place.
        if record.valid.load(Ordering::Relaxed) != 1 {
            return None;
        }
        compiler_fence(Ordering::Acquire);
        let ContextHead { trace_id, span_id, trace_flags, .. } = *record;
        let some = trace_id != [0; 16] && span_id != [0; 8];
        some.then_some(ThreadContext { trace_id, span_id, trace_flags })
    }
}

#[cold]
fn find() -> *const ContextSlot {
    // SAFETY: looks a name up. For a thread-local variable the linker returns the calling thread's.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"otel_thread_ctx_v1".as_ptr()) };
    let slot: *const ContextSlot = if found.is_null() { ptr::null() } else { found.cast() };
    SLOT.set(Some(slot));
    slot
}
