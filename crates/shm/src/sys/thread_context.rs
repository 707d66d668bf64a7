//! The trace that a thread works for: OpenTelemetry's thread context, OTEP 4947.
//!
//! A tracing library defines the thread-local variable `otel_thread_ctx_v1`, a pointer to a record of the span that
//! is active in the thread, or null. The dynamic linker finds it, if the library or the program exports it.
//!
//! perfring is such a library where it publishes: [`ThreadContext::publish`]. Rust has no stable way to define a thread-local
//! variable with a symbol, so assembly does. The definition is weak: where another library of the same program defines the
//! name, the linker takes that one, and both mean the same variable.

use nix::libc;
use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicU16, AtomicU64, Ordering, compiler_fence};

/// The trace and span for which a thread works, as a tracing library of this process publishes them.
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

/// A record of this library, one for each thread, with the layout of OTEP 4947: [`ContextHead`], without attributes behind it.
#[repr(C)]
struct OwnRecord {
    /// The trace's id and the span's, whose bytes are in the order of the memory.
    ids: [AtomicU64; 3],
    valid: AtomicU8,
    trace_flags: AtomicU8,
    attributes: AtomicU16,
    /// Whether this thread's variable points here. Not a part of the layout.
    attached: AtomicU8,
}

const _: () = {
    use std::mem::offset_of;
    assert!(offset_of!(OwnRecord, valid) == offset_of!(ContextHead, valid));
    assert!(offset_of!(OwnRecord, trace_flags) == offset_of!(ContextHead, trace_flags));
    assert!(offset_of!(OwnRecord, attributes) == offset_of!(OwnRecord, trace_flags) + 1);
};

thread_local! {
    /// This thread's variable; null if the process has none.
    static SLOT: Cell<Option<*const ContextSlot>> = const { Cell::new(None) };
    /// It has no destructor, so it lives as long as the thread's variable, which is also in the thread's memory.
    static OWN: OwnRecord = const {
        OwnRecord {
            ids: [const { AtomicU64::new(0) }; 3],
            valid: AtomicU8::new(0),
            trace_flags: AtomicU8::new(0),
            attributes: AtomicU16::new(0),
            attached: AtomicU8::new(0),
        }
    };
}

// The variable: 8 bytes of zeros in each thread.
#[cfg(all(target_arch = "x86_64", not(miri)))]
std::arch::global_asm!(
    ".pushsection .tbss.otel_thread_ctx_v1,\"awT\",@nobits",
    ".weak otel_thread_ctx_v1",
    ".type otel_thread_ctx_v1, @object",
    ".size otel_thread_ctx_v1, 8",
    ".p2align 3",
    "otel_thread_ctx_v1:",
    ".zero 8",
    ".popsection",
);

