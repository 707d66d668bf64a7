//! Files that are finished by size, bounded as a whole, and compressed.
#![cfg(feature = "zstd")]

use crate::feed::{Feed, Numbers};
use crate::numbered::{offer, origin};
use perfring_export::recording::{Existing, Options, ReadError, Reader, Recording};
use perfring_export::registry::{self, Kind, Place, ReadOptions};
use perfring_export::{Compression, Event, Origin, Output, Terms, Took, What};
use perfring_testkit::wait::deadline;
use serde::de::DeserializeOwned;
use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

struct Toml(toml::Table);

impl ReadOptions for Toml {
    type Error = toml::de::Error;

    fn part<T: DeserializeOwned>(&mut self, keys: &[&str]) -> Result<T, Self::Error> {
        let part = keys.iter().filter_map(|key| self.0.remove_entry(*key));
        part.collect::<toml::Table>().try_into()
    }

    fn read<T: DeserializeOwned>(self) -> Result<T, Self::Error> {
        self.0.try_into()
    }
}

fn open(kind: &str, path: &Path, options: &str) -> Box<dyn Output> {
    let options = format!("path = {:?}\n{options}", path.display().to_string());
    let open = registry::opener(kind, Toml(toml::from_str(&options).unwrap())).unwrap().unwrap();
    open.open(kind, &Terms::default()).unwrap()
}

/// Offers these records, and flushes after each hundred of them.
fn offer_all(output: &mut dyn Output, origin: &Origin, numbers: std::ops::Range<u64>) {
    for n in numbers {
        assert_eq!(offer(output, origin, n, n), Took::Yes);
        if n % 100 == 99 {
            output.flush().unwrap();
        }
    }
}

#[test]
fn each_file_of_a_series_has_the_attributes_that_the_configuration_adds() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run.pftrace");
    let mut output = open("perfetto", &path, "max_bytes = 1");
    output.add_resource(&[("k8s.pod.name".to_owned(), "shop-7".to_owned())]);
    let (mut feed, mut numbers) = (Feed::new(1, "shop"), Numbers::default());
    for _ in 0..2 {
        feed.again(&mut numbers, &mut *output);
        output.flush().unwrap();
    }
    output.close(Instant::now()).unwrap();
    let files = entries(dir.path(), "run.pftrace");
    // A file for each event: the ring's beginning, and its resource.
    let has = |file: &PathBuf| fs::read(file).unwrap().windows(6).any(|part| part == b"shop-7");
    assert_eq!(files.iter().map(has).collect::<Vec<_>>(), [false, true, false, true]);
}

/// Returns the numbers of the records of a recording, and why it ends before its end.
fn numbers(path: &Path) -> (Vec<u64>, Option<ReadError>) {
    let mut reader = Reader::open(path).unwrap();
    let mut found = Vec::new();
    loop {
        match reader.next() {
            Ok(None) => return (found, None),
            Err(error) => return (found, Some(error)),
            Ok(Some(event)) => {
                if let What::Record(record) = event.what {
                    found.push(u64::from_le_bytes(*record.bytes.first_chunk().unwrap()));
                }
            }
        }
    }
}

/// Returns the entries of a directory, in the order of a series.
fn entries(dir: &Path, first: &str) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    all.sort_by_key(|path| (!path.ends_with(first), path.clone()));
    all
}

fn size(path: &Path) -> u64 {
    let meta = path.metadata().unwrap();
    if !meta.is_dir() {
        return meta.len();
    }
    fs::read_dir(path).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).sum()
}

#[test]
fn a_recording_goes_on_in_the_next_file_and_each_record_is_in_one() {
    // These records become a fortieth of their size.
    for (compression, max_bytes) in [("none", 10_000), ("zstd", 1_000)] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run.perfrec");
        let options = format!("max_bytes = {max_bytes}\ncompression = {compression:?}");
        let mut output = open("recording", &path, &options);
        offer_all(&mut *output, &origin(), 0..1000);
        output.close(Instant::now()).unwrap();
        let figures = output.figures();
        assert_eq!((figures.taken, figures.delivered), (1000, 1000));
        let files = entries(dir.path(), "run.perfrec");
        println!("{compression}: {} files", files.len());
        assert!(files.len() > 2 && files[1].ends_with("run.000002.perfrec"), "{files:?}");
        let mut all = Vec::new();
        for file in &files {
            let (numbers, error) = numbers(file);
            assert!(error.is_none() && !numbers.is_empty(), "{error:?}");
            all.extend(numbers);
        }
        assert!(all.into_iter().eq(0..1000));
        // A process that is started again goes on after the newest.
        drop(output);
        let mut output = open("recording", &path, &options);
        offer_all(&mut *output, &origin(), 0..1);
        output.close(Instant::now()).unwrap();
        assert_eq!(entries(dir.path(), "run.perfrec").len(), files.len() + 1);
    }
}

