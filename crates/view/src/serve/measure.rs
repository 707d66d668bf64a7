//! The thread that measures latencies.

use super::meters::{Answer, Distribution};
use super::shared::Shared;
use perfring_consumer::Start;
use std::time::Duration;

/// The time between two looks, and while nobody measures.
const LOOK: Duration = Duration::from_millis(1);
const IDLE: Duration = Duration::from_millis(100);
/// The most of a core that this takes: one part of so many.
const PART: u32 = 19;

/// Measures until the server is stopped.
pub(super) fn run(shared: &Shared) {
    shared.look(LOOK, IDLE, PART, || {
        let mut meters = shared.meters();
        meters.look();
        meters.is_empty()
    });
}

/// Measures a ring from the first question on, and returns what is known so far.
pub(super) fn ask(shared: &Shared, id: u32) -> Option<Answer> {
    let mut rate = Distribution::new()?;
    shared.model().rates(id).into_iter().for_each(|records| rate.add(records.round() as u64, 1));
    let observer = shared.watch().observer(id, Start::Latest);
    shared.meters().ask(id, observer, &rate)
}