/// Returns the calling thread's variable, which this library and the other libraries of the program share.
#[cfg(all(target_arch = "x86_64", not(miri)))]
fn variable() -> *const ContextSlot {
    let offset: usize;
    // SAFETY: the sequence of TLSDESC, which linkers know as a whole: they replace it in a program. The function that it calls
    // in a shared library keeps all registers but this one and the flags. (No `nostack`: the call pushes its return address.)
    unsafe {
        std::arch::asm!(
            "lea rax, [rip + otel_thread_ctx_v1@tlsdesc]",
            "call [rax + otel_thread_ctx_v1@tlscall]",
            out("rax") offset,
        );
    }
    let pointer: usize;
    // SAFETY: the first word of a thread's control block is its own address.
    unsafe {
        std::arch::asm!("mov {}, fs:0", out(reg) pointer, options(nostack, pure, readonly, preserves_flags));
    }
    ptr::with_exposed_provenance(pointer.wrapping_add(offset))
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
fn variable() -> *const ContextSlot {
    ptr::null()
}

impl ThreadContext {
    /// Creates a context. `trace_flags` are W3C's: bit 0 says that the trace is sampled.
    #[must_use]
    pub const fn new(trace_id: [u8; 16], span_id: [u8; 8], trace_flags: u8) -> Self {
        ThreadContext { trace_id, span_id, trace_flags }
    }

    /// Publishes the trace and span for which the calling thread works from now on, for profilers; `None` for no trace. The
    /// cost is a few stores, and a few more the first time in a thread.
    ///
    /// Call it when a span is entered. When the span is left, call it with the span around it or `None`. It does nothing in a
    /// thread where another library has attached a record. Only one library of a process may publish: a library that attaches
    /// later frees the record that it finds, as if the record were its own.
    ///
    /// Profilers find the variable only if the program exports it. The build script of the program passes this to the linker:
    /// `cargo::rustc-link-arg-bins=-Wl,--export-dynamic-symbol=otel_thread_ctx_v1`. On other machines than x86-64 this does
    /// nothing.
    ///
    /// A signal handler of this thread, and a profiler that has stopped it, see the context before, the context after, or none.
    ///
    /// ```
    /// use perfring_shm::ThreadContext;
    /// let (trace, serve, query) = ([1; 16], [2; 8], [3; 8]);
    /// ThreadContext::publish(Some(&ThreadContext::new(trace, serve, 1))); // enters the span
    /// ThreadContext::publish(Some(&ThreadContext::new(trace, query, 1))); // and one within it
    /// ThreadContext::publish(Some(&ThreadContext::new(trace, serve, 1))); // leaves that
    /// ThreadContext::publish(None);
    /// ```
    #[inline]
    pub fn publish(context: Option<&ThreadContext>) {
        // A thread at its end has no record any more only if it had a destructor.
        let _ = OWN.try_with(|own| {
            // Relaxed: each reader runs in this thread, or while the thread is stopped. The compiler keeps the order by the fences.
            own.valid.store(0, Ordering::Relaxed);
            compiler_fence(Ordering::Release);
            let Some(context) = context else { return };
            let (words, _) = context.trace_id.as_chunks::<8>();
            for (ids, bytes) in own.ids.iter().zip(words.iter().chain([&context.span_id])) {
                ids.store(u64::from_ne_bytes(*bytes), Ordering::Relaxed);
            }
            own.trace_flags.store(context.trace_flags, Ordering::Relaxed);
            compiler_fence(Ordering::Release);
            own.valid.store(1, Ordering::Relaxed);
            if own.attached.load(Ordering::Relaxed) == 0 {
                let _ = attach(own); // none: this machine has no variable
            }
        });
    }

    /// Returns whether this program, or a library that it has loaded, exports the variable, so that profilers find it.
    #[must_use]
    pub fn is_exported() -> bool {
        !SLOT.get().unwrap_or_else(find).is_null()
    }

    /// Returns the context of the calling thread, if a tracing library has attached one.
    ///
    /// A thread looks once whether the process has the variable. Threads that call this for the first time after a library
    /// was loaded see the library.
    ///
    /// Other processes have no part in this: only code of this process defines and writes the variable.
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

/// Has this thread's variable point to its own record, unless it points to another library's.
#[cold]
fn attach(own: &OwnRecord) -> Option<()> {
    let record: *const OwnRecord = own;
    // SAFETY: null, or the thread's own variable: 8 aligned bytes that live as long as the thread. What else writes them are
    // libraries that keep OTEP 4947, in this thread.
    let taken = unsafe { variable().as_ref() }?.compare_exchange(
        ptr::null_mut(),
        record.cast_mut().cast(),
        Ordering::Relaxed,
        Ordering::Relaxed,
    );
    own.attached.store(u8::from(taken.is_ok()), Ordering::Relaxed);
    Some(())
}

#[cold]
fn find() -> *const ContextSlot {
    // SAFETY: looks a name up. For a thread-local variable the linker returns the calling thread's.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"otel_thread_ctx_v1".as_ptr()) };
    let slot: *const ContextSlot = if found.is_null() { ptr::null() } else { found.cast() };
    SLOT.set(Some(slot));
    slot
}
