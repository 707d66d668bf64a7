//! Recordings that can be looked at: those that were named, and snapshots that were taken here.

use super::clock::Clock;
use super::filter::{Filter, Wrong};
use super::lane::{Lane, Span};
use super::seen::Seen;
use super::shown::{RecordJson, Whole};
use perfring_events::{Event, Origin, Output, OutputError, Took, What, later};
use perfring_files::{Perfetto, PerfettoOptions, json};
use perfring_recording::Reader;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Snapshots that are kept; the oldest is removed for another one.
const KEPT: usize = 20;
/// Records of one answer, at most.
const PAGE: usize = 500;
/// How long an output may take to finish a file.
const PATIENCE: Duration = Duration::from_secs(30);

/// The recordings.
#[derive(Debug, Default)]
pub(super) struct Frozen {
    /// Of the snapshots; made for the first one.
    dir: Option<TempDir>,
    all: Vec<Arc<Recording>>,
    ids: u32,
}

/// A recording, and what is known of it from reading it once.
#[derive(Debug)]
pub(super) struct Recording {
    pub(super) path: PathBuf,
    pub(super) clock: Clock,
    is_own: bool,
    pub(super) about: About,
}

#[derive(Debug, Serialize)]
pub(super) struct About {
    pub(super) id: u32,
    pub(super) name: String,
    /// The time that all others are counted from: ns since 1970.
    base: String,
    /// The first and the last record.
    from: i64,
    to: i64,
    records: u64,
    lost: u64,
    bytes: u64,
    rings: Vec<Ring>,
    types: BTreeSet<String>,
    /// Why it ends where it does, if it is damaged.
    pub(super) trouble: Option<String>,
}

#[derive(Debug, Serialize)]
struct Ring {
    id: u32,
    name: String,
    location: String,
    records: u64,
}

/// What the page asks for.
#[derive(Debug, Default)]
pub(super) struct Asked {
    /// All, if there is none.
    pub(super) rings: Vec<u32>,
    pub(super) filter: String,
    pub(super) kind: String,
    /// Only what came before this number.
    pub(super) before: Option<u64>,
    pub(super) limit: usize,
}

#[derive(Serialize)]
pub(super) struct Answer {
    records: Vec<RecordJson>,
    seen: u64,
    matched: u64,
    wrong: Vec<Wrong>,
}

impl Recording {
    /// Reads it once.
    pub(super) fn open(id: u32, name: String, path: PathBuf, is_own: bool) -> Result<Self, String> {
        let mut reader = Reader::open(&path).map_err(|error| error.to_string())?;
        let (mut first, mut last) = (None, None);
        let (mut rings, mut types) = (BTreeMap::new(), BTreeSet::new());
        let trouble = loop {
            let event = match reader.next() {
                Ok(Some(event)) => event,
                Ok(None) => break None,
                Err(error) => break Some(error.to_string()),
            };
            let Origin { id, name, location, .. } = event.origin;
            let ring = rings.entry(*id).or_insert_with(|| {
                let (name, location) = (name.clone(), location.clone());
                Ring { id: *id, name, location, records: 0 }
            });
            let What::Record(record) = &event.what else { continue };
            ring.records += 1;
            if let Some(wall) = record.wall {
                first = Some(first.map_or(wall, |first: u64| first.min(wall)));
                last = last.max(Some(wall));
            }
            if let Some(kind) = record.kind_of()
                && !types.contains(&kind.name)
            {
                types.insert(kind.name.clone());
            }
        };
        let base = first.unwrap_or(0);
        let lost =
            reader.totals().losses.iter().fold(0, |sum: u64, (_, of, _)| sum.saturating_add(*of));
        let about = About {
            id,
            name,
            base: base.to_string(),
            from: 0,
            to: last.map_or(0, |last| last.saturating_sub(base) as i64),
            records: reader.totals().records,
            lost,
            bytes: fs::metadata(&path).map_or(0, |meta| meta.len()),
            rings: rings.into_values().collect(),
            types,
            trouble,
        };
        Ok(Recording { path, clock: Clock::of(base), is_own, about })
    }

