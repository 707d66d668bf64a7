//! The thread that polls the rings' figures.

use super::clock::worked;
use super::model::Files;
use super::shared::Shared;
use std::time::{Duration, Instant};

/// The time between two polls while a page is open.
const SEEN: Duration = Duration::from_millis(200);
/// The same while none is: for the history.
const UNSEEN: Duration = Duration::from_secs(1);
/// The most of a core that polls take: one part of so many.
const PART: u32 = 14;

/// Polls until the server is stopped.
pub(super) fn run(shared: &Shared) {
    loop {
        let (now, began) = (Instant::now(), worked());
        let (rows, files) = {
            let mut watch = shared.watch();
            let rows = watch.peek(now);
            (rows, Files { others: watch.others.len(), closed: closed(&watch.closed) })
        };
        let version = shared.model().update(&rows, files, now, &shared.clock);
        shared.changed.send_replace(version);
        // With many rings the polls become rarer. A page that is opened does not wait for the next one.
        let rest = (worked() - began) * PART;
        loop {
            let between = if shared.clients() > 0 { SEEN } else { UNSEEN };
            let wait = between.max(rest).saturating_sub(now.elapsed());
            if !shared.pause(wait.min(SEEN)) {
                return;
            }
            if wait <= SEEN {
                break;
            }
        }
    }
}

/// Says which files cannot be opened.
fn closed(all: &[String]) -> Option<String> {
    match all {
        [] => None,
        [one] => Some(one.clone()),
        [first, rest @ ..] => Some(format!("{first} (and so it is with {} more)", rest.len())),
    }
}
