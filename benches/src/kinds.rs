//! What is compared, and who can take part in it.

use crate::contestant::Role;
use crate::options::Options;
use crate::part::Audience;
use crate::payload::SMALL;
use crate::player::Entry;
use crate::rows::{Absent, Kind};
use crate::workload::Workload;

/// All kinds, in the order of the report: of the workloads that are asked for, or else the usual
/// ones.
pub fn kinds(options: &Options, usual: &[Workload]) -> Vec<Kind> {
    let mut kinds = Vec::new();
    let asked = &options.workloads[..];
    for &workload in if asked.is_empty() { usual } else { asked } {
        let kind = Kind::of(workload, SMALL);
        match workload {
            Workload::Throughput => {
                kinds.extend(options.payloads.iter().map(|&payload| Kind { payload, ..kind }));
            }
            Workload::Producers => {
                let all = || options.senders.iter().map(|&senders| Kind { senders, ..kind });
                kinds.extend(all());
                // One reader limits the rate: only without one do senders show what they can do.
                let alone = |kind| Kind { audience: Audience::None, lossy: true, ..kind };
                kinds.extend(all().map(alone));
            }
            Workload::Overwrite => kinds.extend(
                [Audience::None, Audience::Slow, Audience::Keen].map(|audience| Kind {
                    audience,
                    lossy: true,
                    ..kind
                }),
            ),
            // Senders that wait for their readers and senders that do not do different work.
            Workload::Fanout => {
                for payload in payloads_of_fan_out(options) {
                    let receivers = options.receivers.iter();
                    let all = receivers.map(|&receivers| Kind { receivers, payload, ..kind });
                    kinds.extend(all.clone());
                    kinds.extend(all.map(|kind| Kind { lossy: true, ..kind }));
                }
            }
            Workload::Full => kinds.push(Kind { audience: Audience::None, ..kind }),
            Workload::Latency | Workload::Wakeup | Workload::Cold | Workload::Memory => {
                kinds.push(kind);
            }
        }
    }
    kinds
}

/// Returns the payloads of [`Workload::Fanout`]: those of its two that are asked for, or else the
/// small one.
fn payloads_of_fan_out(options: &Options) -> Vec<usize> {
    let asked = |payload: &usize| options.payloads.contains(payload);
    let payloads: Vec<usize> = [SMALL, 1024].into_iter().filter(asked).collect();
    if payloads.is_empty() { vec![SMALL] } else { payloads }
}

/// Returns whether this contestant can do that, and if not, why; `None` needs no explanation.
pub fn fits(kind: &Kind, entry: &Entry) -> Result<(), Option<String>> {
    let reported = |result: Result<(), &'static str>| result.map_err(|why| Some(why.to_owned()));
    let Some(player) = entry.player() else {
        // memcpy and the line each serve one purpose.
        let its_own = if entry.is_memcpy() { Workload::Throughput } else { Workload::Latency };
        return if kind.workload == its_own { Ok(()) } else { Err(None) };
    };
    let can = (player.can)();
    if kind.payload > can.payload {
        return Err(Some(format!("records of at most {} bytes", can.payload)));
    }
    if kind.workload != Workload::Latency {
        reported(can.but_latency)?;
    }
    match kind.workload {
        Workload::Throughput | Workload::Latency => reported(can.lossless),
        Workload::Wakeup => reported(can.lossless.and(can.sleeping)),
        Workload::Producers if kind.lossy => reported(can.overwrite.and(can.senders)),
        Workload::Producers => reported(can.lossless.and(can.senders)),
        Workload::Overwrite if entry.role == Role::Limit && kind.audience != Audience::None => {
            Err(Some("a bare loop that overwrites has no reader".to_owned()))
        }
        Workload::Overwrite if kind.audience != Audience::None => {
            reported(can.overwrite.and(can.follow))
        }
        Workload::Overwrite => reported(can.overwrite.and(can.overwrite_alone)),
        Workload::Fanout if kind.lossy => reported(can.receivers.and(can.overwrite)),
        Workload::Fanout => reported(can.receivers.and(can.lossless).and(can.wait_for_many)),
        Workload::Full => reported(can.lossless.and(can.refuses)),
        Workload::Cold | Workload::Memory => reported(can.lossless),
    }
}

