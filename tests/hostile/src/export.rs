//! Outputs that write files: JSON, recordings, Perfetto, CTF, `perf.data`, Parquet.

use crate::events::Script;
use perfring_export::json::Integers;
use perfring_export::recording::{Options, Reader, Recording};
use perfring_export::{
    Ctf, CtfOptions, Event, Output, OutputError, Parquet, ParquetOptions, PerfData,
    PerfDataOptions, Perfetto, PerfettoOptions, Took, What, json,
};
use perfring_testkit::choices::{Choices, Input};
use std::cell::RefCell;
use std::path::Path;
use std::time::Instant;

/// Opens an output in a directory.
type Open = fn(&Path) -> Result<Box<dyn Output>, OutputError>;

pub(crate) fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let which = input.u8();
    let script = Script::of(&mut input);
    script.each(|event| {
        [Integers::Number, Integers::Text].into_iter().for_each(|how| as_json(event, how))
    });
    // Files take time: only some of them at a time.
    let outputs: [Open; 5] = [perfetto, ctf, perf_data, parquet, recording];
    for (at, open) in outputs.into_iter().enumerate() {
        if which >> at & 1 == 1 {
            with_dir(|dir| file(&script, dir, open));
        }
    }
}

/// Checks that a line is one object, for any payload and name.
fn as_json(event: &Event<'_>, integers: Integers) {
    let mut line = Vec::new();
    let said = json::encode(event, integers, &Default::default(), &mut line);
    assert_eq!(said, matches!(event.what, What::Record(_) | What::Lost(_)));
    if said {
        assert!(!line.contains(&b'\n') && line.starts_with(b"{") && line.ends_with(b"}"));
        let read: Result<serde_json::Value, _> = serde_json::from_slice(&line);
        // The JSON parser gives up on deep nesting, which is not the line's fault.
        assert!(read.is_ok() || line.windows(4).any(|part| part == b"[[[[" || part == b"{\"\":"));
    }
    let _ = event.key().map(|key| key.to_string());
}

fn with_dir(run: impl FnOnce(&Path)) {
    thread_local! {
        static DIR: RefCell<Option<tempfile::TempDir>> = const { RefCell::new(None) };
    }
    DIR.with_borrow_mut(|dir| {
        let dir = dir.get_or_insert_with(|| tempfile::tempdir().expect("a directory"));
        run(dir.path());
    });
}

fn perfetto(path: &Path) -> Result<Box<dyn Output>, OutputError> {
    let path = path.join("out.pftrace");
    Ok(Box::new(Perfetto::open(
        "fuzz",
        &PerfettoOptions { overwrite: true, ..PerfettoOptions::new(path) },
    )?))
}

fn ctf(path: &Path) -> Result<Box<dyn Output>, OutputError> {
    Ok(Box::new(Ctf::open(
        "fuzz",
        &CtfOptions { overwrite: true, ..CtfOptions::new(path.join("ctf")) },
    )?))
}

fn perf_data(path: &Path) -> Result<Box<dyn Output>, OutputError> {
    let path = path.join("perf.data");
    Ok(Box::new(PerfData::open(
        "fuzz",
        &PerfDataOptions { overwrite: true, ..PerfDataOptions::new(path) },
    )?))
}

fn parquet(path: &Path) -> Result<Box<dyn Output>, OutputError> {
    let options = ParquetOptions { overwrite: true, ..ParquetOptions::new(path.join("parquet")) };
    Ok(Box::new(Parquet::open("fuzz", &options)?))
}

fn recording(path: &Path) -> Result<Box<dyn Output>, OutputError> {
    let path = path.join("recording");
    let existing = perfring_export::recording::Existing::Replace;
    let options = Options { path, existing, block_bytes: 512, ..Options::default() };
    Ok(Box::new(Recording::open("fuzz", &options)?))
}

/// Checks that an output takes any input and finishes its file.
fn file(script: &Script, dir: &Path, open: Open) {
    let mut output = open(dir).unwrap_or_else(|error| panic!("{error}"));
    let mut records = 0;
    script.each(|event| {
        let took = output.take(event).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(took, Took::Yes);
        records += u64::from(matches!(event.what, What::Record(_)));
        if event.seq % 16 == 9 {
            output.flush().unwrap_or_else(|error| panic!("{error}"));
            output.hurry();
        }
    });
    output.close(Instant::now()).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(output.unsettled(), None);
    let figures = output.figures();
    assert_eq!(figures.taken, records);
    assert_eq!(figures.delivered + figures.refused, records);
    drop(output);
    // A recording contains exactly the recorded events.
    let recording = dir.join("recording");
    if recording.exists() {
        let mut reader = Reader::open(&recording).unwrap_or_else(|error| panic!("{error}"));
        let mut again = 0;
        while let Some(event) = reader.next().unwrap_or_else(|error| panic!("{error}")) {
            again += u64::from(matches!(event.what, What::Record(_)));
        }
        assert_eq!(again, records);
        std::fs::remove_file(&recording).expect("it is ours");
    }
}
