//! The flight recorder: keeps what overwrite rings hold at one moment in files.

use super::causes::Causes;
use super::explainer;
use crate::config::snapshot_rule::SnapshotRule;
use crate::engine::Engine;
use crate::log::Say;
use perfring_consumer::{Location, Policy, advanced::SnapshotReader};
use perfring_export::recording;
use perfring_export::{FileMode, Origin, Shapes};
use perfring_witness::FrozenRing;
use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// The extension of files that `perfring export` reads.
const ENDING: &str = "perfrec";

/// Writes snapshots by rules.
#[derive(Debug)]
pub(crate) struct Recorder {
    /// The mode of files.
    mode: FileMode,
    /// When each rule was last applied.
    last: HashMap<usize, Instant>,
    /// The evidence of causes, if a rule wants it; or why there is none.
    causes: Option<Result<Causes, String>>,
}

impl Recorder {
    /// Creates one whose files have this mode.
    pub(crate) fn new(mode: FileMode) -> Self {
        Recorder { mode, last: HashMap::new(), causes: None }
    }

    /// Takes a new mode; a witness that could not begin is tried again.
    pub(super) fn renew(&mut self, mode: FileMode) {
        self.mode = mode;
        self.last.clear();
        self.causes.take_if(|causes| causes.is_err());
    }

    /// To be called at intervals: has a witness for the rings while one of the rules wants its evidence.
    pub(super) fn watch(
        &mut self,
        rules: &[SnapshotRule],
        engine: &Engine,
        now: Instant,
        say: &mut Say<'_>,
    ) {
        if !rules.iter().any(|rule| rule.why) {
            self.causes = None;
        } else if self.causes.is_none() {
            self.causes = Some(Causes::begin());
            if let Some(trouble) = self.trouble() {
                say.warn(&trouble);
            }
        }
        if let Some(Ok(causes)) = &mut self.causes {
            causes.poll(engine, now, say);
        }
    }

    /// Returns what is missing for causes, if a rule wants them.
    pub(super) fn trouble(&self) -> Option<String> {
        match self.causes.as_ref()? {
            Ok(causes) => causes.missing().map(|missing| format!("[[snapshot]] why: {missing}")),
            Err(error) => Some(format!("[[snapshot]] why: no evidence of causes: {error}")),
        }
    }

    /// Waits for explanations until then, and ends the witness.
    pub(super) fn end(&mut self, deadline: Instant, say: &mut Say<'_>) {
        if let Some(Ok(causes)) = self.causes.take() {
            causes.end(deadline, say);
        }
    }

    /// Keeps what overwrite rings hold, unless this rule was applied a short time ago: then only if
    /// it was explicitly requested. Returns the file and its number of records, or what was said
    /// instead; `None` without a file, and nothing wrong.
    pub(crate) fn snapshot(
        &mut self,
        at: usize,
        rule: &SnapshotRule,
        reason: &str,
        asked: bool,
        engine: &Engine,
        say: &mut Say<'_>,
    ) -> Option<Result<(PathBuf, u64), String>> {
        let now = Instant::now();
        let interval = rule.min_interval;
        let soon = self.last.get(&at).is_some_and(|last| now.duration_since(*last) < interval);
        if soon && !asked {
            return None;
        }
        self.last.insert(at, now);
        match self.keep(rule, reason, engine, say) {
            Ok(Some((path, records))) => {
                say.info(&format!("snapshot ({reason}): {records} records in {}", path.display()));
                Some(Ok((path, records)))
            }
            Ok(None) => {
                say.info(&format!("snapshot ({reason}): there is no overwrite ring"));
                None
            }
            Err(why) => {
                let dir = rule.dir.display();
                let sentence = format!("no snapshot ({reason}) in {dir}: {why}");
                say.warn(&sentence);
                Some(Err(sentence))
            }
        }
    }

