//! The page.

use super::panel::{Panel, contestants, medians};
use super::style::{class, escape};
use crate::absences::grouped;
use crate::contestant::Role;
use crate::notes;
use crate::rows::{Absent, Machine, Median, Row, number};
use crate::words::describe;
use crate::workload::Workload;
use std::fmt::Write;

const STYLE: &str = "<style>\
:root{color-scheme:light dark;--ink:#1c2127;--dim:#5b6570;--line:#e3e6ea;--paper:#fff;--good:#0b62c4;\
--bad:#b4501a;--wash:#f4f6f8}\
@media(prefers-color-scheme:dark){:root{--ink:#e7eaee;--dim:#9aa4af;--line:#333a42;--paper:#14181c;\
--good:#62b0ff;--bad:#f0985c;--wash:#1b2026}}\
body{margin:0 auto;padding:24px;max-width:1320px;font:15px/1.5 system-ui,sans-serif;color:var(--ink);\
background:var(--paper)}h1{font-size:26px;margin:0 0 4px}h2{font-size:19px;margin:36px 0 8px}\
p{max-width:46em}.dim{color:var(--dim)}code{background:var(--wash);padding:1px 5px;border-radius:3px}\
.grid{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(560px,100%),1fr));gap:12px;\
align-items:start}.grid svg{width:100%;height:auto;border:1px solid var(--line);border-radius:6px}\
.wide{overflow-x:auto}table{border-collapse:collapse;font-size:13px;font-variant-numeric:tabular-nums}\
th,td{padding:3px 10px;text-align:right;border-bottom:1px solid var(--line);white-space:nowrap}\
th{color:var(--dim);font-weight:600}td:first-child,th:first-child,.text td,.text th{text-align:left}\
.text td{white-space:normal;vertical-align:top}tr.ours td:first-child,tr.ours td:nth-child(2){\
font-weight:600}.ahead{color:var(--good)}.behind{color:var(--bad);font-weight:600}\
details{margin:8px 0}summary{cursor:pointer;color:var(--dim)}</style>";

