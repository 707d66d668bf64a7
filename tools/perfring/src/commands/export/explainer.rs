//! Explains what is exported, as `perfring why` does.

use crate::failure::{Failure, note};
use perfring_export::{Event, Explanation, Output, What};
use perfring_why::{Analysis, Facts, Options, is_evidence};

/// Reads the events that are exported, and explains them last.
#[derive(Debug)]
pub(super) struct Explainer {
    analysis: Analysis,
    facts: Facts,
    has_evidence: bool,
}

impl Default for Explainer {
    fn default() -> Self {
        let analysis = Analysis::new(Options::default());
        Explainer { analysis, facts: Facts::default(), has_evidence: false }
    }
}

impl Explainer {
    pub(super) fn read(&mut self, event: &Event<'_>) {
        self.has_evidence |= matches!(event.what, What::Record(_)) && is_evidence(event.origin);
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
