//! What happened in a span of time in live rings.

use super::lane::{Lane, Span};
use super::seen::Seen;
use super::shared::Shared;
use super::walk::{self, Which};

/// Looks at live rings with timestamps.
pub(super) fn live(shared: &Shared, rings: &[u32], span: &Span) -> Vec<Lane> {
    let mut lanes: Vec<Lane> = Vec::new();
    walk::each(shared, rings, Which::From(span.from), |id, name, seen| {
        if let Seen::Ring { timed } = seen {
            lanes.extend(timed.then(|| Lane::new(id, name, span)));
            return timed;
        }
        let Some(lane) = lanes.last_mut() else { return false };
        match seen {
            Seen::Record(seq, record) => {
                lane.record(seq, record, span, &shared.clock);
                return record.wall.is_none_or(|wall| shared.clock.of_wall(wall) < span.to);
            }
            Seen::Lost(loss) => lane.loss(loss, span, &shared.clock),
            Seen::Missed(records) => lane.missed += records,
            Seen::More => lane.more = true,
            Seen::Ring { .. } => {}
        }
        true
    });
    lanes
}
