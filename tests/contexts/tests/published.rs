//! A thread's context that this library publishes: read by this library, by name, and by another library's tracer in its
//! place.

use libdd_otel_thread_ctx::linux::OwnedThreadContext;
use perfring_context::ThreadContext;
use std::ffi::c_void;

/// The variable as a profiler finds it: by name.
fn slot() -> *mut *const [u8; 28] {
    // SAFETY: looks a name up.
    let found =
        unsafe { nix::libc::dlsym(nix::libc::RTLD_DEFAULT, c"otel_thread_ctx_v1".as_ptr()) };
    let found: *mut c_void = found;
    found.cast()
}

/// The record's bytes, as a profiler reads them; `None` if none is attached.
fn record() -> Option<[u8; 28]> {
    // SAFETY: null, or this thread's variable.
    let record = *unsafe { slot().as_ref() }?;
    // SAFETY: null, or the record that is attached.
    unsafe { record.as_ref() }.copied()
}

#[test]
fn a_thread_publishes_what_it_works_for_and_each_thread_its_own() {
    let ids = |it: ThreadContext| (it.trace_id, it.span_id, it.trace_flags);
    let now = || ThreadContext::current().map(ids);
    let publish = |trace: u8, span: u8, flags| {
        let trace = std::array::from_fn(|at| trace + at as u8);
        let span = std::array::from_fn(|at| span + at as u8);
        ThreadContext::publish(Some(&ThreadContext::new(trace, span, flags)));
        (trace, span, flags)
    };
    assert!(ThreadContext::is_exported());
    std::thread::scope(|scope| {
        for nth in 0..4u8 {
            scope.spawn(move || {
                assert_eq!((now(), record()), (None, None));
                ThreadContext::publish(None);
                assert_eq!(record(), None, "nothing is attached for nothing");
                for round in 0..50u8 {
                    let wanted = publish(nth * 50 + round, round + 1, round & 1);
                    assert_eq!(now(), Some(wanted));
                    // As OTEP 4947 lays a record out: ids, valid, flags, and no bytes of attributes.
                    let bytes = record().unwrap();
                    assert_eq!((&bytes[..16], &bytes[16..24]), (&wanted.0[..], &wanted.1[..]));
                    assert_eq!(bytes[24..], [1, wanted.2, 0, 0]);
                    ThreadContext::publish(None);
                    assert_eq!((now(), record().unwrap()[24]), (None, 0));
                }
            });
        }
    });
}

#[test]
fn where_another_library_has_attached_a_record_it_stays() {
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let theirs = || ThreadContext::current().map(|it| it.trace_id);
            assert!(OwnedThreadContext::new([1; 16], [2; 8], 1, [9; 8], &[]).attach().is_none());
            let ours = ThreadContext::new([3; 16], [4; 8], 1);
            ThreadContext::publish(Some(&ours));
            assert_eq!(theirs(), Some([1; 16]));
            ThreadContext::publish(None);
            assert_eq!(theirs(), Some([1; 16]));
            drop(OwnedThreadContext::detach());
            assert_eq!(theirs(), None);
            ThreadContext::publish(Some(&ours));
            assert_eq!(theirs(), Some([3; 16]));
        });
    });
}
