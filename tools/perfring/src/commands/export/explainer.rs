//! Explains what is exported, as `perfring why` does.

use crate::failure::{Failure, note};
use perfring_export::{Event, Explanation, Origin, Output, What};
use perfring_why::{Analysis, Facts, Options, is_evidence};
use std::collections::HashMap;

/// Reads the events that are exported, and explains them last.
#[derive(Debug)]
pub(super) struct Explainer {
    analysis: Analysis,
    facts: Facts,
    has_evidence: bool,
    /// The rings by their names: no two have the same.
    rings: HashMap<String, Origin>,
}

impl Default for Explainer {
    fn default() -> Self {
        Explainer {
            analysis: Analysis::new(Options::default()),
            facts: Facts::default(),
            has_evidence: false,
            rings: HashMap::new(),
        }
    }
}

impl Explainer {
    pub(super) fn read(&mut self, event: &Event<'_>) {
        self.has_evidence |= matches!(event.what, What::Record(_)) && is_evidence(event.origin);
        if matches!(event.what, What::Began) {
            self.rings.insert(event.origin.name.clone(), event.origin.clone());
        }
        self.facts.read(event).for_each(|evidence| self.analysis.add(evidence));
    }

    /// Shows what was found, or says that nothing can be found.
    pub(super) fn end(mut self, output: &mut dyn Output) -> Result<(), Failure> {
        if !self.has_evidence {
            note(
                "there is no evidence for --why: `perfring record DIR --why` records it with the rings",
            );
        }
        self.facts.end().for_each(|evidence| self.analysis.add(evidence));
        for finding in self.analysis.finish().findings {
            output.explain(&Explanation {
                what: finding.kind.word(),
                ring: self.rings.get(&finding.ring),
                thread: finding.thread.map(|thread| (thread.pid, thread.tid)),
                time: finding.time,
                length: finding.length,
                cause: finding.cause,
                certainty: finding.certainty.word(),
                sentence: &finding.sentence,
            })?;
        }
        Ok(())
    }
}
