//! A report in words: what `perfring why` prints, and what the sidecar writes beside a snapshot.

use crate::facts::Facts;
use crate::finding::{Finding, Kind, Report, Sum, UNKNOWN};
use crate::names::span;
use perfring_events::moment;
use perfring_figures::owner::count;
use std::fmt;

/// How many findings are shown, where nobody asks for another number.
pub const TOP: usize = 20;

/// A line of a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// The time and the certainty of a finding; empty for the sums.
    pub title: String,
    /// All of it in words.
    pub sentence: String,
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.title, self.sentence)
    }
}

impl Report {
    /// Returns a line for each of the worst findings, and one with the sums.
    pub fn lines(&self, facts: &Facts, top: usize) -> impl Iterator<Item = Line> {
        // Where nothing watched the threads, each gap would have the same sentence: the last line says it once.
        let is_said = |finding: &&Finding| {
            let is_watched = self.covered > 0 || self.in_part;
            is_watched || finding.kind != Kind::Gap || finding.cause != UNKNOWN
        };
        let line = |finding: &Finding| {
            let time = match finding.time {
                0 => "at an unknown time".to_owned(),
                time => moment(time, facts.wall(time)),
            };
            let title = format!("{time}  {:<7}  ", finding.certainty.word());
            Line { title, sentence: finding.sentence.clone() }
        };
        let sums = Line { title: String::new(), sentence: summary(self, facts, top) };
        self.findings.iter().filter(is_said).take(top).map(line).chain([sums])
    }
}

/// Says how many findings there are by cause, and what they rest on.
fn summary(report: &Report, facts: &Facts, top: usize) -> String {
    let all = report.count();
    let mut causes: Vec<_> = report.sums.iter().collect();
    causes.sort_by_key(|((kind, cause), sum)| {
        (*kind, *cause == UNKNOWN, std::cmp::Reverse(sum.findings), *cause)
    });
    let of = |kind: Kind| -> String {
        let own = causes.iter().filter(|((its, _), _)| *its == kind);
        let said: Vec<String> =
            own.clone().map(|((_, cause), sum)| format!("{cause} {}", sum.findings)).collect();
        let number: u64 = own.map(|(_, sum)| sum.findings).sum();
        let what = match kind {
            Kind::Owner => format!("{} in trouble", count(number, "owner")),
            Kind::Loss => count(number, "loss"),
            Kind::Gap => count(number, "gap"),
            Kind::Read => count(number, "late read"),
            Kind::Machine => format!("{} of the machine", count(number, "event")),
        };
        if number == 0 { what } else { format!("{what} ({})", said.join(", ")) }
    };
    let mut said = match all {
        0 if report.records == 0 && facts.untimed() == 0 => "there are no records".to_owned(),
        // Of the rest of the time, nothing is known.
        0 if report.covered < report.length / 10 * 9 => "nothing is found".to_owned(),
        0 => "nothing is out of the ordinary".to_owned(),
        _ => {
            let has = |kind: &Kind| causes.iter().any(|((its, _), _)| its == kind);
            let rare = [Kind::Read, Kind::Machine].into_iter().filter(has);
            let kinds = [Kind::Owner, Kind::Loss, Kind::Gap].into_iter().chain(rare);
            kinds.map(of).collect::<Vec<_>>().join(", ")
        }
    };
    let is_gap =
        |((kind, cause), _): &(&(Kind, &str), &Sum)| *kind == Kind::Gap && *cause == UNKNOWN;
    let alike = match report.covered {
        0 if !report.in_part => {
            report.sums.iter().filter(is_gap).map(|(_, sum)| sum.findings).sum()
        }
        _ => 0,
    };
    let shown = all.saturating_sub(alike).min(top as u64);
    if all > shown + alike {
        said += &format!("; {} not shown", all - shown - alike);
    }
    said += &match report.covered {
        0 if report.in_part => "; only the context switches of some processes were recorded: those of all need CAP_PERFMON, or kernel.perf_event_paranoid 0".to_owned(),
        0 => format!(
            "; the context switches of all threads were not recorded in these {}; `perfring record DIR --why` records them",
            span(report.length)
        ),
        covered => format!("; kernel events cover {} of {}", span(covered), span(report.length)),
    };
    if report.missing > 0 {
        said += &format!(", and {} of them were lost", report.missing);
    }
    if report.hidden > 0 {
        let gaps = count(report.hidden, "time");
        said += &format!("; {gaps} between two records had losses within, so they may be no gaps");
    }
    if facts.untimed() > 0 {
        let records = count(facts.untimed(), "record");
        said += &format!("; {records} without a timestamp, so gaps between them are not known");
    }
    if report.anonymous > 0 {
        let (records, name) = match report.anonymous {
            1 => ("1 record".to_owned(), "names"),
            number => (format!("{number} records"), "name"),
        };
        said += &format!("; {records} {name} no thread, so gaps between them are not known");
    }
    said
}