    /// Passes all events that can be read to `visit`, until it returns `false`.
    fn visit(&self, mut visit: impl FnMut(&Event<'_>) -> bool) -> Result<(), String> {
        let mut reader = Reader::open(&self.path).map_err(|error| error.to_string())?;
        // What is wrong with it was found when it was opened.
        while let Ok(Some(event)) = reader.next() {
            if !visit(&event) {
                break;
            }
        }
        Ok(())
    }

    /// Returns the last records that are selected, before a number.
    pub(super) fn records(&self, asked: &Asked) -> Result<Result<Answer, Wrong>, String> {
        let filter = match Filter::parse(&asked.filter, &asked.kind) {
            Ok(filter) => filter,
            Err(wrong) => return Ok(Err(wrong)),
        };
        let limit = asked.limit.clamp(1, PAGE);
        let (mut seen, mut matched) = (0, 0);
        let mut found = VecDeque::new();
        let mut tables = BTreeMap::new();
        self.visit(|event| {
            let Origin { id, name, .. } = event.origin;
            if asked.before.is_some_and(|before| event.seq >= before) {
                return false;
            }
            if !(asked.rings.is_empty() || asked.rings.contains(id)) {
                return true;
            }
            let shown = match &event.what {
                What::Record(record) => {
                    seen += 1;
                    let known = tables.get(id).map(perfring_types::read::TypeTable::len);
                    if known != Some(event.origin.types.len()) {
                        tables.insert(*id, event.origin.types.clone());
                    }
                    if !filter.takes(record) {
                        return true;
                    }
                    matched += 1;
                    RecordJson::of(event.seq, *id, name, record, &self.clock)
                }
                What::Lost(loss) => RecordJson::of_loss(event.seq, *id, name, loss, &self.clock),
                What::Began | What::Ended => return true,
            };
            found.push_back(shown);
            if found.len() > limit {
                found.pop_front();
            }
            true
        })?;
        let wrong = filter.unknown(tables.values());
        Ok(Ok(Answer { records: found.into(), seen, matched, wrong }))
    }

    /// Returns one record with its bytes.
    pub(super) fn whole(&self, seq: u64) -> Option<Whole> {
        let mut whole = None;
        let read = self.visit(|event| {
            if event.seq == seq
                && let What::Record(record) = &event.what
            {
                whole =
                    Some(Whole::of(seq, event.origin.id, &event.origin.name, record, &self.clock));
            }
            event.seq < seq
        });
        read.ok().and(whole)
    }

    /// Passes each record and each loss to `visit`, with its ring's number and name.
    pub(super) fn each(&self, mut visit: impl FnMut(u32, &str, &Seen<'_>)) -> Result<(), String> {
        self.visit(|event| {
            let Origin { id, name, .. } = event.origin;
            match &event.what {
                What::Record(record) => visit(*id, name, &Seen::Record(event.seq, record)),
                What::Lost(loss) => visit(*id, name, &Seen::Lost(loss)),
                What::Began | What::Ended => {}
            }
            true
        })
    }

    /// Returns what happened in a span of its time, ring by ring.
    pub(super) fn timeline(&self, span: &Span) -> Result<Vec<Lane>, String> {
        let mut lanes: BTreeMap<u32, Lane> = BTreeMap::new();
        self.visit(|event| {
            let Origin { id, name, .. } = event.origin;
            let lane = lanes.entry(*id).or_insert_with(|| Lane::new(*id, name, span));
            match &event.what {
                What::Record(record) => lane.record(event.seq, record, span, &self.clock),
                What::Lost(loss) => lane.loss(loss, span, &self.clock),
                What::Began | What::Ended => {}
            }
            true
        })?;
        Ok(lanes.into_values().collect())
    }

    /// Converts it into a file for another program. Returns the file, open, which has no name any more.
    pub(super) fn convert(&self, to: Format) -> Result<fs::File, String> {
        let open = |path: &Path| fs::File::open(path).map_err(|error| error.to_string());
        if to == Format::Recording {
            return open(&self.path);
        }
        let dir = TempDir::new().map_err(|error| error.to_string())?;
        let path = dir.path().join("converted");
        let converted = match to {
            Format::Json => {
                let options = json::Options { path: path.clone(), ..json::Options::default() };
                json::JsonLines::open("page", &options).and_then(|mut out| self.write(&mut out))
            }
            _ => Perfetto::open("page", &PerfettoOptions::new(&path))
                .and_then(|mut out| self.write(&mut out)),
        };
        converted.map_err(|error| error.to_string())?;
        open(&path)
    }

    fn write(&self, out: &mut dyn Output) -> Result<(), OutputError> {
        let deadline = later(Instant::now(), PATIENCE);
        let mut failed = Ok(());
        let read = self.visit(|event| {
            failed = offer(out, event, deadline);
            failed.is_ok()
        });
        read.map_err(|why| OutputError::new("page", why))?;
        failed?;
        out.close(deadline)
    }
}

fn offer(out: &mut dyn Output, event: &Event<'_>, deadline: Instant) -> Result<(), OutputError> {
    while out.take(event)? == Took::Busy {
        out.flush()?;
        if Instant::now() > deadline {
            return Err(OutputError::new("page", "the file cannot be written"));
        }
    }
    Ok(())
}

/// What a recording is downloaded as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Recording,
    Perfetto,
    Json,
}

impl Format {
    pub(super) fn of(name: &str) -> Option<Self> {
        Some(match name {
            "recording" => Format::Recording,
            "perfetto" => Format::Perfetto,
            "json" => Format::Json,
            _ => return None,
        })
    }

