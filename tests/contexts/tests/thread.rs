//! A thread's context that another library's tracer attaches.

use libdd_otel_thread_ctx::linux::OwnedThreadContext;
use perfring_context::ThreadContext;

#[test]
fn a_thread_reads_what_its_tracer_has_attached() {
    let now = || ThreadContext::current().map(|it| (it.trace_id, it.span_id, it.trace_flags));
    assert_eq!(now(), None);
    let attach = |trace, span, flags| {
        OwnedThreadContext::new([trace; 16], [span; 8], flags, [9; 8], &[(0, "GET")]).attach()
    };
    assert!(attach(1, 2, 1).is_none());
    assert_eq!(now(), Some(([1; 16], [2; 8], 1)));
    // In place, and another one.
    OwnedThreadContext::update([3; 16], [4; 8], 0, [9; 8], &[]);
    assert_eq!(now(), Some(([3; 16], [4; 8], 0)));
    let before = attach(5, 6, 1);
    assert_eq!(now(), Some(([5; 16], [6; 8], 1)));
    // Each thread has its own.
    std::thread::scope(|scope| {
        scope.spawn(|| {
            assert_eq!(now(), None);
            attach(7, 8, 0);
            assert_eq!(now(), Some(([7; 16], [8; 8], 0)));
            OwnedThreadContext::detach();
        });
    });
    assert_eq!(now(), Some(([5; 16], [6; 8], 1)));
    before.unwrap().attach();
    assert_eq!(now(), Some(([3; 16], [4; 8], 0)));
    // Zeros are no trace.
    OwnedThreadContext::update([0; 16], [0; 8], 0, [0; 8], &[]);
    assert_eq!(now(), None);
    OwnedThreadContext::detach();
    assert_eq!(now(), None);
}
