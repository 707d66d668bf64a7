//! The whole distribution of latencies: how many of so many round trips take longer.

use super::panel::Panel;
use super::style::{Axis, STYLE, class, escape, label};
use crate::contestant::Role;
use crate::rows::{Row, Sample};
use crate::words::describe;
use std::fmt::Write;

const WIDTH: f64 = 620.0;
const HEIGHT: f64 = 400.0;
const LEFT: f64 = 52.0;
const RIGHT: f64 = 480.0;
const TOP: f64 = 54.0;
const BOTTOM: f64 = 360.0;
/// How many rivals are named, the best by p50.
const NAMED: usize = 5;
/// The least part that is drawn: one in so many.
const RAREST: f64 = 1e5;
const TAG: f64 = 14.0;

/// A time, and that one in so many takes longer.
type Points = Vec<(f64, f64)>;

/// Draws the curves, of all samples at the panel's distance together.
pub(super) fn draw(panel: &Panel<'_>, rows: &[Row]) -> String {
    let merged = |name: &str| {
        let samples = rows.iter().filter_map(|row| match row {
            Row::Sample(sample) => Some(&**sample),
            _ => None,
        });
        merge(samples.filter(|sample| {
            let figures = &sample.figures;
            figures.kind == panel.kind
                && figures.contestant == name
                && figures.distance == panel.distance
        }))
    };
    let curves: Vec<(&str, Role, Points)> = panel
        .medians
        .iter()
        .map(|(m, role)| (m.figures.contestant.as_str(), *role, merged(&m.figures.contestant)))
        .collect();
    let values = curves.iter().flat_map(|(_, _, points)| points.iter().map(|(ns, _)| *ns));
    let axis = Axis::over(values, BOTTOM, TOP);
    let rarity = Axis::over([1.2, RAREST / 1.2].into_iter(), LEFT, RIGHT);
    let mut svg = String::new();
    let title = describe(&panel.kind);
    // Writing to a string cannot fail.
    let _ = write!(
        svg,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"plot\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         role=\"img\" aria-label=\"{} by quantile\">{STYLE}\
         <rect class=\"paper\" width=\"100%\" height=\"100%\"/>\
         <text class=\"title\" x=\"8\" y=\"18\">{} by quantile: ns, one way</text>\
         <text class=\"dim\" x=\"8\" y=\"35\">all samples together, both axes logarithmic, lower is \
         better; faint: the others</text>",
        escape(&title),
        escape(&super::dots::capital(&title)),
    );
    grid(&mut svg, &axis, &rarity);
    let mut rivals = 0;
    let mut tags = Vec::new();
    for (name, role, points) in &curves {
        rivals += usize::from(*role == Role::Rival);
        let named = match role {
            Role::Ours => {
                ["perfring publish_timeout", "perfring default reader", "perfring shared"]
                    .contains(name)
            }
            Role::Rival => rivals <= NAMED,
            Role::Limit => *name == "line" || *name == "floor",
            Role::Reference => false,
        };
        let Some((last, _)) = points.last() else { continue };
        let mut path = String::new();
        for (ns, one_in) in points {
            let step = if path.is_empty() { 'M' } else { 'L' };
            let _ = write!(path, "{step}{:.1} {:.1}", rarity.at(*one_in), axis.at(*ns));
        }
        let faint = if named { "" } else { " faint" };
        let _ = write!(
            svg,
            "<g class=\"{}\"><path class=\"curve{faint}\" d=\"{path}\"/></g>",
            class(*role)
        );
        if named {
            tags.push((axis.at(*last), *name, *role));
        }
    }
    name(&mut svg, tags);
    svg.push_str("</svg>");
    svg
}

/// Lines at round times, and at the usual quantiles.
fn grid(svg: &mut String, axis: &Axis, rarity: &Axis) {
    for tick in axis.ticks() {
        let y = axis.at(tick);
        let _ = write!(
            svg,
            "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{RIGHT}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
             <text class=\"dim\" x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            LEFT - 6.0,
            y + 4.0,
            label(tick)
        );
    }
    for (one_in, name) in
        [(2.0, "p50"), (10.0, "p90"), (100.0, "p99"), (1e3, "p99.9"), (1e4, "p99.99")]
    {
        let x = rarity.at(one_in);
        let _ = write!(
            svg,
            "<line class=\"grid\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{TOP}\" y2=\"{BOTTOM}\"/>\
             <text class=\"dim\" x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{name}</text>",
            BOTTOM + 16.0
        );
    }
}

/// Writes names at the ends of curves without overlap: the end of each, and its contestant.
fn name(svg: &mut String, mut tags: Vec<(f64, &str, Role)>) {
    tags.sort_by(|(a, ..), (b, ..)| a.total_cmp(b));
    let mut free = TOP;
    let room = BOTTOM - TAG * tags.len() as f64;
    for (nth, (y, name, role)) in tags.into_iter().enumerate() {
        let y = y.max(free).min(room + TAG * (nth as f64 + 1.0));
        free = y + TAG;
        let _ = write!(
            svg,
            "<g class=\"{}\"><text class=\"tag\" x=\"{}\" y=\"{:.1}\">{}</text></g>",
            class(role),
            RIGHT + 6.0,
            y + 4.0,
            escape(name)
        );
    }
}

/// Merges the samples' histograms into points: a time, and that one in so many takes longer.
fn merge<'a>(samples: impl Iterator<Item = &'a Sample>) -> Points {
    let mut all: Vec<(f64, u64)> =
        samples.flat_map(|sample| sample.figures.histogram.iter().copied()).collect();
    all.sort_unstable_by(|(a, _), (b, _)| a.total_cmp(b));
    let total: u64 = all.iter().map(|(_, count)| count).sum();
    let mut points: Points = Vec::new();
    let (mut longer, mut last) = (total, f64::NAN);
    for (ns, count) in all {
        let one_in = total as f64 / longer.max(1) as f64;
        longer -= count;
        // More points than are visible only make the file large.
        let far = points.last().is_none_or(|(_, before)| one_in > before * 1.03);
        if one_in > 1.2 && (far || ns > last * 1.03) && one_in <= RAREST {
            points.push((ns, one_in));
            last = ns;
        }
    }
    points
}

#[cfg(test)]
mod tests {
    use super::merge;

    #[test]
    fn nothing_is_drawn_of_no_samples() {
        assert!(merge(std::iter::empty()).is_empty());
    }
}
