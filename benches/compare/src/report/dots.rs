//! A line for each contestant: a dot at its median, over its range.

use super::panel::Panel;
use super::style::{Axis, STYLE, class, escape, label};
use crate::contestant::Role;
use crate::rows::{Median, number};
use crate::words::describe;
use crate::workload::Workload;
use std::fmt::Write;

const WIDTH: f64 = 620.0;
const LEFT: f64 = 158.0;
const RIGHT: f64 = 470.0;
const TOP: f64 = 62.0;
const ROW: f64 = 18.0;
const LINE: f64 = 14.0;
const LINE_LETTERS: usize = 100;

/// Draws the panel.
pub(super) fn draw(panel: &Panel<'_>) -> String {
    let workload = panel.kind.workload;
    let (scale, unit) = (workload.scale(), workload.unit());
    let latencies = matches!(workload, Workload::Latency | Workload::Wakeup);
    let values = panel.medians.iter().flat_map(|(median, _)| {
        let tail = median.figures.latency.map_or(median.max, |latency| latency.p999_ns);
        [median.min / scale, median.max / scale, tail / scale]
    });
    let axis = Axis::over(values, LEFT + 8.0, RIGHT - 8.0);
    let bottom = TOP + ROW * panel.medians.len() as f64;
    let missing = lines(&panel.missing);
    let mut svg = String::new();
    let better = if workload.higher_is_better() { "right" } else { "left" };
    let samples = panel.medians.iter().map(|(median, _)| median.samples).max().unwrap_or(0);
    let at = match (panel.distance, panel.hop_ns()) {
        ("-", _) | (_, None) => String::new(),
        (distance, Some(hop)) => format!(", {distance} cores, {hop:.0} ns apart"),
    };
    let what = if latencies { "dot p50, bar p99, end p99.9" } else { "dot median, line range" };
    let title = describe(&panel.kind);
    // Writing to a string cannot fail.
    let _ = write!(
        svg,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"plot\" viewBox=\"0 0 {WIDTH} {}\" \
         role=\"img\" aria-label=\"{}\">{STYLE}<rect class=\"paper\" width=\"100%\" height=\"100%\"/>\
         <text class=\"title\" x=\"8\" y=\"18\">{}: {unit}</text>\
         <text class=\"dim\" x=\"8\" y=\"35\">{what} of up to {samples} samples{at}; logarithmic, \
         further {better} is better</text>",
        bottom + 10.0 + LINE * missing.len() as f64,
        escape(&title),
        escape(&capital(&title)),
    );
    for tick in axis.ticks() {
        let x = axis.at(tick);
        let _ = write!(
            svg,
            "<line class=\"grid\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{}\" y2=\"{bottom}\"/>\
             <text class=\"dim\" x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            TOP - 6.0,
            TOP - 10.0,
            label(tick)
        );
    }
    for (at, (median, role)) in panel.medians.iter().enumerate() {
        row(&mut svg, &axis, TOP + ROW * (at as f64 + 0.5), median, *role);
    }
    for (at, line) in missing.iter().enumerate() {
        let y = bottom + LINE * (at as f64 + 1.0);
        let _ = write!(svg, "<text class=\"dim\" x=\"8\" y=\"{y:.1}\">{}</text>", escape(line));
    }
    svg.push_str("</svg>");
    svg
}

/// Draws one contestant's line.
fn row(svg: &mut String, axis: &Axis, y: f64, median: &Median, role: Role) {
    let scale = median.figures.kind.workload.scale();
    let Some(figure) = median.figures.figure() else { return };
    let (low, high, value) = match median.figures.latency {
        Some(l) => (l.p50_ns, l.p999_ns, [l.p50_ns, l.p99_ns, l.p999_ns].map(short).join(" / ")),
        None => {
            let [low, mid, high] = [median.min, figure, median.max].map(|v| number(v / scale));
            (median.min, median.max, format!("{mid}  ({low} to {high})"))
        }
    };
    let strong = if role == Role::Ours { " strong" } else { "" };
    let _ = write!(
        svg,
        "<g class=\"{}\"><text class=\"name{strong}\" x=\"{}\" y=\"{:.1}\" \
             text-anchor=\"end\">{}</text>\
             <line class=\"span\" x1=\"{:.1}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>{}{}\
             <text class=\"value{strong}\" x=\"{}\" y=\"{:.1}\">{value}</text></g>",
        class(role),
        LEFT - 4.0,
        y + 4.0,
        escape(&median.figures.contestant),
        axis.at(low / scale),
        axis.at(high / scale),
        median.figures.latency.map_or_else(String::new, |latency| {
            let x = axis.at(latency.p99_ns / scale);
            format!(
                "<line class=\"span\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{:.1}\" y2=\"{:.1}\"/>",
                y - 4.0,
                y + 4.0
            )
        }),
        mark(role, axis.at(figure / scale), y),
        RIGHT + 6.0,
        y + 4.0,
    );
}

/// Lists the missing contestants, in lines that the plot is wide enough for.
fn lines(missing: &[&str]) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for (at, name) in missing.iter().enumerate() {
        let name = if at + 1 < missing.len() { format!("{name},") } else { (*name).to_owned() };
        match lines.last_mut() {
            Some(line) if line.chars().count() + name.chars().count() < LINE_LETTERS => {
                line.push(' ');
                line.push_str(&name);
            }
            Some(_) => lines.push(name),
            None => lines.push(format!("no sample at this distance: {name}")),
        }
    }
    lines
}

/// Returns a shape for each role, for readers who do not see colours.
fn mark(role: Role, x: f64, y: f64) -> String {
    match role {
        Role::Ours => format!("<circle class=\"mark\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"5\"/>"),
        Role::Rival => {
            format!("<path class=\"mark\" d=\"M{x:.1} {:.1}l5 5l-5 5l-5 -5z\"/>", y - 5.0)
        }
        Role::Reference => {
            format!("<circle class=\"hollow\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\"/>")
        }
        Role::Limit => format!(
            "<rect class=\"mark\" x=\"{:.1}\" y=\"{:.1}\" width=\"3\" height=\"12\"/>",
            x - 1.5,
            y - 6.0
        ),
    }
}

/// Like [`number`], but long numbers in thousands: there is little room.
fn short(value: f64) -> String {
    if value < 1e5 { number(value) } else { format!("{}k", number(value / 1e3)) }
}

/// Returns the text with a capital letter.
pub(super) fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

#[cfg(test)]
mod tests {
    use super::{LINE_LETTERS, lines};

    #[test]
    fn who_has_no_sample_at_the_distance_is_named() {
        assert!(lines(&[]).is_empty());
        assert_eq!(lines(&["a", "b"]), ["no sample at this distance: a, b"]);
        let many = vec!["perfring shared batch"; 12];
        let lines = lines(&many);
        assert!(lines.len() > 1 && lines.iter().all(|line| line.len() <= LINE_LETTERS + 1));
        assert_eq!(lines.join(" ").matches("perfring").count(), 12);
    }
}
