//! The data that is drawn for one kind of sample.

use crate::contestant::Role;
use crate::rows::{Contestant, Kind, Median, Row};

/// The data for a kind: its medians at the distance with the most samples.
pub(crate) struct Panel<'a> {
    pub(crate) kind: Kind,
    pub(crate) distance: &'a str,
    /// The best first.
    pub(crate) medians: Vec<(&'a Median, Role)>,
    /// Contestants with samples, but none at this distance.
    pub(crate) missing: Vec<&'a str>,
}

/// Returns the contestants.
pub(crate) fn contestants(rows: &[Row]) -> impl Iterator<Item = &Contestant> {
    rows.iter().filter_map(|row| match row {
        Row::Contestant(contestant) => Some(contestant),
        _ => None,
    })
}

/// Returns the medians.
pub(crate) fn medians(rows: &[Row]) -> impl Iterator<Item = &Median> {
    rows.iter().filter_map(|row| match row {
        Row::Median(median) => Some(&**median),
        _ => None,
    })
}

/// Returns the panels of all kinds that have medians.
pub(crate) fn panels(rows: &[Row]) -> Vec<Panel<'_>> {
    let mut kinds: Vec<Kind> = medians(rows).map(|median| median.figures.kind).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let role = |name: &str| {
        contestants(rows).find(|c| c.name == name).map_or(Role::Rival, |contestant| contestant.role)
    };
    let panel = |kind: Kind| {
        let of_kind = || medians(rows).filter(move |median| median.figures.kind == kind);
        let at = |distance: &str| {
            of_kind().filter(|m| m.figures.distance == distance).map(|m| m.samples).sum::<usize>()
        };
        // Cases on a single core have no distance, and are drawn with the rest.
        let distance = ["near", "far", "-"].into_iter().rev().max_by_key(|d| (at(d), *d != "-"))?;
        let mut medians: Vec<(&Median, Role)> = of_kind()
            .filter(|m| m.figures.distance == distance || m.figures.contestant == "memcpy")
            .map(|median| (median, role(&median.figures.contestant)))
            .collect();
        medians.sort_by(|(a, _), (b, _)| {
            let figure = |median: &Median| median.figures.figure().unwrap_or(f64::NAN);
            let order = figure(a).total_cmp(&figure(b));
            if a.higher_is_better { order.reverse() } else { order }
        });
        let mut missing: Vec<&str> = Vec::new();
        for row in rows {
            let Row::Sample(sample) = row else { continue };
            let name = sample.figures.contestant.as_str();
            let here = sample.figures.kind == kind && !missing.contains(&name);
            if here && medians.iter().all(|(median, _)| median.figures.contestant != name) {
                missing.push(name);
            }
        }
        Some(Panel { kind, distance, medians, missing })
    };
    kinds.into_iter().filter_map(panel).collect()
}

impl<'a> Panel<'a> {
    /// Returns the best of this role.
    pub(crate) fn best(&self, role: Role) -> Option<&'a Median> {
        self.medians.iter().find(|(_, of)| *of == role).map(|(median, _)| *median)
    }

    /// Returns all of a role, the best first.
    pub(crate) fn all(&self, role: Role) -> impl Iterator<Item = &'a Median> {
        self.medians.iter().filter(move |(_, of)| *of == role).map(|(median, _)| *median)
    }

    /// Returns the median hop of its medians.
    pub(crate) fn hop_ns(&self) -> Option<f64> {
        perfring_bench::stats::median(
            self.medians.iter().filter_map(|(m, _)| m.figures.hop_before_ns),
        )
    }
}
