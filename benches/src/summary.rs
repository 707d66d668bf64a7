//! Medians, their ratios to the floor and the best rival, and what went wrong.

use crate::contestant::Role;
use crate::kinds::describe;
use crate::player::{LINE, MEMCPY};
use crate::rows::{Figures, Latency, Median, Row, Sample};
use crate::stats::{median, range};
use crate::workload::Workload;

/// The distances at which samples are compared.
const DISTANCES: [&str; 3] = ["near", "far", "-"];

/// Returns the medians of samples of one kind, in the order of the contestants.
pub(crate) fn medians(samples: &[Sample]) -> Vec<Median> {
    let mut names: Vec<&str> = Vec::new();
    for sample in samples {
        let name = sample.figures.contestant;
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let mut medians = Vec::new();
    for distance in DISTANCES {
        let of = |name: &&str| one(samples, name, distance);
        let mut here: Vec<Median> = names.iter().filter_map(of).collect();
        compare(&mut here);
        medians.extend(here);
    }
    medians
}

/// Returns the median of one contestant at one distance.
fn one(samples: &[Sample], name: &str, distance: &str) -> Option<Median> {
    let all = || samples.iter().filter(|sample| sample.figures.contestant == name);
    let here: Vec<&Figures> =
        all().map(|sample| &sample.figures).filter(|f| f.distance == distance).collect();
    let first = *here.first()?;
    let workload = first.kind.workload;
    let (min, max) = range(here.iter().filter_map(|figures| figures.figure()))?;
    let mid = |get: &dyn Fn(&Figures) -> Option<f64>| median(here.iter().filter_map(|f| get(f)));
    let of_latency = |get: fn(&Latency) -> f64| {
        mid(&|figures| figures.latency.as_ref().map(get)).unwrap_or_default()
    };
    let sum = |get: fn(&Figures) -> u64| here.iter().map(|figures| get(figures)).sum();
    let latency = first.latency.map(|_| Latency {
        p50_ns: of_latency(|l| l.p50_ns),
        p90_ns: of_latency(|l| l.p90_ns),
        p99_ns: of_latency(|l| l.p99_ns),
        p999_ns: of_latency(|l| l.p999_ns),
        max_ns: of_latency(|l| l.max_ns),
    });
    let figures = Figures {
        records: sum(|f| f.records),
        records_per_s: mid(&|f| Some(f.records_per_s))?,
        ns_per_record: mid(&|f| Some(f.ns_per_record))?,
        lost: sum(|f| f.lost),
        reported_lost: here.iter().map(|figures| figures.reported_lost).sum(),
        bad: sum(|f| f.bad),
        late: here.iter().filter_map(|figures| figures.late).reduce(|a, b| a + b),
        hop_before_ns: mid(&|f| f.hop_before_ns),
        hop_after_ns: mid(&|f| f.hop_after_ns),
        latency,
        histogram: Vec::new(),
        cold_ns: mid(&|f| f.cold_ns),
        memory_bytes: mid(&|f| f.memory_bytes),
        refused: here.iter().map(|figures| figures.refused).sum(),
        ns_per_refusal: mid(&|f| f.ns_per_refusal),
        ..first.clone()
    };
    Some(Median {
        samples: here.len(),
        left_out: all().filter(|sample| sample.figures.distance == "mixed").count(),
        min,
        max,
        figure: workload.figure(),
        higher_is_better: workload.higher_is_better(),
        of_floor: None,
        of_line: None,
        of_best: None,
        best_rival: None,
        figures,
    })
}

/// Fills in the ratios among medians of one kind and distance.
fn compare(medians: &mut [Median]) {
    let best = |wanted: &dyn Fn(&Figures) -> bool| -> Option<(&'static str, f64)> {
        let wanted = medians.iter().filter(|median| wanted(&median.figures));
        let figures = wanted.filter_map(|m| Some((m, m.figures.figure()?)));
        let sign = |median: &Median| if median.higher_is_better { 1.0 } else { -1.0 };
        figures
            .max_by(|(m, a), (_, b)| (a * sign(m)).total_cmp(&(b * sign(m))))
            .map(|(median, figure)| (median.figures.contestant, figure))
    };
    // The best bare loop is the floor.
    let bare = [LINE.name, MEMCPY.name];
    let floor = best(&|f| f.role == Role::Limit && !bare.contains(&f.contestant));
    let line = best(&|f| f.contestant == LINE.name);
    let rival = best(&|f| f.role == Role::Rival);
    for median in medians {
        let Some(figure) = median.figures.figure() else { continue };
        let by = |base: Option<(&str, f64)>| {
            base.filter(|(_, base)| *base > 0.0).map(|(_, base)| figure / base)
        };
        median.of_floor = by(floor);
        median.of_line = by(line);
        median.of_best = by(rival);
        median.best_rival = rival.map(|(name, _)| name);
    }
}

/// Returns what was lost where nothing may be, damaged, or wrongly reported: sentences.
pub fn faults(rows: &[Row]) -> Vec<String> {
    let mut faults = Vec::new();
    for row in rows {
        match row {
            Row::Sample(sample) => {
                let figures = &sample.figures;
                let mut fault = |what: String| {
                    let kind = describe(&figures.kind);
                    faults.push(format!("{}, {kind}: {what}", figures.contestant));
                };
                if figures.bad > 0 {
                    fault(format!("{} records damaged or wrongly counted", figures.bad));
                }
                if sample.lossless && figures.lost > 0 {
                    fault(format!("{} records lost where none may be", figures.lost));
                }
                // A refused record is reported as lost by contestants that count those, and was not
                // sent here.
                let reported =
                    figures.reported_lost.filter(|_| figures.kind.workload != Workload::Full);
                if let Some(reported) = reported.filter(|reported| *reported != figures.lost) {
                    fault(format!("{reported} losses reported, and {} were seen", figures.lost));
                }
            }
            Row::Absent(absent) if absent.failed => {
                faults.push(format!("{}: {}", absent.name, absent.reason));
            }
            _ => {}
        }
    }
    faults
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::player::Entry;
    use crate::rows::Kind;

    fn sample(
        contestant: &'static str,
        workload: Workload,
        distance: &'static str,
        figure: f64,
    ) -> Sample {
        let limit = contestant.starts_with("floor");
        let role = if limit { Role::Limit } else { Role::Ours };
        let figures = Figures {
            records: 1,
            records_per_s: figure,
            ns_per_record: figure,
            distance,
            ..Figures::of(Kind::of(workload, 64), &Entry { name: contestant, role, ..LINE })
        };
        Sample { figures, round: 0, lossless: true }
    }

    #[test]
    fn the_best_floor_counts_and_only_samples_of_one_distance_are_compared() {
        let of = |workload| {
            let mut samples = Vec::new();
            for figure in [40.0, 60.0, 50.0] {
                samples.push(sample("perfring", workload, "near", figure));
            }
            samples.push(sample("perfring", workload, "mixed", 1000.0));
            samples.push(sample("perfring", workload, "far", 10.0));
            samples.push(sample("floor", workload, "near", 25.0));
            samples.push(sample("floor back", workload, "near", 100.0));
            medians(&samples)
        };
        let medians = of(Workload::Throughput);
        let near = medians.first().unwrap();
        assert_eq!((near.samples, near.left_out, near.min, near.max), (3, 1, 40.0, 60.0));
        assert_eq!(near.of_floor, Some(0.5));
        let far = medians.iter().find(|median| median.figures.distance == "far").unwrap();
        assert_eq!(far.of_floor, None);
        // Where less is better, the best is the least.
        assert_eq!(of(Workload::Overwrite).first().unwrap().of_floor, Some(2.0));
    }
}