#[test]
fn all_outputs_of_files_rotate_and_keep_no_more_than_they_may() {
    let kinds = ["json", "otlp-json", "recording", "perfetto", "ctf", "perf-data", "parquet"];
    for kind in kinds.into_iter().filter(|kind| registry::Kind::of(kind).unwrap().is_here) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run");
        let most = 200_000;
        let mut options = format!("max_bytes = 20_000\nkeep_bytes = {most}");
        if kind == "otlp-json" {
            options += "\nbatch_items = 50"; // a line each
        }
        let mut output = open(kind, &path, &options);
        let mut whole = 0;
        for part in 0..60u64 {
            offer_all(&mut *output, &origin(), 100 * part..100 * part + 100);
            whole = whole.max(entries(dir.path(), "run").iter().map(|path| size(path)).sum());
        }
        output.close(Instant::now()).unwrap();
        let figures = output.figures();
        println!("{kind}: at most {whole} bytes, {} files removed", figures.removed.files);
        assert!(
            figures.removed.files > 1 && figures.removed.last.starts_with(dir.path()),
            "{kind}"
        );
        assert!(figures.removed.bytes > 0 && !figures.removed.last.exists(), "{kind}");
        // What a file gets between two checks of its size may exceed the limit.
        assert!(whole <= most + 100_000, "{kind}: {whole}");
        assert_eq!(figures.delivered, 6000, "{kind}");
    }
}

#[test]
#[cfg(feature = "parquet")]
fn rows_of_parquet_that_wait_in_memory_count_for_the_size_of_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run");
    let most = 200_000;
    let mut output = open("parquet", &path, &format!("max_bytes = {most}"));
    offer_all(&mut *output, &origin(), 0..20_000);
    output.close(Instant::now()).unwrap();
    assert_eq!(output.figures().delivered, 20_000);
    let sizes: Vec<u64> = entries(dir.path(), "run").iter().map(|path| size(path)).collect();
    println!("at most {most}: {sizes:?}");
    let [first, others @ .., _last] = sizes.as_slice() else { panic!("{sizes:?}") };
    // The first rows count as they are in memory; the others as those became in the file.
    assert!(*first < most / 2 && others.len() > 2, "{sizes:?}");
    assert!(others.iter().all(|size| (most / 2..most * 6 / 5).contains(size)), "{sizes:?}");
}

#[test]
fn a_limit_of_all_files_below_that_of_one_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let options = format!("path = '{}/a'\nmax_bytes = 10\nkeep_bytes = 9", dir.path().display());
    let options = Toml(toml::from_str(&options).unwrap());
    let opener = registry::opener("recording", options).unwrap().unwrap();
    let opened = opener.open("out", &Terms::default());
    assert!(opened.err().unwrap().sentence.contains("keep_bytes"));
}

fn record_packed(path: &Path, existing: Existing, numbers: std::ops::Range<u64>) {
    let options = Options {
        path: path.to_owned(),
        existing,
        compression: Compression::Zstd,
        ..Options::default()
    };
    let mut recording = Recording::open("out", &options).unwrap();
    offer_all(&mut recording, &origin(), numbers);
    recording.close(Instant::now()).unwrap();
}

