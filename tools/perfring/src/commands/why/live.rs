//! What live rings and /proc tell without the kernel's events.

use crate::events::input::{originals, rings_of};
use crate::failure::{Failure, note};
use perfring_consumer::{Location, advanced::MachineClock, stat::Stat};
use perfring_figures::cgroup::CpuStat;
use perfring_figures::owner::name;
use perfring_figures::process::Processes;
use perfring_why::{Analysis, Facts, named, span};
use perfring_witness::{names, seats as seats_of};
use std::collections::HashSet;

/// Returns the rings that these names refer to. Adds which of them have one writer, and the threads of that.
pub(super) fn rings(
    inputs: &[Location],
    facts: &mut Facts,
    analysis: &mut Analysis,
) -> Result<Vec<Location>, Failure> {
    let mut rings = Vec::new();
    for input in inputs {
        rings.extend(rings_of(input)?);
    }
    let rings = originals(rings);
    let mut processes = Processes::default();
    for ring in &rings {
        // A ring that is gone, or is damaged, is reported when its records are read.
        let Ok(stat) = Stat::read(ring) else { continue };
        let seats = seats_of(&stat, ring, &mut processes);
        if let Some(seat) = seats.iter().find(|seat| seat.writes_alone && seat.owner.pid != 0) {
            let pid = seat.owner.pid;
            facts.set_writer(stat.layout.uuid, pid);
            if seat.here {
                names(pid, |comm| analysis.add(named(&comm)));
            }
        }
    }
    Ok(rings)
}

/// Adds the present holders of the rings' seats, and reports cgroups that were throttled.
pub(super) fn seats(
    rings: &[Location],
    facts: &mut Facts,
    analysis: &mut Analysis,
) -> Result<(), Failure> {
    if rings.is_empty() {
        return Ok(());
    }
    let now = MachineClock::find().map_err(Failure::general)?.now_ns();
    let (mut processes, mut known) = (Processes::default(), HashSet::new());
    for ring in rings {
        let Ok(stat) = Stat::read(ring) else { continue };
        for seat in seats_of(&stat, ring, &mut processes) {
            let pid = seat.owner.pid;
            if seat.here
                && known.insert(pid)
                && let Some(ns) = CpuStat::of(pid).and_then(|stat| stat.throttled_ns())
                && ns > 0
            {
                let (name, time) = (name(&seat.owner), span(ns));
                let what = "used up its quota of CPU time: it was throttled for";
                note(&format!("the cgroup of {name} ({pid}) has {what} {time} so far"));
            }
            facts
                .seat(now, &seat.record(stat.layout.uuid))
                .for_each(|evidence| analysis.add(evidence));
        }
    }
    Ok(())
}
