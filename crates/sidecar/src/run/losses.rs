//! Reports rings that begin to lose records.

use crate::engine::{Engine, RingFigures};
use crate::log::Say;
use std::collections::HashSet;

/// The limit of rings that are remembered.
const RINGS: usize = 65_536;

/// Rings whose losses were reported, once each. Figures and outputs have all losses.
#[derive(Default)]
pub(super) struct Losses(HashSet<[u8; 16]>);

impl Losses {
    /// Reports each ring that has lost something for the first time.
    pub(super) fn report(&mut self, engine: &Engine, say: &mut Say<'_>) {
        for ring in engine.rings() {
            self.report_one(&ring.origin.name, ring.origin.uuid, ring.figures, say);
        }
    }

    /// The same of one ring, which may not be read any more.
    pub(super) fn report_one(
        &mut self,
        ring: &str,
        uuid: [u8; 16],
        figures: &RingFigures,
        say: &mut Say<'_>,
    ) {
        if figures.lost.is_empty() || self.0.len() >= RINGS || !self.0.insert(uuid) {
            return;
        }
        let lost = figures.lost.iter();
        let lost = lost.map(|(cause, count)| format!("{} {}", cause.name(), count.records));
        let lost = lost.collect::<Vec<_>>().join(", ");
        say.warn(&format!(
            "{ring} has lost records, by cause: {lost}; later losses are in the figures and the outputs alone"
        ));
    }
}
