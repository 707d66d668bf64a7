//! What outputs do on a full disk.

use crate::numbered::{offer, origin};
use perfring_export::otlp::{FileOptions, OtlpFile};
use perfring_export::recording::{self, Reader, Recording};
use perfring_export::{
    Ctf, CtfOptions, Event, Output, PerfData, PerfDataOptions, Perfetto, PerfettoOptions, Took,
    What, json,
};
use perfring_testkit::wait::{Watchdog, deadline};
use std::fs;
use std::path::Path;
use std::process::Command;

/// A tmpfs of 512 KiB, unmounted at the end.
struct Disk(tempfile::TempDir);

impl Disk {
    fn mount() -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let mount = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=512k", "none"])
            .arg(dir.path())
            .output();
        if mount.is_ok_and(|done| done.status.success()) {
            return Some(Disk(dir));
        }
        let why = "only root may mount a small disk to fill";
        assert!(std::env::var_os("PERFRING_NO_SKIP").is_none(), "{why}");
        eprintln!("SKIPPED: {why}");
        None
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

/// Writes to a disk that is full, then has room. Returns how many records were delivered at the end.
fn fill(disk: &Path, output: &mut dyn Output) -> u64 {
    let filler = disk.join("filler");
    fs::write(&filler, vec![0; 400 << 10]).unwrap();
    let origin = origin();
    assert_eq!(
        output.take(&Event { seq: 1, origin: &origin, what: What::Began }).unwrap(),
        Took::Yes
    );
    let mut n = 0;
    while offer(output, &origin, 2 + n, n) == Took::Yes {
        n += 1;
        if n % 100 == 0 {
            output.flush().unwrap();
        }
        assert!(n < 1_000_000, "it takes all, and the disk is full");
    }
    let trouble = output.figures().trouble.unwrap();
    assert!(trouble.contains("No space left on device") && trouble.contains("free some space"));
    assert!(output.unsettled().is_some_and(|seq| seq <= 1 + n), "{:?}", output.unsettled());
    // A pause ends when someone asks for that.
    let dog = Watchdog::default();
    for _ in 0..10 {
        while !output.retry() {
            dog.check("the output waits");
            offer(output, &origin, 2 + n, n);
            output.flush().unwrap();
        }
        let before = output.figures().retries;
        offer(output, &origin, 2 + n, n);
        output.flush().unwrap();
        assert!(output.figures().retries > before, "it tried again");
    }
    // At the deadline it says so, and goes on afterwards.
    fs::remove_file(&filler).unwrap();
    let more = Command::new("mount").args(["-o", "remount,size=64m"]).arg(disk).status().unwrap();
    assert!(more.success());
    let dog = Watchdog::default();
    for more in n..n + 10 {
        while offer(output, &origin, 2 + more, more) == Took::Busy {
            dog.check("the output continues");
            output.flush().unwrap();
        }
    }
    output.flush().unwrap();
    output.take(&Event { seq: 12 + n, origin: &origin, what: What::Ended }).unwrap();
    output.close(deadline()).unwrap();
    let figures = output.figures();
    eprintln!("{n} records before the disk was full, {} retries", figures.retries);
    assert_eq!(figures.trouble, None);
    assert!(figures.retries > 0);
    assert_eq!(figures.delivered, n + 10);
    n + 10
}

#[test]
fn a_recording_waits_for_room_and_has_each_record_once() {
    let Some(disk) = Disk::mount() else { return };
    let path = disk.0.path().join("run.perfrec");
    let options = recording::Options { path: path.clone(), ..recording::Options::default() };
    let all = fill(disk.0.path(), &mut Recording::open("out", &options).unwrap());
    let mut reader = Reader::open(&path).unwrap();
    let mut n = 0;
    while let Some(event) = reader.next().unwrap() {
        if let What::Record(record) = event.what {
            assert_eq!(record.bytes[..8], u64::to_le_bytes(n));
            n += 1;
        }
    }
    assert_eq!(n, all);
}

#[test]
fn json_otlp_json_perfetto_ctf_and_perf_data_wait_for_room() {
    type Open = fn(&Path) -> Box<dyn Output>;
    let outputs: [(&str, Open); 5] = [
        ("events.jsonl", |path| {
            let options = json::Options { path: path.to_owned(), ..json::Options::default() };
            Box::new(json::JsonLines::open("out", &options).unwrap())
        }),
        ("telemetry.jsonl", |path| {
            let mut options = FileOptions::default();
            options.lines.path = path.to_owned();
            Box::new(OtlpFile::open("out", &options).unwrap())
        }),
        ("trace.pftrace", |path| {
            let options = PerfettoOptions::new(path);
            Box::new(Perfetto::open("out", &options).unwrap())
        }),
        ("ctf", |path| {
            let options = CtfOptions::new(path);
            Box::new(Ctf::open("out", &options).unwrap())
        }),
        ("perf.data", |path| {
            let options = PerfDataOptions::new(path);
            Box::new(PerfData::open("out", &options).unwrap())
        }),
    ];
    for (name, open) in outputs {
        let Some(disk) = Disk::mount() else { return };
        let path = disk.0.path().join(name);
        fill(disk.0.path(), &mut *open(&path));
        assert!(path.exists(), "{name}");
    }
}

#[cfg(feature = "parquet")]
#[test]
fn parquet_waits_for_room() {
    let Some(disk) = Disk::mount() else { return };
    let options = perfring_export::ParquetOptions {
        rows: 500,
        memory: 64 << 10,
        ..perfring_export::ParquetOptions::new(disk.0.path().join("parquet"))
    };
    fill(disk.0.path(), &mut perfring_export::Parquet::open("out", &options).unwrap());
}

#[test]
fn a_trace_that_was_cut_short_is_mended_to_its_last_packet() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ctf");
    let mut trace = Ctf::open("out", &CtfOptions::new(&path)).unwrap();
    let origin = origin();
    let mut ends = Vec::new();
    for n in 0..3 {
        assert_eq!(offer(&mut trace, &origin, 2 + n, n), Took::Yes);
        trace.flush().unwrap();
        let name = path.read_dir().unwrap().find_map(|entry| {
            let path = entry.unwrap().path();
            path.file_name().unwrap().to_str().unwrap().starts_with("ring-").then_some(path)
        });
        ends.push((name.clone().unwrap(), fs::metadata(name.unwrap()).unwrap().len()));
    }
    let (stream, whole) = ends[2].clone();
    let bytes = fs::read(&stream).unwrap();
    for cut in 0..=whole as usize {
        fs::write(&stream, &bytes[..cut]).unwrap();
        Ctf::mend(&path).unwrap();
        let left = fs::metadata(&stream).unwrap().len();
        let expected = ends.iter().map(|(_, end)| *end).filter(|end| *end <= cut as u64).max();
        assert_eq!(left, expected.unwrap_or(0), "{cut}");
    }
}