    pub(super) fn ending(self) -> &'static str {
        match self {
            Format::Recording => "perfrec",
            Format::Perfetto => "pftrace",
            Format::Json => "jsonl",
        }
    }
}

impl Frozen {
    /// Opens a recording that was named.
    pub(super) fn add(&mut self, path: &Path) -> Result<(), String> {
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        let recording = Recording::open(self.ids, name, path.to_owned(), false)?;
        self.ids += 1;
        self.all.push(Arc::new(recording));
        Ok(())
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &About> {
        self.all.iter().map(|recording| &recording.about)
    }

    pub(super) fn get(&self, id: u32) -> Option<Arc<Recording>> {
        self.all.iter().find(|recording| recording.about.id == id).cloned()
    }

    /// Removes a snapshot. A recording that was named is only left out.
    pub(super) fn remove(&mut self, id: u32) -> bool {
        let Some(at) = self.all.iter().position(|recording| recording.about.id == id) else {
            return false;
        };
        let recording = self.all.remove(at);
        if recording.is_own {
            let _ = fs::remove_file(&recording.path); // with the directory, at the latest
        }
        true
    }

    /// Returns a number and a path for another snapshot.
    pub(super) fn place(&mut self) -> Result<(u32, PathBuf), String> {
        let dir = match self.dir.take() {
            Some(dir) => dir,
            None => tempfile::Builder::new()
                .prefix("perfring-view.")
                .tempdir()
                .map_err(|error| format!("cannot make a directory for snapshots: {error}"))?,
        };
        let id = self.ids;
        self.ids += 1;
        let path = dir.path().join(format!("{id}.perfrec"));
        self.dir = Some(dir);
        Ok((id, path))
    }

    pub(super) fn keep(&mut self, recording: Recording) -> Arc<Recording> {
        let own: Vec<u32> = self.all.iter().filter(|of| of.is_own).map(|of| of.about.id).collect();
        for id in own.iter().take((own.len() + 1).saturating_sub(KEPT)) {
            self.remove(*id);
        }
        let recording = Arc::new(recording);
        self.all.push(Arc::clone(&recording));
        recording
    }
}