#[test]
fn a_compressed_recording_is_smaller_and_torn_anywhere_has_all_but_the_last_block() {
    let dir = tempfile::tempdir().unwrap();
    let (path, plain) = (dir.path().join("a.perfrec"), dir.path().join("b.perfrec"));
    record_packed(&path, Existing::Refuse, 0..500);
    let mut recording =
        Recording::open("out", &Options { path: plain.clone(), ..Options::default() }).unwrap();
    offer_all(&mut recording, &origin(), 0..500);
    recording.close(Instant::now()).unwrap();
    let (packed, plain) = (fs::read(&path).unwrap(), fs::read(&plain).unwrap());
    println!("{} bytes for {}", packed.len(), plain.len());
    assert!(packed.len() * 2 < plain.len());
    // An older reader refuses it by its head.
    assert_eq!((packed[12], plain[12]), (2, 1));
    assert!(numbers(&path).0.into_iter().eq(0..500));
    let torn = dir.path().join("torn.perfrec");
    let mut most = 0;
    for len in (200..packed.len()).step_by(7) {
        fs::write(&torn, &packed[..len]).unwrap();
        let (found, error) = numbers(&torn);
        assert!(matches!(error, Some(ReadError::Truncated { .. })), "{error:?}");
        assert!(found.len() >= most && found.len() % 100 == 0);
        assert!(found.iter().copied().eq(0..found.len() as u64));
        most = found.len();
    }
    assert_eq!(most, 500);
    // It goes on behind what is whole.
    fs::write(&torn, &packed[..packed.len() / 2]).unwrap();
    let whole = numbers(&torn).0.len();
    record_packed(&torn, Existing::Append, 1000..1100);
    let (found, error) = numbers(&torn);
    assert!(error.is_none() && found.len() == whole + 100, "{error:?}");
}

/// Returns a recording whose second block has these bytes as compressed frames.
fn hostile(packed: &[u8]) -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a");
    record_packed(&path, Existing::Refuse, 0..1);
    let mut file = fs::read(&path).unwrap();
    let len = u32::from_le_bytes(*file[20..].first_chunk().unwrap()) as usize;
    file.truncate(16 + 40 + len);
    let at = file.len() as u64;
    let mut head = b"PFRB".to_vec();
    head.extend((packed.len() as u32).to_le_bytes());
    head.extend(at.to_le_bytes());
    head.extend([0; 12]);
    head.extend(2u32.to_le_bytes());
    head.extend(crc32fast::hash(packed).to_le_bytes());
    head.extend(crc32fast::hash(&head).to_le_bytes());
    file.extend(head);
    file.extend(packed);
    file
}

#[test]
fn a_block_that_claims_a_terabyte_gets_no_more_memory_than_a_block_may_have() {
    // The magic, a single segment with a content size of 8 bytes, 1 TiB, and a block of one repeated byte.
    let mut bomb = vec![0x28, 0xb5, 0x2f, 0xfd, 0b1110_0000];
    bomb.extend((1u64 << 40).to_le_bytes());
    bomb.extend([0b0000_0011, 0, 0x10, 0x41]);
    let zeros = zstd::bulk::compress(&vec![0; 64 << 20], 1).unwrap();
    for (claimed, frame) in [
        (64, &bomb),
        (4 << 20, &bomb),
        (u32::MAX - 7, &bomb),
        (64, &zeros),
        (4 << 20, &zeros),
        (64 << 20, &zeros),
        (7, &zeros),
    ] {
        for lie in [0, 1 << 20] {
            let mut packed = claimed.to_le_bytes().to_vec();
            packed.extend((frame.len() as u32 + lie).to_le_bytes());
            packed.extend(frame);
            packed.resize(packed.len().next_multiple_of(8), 0);
            let file = hostile(&packed);
            let mut reader = Reader::new(&*file).unwrap();
            let error = loop {
                match reader.next() {
                    Ok(Some(_)) => {}
                    Ok(None) => panic!("it was read"),
                    Err(error) => break error.to_string(),
                }
            };
            assert!(error.contains("a block cannot be decompressed"), "{error}");
        }
    }
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    println!("at most {} in memory", peak.trim());
}

/// Decompresses as much as there is.
fn unpacked(path: &Path) -> Vec<u8> {
    let mut decoder = zstd::stream::read::Decoder::new(fs::File::open(path).unwrap()).unwrap();
    let (mut all, mut part) = (Vec::new(), [0; 4096]);
    while let Ok(len @ 1..) = decoder.read(&mut part) {
        all.extend_from_slice(&part[..len]);
    }
    all
}

#[test]
fn what_a_compressed_trace_has_flushed_can_be_decompressed() {
    for kind in ["json", "perfetto"] {
        let dir = tempfile::tempdir().unwrap();
        let (path, plain) = (dir.path().join("a.zst"), dir.path().join("b"));
        let mut packed = open(kind, &path, "compression = \"zstd\"");
        let mut other = open(kind, &plain, "");
        let origin = origin();
        for n in [0..100, 100..1000] {
            offer_all(&mut *packed, &origin, n.clone());
            offer_all(&mut *other, &origin, n);
            assert_eq!((packed.unsettled(), other.unsettled()), (None, None));
            assert_eq!(unpacked(&path), fs::read(&plain).unwrap(), "{kind}");
        }
        packed.close(Instant::now()).unwrap();
        let all = zstd::stream::decode_all(fs::File::open(&path).unwrap()).unwrap();
        assert_eq!(all, fs::read(&plain).unwrap(), "{kind}");
        let sizes = (size(&path), size(&plain));
        println!("{kind}: {} bytes for {}", sizes.0, sizes.1);
        assert!(sizes.0 * 2 < sizes.1);
    }
}

