//! The files of snapshots, which are written beside everything else.

use super::causes::Evidence;
use super::explainer::ENDING as WHY;
use crate::config::snapshot_rule::SnapshotRule;
use perfring_export::{FileMode, WriteError, recording, rename};
use perfring_witness::FrozenRing;
use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// The extension of files that `perfring export` reads.
const ENDING: &str = "perfrec";

/// A snapshot that was taken, and has no file yet.
pub(super) struct Taken {
    /// The number of its rule.
    pub(super) at: usize,
    pub(super) rule: SnapshotRule,
    pub(super) reason: String,
    /// The copies of rings.
    pub(super) rings: Vec<FrozenRing>,
    /// What the witness has to add.
    pub(super) evidence: Option<Evidence>,
    pub(super) mode: FileMode,
}

/// A snapshot's file.
#[derive(Debug)]
pub(super) struct Written {
    pub(super) path: PathBuf,
    /// How many records of the rings it has.
    pub(super) records: u64,
    /// Whether an explanation is wanted.
    pub(super) why: bool,
    /// What went wrong beside the file.
    pub(super) troubles: Vec<String>,
}

/// The end of a snapshot: its file, or why there is none.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) number: u64,
    pub(super) at: usize,
    pub(super) rule: SnapshotRule,
    pub(super) reason: String,
    pub(super) file: Result<Written, String>,
}

/// Writes snapshots. Each has its own thread, because the kernel overwrites the evidence of a snapshot that waits.
#[derive(Debug)]
pub(super) struct Writer {
    done: Sender<Outcome>,
    outcomes: Receiver<Outcome>,
    /// The thread that holds this lock writes.
    turn: Arc<Mutex<()>>,
    /// The number of the next snapshot.
    next: u64,
    /// Snapshots without a file: the reason and the directory of each.
    pending: HashMap<u64, (String, PathBuf)>,
}

impl Writer {
    pub(super) fn new() -> Self {
        let (done, outcomes) = channel();
        Writer { done, outcomes, turn: Arc::default(), next: 0, pending: HashMap::new() }
    }

    /// Begins to write a snapshot. Returns its number.
    pub(super) fn begin(&mut self, taken: Taken) -> u64 {
        let number = self.next;
        self.next += 1;
        let (at, rule, reason) = (taken.at, taken.rule.clone(), taken.reason.clone());
        self.pending.insert(number, (reason.clone(), rule.dir.clone()));
        let outcome = move |file| Outcome { number, at, rule, reason, file };
        let (done, turn) = (self.done.clone(), Arc::clone(&self.turn));
        let its = outcome.clone();
        let write = move || {
            let file = write(taken, &turn);
            let _ = done.send(its(file));
        };
        if let Err(error) = thread::Builder::new().name("snapshot".into()).spawn(write) {
            let why = format!("no thread can be started for it: {error}");
            let _ = self.done.send(outcome(Err(why)));
        }
        number
    }

    /// Returns the next outcome. Waits for an outcome until this time, while a snapshot has no file.
    pub(super) fn outcome(&mut self, until: Option<Instant>) -> Option<Outcome> {
        let outcome = match until.filter(|_| !self.pending.is_empty()) {
            None => self.outcomes.try_recv().ok()?,
            Some(until) => {
                let rest = until.saturating_duration_since(Instant::now());
                self.outcomes.recv_timeout(rest).ok()?
            }
        };
        self.pending.remove(&outcome.number);
        Some(outcome)
    }

    /// Returns the reasons and the directories of snapshots without a file.
    pub(super) fn pending(&self) -> impl Iterator<Item = &(String, PathBuf)> {
        self.pending.values()
    }
}

fn write(taken: Taken, turn: &Mutex<()>) -> Result<Written, String> {
    let Taken { rule, reason, mut rings, evidence, mode, .. } = taken;
    let (own, why, mut troubles) = (rings.len(), evidence.is_some(), Vec::new());
    let path = rule.dir.join(name(&rule.reason(), &reason));
    match evidence.map(|evidence| evidence.freeze(own as u32)) {
        Some(Ok(evidence)) => rings.extend(evidence),
        Some(Err(error)) => {
            troubles.push(format!("{} has no evidence of causes: {error}", path.display()));
        }
        None => {}
    }
    let _turn = turn.lock().unwrap_or_else(PoisonError::into_inner);
    fs::create_dir_all(&rule.dir).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory => {
            "it is no directory: name another one, or move the file away".to_owned()
        }
        _ => format!("the directory cannot be made: {}", WriteError(&error)),
    })?;
    // The file gets its name only when it is complete.
    let draft = path.with_extension("new");
    let records = recording::write_snapshots(&draft, mode, rings);
    let named = records.map_err(|error| error.to_string()).and_then(|records| {
        let named = rename(&draft, &path);
        named.map_err(|error| format!("the file cannot be named: {}", WriteError(&error)))?;
        Ok(records.iter().take(own).sum())
    });
    if named.is_err() {
        let _ = fs::remove_file(&draft);
    }
    let records = named?;
    if let Err(error) = tidy(&rule) {
        let dir = rule.dir.display();
        troubles.push(format!("old snapshots in {dir} cannot be removed: {error}"));
    }
    Ok(Written { path, records, why, troubles })
}

