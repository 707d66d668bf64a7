//! What the demo says about its losses and its kill, by the rules of `perfring why`.

use super::common::{STATIONS, now_ns};
use perfring_consumer::{Location, stat::Stat};
use perfring_export::Event;
use perfring_figures::process::Processes;
use perfring_why::{Analysis, Evidence, Fact, Facts, Options};
use perfring_witness::seats;
use std::path::Path;

/// Sentences that are shown.
const SHOWN: usize = 3;

/// The analysis of losses and of seats; gaps would need the kernel's events.
pub(super) struct Why {
    analysis: Analysis,
    facts: Facts,
}

impl Why {
    pub(super) fn new() -> Self {
        let analysis = Analysis::new(Options { slower_than: u64::MAX, since: 0 });
        Why { analysis, facts: Facts::default() }
    }

    /// Reads an event that is no record.
    pub(super) fn read(&mut self, event: &Event<'_>) {
        self.facts.read(event).for_each(|evidence| self.analysis.add(evidence));
    }

    /// Looks at the seats of the rings.
    pub(super) fn look(&mut self, dir: &Path) {
        let mut processes = Processes::default();
        for location in STATIONS.iter().map(|station| Location::from(dir.join(station.name))) {
            let now = now_ns();
            let Ok(stat) = Stat::read(&location) else { continue };
            for seat in seats(&stat, &location, &mut processes) {
                for Evidence { time, fact } in self.facts.seat(now, &seat.record(stat.layout.uuid))
                {
                    if let Fact::Present { ring, seat } = fact {
                        // Of a moment of the run, not of its end.
                        self.analysis.add(Evidence { time, fact: Fact::Seat { ring, seat } });
                    }
                }
            }
        }
    }

    /// Returns what was found: the kill, and the largest losses.
    pub(super) fn end(mut self) -> Vec<String> {
        self.facts.end().for_each(|evidence| self.analysis.add(evidence));
        let findings = self.analysis.finish().findings.into_iter();
        findings.take(SHOWN).map(|finding| finding.sentence).collect()
    }
}
