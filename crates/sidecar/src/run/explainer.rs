//! Writes beside a snapshot what `perfring why` says of it.

use crate::log::Say;
use perfring_export::recording::Reader;
use perfring_export::{FileMode, replace};
use perfring_why::{Analysis, Facts, Options, TOP};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Instant;

/// The extension of explanations.
pub(super) const ENDING: &str = "why.txt";

/// A thread that explains snapshots, one after the other. It ends by itself once no more are wanted.
#[derive(Debug)]
pub(super) struct Explainer {
    snapshots: Option<Sender<(PathBuf, FileMode)>>,
    explained: Receiver<(PathBuf, Result<String, String>)>,
}

impl Explainer {
    pub(super) fn start() -> io::Result<Self> {
        let (snapshots, wanted) = channel::<(PathBuf, FileMode)>();
        let (done, explained) = channel();
        thread::Builder::new().name("explainer".into()).spawn(move || {
            for (snapshot, mode) in wanted {
                let explanation = explain(&snapshot, mode);
                if done.send((snapshot, explanation)).is_err() {
                    return;
                }
            }
        })?;
        Ok(Explainer { snapshots: Some(snapshots), explained })
    }

    pub(super) fn explain(&self, snapshot: PathBuf, mode: FileMode) {
        if let Some(snapshots) = &self.snapshots {
            let _ = snapshots.send((snapshot, mode));
        }
    }

    /// Says what was found since the last call.
    pub(super) fn report(&self, say: &mut Say<'_>) {
        while let Ok((snapshot, explanation)) = self.explained.try_recv() {
            report(&snapshot, &explanation, say);
        }
    }

    /// Waits for all explanations until then, and says what was found.
    pub(super) fn end(&mut self, deadline: Instant, say: &mut Say<'_>) {
        self.snapshots = None;
        loop {
            let rest = deadline.saturating_duration_since(Instant::now());
            let Ok((snapshot, explanation)) = self.explained.recv_timeout(rest) else { return };
            report(&snapshot, &explanation, say);
        }
    }
}

fn report(snapshot: &Path, explanation: &Result<String, String>, say: &mut Say<'_>) {
    let (path, text) = (snapshot.display(), snapshot.with_extension(ENDING));
    match explanation {
        Ok(first) => say.info(&format!("why {path}: {first} (all of it: {})", text.display())),
        Err(why) => {
            say.warn(&format!("{path} is not explained: {why}; `perfring why` explains it"))
        }
    }
}

/// Explains a snapshot in a file beside it. Returns the first sentence.
fn explain(snapshot: &Path, mode: FileMode) -> Result<String, String> {
    let mut reader = Reader::open(snapshot).map_err(|error| error.to_string())?;
    let (mut analysis, mut facts) = (Analysis::new(Options::default()), Facts::default());
    while let Some(event) = reader.next().map_err(|error| error.to_string())? {
        facts.read(&event).for_each(|evidence| analysis.add(evidence));
    }
    facts.end().for_each(|evidence| analysis.add(evidence));
    let report = analysis.finish();
    let lines: Vec<_> = report.lines(&facts, TOP).collect();
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let path = snapshot.with_extension(ENDING);
    replace(&path, text.as_bytes(), mode).map_err(|error| error.to_string())?;
    // Its rule may have removed it meanwhile.
    if !snapshot.exists() {
        let _ = fs::remove_file(&path);
    }
    Ok(lines.into_iter().next().map(|line| line.sentence).unwrap_or_default())
}