/// Writes the page.
pub(super) fn write(
    rows: &[Row],
    panels: &[Panel<'_>],
    plots: &[(Workload, String, String)],
) -> String {
    let mut page = String::new();
    // Writing to a string cannot fail.
    let _ = write!(
        page,
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" \
         content=\"width=device-width,initial-scale=1\"><title>perfring beside others</title>{STYLE}\
         </head><body><h1>perfring beside other ways to hand records over</h1>"
    );
    for row in rows {
        if let Row::Machine(machine) = row {
            machine_lines(&mut page, machine);
        }
    }
    how_to_read(&mut page);
    standing(&mut page, panels);
    for workload in Workload::ALL {
        if plots.iter().all(|(of, ..)| *of != workload) {
            continue;
        }
        let _ =
            write!(page, "<h2 id=\"{}\">{}</h2><div class=\"grid\">", workload, workload.title());
        for (_, _, svg) in plots.iter().filter(|(of, ..)| *of == workload) {
            page.push_str(svg);
        }
        page.push_str("</div>");
        beside(&mut page, workload, rows);
        figures(&mut page, workload, rows);
        settings(&mut page, workload, rows);
    }
    taking_part(&mut page, rows);
    absences(&mut page, rows);
    page.push_str("</body></html>\n");
    page
}

fn machine_lines(page: &mut String, m: &Machine) {
    let cores = m.cores.map_or_else(
        || "one core only: no measure of anything".to_owned(),
        |[here, there]| format!("receivers on core {here}, one sender on core {there}"),
    );
    if m.repetitions == 1 {
        page.push_str(
            "<p class=\"behind\">One repetition: it proves that everything works, and measures \
             nothing.</p>",
        );
    }
    let _ = write!(
        page,
        "<p class=\"dim\">{}, Linux {}, {cores}, load {}<br>commit {}, {}, {} {}<br>{} KiB rings, {} \
         repetitions of {} s, started {}</p>",
        escape(&m.cpu),
        escape(&m.kernel),
        escape(&m.load),
        escape(&m.commit),
        escape(&m.rustc),
        escape(&m.target),
        escape(&m.rustflags),
        m.data_size / 1024,
        m.repetitions,
        m.seconds_per_sample,
        escape(&m.started),
    );
}

fn how_to_read(page: &mut String) {
    page.push_str(
        "<p>Real processes, the receiver on a core of its own and each sender, too, where there are enough, \
         each contestant on its own fast path, every byte verified by \
         the receiver. The contestants take turns, and only samples taken at one distance of the cores \
         are compared; the distance is measured before and after each. A plot shows the distance with \
         the most samples, and names the contestants without samples there. A dot is the median, \
         the line behind it the range. Blue is perfring, orange diamonds are rivals, grey bars are \
         limits (bare loops that check nothing, <code>memcpy</code>, a bare cache line), hollow dots \
         are queues between threads of one process, an upper bound. To repeat it: \
         <code>cargo run --release --manifest-path benches/compare/Cargo.toml -- --out DIR</code></p>",
    );
}

/// Writes each perfring contestant beside the best rival, so that readers find the one that does
/// what the rival does.
fn standing(page: &mut String, panels: &[Panel<'_>]) {
    page.push_str(
        "<h2>perfring and the best rivals</h2><p>Each mode of perfring beside the best rival at this \
         workload. The modes differ: <code>perfring</code> publishes record by record in one \
         ring, <code>batch</code> 64 at a time, <code>pods</code> has 64 payloads in an array a \
         record; <code>shared</code> is one ring with many producers in one order, as the \
         many-producer queues of others, and <code>rings</code> a ring for each producer, without an \
         order between them except for <code>rings merged</code>, which has the order of timestamps. \
         Contestants whose ranges overlap are level.</p><div class=\"wide\"><table><tr><th>workload</th><th></th>\
         <th>perfring</th><th>best rival</th><th></th><th>ahead</th><th>of the best bare \
         loop</th><th>distance</th></tr>",
    );
    for panel in panels {
        let workload = panel.kind.workload;
        let figure = |median: &Median| median.figures.figure().unwrap_or(f64::NAN);
        let shown = |median: &Median| {
            let name = escape(&median.figures.contestant);
            format!("{name}: {} {}", number(figure(median) / workload.scale()), workload.unit())
        };
        let rival = panel.best(Role::Rival);
        for ours in panel.all(Role::Ours) {
            let ahead = rival.map(|rival| {
                let (a, b) = (figure(ours), figure(rival));
                if workload.higher_is_better() { a / b } else { b / a }
            });
            let (class, word) = match ahead {
                Some(times) if times < 1.0 => ("behind", format!("{times:.2} times, behind")),
                Some(times) => ("ahead", format!("{times:.2} times")),
                None => ("dim", "no other".to_owned()),
            };
            // For times and sizes the least is the best: inverted, so that more than one always
            // means ahead.
            let upright = |ratio: f64| {
                if workload.higher_is_better() { ratio } else { 1.0 / ratio.max(1e-9) }
            };
            let floor = ours
                .of_floor
                .map_or_else(|| "-".to_owned(), |ratio| format!("{:.2}", upright(ratio)));
            let _ = write!(
                page,
                "<tr><td><a href=\"#{workload}\">{}</a></td><td></td><td>{}</td><td>{}</td><td></td>\
             <td class=\"{class}\">{word}</td><td>{floor}</td><td>{}</td></tr>",
                escape(&describe(&panel.kind)),
                shown(ours),
                rival.map_or_else(|| "-".to_owned(), shown),
                panel.distance,
            );
        }
    }
    page.push_str("</table></div>");
}

fn figures(page: &mut String, workload: Workload, rows: &[Row]) {
    let _ = write!(
        page,
        "<details><summary>All figures, at every distance</summary><div class=\"wide\"><table><tr>\
         <th>workload</th><th>contestant</th><th>cores</th><th>distance</th><th>hop ns</th>\
         <th>samples</th><th>left out</th><th>{}</th><th>least</th><th>most</th><th>{}</th>\
         <th>of floor</th><th>of best rival</th><th>lost</th><th>reported lost</th><th>late</th>\
         <th>bad</th></tr>",
        workload.unit(),
        match workload {
            Workload::Latency | Workload::Wakeup => "p90 / p99 / p99.9 / max ns",
            Workload::Memory => "processes + kernel KiB",
            _ => "",
        }
    );
    let role = |name: &str| contestants(rows).find(|c| c.name == name).map(|c| class(c.role));
    for median in medians(rows).filter(|median| median.figures.kind.workload == workload) {
        let (f, scale) = (&median.figures, workload.scale());
        let dash = || "-".to_owned();
        let ratio = |ratio: Option<f64>| ratio.map_or_else(dash, |ratio| format!("{ratio:.2}"));
        let tail = match f.latency {
            Some(l) => [l.p90_ns, l.p99_ns, l.p999_ns, l.max_ns].map(number).join(" / "),
            None if workload == Workload::Memory => f.weighed(),
            None => String::new(),
        };
        let _ = write!(
            page,
            "<tr class=\"{}\"><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td>\
             <td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{tail}</td><td>{}</td><td>{}</td>\
             <td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
            role(&f.contestant).unwrap_or_default(),
            escape(&describe(&f.kind)),
            escape(&f.contestant),
            f.cores.words(),
            f.distance,
            f.hop_before_ns.map_or_else(dash, |ns| format!("{ns:.0}")),
            median.samples,
            median.left_out,
            f.figure().map_or_else(dash, |figure| number(figure / scale)),
            number(median.min / scale),
            number(median.max / scale),
            ratio(median.of_floor),
            ratio(median.of_best),
            f.lost,
            f.reported_lost.map_or_else(dash, |reported| reported.to_string()),
            f.late.map_or_else(dash, |late| late.to_string()),
            f.bad,
        );
    }
    page.push_str("</table></div></details>");
}

/// Writes the remarks on a workload's figures.
fn beside(page: &mut String, workload: Workload, rows: &[Row]) {
    for remark in notes::remarks(rows, workload) {
        let _ = write!(page, "<p class=\"dim\">{}</p>", escape(&remark));
    }
    if workload == Workload::Producers {
        page.push_str("<h3 id=\"scaling\">Scaling of rings of their own</h3><ul>");
        for line in notes::scaling(rows) {
            let _ = write!(page, "<li>{}</li>", escape(&line));
        }
        page.push_str("</ul>");
    }
}

fn settings(page: &mut String, workload: Workload, rows: &[Row]) {
    page.push_str(
        "<details><summary>Settings, and how each reader waits here</summary><div class=\"wide\">\
         <table class=\"text\"><tr><th>contestant</th><th>for</th><th>its reader</th>\
         <th>settings</th></tr>",
    );
    let role = |name: &str| contestants(rows).find(|c| c.name == name).map(|c| class(c.role));
    for setting in notes::settings(rows, workload) {
        let _ = write!(
            page,
            "<tr class=\"{}\"><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
            role(setting.contestant).unwrap_or_default(),
            escape(setting.contestant),
            escape(&setting.kinds.join("; ")),
            escape(setting.waits),
            escape(setting.settings),
        );
    }
    page.push_str("</table></div></details>");
}

fn taking_part(page: &mut String, rows: &[Row]) {
    page.push_str(
        "<h2>Who takes part</h2><div class=\"wide\"><table class=\"text\"><tr><th>contestant</th>\
         <th>version</th><th>between</th></tr>",
    );
    for contestant in contestants(rows) {
        let _ = write!(
            page,
            "<tr class=\"{}\"><td>{}</td><td>{}</td><td>{}</td></tr>",
            class(contestant.role),
            escape(&contestant.name),
            escape(&contestant.version),
            contestant.location.words(),
        );
    }
    page.push_str("</table></div>");
}

fn absences(page: &mut String, rows: &[Row]) {
    let absent: Vec<&Absent> = rows
        .iter()
        .filter_map(|row| match row {
            Row::Absent(absent) => Some(absent),
            _ => None,
        })
        .collect();
    if absent.is_empty() {
        return;
    }
    page.push_str("<h2>Who is absent, and why</h2><div class=\"wide\"><table class=\"text\">");
    for (names, place, reason) in grouped(&absent) {
        let _ = write!(
            page,
            "<tr><td>{}</td><td>{}</td><td>{}</td></tr>",
            escape(&names),
            escape(&place),
            escape(&reason)
        );
    }
    page.push_str("</table></div>");
}
