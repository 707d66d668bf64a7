//! Notes beside the figures of a workload, on the terminal and on the page: the settings of each
//! contestant, remarks on them, and how separate rings scale.

use crate::rows::{Kind, Machine, Row, Use, number};
use crate::scaling::{Scaling, Step, scalings};
use crate::workload::{SMALL, Workload};

/// Returns what distinguishes kinds of one workload.
pub fn which(kind: &Kind) -> String {
    match kind.workload {
        Workload::Throughput => kind.payload.to_string(),
        Workload::Producers if kind.lossy => format!("{}, no reader", kind.senders),
        Workload::Producers => kind.senders.to_string(),
        Workload::Overwrite => kind.audience.name().to_owned(),
        Workload::Fanout if kind.lossy => format!("{} lossy", kind.receivers),
        Workload::Fanout => format!("{} lossless", kind.receivers),
        _ => String::new(),
    }
}

/// The settings of a contestant for some kinds of a workload.
pub struct Setting<'a> {
    /// The contestant.
    pub contestant: &'a str,
    /// The kinds; empty if the settings are the same for all present.
    pub kinds: Vec<String>,
    /// How its reader waits.
    pub waits: &'a str,
    /// Its settings.
    pub settings: &'a str,
}

fn uses(rows: &[Row], workload: Workload) -> impl Iterator<Item = &Use> {
    rows.iter().filter_map(move |row| match row {
        Row::Use(one) if one.kind.workload == workload => Some(one),
        _ => None,
    })
}

/// Returns all settings of a workload, identical ones of a contestant together, by contestant.
pub fn settings(rows: &[Row], workload: Workload) -> Vec<Setting<'_>> {
    let mut all: Vec<Setting<'_>> = Vec::new();
    for one in uses(rows, workload) {
        let same = |setting: &&mut Setting<'_>| {
            setting.contestant == one.contestant
                && setting.settings == one.settings
                && setting.waits == one.waits
        };
        match all.iter_mut().find(same) {
            Some(setting) => setting.kinds.push(which(&one.kind)),
            None => all.push(Setting {
                contestant: &one.contestant,
                kinds: vec![which(&one.kind)],
                waits: &one.waits,
                settings: &one.settings,
            }),
        }
    }
    // In the order of first appearance.
    let mut names: Vec<&str> = Vec::new();
    for setting in &all {
        if !names.contains(&setting.contestant) {
            names.push(setting.contestant);
        }
    }
    all.sort_by_key(|setting| names.iter().position(|name| *name == setting.contestant));
    let alone: Vec<&str> = names
        .into_iter()
        .filter(|name| all.iter().filter(|s| s.contestant == *name).count() == 1)
        .collect();
    for setting in &mut all {
        if alone.contains(&setting.contestant) {
            setting.kinds.clear();
        }
    }
    all
}

/// Like [`settings`], but for streams only those of 64 bytes, if present: those of other lengths
/// differ only in numbers.
pub fn few_settings(rows: &[Row], workload: Workload) -> Vec<Setting<'_>> {
    let mut all = settings(rows, workload);
    let small = SMALL.to_string();
    if workload == Workload::Throughput && uses(rows, workload).any(|u| u.kind.payload == SMALL) {
        all.retain(|setting| setting.kinds.is_empty() || setting.kinds.contains(&small));
    }
    all
}

/// Returns remarks on the figures of a workload: sentences.
pub fn remarks(rows: &[Row], workload: Workload) -> Vec<String> {
    let mut all = Vec::new();
    let machine = rows.iter().find_map(|row| match row {
        Row::Machine(machine) => Some(machine),
        _ => None,
    });
    all.extend(machine.and_then(|machine| of_all(machine, workload)));
    let mut reported: Vec<(&str, Vec<&str>)> = Vec::new();
    for one in uses(rows, workload) {
        let Some(remark) = one.remark.as_deref() else { continue };
        match reported.iter_mut().find(|(of, _)| *of == remark) {
            Some((_, names)) if names.contains(&one.contestant.as_str()) => {}
            Some((_, names)) => names.push(&one.contestant),
            None => reported.push((remark, vec![&one.contestant])),
        }
    }
    all.extend(
        reported.into_iter().map(|(remark, names)| format!("{}: {remark}", names.join(", "))),
    );
    all
}

