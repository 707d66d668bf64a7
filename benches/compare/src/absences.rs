//! Absent contestants: from which workloads, and why.

use crate::rows::Absent;
use crate::workload::Workload;

/// Groups absences with a common reason: names, from what, and the reason.
pub fn grouped(absent: &[&Absent]) -> Vec<(String, String, String)> {
    // The workloads of each name first: contestants may be absent from different ones.
    let mut each: Vec<(&Absent, Vec<Place<'_>>)> = Vec::new();
    for one in absent {
        let place = (one.workload.map_or("everything", Workload::name), one.part.as_deref());
        let same = |(other, _): &&mut (&Absent, Vec<Place<'_>>)| {
            (&other.name, &other.reason, other.failed) == (&one.name, &one.reason, one.failed)
        };
        match each.iter_mut().find(same) {
            Some((_, places)) => places.push(place),
            None => each.push((one, vec![place])),
        }
    }
    let mut groups: Vec<(Vec<&str>, &Absent, String)> = Vec::new();
    for (one, places) in each {
        let places = words(&places);
        let same = |(_, other, of): &&mut (Vec<&str>, &Absent, String)| {
            other.reason == one.reason && other.failed == one.failed && *of == places
        };
        match groups.iter_mut().find(same) {
            Some((names, ..)) => names.push(&one.name),
            None => groups.push((vec![&one.name], one, places)),
        }
    }
    let group = |(names, one, places): (Vec<&str>, &Absent, String)| {
        let what = if one.failed { "failed at" } else { "absent from" };
        (names.join(", "), format!("{what} {places}"), one.reason.clone())
    };
    groups.into_iter().map(group).collect()
}

/// A workload, and a part of it.
type Place<'a> = (&'a str, Option<&'a str>);

/// Each workload once, with its parts behind it, except those of which all parts are present.
fn words(places: &[Place<'_>]) -> String {
    let mut words: Vec<String> = Vec::new();
    for &(workload, _) in places {
        let parts: Vec<&str> =
            places.iter().filter(|(of, _)| *of == workload).filter_map(|(_, part)| *part).collect();
        // All workloads that have parts have two.
        let word = match parts.as_slice() {
            [part] => format!("{workload} ({part})"),
            _ => workload.to_owned(),
        };
        if !words.contains(&word) {
            words.push(word);
        }
    }
    words.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_absent_from_more_than_was_said() {
        let partly = |name: &str, workload, part: Option<&str>, reason: &str| Absent {
            name: name.to_owned(),
            workload,
            part: part.map(str::to_owned),
            reason: reason.to_owned(),
            failed: false,
        };
        let absent = |name, workload, reason| partly(name, workload, None, reason);
        let all = [
            absent("a", Some(Workload::Full), "r"),
            absent("b", Some(Workload::Full), "r"),
            absent("a", Some(Workload::Cold), "r"),
            absent("b", Some(Workload::Cold), "r"),
            absent("c", Some(Workload::Full), "r"),
            absent("d", None, "s"),
            partly("e", Some(Workload::Fanout), Some("lossy"), "t"),
            partly("f", Some(Workload::Fanout), Some("lossy"), "u"),
            partly("f", Some(Workload::Fanout), Some("lossless"), "u"),
        ];
        let all: Vec<&Absent> = all.iter().collect();
        let text = |(names, place, reason)| format!("{place}: {names}: {reason}");
        let lines: Vec<String> = grouped(&all).into_iter().map(text).collect();
        let want = [
            "absent from full, cold: a, b: r",
            "absent from full: c: r",
            "absent from everything: d: s",
            "absent from fanout (lossy): e: t",
            "absent from fanout: f: u",
        ];
        assert_eq!(lines, want);
    }
}