/// Returns an absence of this kind.
pub(crate) fn absent(kind: &Kind, entry: &Entry, reason: String, failed: bool) -> Absent {
    let part = match (kind.workload, kind.audience, kind.lossy) {
        (Workload::Producers, _, false) => Some("one reader"),
        (Workload::Producers, ..) => Some("no reader"),
        (Workload::Overwrite, Audience::None, _) => Some("no reader"),
        (Workload::Overwrite, ..) => Some("slow and keen reader"),
        (Workload::Fanout, _, false) => Some("lossless"),
        (Workload::Fanout, ..) => Some("lossy"),
        _ => None,
    };
    Absent { name: entry.name, workload: Some(kind.workload), part, reason, failed }
}

/// Describes a kind.
pub(crate) fn describe(kind: &Kind) -> String {
    let Kind { workload, payload, senders, receivers, audience, lossy } = kind;
    match workload {
        Workload::Throughput => format!("throughput of {payload} bytes"),
        Workload::Producers => {
            let many = if *senders == 1 { "" } else { "s" };
            let reader = if *lossy { ", no reader" } else { "" };
            format!("{senders} producer{many}{reader}")
        }
        Workload::Overwrite => format!("overwrite, reader {}", audience.name()),
        Workload::Fanout if *lossy => format!("fanout to {receivers}, lossy"),
        Workload::Fanout => format!("fanout to {receivers}, lossless"),
        other => other.name().to_owned(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::case::Case;
    use crate::cores::{Placed, Places};
    use crate::entrants::OURS;
    use crate::scale::Scale;
    use std::collections::BTreeSet;
    use std::path::Path;

    fn case(name: &str, workload: Workload, wanted: impl Fn(&Kind) -> bool) -> Case {
        let entry = OURS.by_name(name).unwrap();
        let options = Options { senders: vec![1, 4], ..Options::default() };
        let kinds =
            kinds(&options, &Workload::ALL).into_iter().filter(|kind| kind.workload == workload);
        let kind = kinds.into_iter().find(|kind| wanted(kind)).unwrap();
        Case { kind, entry }
    }

    #[test]
    fn senders_are_on_processors_of_their_own_where_there_are_enough() {
        let case = case("perfring shared", Workload::Producers, |kind| kind.senders == 4);
        let cores = |processors: usize| -> Vec<usize> {
            let all: Vec<usize> = (0..processors).collect();
            let places = Places::among(&all, |cpu| BTreeSet::from([cpu])).unwrap();
            let placed = case.placed(Some(&places));
            let parts = case.processes(&Scale::default(), &placed, 1, Path::new("/"));
            parts.iter().map(|part| part.core.unwrap()).collect()
        };
        // The receiver first.
        assert_eq!(cores(16), [0, 1, 2, 3, 4]);
        assert_eq!(cores(4), [0, 1, 2, 3, 1]);
        assert_eq!(cores(2), [0, 1, 1, 1, 1]);
    }

    #[test]
    fn what_a_reader_does_is_reported_of_each_kind() {
        let waits = |wanted: &dyn Fn(&Kind) -> bool, workload| {
            let placed = Placed { receivers: vec![0], senders: vec![1] };
            case("perfring in place", workload, wanted).waits("its own", &placed)
        };
        assert_eq!(waits(&|_| true, Workload::Throughput), "its own");
        let slow = waits(&|kind| kind.audience == Audience::Slow, Workload::Overwrite);
        assert!(slow.contains("once a millisecond"));
        assert!(waits(&|_| true, Workload::Full).contains("does not poll"));
        assert!(waits(&|kind| kind.receivers > 1, Workload::Fanout).contains("yields its core"));
    }
}
