//! Computes a sample from the results of the processes.

use crate::case::Case;
use crate::conductor::Performance;
use crate::contestant::Setup;
use crate::part::{Audience, Found};
use crate::rows::{Figures, Latency, Sample};
use crate::stats::median;
use crate::workload::Workload;

/// Computes the sample of a performance. Where memory was measured, it held so many channels, for
/// each of which the kernel holds so much.
pub fn sample(
    case: &Case,
    setup: &Setup,
    round: usize,
    performance: &Performance,
    (rings, kernel_bytes): (u64, Option<u64>),
) -> Sample {
    let found = &performance.found;
    let mut figures = Figures {
        pace: setup.pace.name(),
        lost: found.iter().map(|found| found.lost).sum(),
        bad: found.iter().map(|found| found.bad).sum(),
        late: found.iter().filter_map(|found| found.late).reduce(|a, b| a + b),
        ..Figures::of(case.kind, &case.entry)
    };
    let first = found.first().cloned().unwrap_or_default();
    match case.kind.workload {
        _ if found.len() == 1 => timed(&mut figures, found, found),
        Workload::Latency | Workload::Wakeup => {
            timed(&mut figures, found.get(..1).unwrap_or_default(), found);
            figures.latency = Some(quantiles(&first.histogram));
            figures.histogram = first.histogram;
        }
        Workload::Cold => {
            figures.records = first.records;
            let times = first.cold_ns.iter().map(|ns| *ns as f64);
            figures.cold_ns = median(times);
        }
        Workload::Memory => {
            figures.records = first.records;
            let grown = performance.grown.max(0) as f64 / rings as f64;
            figures.memory_bytes = Some(grown + kernel_bytes.unwrap_or(0) as f64);
            figures.kernel_bytes = kernel_bytes;
        }
        _ => {
            let receivers = case.kind.receivers.min(found.len());
            let (receivers, senders) = found.split_at(receivers);
            stream(&mut figures, receivers, senders);
        }
    }
    Sample { figures, round, lossless: !setup.overwrite }
}

fn stream(figures: &mut Figures, receivers: &[Found], senders: &[Found]) {
    timed(figures, receivers, senders);
    let sent: u64 = senders.iter().map(|found| found.records).sum();
    for found in receivers {
        // What came and what did not are all there is.
        figures.bad += (found.records + found.lost + found.bad).abs_diff(sent);
    }
    figures.reported_lost = receivers.iter().map(|found| found.reported_lost).sum();
    let start = senders.iter().map(|found| found.start_ns).min().unwrap_or_default();
    let end = senders.iter().map(|found| found.end_ns).max().unwrap_or_default();
    let ns = end.saturating_sub(start);
    figures.ns_per_record = ns as f64 / sent.max(1) as f64;
    if figures.kind.audience == Audience::None {
        figures.records = sent;
        figures.records_per_s = sent as f64 * 1e9 / ns.max(1) as f64;
    }
    if figures.kind.workload == Workload::Full {
        let refused: u64 = senders.iter().map(|found| found.refused).sum();
        let ns: u64 = senders.iter().map(|found| found.refused_ns).sum();
        figures.refused = Some(refused);
        figures.ns_per_refusal = (refused > 0).then(|| ns as f64 / refused as f64);
    }
}

/// Counts the records of these, from the first start to the last end.
fn timed(figures: &mut Figures, of: &[Found], starts: &[Found]) {
    let start = starts.iter().map(|found| found.start_ns).min().unwrap_or_default();
    let end = of.iter().map(|found| found.end_ns).max().unwrap_or_default();
    let ns = end.saturating_sub(start).max(1);
    figures.records = of.iter().map(|found| found.records).sum();
    figures.records_per_s = figures.records as f64 * 1e9 / ns as f64;
    figures.ns_per_record = ns as f64 / figures.records.max(1) as f64;
}

/// Returns the quantiles of a histogram.
pub fn quantiles(histogram: &[(f64, u64)]) -> Latency {
    let total: u64 = histogram.iter().map(|(_, count)| count).sum();
    let at = |quantile: f64| {
        let rank = (quantile * total as f64).ceil() as u64;
        let mut passed = 0;
        let found = histogram.iter().find(|(_, count)| {
            passed += count;
            passed >= rank
        });
        found.map_or(0.0, |(ns, _)| *ns)
    };
    Latency {
        p50_ns: at(0.5),
        p90_ns: at(0.9),
        p99_ns: at(0.99),
        p999_ns: at(0.999),
        max_ns: histogram.last().map_or(0.0, |(ns, _)| *ns),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_where_so_many_have_come() {
        let histogram: Vec<(f64, u64)> = (1..=1000).map(|ns| (f64::from(ns), 1)).collect();
        let latency = quantiles(&histogram);
        assert_eq!((latency.p50_ns, latency.p90_ns), (500.0, 900.0));
        assert_eq!((latency.p99_ns, latency.p999_ns, latency.max_ns), (990.0, 999.0, 1000.0));
        assert_eq!(quantiles(&[(7.0, 3)]).p999_ns, 7.0);
        assert_eq!(quantiles(&[]), Latency::default());
    }
}