#[test]
fn compressed_lines_go_on_in_the_next_file_whatever_a_crash_left() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run.jsonl");
    let lines = |path: &Path| unpacked(path).split(|byte| *byte == b'\n').count() - 1;
    let options = "compression = \"zstd\"\nmax_bytes = 3000";
    let mut output = open("json", &path, options);
    offer_all(&mut *output, &origin(), 0..1000);
    let files = entries(dir.path(), "run.jsonl");
    assert!(files.len() > 2, "{files:?}");
    assert_eq!(files.iter().map(|file| lines(file)).sum::<usize>(), 1000);
    drop(output); // as if it were killed: the last file has no end
    let mut output = open("json", &path, options);
    offer_all(&mut *output, &origin(), 0..100);
    output.close(Instant::now()).unwrap();
    drop(output);
    assert_eq!(lines(&path), 100);
    // Without compression it goes on beside it, too, and changes nothing in it.
    let mut output = open("json", &path, "");
    offer_all(&mut *output, &origin(), 0..10);
    output.close(Instant::now()).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), 10);
    let files = entries(dir.path(), "run.jsonl");
    let all: usize = files[1..].iter().map(|file| lines(file)).sum();
    assert_eq!(all, 1100);
}

/// Returns the modes of all files and of all directories.
fn modes(path: &Path) -> (BTreeSet<u32>, BTreeSet<u32>) {
    let (mut files, mut dirs) = (BTreeSet::new(), BTreeSet::new());
    for entry in path.read_dir().unwrap() {
        let (path, meta) = entry.map(|entry| (entry.path(), entry.metadata().unwrap())).unwrap();
        let all = if meta.is_dir() { &mut dirs } else { &mut files };
        all.insert(meta.permissions().mode() & 0o7777);
        if meta.is_dir() {
            files.extend(modes(&path).0);
        }
    }
    (files, dirs)
}

#[test]
fn all_files_of_all_outputs_have_one_mode() {
    let kinds = ["json", "perfetto", "ctf", "parquet", "perf-data", "recording"];
    let kinds = kinds.map(|name| Kind::of(name).unwrap()).into_iter().filter(|kind| kind.is_here);
    for kind in kinds {
        for (options, mode) in [("", 0o640), ("mode = \"0600\"", 0o600), ("mode = \"0664\"", 0o664)]
        {
            let dir = tempfile::tempdir().unwrap();
            // Several files, where an output writes several.
            let all = format!("{options}\nmax_bytes = 20000");
            let mut output = open(kind.name, &dir.path().join("out"), &all);
            let origin = origin();
            let began = Event { seq: 0, origin: &origin, what: What::Began };
            assert_eq!(output.take(&began).unwrap(), Took::Yes);
            offer_all(&mut *output, &origin, 1..500);
            output.close(deadline()).unwrap();
            let (files, dirs) = modes(dir.path());
            assert_eq!(files, [mode].into(), "{} {options}", kind.name);
            let dir_mode = mode | (mode & 0o444) >> 2;
            assert!(dirs.iter().all(|found| *found == dir_mode), "{}: {dirs:?}", kind.name);
            assert_eq!(dirs.is_empty(), kind.place != Place::Directory, "{}", kind.name);
        }
    }
}

#[test]
fn a_mode_that_is_none_is_an_error_of_the_options() {
    for (value, why) in
        [("\"rw\"", "octal digits"), ("640", "in quotes"), ("\"0750\"", "no programs")]
    {
        let options = Toml(toml::from_str(&format!("path = \"x\"\nmode = {value}")).unwrap());
        let error = registry::opener("json", options).unwrap().err().unwrap();
        assert!(error.to_string().contains(why), "{error}");
    }
    // What writes no file has none.
    let options = Toml(toml::from_str("mode = \"0640\"").unwrap());
    assert!(registry::opener("null", options).unwrap().is_err());
}