/// Returns a name like `20260701T120000.123456789Z-severity-17.perfrec`: names sort by time. The
/// reason follows the rule, if it is another one.
fn name(rule: &str, reason: &str) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let time = perfring_export::utc(u64::try_from(now.as_nanos()).unwrap_or(u64::MAX));
    let time: String = time.to_string().chars().filter(|c| !matches!(c, '-' | ':')).collect();
    let asked = if rule == reason { String::new() } else { format!("-by-{}", plain(reason)) };
    format!("{time}-{}{asked}.{ENDING}", plain(rule))
}

fn plain(reason: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    reason.chars().map(plain).take(100).collect()
}

/// Returns whether [`name`] creates such a name for this rule. Other files in the directory are not
/// its own.
fn is_own(name: &str, rule: &str) -> bool {
    let Some((time, rest)) = name.split_once('-') else { return false };
    let time_is_own = time.strip_suffix('Z').is_some_and(|time| {
        let (date, time) = time.split_once('T').unwrap_or_default();
        let digits = |text: &str| text.bytes().all(|c| c.is_ascii_digit());
        let (seconds, part) = time.split_once('.').unwrap_or((time, ""));
        date.len() == 8 && seconds.len() == 6 && digits(date) && digits(seconds) && digits(part)
    });
    let own = plain(rule);
    let rule = rest.strip_suffix(ENDING).and_then(|rest| rest.strip_suffix('.'));
    let rule = rule.map(|rule| rule.strip_suffix("-by-signal").unwrap_or(rule));
    time_is_own && rule == Some(&own)
}

/// Removes the oldest snapshots, if there are more than the rule keeps, and the explanations of those that are not there.
fn tidy(rule: &SnapshotRule) -> io::Result<()> {
    let reason = rule.reason();
    let is_own = |path: &PathBuf| {
        path.file_name().and_then(|name| name.to_str()).is_some_and(|name| is_own(name, &reason))
    };
    let mut all: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(&rule.dir)? {
        let path = entry?.path();
        let text = path.to_str().and_then(|path| path.strip_suffix(WHY));
        let explained = text.map(|text| PathBuf::from(format!("{text}{ENDING}")));
        match explained.filter(is_own) {
            // A process that ended between the two removals left the text.
            Some(snapshot) if !snapshot.exists() => remove(&path)?,
            _ => all.extend(Some(path).filter(is_own)),
        }
    }
    all.sort();
    let old = all.len().saturating_sub(rule.keep.max(1));
    all.iter().take(old).try_for_each(|snapshot| {
        remove(snapshot)?;
        remove(&snapshot.with_extension(WHY))
    })
}

/// Removes a file, if it is there.
fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot continue has failed")]
    use super::*;

    #[test]
    fn a_rule_removes_the_oldest_of_its_own_snapshots_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let rule = SnapshotRule { keep: 2, ..SnapshotRule::on_signal(dir.path().to_owned()) };
        let others = [
            "20260701T120000.123456789Z-severity-17.perfrec",
            "20260701T120000.123456789Z-signal.txt",
            "0-signal.perfrec",
            "incident.perfrec",
            "20260701T120000.123456789Z-severity-17-by-signal.perfrec",
        ];
        others.iter().for_each(|name| fs::write(dir.path().join(name), "").unwrap());
        let own: Vec<String> = (0..4).map(|_| name(&rule.reason(), "signal")).collect();
        own.iter().for_each(|name| fs::write(dir.path().join(name), "").unwrap());
        let text = |name: &String| dir.path().join(name).with_extension("why.txt");
        [1, 2].iter().for_each(|at| fs::write(text(&own[*at]), "").unwrap());
        let orphan = dir.path().join(name(&rule.reason(), "signal")).with_extension("why.txt");
        fs::write(&orphan, "").unwrap();
        let other = dir.path().join("20260701T120000.123456789Z-severity-17.why.txt");
        fs::write(&other, "").unwrap();
        tidy(&rule).unwrap();
        assert!(!orphan.exists() && other.exists());
        assert_eq!(own.iter().filter(|name| text(name).exists()).collect::<Vec<_>>(), [&own[2]]);
        let is_there = |name: &&String| dir.path().join(name).exists();
        assert_eq!(own.iter().filter(is_there).collect::<Vec<_>>(), [&own[2], &own[3]]);
        assert!(others.iter().all(|name| dir.path().join(name).exists()));
        assert!(is_own(&name("severity 17", "signal"), "severity 17"));
        assert!(is_own(&name("type a.b", "type a.b"), "type a.b"));
    }
}
