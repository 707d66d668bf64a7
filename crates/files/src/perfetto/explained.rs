//! Explanations in a Perfetto trace: slices in a lane for each thread, with the cause as their name.

use super::proto::{EventType, TrackEvent};
use super::{Perfetto, annotate, tracks};
use perfring_events::{Explanation, OutputError};

impl Perfetto {
    /// Writes a slice, or an instant for what has no length. Perfetto sorts packets by their times.
    pub(super) fn explained(&mut self, why: &Explanation<'_>) -> Result<(), OutputError> {
        let (pid, tid) = why.thread.unwrap_or_default();
        let number = why.ring.map_or(pid, |ring| self.processes.number(ring, pid));
        let process = tracks::process(number);
        let name = match tid {
            tid if tid == pid => format!("why: {}", why.what),
            tid => format!("why: {} of thread {tid}", why.what),
        };
        if pid != 0 {
            self.describe(tracks::describe_process(number, pid, ""))?;
        }
        // A track for each, because two may overlap: Perfetto shows tracks of one process and one name as one.
        let track = tracks::uuid(&[
            b"why",
            why.what.as_bytes(),
            why.cause.as_bytes(),
            why.ring.map_or(&[][..], |ring| &ring.uuid),
            &number.to_le_bytes(),
            &tid.to_le_bytes(),
            &why.time.to_le_bytes(),
            &why.length.to_le_bytes(),
        ]);
        self.describe(tracks::describe(track, process, &name))?;
        let details = vec![
            annotate::text(&mut self.names, "why", why.sentence.to_owned()),
            annotate::text(&mut self.names, "cause", why.cause.to_owned()),
            annotate::text(&mut self.names, "certainty", why.certainty.to_owned()),
        ];
        let mut event = TrackEvent::instant(track, "why", details);
        event.name = Some(why.cause.to_owned());
        if why.length == 0 {
            return self.event(why.time, event);
        }
        event.r#type = Some(EventType::SliceBegin as i32);
        self.event(why.time, event)?;
        let end = EventType::SliceEnd as i32;
        let end =
            TrackEvent { r#type: Some(end), track_uuid: Some(track), ..TrackEvent::default() };
        self.event(why.time.saturating_add(why.length), end)
    }
}
