//! Writes beside a snapshot what `perfring why` says of it.

use crate::log::Say;
use perfring_export::recording::Reader;
use perfring_export::{FileMode, WriteError, replace};
use perfring_why::{Analysis, Facts, Finding, Options, TOP, UNKNOWN};
use std::collections::VecDeque;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

/// The extension of explanations.
pub(super) const ENDING: &str = "why.txt";
/// The last moments of a snapshot, ns: its trigger is at the end.
const LAST: u64 = 1_000_000_000;

/// Explains snapshots, one after the other, in a thread that ends when none is left.
#[derive(Debug, Default)]
pub(super) struct Explainer {
    thread: Option<Explaining>,
}

/// A snapshot, the mode of its text, and from which length on a gap counts.
type Wanted = (PathBuf, FileMode, Duration);

#[derive(Debug)]
struct Explaining {
    snapshots: Sender<Wanted>,
    explained: Receiver<(PathBuf, Result<String, String>)>,
    /// Snapshots without an explanation, in the order of the explanations.
    pending: VecDeque<PathBuf>,
}

impl Explaining {
    fn start() -> io::Result<Self> {
        let (snapshots, wanted) = channel::<Wanted>();
        let (done, explained) = channel();
        thread::Builder::new().name("explainer".into()).spawn(move || {
            for (snapshot, mode, slower_than) in wanted {
                let explanation = explain(&snapshot, mode, slower_than);
                if done.send((snapshot, explanation)).is_err() {
                    return;
                }
            }
        })?;
        Ok(Explaining { snapshots, explained, pending: VecDeque::new() })
    }
}

impl Explainer {
    /// Explains a snapshot, beside everything else.
    pub(super) fn explain(
        &mut self,
        snapshot: PathBuf,
        mode: FileMode,
        slower_than: Duration,
        say: &mut Say<'_>,
    ) {
        if self.thread.is_none() {
            match Explaining::start() {
                Ok(thread) => self.thread = Some(thread),
                Err(error) => {
                    let why = format!("no thread can be started for it: {error}");
                    return report(&snapshot, &Err(why), say);
                }
            }
        }
        if let Some(thread) = &mut self.thread {
            thread.pending.push_back(snapshot.clone());
            let _ = thread.snapshots.send((snapshot, mode, slower_than));
        }
    }

    /// Says what was found since the last call.
    pub(super) fn report(&mut self, say: &mut Say<'_>) {
        self.wait(Instant::now(), say);
    }

    /// Waits for all explanations until then, and says what was found, and what is not explained.
    pub(super) fn end(&mut self, deadline: Instant, say: &mut Say<'_>) {
        self.wait(deadline, say);
        let pending = self.thread.take().into_iter().flat_map(|thread| thread.pending);
        pending.for_each(|snapshot| report(&snapshot, &Err("the sidecar ended".to_owned()), say));
    }

    fn wait(&mut self, until: Instant, say: &mut Say<'_>) {
        let Some(thread) = &mut self.thread else { return };
        while !thread.pending.is_empty() {
            let rest = until.saturating_duration_since(Instant::now());
            let Ok((snapshot, explanation)) = thread.explained.recv_timeout(rest) else { return };
            thread.pending.pop_front();
            report(&snapshot, &explanation, say);
        }
        self.thread = None;
    }
}

fn report(snapshot: &Path, explanation: &Result<String, String>, say: &mut Say<'_>) {
    let (path, text) = (snapshot.display(), snapshot.with_extension(ENDING));
    match explanation {
        Ok(first) => say.info(&format!("why {path}: {first} (all of it: {})", text.display())),
        Err(why) => {
            say.warn(&format!("{path} is not explained: {why}; `perfring why {path}` explains it"))
        }
    }
}

/// Explains a snapshot in a file beside it. Returns the first sentence about its last moments, else the first of all.
fn explain(snapshot: &Path, mode: FileMode, slower_than: Duration) -> Result<String, String> {
    let mut reader = Reader::open(snapshot).map_err(|error| error.to_string())?;
    let slower_than = u64::try_from(slower_than.as_nanos()).unwrap_or(u64::MAX);
    let mut analysis = Analysis::new(Options { slower_than, ..Options::default() });
    let (mut facts, mut newest) = (Facts::default(), 0);
    while let Some(event) = reader.next().map_err(|error| error.to_string())? {
        for evidence in facts.read(&event) {
            newest = evidence.time.max(newest);
            analysis.add(evidence);
        }
    }
    facts.end().for_each(|evidence| analysis.add(evidence));
    let report = analysis.finish();
    let lines: Vec<_> = report.lines(&facts, TOP).collect();
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let path = snapshot.with_extension(ENDING);
    let written = replace(&path, text.as_bytes(), mode);
    written.map_err(|error| format!("the text cannot be written: {}", WriteError(&error)))?;
    // Its rule may have removed it meanwhile.
    if !snapshot.exists() {
        let _ = fs::remove_file(&path);
    }
    let first = || lines.into_iter().next().map(|line| line.sentence).unwrap_or_default();
    Ok(headline(&report.findings, newest).map_or_else(first, str::to_owned))
}

/// Returns the sentence of the worst finding with a cause that lasted into the last moments before a time.
fn headline(findings: &[Finding], newest: u64) -> Option<&str> {
    let since = newest.saturating_sub(LAST);
    let is_late = |finding: &&Finding| {
        finding.cause != UNKNOWN && finding.time.saturating_add(finding.length) >= since
    };
    findings.iter().find(is_late).map(|finding| &*finding.sentence)
}

#[cfg(test)]
mod tests {
    use super::*;
    use perfring_why::{Certainty, Kind};

    #[test]
    fn the_headline_is_of_the_last_moments_before_the_trigger() {
        let finding = |cause: &'static str, time, length| Finding {
            kind: Kind::Gap,
            time,
            length,
            ring: String::new(),
            thread: None,
            name: None,
            records: 0,
            cause,
            certainty: Certainty::Certain,
            call: None,
            by: None,
            sentence: format!("{cause} at {time}"),
            parts: None,
            preempted_by: Vec::new(),
            stopped: 0,
            throttled: 0,
        };
        let now = 60_000_000_000;
        let (old, long) = (finding("stopped", 10_000_000_000, 9), finding("blocked", 9, now - 10));
        let (vague, late) = (finding(UNKNOWN, now - 5, 5), finding("preempted", now - 5, 4));
        let of = |all: &[&Finding]| {
            let all: Vec<Finding> = all.iter().copied().cloned().collect();
            headline(&all, now).map(str::to_owned)
        };
        assert_eq!(of(&[&old, &vague, &late]), Some(late.sentence.clone()));
        assert_eq!(of(&[&old, &long, &late]), Some(long.sentence.clone()), "it lasted till then");
        assert_eq!(of(&[&old, &vague]), None);
    }
}
