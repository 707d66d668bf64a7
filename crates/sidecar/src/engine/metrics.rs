//! The metrics areas of the rings that are read.

use super::Engine;
use super::metrics_source::{MetricsSource, Watch};
use super::ring::{Note, Ring};
use crate::config::Input;
use perfring_consumer::{AttachError, Location};
use perfring_export::Shapes;
use perfring_set::Source;
use std::sync::Arc;
use std::time::Duration;

impl Engine {
    /// Has all metrics areas sampled now.
    pub fn sample_metrics(&self) {
        self.areas.values().for_each(|watch| watch.want());
    }

    /// Notes what is wrong with metrics areas and was not noted before.
    pub(super) fn note_trouble(&mut self) {
        for (id, watch) in &self.areas {
            let Some(trouble) = watch.trouble() else { continue };
            if let Some(ring) = self.rings.get(*id) {
                let ring = ring.shapes.origin().name.clone();
                self.notes.push(Note::Trouble { ring, trouble });
            }
        }
    }

    /// Sets the time between two samples of the metrics areas of rings that are attached to from now on.
    pub fn set_metrics_interval(&mut self, interval: Duration) {
        self.metrics_interval = interval;
    }

    /// Samples the metrics area of a ring, until the ring ends: a ring without records in a file, of the same types.
    pub(super) fn add_metrics(
        &mut self,
        location: &Location,
        of: String,
        input: &Input,
    ) -> Result<(), AttachError> {
        let watch = Arc::new(Watch::default());
        let source = MetricsSource::open(location, self.metrics_interval, Arc::clone(&watch))?;
        let source: Box<dyn Source> = Box::new(source);
        let mut shapes = Shapes::open(location.clone(), self.id)?;
        let ring = std::mem::replace(&mut shapes.origin_mut().uuid, source.about().uuid);
        let origin = shapes.origin_mut();
        // `name` puts the input's name before it, which the ring's name has already.
        let prefix = input.name.as_ref().map(|name| format!("{name}/")).unwrap_or_default();
        let of = of.strip_prefix(&prefix).unwrap_or(&of);
        (origin.name, origin.policy, origin.timed) = (format!("{of}.metrics"), None, true);
        origin.data_size = source.about().data_size;
        let mut area = Ring::new(shapes, None, input.clone(), false);
        self.name(&mut area);
        let id = self.insert(area, source);
        self.metrics.insert(ring, id);
        self.areas.insert(id, watch);
        self.leave(id);
        Ok(())
    }
}
