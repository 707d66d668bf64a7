//! Explains what is exported, as `perfring why` does.

use crate::failure::{Failure, note, summary};
use perfring_export::{Event, Explanation, Origin, Output, What};
use perfring_why::{Analysis, Facts, Options, is_evidence};
use std::collections::HashMap;

/// Reads the events that are exported, and explains them last.
#[derive(Debug)]
pub(super) struct Explainer {
    analysis: Analysis,
    facts: Facts,
    has_evidence: bool,
    rings: Rings,
    /// Rings that have ended: an output forgets their processes, which the explanations name.
    ended: Vec<(u64, Origin)>,
    /// The time of the newest record so far.
    now: u64,
}

/// The rings that had a name, one after the other: a ring may be removed and made again, and a ring may have another producer.
#[derive(Debug, Default)]
struct Rings {
    by_name: HashMap<String, Vec<(u64, Origin)>>,
    /// The epoch of each ring's producer, by the ring's number.
    epochs: HashMap<u32, u64>,
}

impl Rings {
    fn learn(&mut self, origin: &Origin, now: u64) {
        let epoch = origin.producer.epoch;
        if self.epochs.insert(origin.id, epoch) != Some(epoch) {
            let rings = self.by_name.entry(origin.name.clone()).or_default();
            rings.push((now, origin.clone()));
        }
    }

    /// Returns the ring that had this name then.
    fn find(&self, name: &str, time: u64) -> Option<&Origin> {
        let rings = self.by_name.get(name)?;
        let then = rings.iter().rev().find(|(since, _)| *since <= time);
        then.or(rings.first()).map(|(_, origin)| origin)
    }
}

impl Default for Explainer {
    fn default() -> Self {
        Explainer {
            analysis: Analysis::new(Options::default()),
            facts: Facts::default(),
            has_evidence: false,
            rings: Rings::default(),
            ended: Vec::new(),
            now: 0,
        }
    }
}

impl Explainer {
    /// Reads an event. Returns whether the output is to take it now. The end of a ring comes after the explanations.
    pub(super) fn read(&mut self, event: &Event<'_>) -> bool {
        let origin = event.origin;
        if let What::Record(record) = &event.what {
            self.has_evidence |= is_evidence(origin);
            // Before a record of another producer, its ring was still of the producer before.
            self.now = self.now.max(record.time.unwrap_or(0));
        }
        self.rings.learn(origin, self.now);
        self.facts.read(event).for_each(|evidence| self.analysis.add(evidence));
        let has_ended = matches!(event.what, What::Ended);
        self.ended.extend(has_ended.then(|| (event.seq, origin.clone())));
        !has_ended
    }

    /// Shows what was found, or says that nothing can be found. Returns the rings that have ended.
    pub(super) fn end(mut self, output: &mut dyn Output) -> Result<Vec<(u64, Origin)>, Failure> {
        if !self.has_evidence {
            note(
                "there is no evidence for --why: `perfring record DIR --why` records it with the rings",
            );
        }
        self.facts.end().for_each(|evidence| self.analysis.add(evidence));
        let report = self.analysis.finish();
        if self.has_evidence && report.unknown() > 0 {
            let (unknown, all) = (report.unknown(), report.count());
            let what = "have no known cause; `perfring why` says for each what is missing";
            summary(&format!("{unknown} of {all} explanations {what}"));
        }
        for finding in report.findings {
            output.explain(&Explanation {
                what: finding.kind.word(),
                ring: self.rings.find(&finding.ring, finding.time),
                thread: finding.thread.map(|thread| (thread.pid, thread.tid)),
                time: finding.time,
                length: finding.length,
                cause: finding.cause,
                certainty: finding.certainty.word(),
                sentence: &finding.sentence,
            })?;
        }
        Ok(self.ended)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot continue has failed")]
    use super::*;
    use perfring_consumer::{Policy, RecordRef, WriterId, stat::OwnerInfo};
    use perfring_export::{Figures, OutputError, Rec, Took};
    use std::time::Instant;

    /// The rings of the explanations.
    #[derive(Default)]
    struct Explained(Vec<(u64, [u8; 16], u64)>);

    impl Output for Explained {
        fn explain(&mut self, why: &Explanation<'_>) -> Result<bool, OutputError> {
            let ring = why.ring.unwrap();
            self.0.push((why.time, ring.uuid, ring.producer.epoch));
            Ok(true)
        }

        fn take(&mut self, _: &Event<'_>) -> Result<Took, OutputError> {
            Ok(Took::Yes)
        }

        fn flush(&mut self) -> Result<(), OutputError> {
            Ok(())
        }

        fn unsettled(&mut self) -> Option<u64> {
            None
        }

        fn close(&mut self, _: Instant) -> Result<(), OutputError> {
            Ok(())
        }

        fn figures(&self) -> Figures {
            Figures::default()
        }
    }

    #[test]
    fn a_gap_is_of_the_ring_and_the_producer_of_its_time() {
        let origin = |id: u8, epoch: u64| Origin {
            id: id.into(),
            name: "shop".to_owned(),
            uuid: [id; 16],
            policy: Some(Policy::Drop),
            timed: true,
            producer: OwnerInfo { epoch, pid: 1, ..OwnerInfo::default() },
            ..Origin::default()
        };
        let mut explainer = Explainer::default();
        // A ring with two producers, and after its end another one of that name.
        for (id, epochs) in [(1, &[1, 2][..]), (2, &[1])] {
            for (nth, epoch) in (0u64..).zip(epochs) {
                let origin = origin(id, *epoch);
                if nth == 0 {
                    assert!(explainer.read(&Event { seq: 0, origin: &origin, what: What::Began }));
                }
                for step in [1u64, 2] {
                    let time =
                        u64::from(id) * 1_000_000_000 + nth * 100_000_000 + step * 10_000_000;
                    let (pos, writer) = (100 * nth + 50 * step, WriterId::from_word((1 << 32) | 1));
                    let record = RecordRef { pos, kind: 1, bytes: b"x", time: Some(time), writer };
                    let what = What::Record(Rec::new(record, &origin));
                    assert!(explainer.read(&Event { seq: 0, origin: &origin, what }));
                }
            }
            let origin = origin(id, 1);
            assert!(!explainer.read(&Event { seq: 9, origin: &origin, what: What::Ended }));
        }
        let mut output = Explained::default();
        let ended = explainer.end(&mut output).unwrap();
        let ended: Vec<[u8; 16]> = ended.iter().map(|(_, origin)| origin.uuid).collect();
        assert_eq!(ended, [[1; 16], [2; 16]]);
        output.0.sort_unstable();
        let within = |found: &&(u64, [u8; 16], u64)| found.0 % 100_000_000 == 10_000_000;
        let within: Vec<_> =
            output.0.iter().filter(within).map(|(_, uuid, epoch)| (*uuid, *epoch)).collect();
        assert_eq!(within, [([1; 16], 1), ([1; 16], 2), ([2; 16], 1)]);
    }
}