fn of_all(machine: &Machine, workload: Workload) -> Option<String> {
    match workload {
        Workload::Latency | Workload::Wakeup if machine.clock_step_ns > 0.0 => Some(format!(
            "The clock goes in steps of {} ns one way: differences of one step mean nothing.",
            number(machine.clock_step_ns)
        )),
        Workload::Overwrite => Some(
            "A keen reader that found nothing waits by --pace, the same rule for all of them; \
             by the adaptive one each reader keeps the distance that its own sender's rate gives. A \
             slow one polls once a millisecond, whatever the rate; with none, the reader attaches \
             and polls when the sender has ended."
                .to_owned(),
        ),
        Workload::Memory => Some(
            "The kernel's part is its maximum, when the channel is full: by the size \
             of the pipe, the socket's room, the maps of the kernel's own rings. Not all \
             channels are as large as requested: the settings show what the system granted."
                .to_owned(),
        ),
        Workload::Producers => Some(
            "Cores are the receiver's | the senders'. Without a reader, all overwrite, and \
             what is left is verified at the end."
                .to_owned(),
        ),
        _ => None,
    }
}

/// Returns a line for each contestant with separate rings whose scaling is shown, and the reasons
/// for those whose scaling is not.
pub fn scaling(rows: &[Row]) -> Vec<String> {
    let mut lines = Vec::new();
    let mut why: Vec<(String, Vec<String>)> = Vec::new();
    for one in scalings(rows) {
        let name = named(&one);
        let steps: Vec<String> = one
            .steps
            .iter()
            .filter(|step| step.apart && step.senders > 1)
            .filter_map(words)
            .collect();
        if !steps.is_empty() {
            lines.push(format!("{name}: {}", steps.join("; ")));
        }
        if let Some(reason) = one.why_not() {
            match why.iter_mut().find(|(other, _)| *other == reason) {
                Some((_, names)) => names.push(name),
                None => why.push((reason, vec![name])),
            }
        }
    }
    lines.extend(why.into_iter().map(|(reason, names)| format!("{}: {reason}", names.join(", "))));
    lines
}

fn named(scaling: &Scaling) -> String {
    let reader = if scaling.unread { "no reader" } else { "one reader" };
    format!("{} ({reader})", scaling.contestant)
}

fn words(step: &Step) -> Option<String> {
    let (of_one, of_linear) = (step.of_one?, step.of_linear?);
    Some(format!(
        "{} senders {} M/s, {of_one:.2} times one, {of_linear:.2} of linear ({} cores)",
        step.senders,
        number(step.records_per_s / 1e6),
        step.distance
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::part::Audience;

    fn used(contestant: &str, payload: usize, settings: &str, remark: Option<&str>) -> Row {
        let kind = Kind {
            workload: Workload::Throughput,
            payload,
            senders: 1,
            receivers: 1,
            audience: Audience::Keen,
            lossy: false,
        };
        Row::Use(Use {
            contestant: contestant.to_owned(),
            kind,
            settings: settings.to_owned(),
            waits: "w".to_owned(),
            remark: remark.map(str::to_owned),
        })
    }

    #[test]
    fn settings_are_those_of_each_kind() {
        let rows = [
            used("a", 8, "x", None),
            used("b", 8, "8 slots", Some("r")),
            used("a", 64, "x", None),
            used("b", 64, "1 slot", Some("r")),
        ];
        let text = |setting: &Setting<'_>| {
            format!("{} {:?} {}", setting.contestant, setting.kinds, setting.settings)
        };
        let all: Vec<String> = settings(&rows, Workload::Throughput).iter().map(text).collect();
        assert_eq!(all, ["a [] x", "b [\"8\"] 8 slots", "b [\"64\"] 1 slot"]);
        let few: Vec<String> = few_settings(&rows, Workload::Throughput).iter().map(text).collect();
        assert_eq!(few, ["a [] x", "b [\"64\"] 1 slot"]);
        assert_eq!(remarks(&rows, Workload::Throughput), ["b: r"]);
        assert!(settings(&rows, Workload::Fanout).is_empty());
    }
}
