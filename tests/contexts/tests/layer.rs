//! A thread's context that the layer of `tracing` publishes.

use perfring_context::ThreadContext;
use perfring_tracing::{PerfringLayer, options};
use tracing::info_span;
use tracing_subscriber::prelude::*;

fn now() -> Option<([u8; 16], [u8; 8])> {
    ThreadContext::current().map(|context| (context.trace_id, context.span_id))
}

#[test]
fn profilers_see_the_span_that_a_thread_is_in() {
    let dir = tempfile::tempdir().unwrap();
    let layer = PerfringLayer::create(dir.path().join("ring"), &options()).unwrap();
    let subscriber = tracing_subscriber::registry().with(layer);
    tracing::subscriber::with_default(subscriber, || {
        assert_eq!(now(), None);
        let serve = info_span!("serve");
        assert_eq!(now(), None, "it was not entered");
        let serving = serve.enter();
        let outer = now().unwrap();
        let query = info_span!("query").entered();
        let inner = now().unwrap();
        assert_eq!(outer.0, inner.0, "one trace");
        assert_ne!(outer.1, inner.1);
        std::thread::scope(|scope| {
            scope.spawn(|| assert_eq!(now(), None, "each thread has its own"));
        });
        drop(query);
        assert_eq!(now(), Some(outer));
        // Left out of order: the inner one is where the thread is.
        let late = info_span!("late").entered();
        let within = now();
        drop(serving);
        assert_eq!(now(), within);
        drop(late);
        assert_eq!(now(), None);
    });
}
