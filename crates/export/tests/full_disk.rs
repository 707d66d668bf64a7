//! What outputs do on a full disk, and with a buffer before them.

use crate::numbered::{offer, origin};
use perfring_export::recording::{self, Reader, Recording};
use perfring_export::{
    BufferOptions, Buffered, Ctf, CtfOptions, Event, Figures, Output, OutputError, PerfData,
    PerfDataOptions, Perfetto, PerfettoOptions, Took, What,
};
use std::cell::RefCell;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::rc::Rc;
use std::time::{Duration, Instant};

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
    assert!(output.undelivered().is_some_and(|seq| seq <= 1 + n), "{:?}", output.undelivered());
    // At the deadline it says so, and goes on afterwards.
    fs::remove_file(&filler).unwrap();
    let more = Command::new("mount").args(["-o", "remount,size=64m"]).arg(disk).status().unwrap();
    assert!(more.success());
    let since = Instant::now();
    for more in n..n + 10 {
        while offer(output, &origin, 2 + more, more) == Took::Busy {
            assert!(since.elapsed() < Duration::from_secs(20), "it does not continue");
            output.flush().unwrap();
        }
    }
    output.flush().unwrap();
    output.take(&Event { seq: 12 + n, origin: &origin, what: What::Ended }).unwrap();
    output.close(Instant::now() + Duration::from_secs(20)).unwrap();
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
fn perfetto_ctf_and_perf_data_wait_for_room() {
    type Open = fn(&Path) -> Box<dyn Output>;
    let outputs: [(&str, Open); 3] = [
        ("trace.pftrace", |path| {
            let options = PerfettoOptions::new(path);
            Box::new(Perfetto::open("out", &options).unwrap())
        }),
        ("ctf", |path| {
            let options = CtfOptions { path: path.to_owned(), overwrite: false };
            Box::new(Ctf::open("out", &options).unwrap())
        }),
        ("perf.data", |path| {
            let options = PerfDataOptions { path: path.to_owned(), overwrite: false };
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
    let mut trace = Ctf::open("out", &CtfOptions { path: path.clone(), overwrite: false }).unwrap();
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

/// An output with room for some events, which the test shares.
#[derive(Clone, Default)]
struct Narrow(Rc<RefCell<Inner>>);

#[derive(Default)]
struct Inner {
    room: usize,
    /// Records and other events, as they came.
    came: Vec<String>,
    held: Vec<u64>,
    last: u64,
}

impl Output for Narrow {
    fn take(&mut self, event: &Event<'_>) -> Result<Took, OutputError> {
        let mut inner = self.0.borrow_mut();
        if inner.room == 0 {
            return Ok(Took::Busy);
        }
        inner.room -= 1;
        assert!(event.seq > inner.last);
        inner.last = event.seq;
        inner.held.push(event.seq);
        inner.came.push(match &event.what {
            What::Record(record) => format!("{} {}", event.origin.name, record.pos / 272),
            other => format!("{} {other:?}", event.origin.name),
        });
        Ok(Took::Yes)
    }

    fn flush(&mut self) -> Result<(), OutputError> {
        Ok(())
    }

    fn undelivered(&mut self) -> Option<u64> {
        self.0.borrow().held.first().copied()
    }

    fn close(&mut self, _: Instant) -> Result<(), OutputError> {
        Ok(())
    }

    fn figures(&self) -> Figures {
        Figures::default()
    }
}

impl Narrow {
    fn set(&self, room: usize) {
        self.0.borrow_mut().room = room;
    }

    fn deliver(&self) {
        self.0.borrow_mut().held.clear();
    }

    fn came(&self) -> Vec<String> {
        self.0.borrow().came.clone()
    }
}

fn expected(records: u64) -> Vec<String> {
    let records = (0..records).map(|n| format!("one {n}"));
    std::iter::once("one Began".to_owned()).chain(records).collect()
}

#[test]
fn a_buffer_takes_what_the_output_has_no_room_for_and_hands_it_on_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let options = BufferOptions { path: dir.path().join("buffer"), max_bytes: 16 << 20 };
    let (narrow, origin) = (Narrow::default(), origin());
    let mut buffered = Buffered::open("out", &options, Box::new(narrow.clone())).unwrap();
    narrow.set(11);
    let began = Event { seq: 1, origin: &origin, what: What::Began };
    assert_eq!(buffered.take(&began).unwrap(), Took::Yes);
    for n in 0..20_000 {
        assert_eq!(offer(&mut buffered, &origin, 2 + n, n), Took::Yes, "{n}");
    }
    buffered.flush().unwrap();
    assert_eq!(narrow.came(), expected(10));
    // What is in the buffer is delivered, as far as rings are concerned.
    assert_eq!(buffered.undelivered(), None);
    let files = || options.path.read_dir().unwrap().count();
    assert!(files() > 3, "{}", files());
    // It comes back for a while, and while more is put in.
    let mut n = 20_000;
    while narrow.came().len() < 30_000 {
        narrow.set(7);
        buffered.flush().unwrap();
        if n < 40_000 {
            for _ in 0..5 {
                assert_eq!(offer(&mut buffered, &origin, 2 + n, n), Took::Yes);
                n += 1;
            }
        }
        narrow.deliver();
    }
    narrow.set(usize::MAX);
    while narrow.came().len() as u64 <= n {
        buffered.flush().unwrap();
    }
    narrow.deliver();
    buffered.flush().unwrap();
    assert!(
        files() <= 4,
        "the lock, the place and the file that is written, or the last two: {}",
        files()
    );
    assert_eq!(offer(&mut buffered, &origin, 2 + n, n), Took::Yes);
    assert_eq!(buffered.undelivered(), Some(2 + n));
    buffered.flush().unwrap();
    assert_eq!((narrow.came(), buffered.undelivered()), (expected(n + 1), None));
    assert_eq!(buffered.figures().trouble, None);
}

#[test]
fn a_full_buffer_is_busy_and_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let options = BufferOptions { path: dir.path().join("buffer"), max_bytes: 1 << 20 };
    let (narrow, origin) = (Narrow::default(), origin());
    let mut buffered = Buffered::open("out", &options, Box::new(narrow.clone())).unwrap();
    let began = Event { seq: 1, origin: &origin, what: What::Began };
    assert_eq!(buffered.take(&began).unwrap(), Took::Yes);
    let mut n = 0;
    while offer(&mut buffered, &origin, 2 + n, n) == Took::Yes {
        n += 1;
    }
    buffered.flush().unwrap();
    let size = |path: &Path| -> u64 {
        path.read_dir().unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).sum()
    };
    let bytes = size(&options.path);
    assert!((1 << 20..(1 << 20) + (128 << 10)).contains(&bytes), "{bytes}");
    assert!(buffered.figures().trouble.unwrap().contains("max_bytes = 1048576"));
    narrow.set(usize::MAX);
    while offer(&mut buffered, &origin, 2 + n, n) == Took::Busy {
        buffered.flush().unwrap();
        narrow.deliver();
    }
    while narrow.came().len() as u64 <= n {
        buffered.flush().unwrap();
    }
    assert_eq!(narrow.came(), expected(n + 1));
}

#[test]
fn what_is_in_a_buffer_survives_and_comes_first_in_the_next_process() {
    for kill in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        let options = BufferOptions { path: dir.path().join("buffer"), max_bytes: 16 << 20 };
        let (first, origin) = (Narrow::default(), origin());
        let mut buffered = Buffered::open("out", &options, Box::new(first.clone())).unwrap();
        let began = Event { seq: 1, origin: &origin, what: What::Began };
        buffered.take(&began).unwrap();
        (0..20_000).for_each(|n| assert_eq!(offer(&mut buffered, &origin, 2 + n, n), Took::Yes));
        let busy = Buffered::open("out", &options, Box::new(first.clone())).unwrap_err();
        assert!(busy.to_string().contains("another process uses it"), "{busy}");
        first.set(5_001);
        (0..5).for_each(|_| buffered.flush().unwrap());
        let came = first.came().len();
        assert!(came > 1000, "{came}");
        if kill {
            // Its files are as they are after SIGKILL.
            buffered.flush().unwrap();
        } else {
            first.deliver();
            buffered.close(Instant::now()).unwrap();
        }
        drop(buffered);
        let next = Narrow::default();
        next.set(usize::MAX);
        let mut buffered = Buffered::open("out", &options, Box::new(next.clone())).unwrap();
        // The rings are read again, too.
        buffered.take(&began).unwrap();
        assert_eq!(offer(&mut buffered, &origin, 2 + 20_000, 20_000), Took::Yes);
        let last = "one 20000".to_owned();
        while next.came().last() != Some(&last) {
            buffered.flush().unwrap();
            next.deliver();
        }
        let records = |came: Vec<String>| -> Vec<u64> {
            let number = |text: &String| text.strip_prefix("one ")?.parse().ok();
            came.iter().filter_map(number).collect()
        };
        let (before, after) = (records(first.came()), records(next.came()));
        assert!(after.is_sorted() && after.last() == Some(&20_000));
        if kill {
            let mut all = [before, after].concat();
            all.sort_unstable();
            all.dedup();
            assert_eq!(all, (0..=20_000).collect::<Vec<_>>());
        } else {
            assert_eq!([before, after].concat(), (0..=20_000).collect::<Vec<_>>(), "each once");
        }
    }
}
