//! The rate of several senders relative to one: with separate rings, where only the reader is
//! shared.

use crate::rows::{Contestant, Median, Row};
use crate::workload::Workload;

/// A contestant with separate rings, with one reader or none.
#[derive(Clone, Debug, PartialEq)]
pub struct Scaling {
    /// The contestant.
    pub contestant: String,
    /// There is no reader.
    pub unread: bool,
    /// By the number of senders, the fewest first.
    pub steps: Vec<Step>,
}

/// The result for a number of senders.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// The number of senders.
    pub senders: usize,
    /// All together, at the distance with the most samples.
    pub records_per_s: f64,
    /// That distance.
    pub distance: String,
    /// Each was on a processor of its own, and none on the receiver's.
    pub apart: bool,
    /// Relative to one sender.
    pub of_one: Option<f64>,
    /// Relative to so many times one sender.
    pub of_linear: Option<f64>,
}

impl Scaling {
    /// Returns why it does not show how rates grow with the cores, if it does not.
    pub fn why_not(&self) -> Option<String> {
        let most = self.steps.iter().map(|step| step.senders).max().unwrap_or(0);
        if most < 2 {
            return Some("cannot be shown: no sample of several senders".to_owned());
        }
        if self.steps.first().is_none_or(|step| step.senders != 1) {
            return Some("cannot be shown: no sample of one sender to compare with".to_owned());
        }
        let apart = self.steps.iter().filter(|step| step.apart).map(|step| step.senders).max();
        match apart.unwrap_or(0) {
            0 | 1 => Some(format!(
                "cannot be shown here: {most} senders take turns on too few processors, so that all \
                 together have the time of one; it takes {} cores, one of them the receiver's",
                most + 1
            )),
            some if some < most => Some(format!(
                "shown up to {some} senders: more have to share processors here, and it takes {} \
                 cores, one of them the receiver's, for {most}",
                most + 1
            )),
            _ => None,
        }
    }
}

/// Returns the scaling of all contestants with separate rings, in the order of the report.
pub fn scalings(rows: &[Row]) -> Vec<Scaling> {
    let own = |row: &Row| match row {
        Row::Contestant(Contestant { name, own_channels: true, .. }) => Some(name.clone()),
        _ => None,
    };
    let mut all = Vec::new();
    for contestant in rows.iter().filter_map(own) {
        for unread in [false, true] {
            let medians: Vec<&Median> = rows
                .iter()
                .filter_map(|row| match row {
                    Row::Median(median) => Some(&**median),
                    _ => None,
                })
                .filter(|median| {
                    let kind = median.figures.kind;
                    let here = kind.workload == Workload::Producers && kind.lossy == unread;
                    here && median.figures.contestant == contestant
                })
                .collect();
            let steps = steps(&medians);
            if !steps.is_empty() {
                all.push(Scaling { contestant: contestant.clone(), unread, steps });
            }
        }
    }
    all
}

fn steps(medians: &[&Median]) -> Vec<Step> {
    let mut numbers: Vec<usize> = medians.iter().map(|m| m.figures.kind.senders).collect();
    numbers.sort_unstable();
    numbers.dedup();
    let mut steps: Vec<Step> = Vec::new();
    for senders in numbers {
        let here = medians.iter().filter(|median| median.figures.kind.senders == senders);
        // Among equals the first, which is the nearer.
        let Some(median) = here.rev().max_by_key(|median| median.samples) else { continue };
        let rate = median.figures.records_per_s;
        let one = match steps.first() {
            Some(first) if first.senders == 1 => Some(first.records_per_s),
            None if senders == 1 => Some(rate),
            _ => None,
        };
        let of_one = one.filter(|one| *one > 0.0).map(|one| rate / one);
        steps.push(Step {
            senders,
            records_per_s: rate,
            distance: median.figures.distance.clone(),
            apart: median.figures.cores.is_apart(),
            of_one,
            of_linear: of_one.map(|times| times / senders as f64),
        });
    }
    steps
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::contestant::Location;
    use crate::contestant::Role;
    use crate::summary::medians;
    use crate::summary::tests::sample;

    /// Rates by the number of senders, on so many processors.
    fn rows(rates: &[(usize, f64)], processors: usize) -> Vec<Row> {
        let mut rows = vec![Row::Contestant(Contestant {
            name: "perfring rings".to_owned(),
            version: String::new(),
            location: Location::Processes,
            role: Role::Ours,
            own_channels: true,
        })];
        for &(senders, rate) in rates {
            let mut one = sample("perfring rings", Workload::Producers, "near", rate);
            one.figures.kind.senders = senders;
            one.figures.cores.receivers = vec![0];
            one.figures.cores.senders = (0..senders).map(|i| 1 + i % processors).collect();
            let medians = medians(&[one]).into_iter();
            rows.extend(medians.map(|median| Row::Median(Box::new(median))));
        }
        rows
    }

    #[test]
    fn each_number_of_senders_is_compared_with_one_and_with_linear() {
        let all = scalings(&rows(&[(1, 100.0), (2, 190.0), (8, 400.0)], 15));
        assert_eq!(all.len(), 1);
        let steps = &all.first().unwrap().steps;
        let ratios: Vec<_> =
            steps.iter().map(|s| (s.of_one.unwrap(), s.of_linear.unwrap())).collect();
        assert_eq!(ratios, [(1.0, 1.0), (1.9, 0.95), (4.0, 0.5)]);
        assert_eq!(all.first().unwrap().why_not(), None);
    }

    #[test]
    fn two_cores_cannot_show_it_and_say_so() {
        let why = |rates, processors| scalings(&rows(rates, processors))[0].why_not().unwrap();
        let rates: &[(usize, f64)] = &[(1, 100.0), (2, 100.0), (4, 100.0)];
        assert!(why(rates, 1).starts_with("cannot be shown here: 4 senders"), "{}", why(rates, 1));
        assert!(why(rates, 1).contains("it takes 5 cores"));
        assert!(why(rates, 3).starts_with("shown up to 2 senders"), "{}", why(rates, 3));
        assert!(why(&[(1, 100.0)], 3).contains("no sample of several"));
        assert!(why(&[(2, 100.0)], 3).contains("no sample of one"));
    }
}
