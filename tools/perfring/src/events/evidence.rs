//! A witness, whose rings are read with those that it is about.

use super::live::Live;
use crate::failure::{Failure, note};
use perfring_why::witness::NAME;
use perfring_witness::{Files, Witness};
use std::time::Duration;

/// What `perfring why` needs besides the rings.
pub(crate) struct Evidence {
    witness: Witness,
    /// How many sentences about missing permissions were said.
    said: usize,
}

impl Evidence {
    /// Begins to watch the rings' processes. Says what this user may not observe.
    pub(crate) fn begin(live: &mut Live, files: Files) -> Result<Self, Failure> {
        let begun = Witness::begin(files, live.followed());
        let (witness, ring) = begun.map_err(Failure::general)?;
        live.add_witness(ring.location(), NAME)?;
        let mut evidence = Evidence { witness, said: 0 };
        evidence.add_opened(live);
        evidence.say_missing();
        Ok(evidence)
    }

    /// Looks at the processes of the rings, if it is time. Returns how long the next look may wait.
    pub(crate) fn look(&mut self, live: &mut Live) -> Duration {
        let wait = self.witness.look(live.followed());
        self.add_opened(live);
        self.say_missing();
        wait
    }

    /// Says once of each permission that it is missing: looks may find that later.
    fn say_missing(&mut self) {
        for missing in self.witness.missing().skip(self.said) {
            note(&format!("--why: {missing}"));
            self.said += 1;
        }
    }

    fn add_opened(&mut self, live: &mut Live) {
        for (name, ring) in self.witness.opened() {
            live.add_source(&name, &name, Box::new(ring), true);
        }
    }

    /// Ends the watch: what is published before this moment is evidence.
    pub(crate) fn end(&mut self) {
        self.witness.end();
    }
}