    fn keep(
        &self,
        rule: &SnapshotRule,
        reason: &str,
        engine: &Engine,
        say: &mut Say<'_>,
    ) -> Result<Option<(PathBuf, u64)>, String> {
        let causes =
            self.causes.as_ref().filter(|_| rule.why).and_then(|causes| causes.as_ref().ok());
        // Before the copies: a record that comes later is in no copy, and its thread did not write nothing.
        let until = causes.map(|causes| causes.look_last(engine));
        let mut rings = copies(engine, say);
        if rings.is_empty() {
            return Ok(None);
        }
        let own = rings.len();
        if let Some((causes, until)) = causes.zip(until) {
            match causes.freeze(until, own as u32) {
                Ok(evidence) => rings.extend(evidence),
                Err(error) => say.warn(&format!("the snapshot has no evidence of causes: {error}")),
            }
        }
        fs::create_dir_all(&rule.dir).map_err(|error| error.to_string())?;
        let path = rule.dir.join(name(&rule.reason(), reason));
        // The file gets its name only when it is complete.
        let draft = path.with_extension("new");
        let records = recording::write_snapshots(&draft, self.mode, rings);
        let named = records.map_err(|error| error.to_string()).and_then(|records| {
            perfring_export::rename(&draft, &path).map_err(|error| error.to_string())?;
            Ok(records.iter().take(own).sum())
        });
        if named.is_err() {
            let _ = fs::remove_file(&draft);
        }
        let records = named?;
        tidy(rule).map_err(|error| error.to_string())?;
        if let Some(causes) = causes {
            causes.explain(path.clone(), self.mode);
        }
        Ok(Some((path, records)))
    }
}

/// Copies what overwrite rings hold: all copies precede the files, so all rings are copied as close to one moment as possible.
fn copies(engine: &Engine, say: &mut Say<'_>) -> Vec<FrozenRing> {
    let mut rings: Vec<FrozenRing> = Vec::new();
    let recorders = engine.shapes().filter(|of| of.origin().policy == Some(Policy::Overwrite));
    for shapes in recorders {
        match shapes.snapshot() {
            Ok(Some(snapshot)) => {
                let location = Location::from(&*shapes.origin().location);
                let copy = Shapes::of_snapshot(&snapshot, &location, rings.len() as u32);
                let live = shapes.origin();
                let origin = Origin {
                    name: live.name.clone(),
                    epoch: live.epoch,
                    producer: live.producer.clone(),
                    birth: live.birth,
                    ..copy.origin().clone()
                };
                rings.push((origin, Box::new(SnapshotReader::new(snapshot))));
            }
            Ok(None) => {}
            Err(error) => {
                say.warn(&format!("{}: not in the snapshot: {error}", shapes.origin().name))
            }
        }
    }
    rings
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

/// Removes the oldest snapshots, if there are more than the rule keeps.
fn tidy(rule: &SnapshotRule) -> io::Result<()> {
    let reason = rule.reason();
    let is_own = |path: &PathBuf| {
        path.file_name().and_then(|name| name.to_str()).is_some_and(|name| is_own(name, &reason))
    };
    let mut all: Vec<PathBuf> = fs::read_dir(&rule.dir)?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(is_own)
        .collect();
    all.sort();
    let old = all.len().saturating_sub(rule.keep.max(1));
    all.iter().take(old).try_for_each(|snapshot| {
        fs::remove_file(snapshot)?;
        match fs::remove_file(snapshot.with_extension(explainer::ENDING)) {
            // It has none, or none yet.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    })
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
        tidy(&rule).unwrap();
        assert_eq!(own.iter().filter(|name| text(name).exists()).collect::<Vec<_>>(), [&own[2]]);
        let is_there = |name: &&String| dir.path().join(name).exists();
        assert_eq!(own.iter().filter(is_there).collect::<Vec<_>>(), [&own[2], &own[3]]);
        assert!(others.iter().all(|name| dir.path().join(name).exists()));
        assert!(is_own(&name("severity 17", "signal"), "severity 17"));
        assert!(is_own(&name("type a.b", "type a.b"), "type a.b"));
    }
}
