//! C programs create rings: the file that Rust makes, or Rust's sentence for the fault, and nothing left behind.

use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;
use perfring_consumer::{AttachError, Consumer, Observer, Start, stat::Stat};
use perfring_producer::{
    Evict, Options, Policy, Producer, Report, error::CreateError, files::create,
};
use perfring_shm::dead_drafts;
use perfring_testkit::image::at;
use perfring_tests::foreign::{Build, c_program, lines};
use perfring_tests::{NUMBERED, numbered, ring_dir, skip};
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

fn maker(build: Build, dir: &Path) -> PathBuf {
    c_program(build, "tests/foreign/c_maker.c", dir).expect("a C compiler: install gcc")
}

/// Makes a ring in C. Returns the code, and the sentence of an error.
fn make(exe: &Path, words: &str, ring: &Path) -> (i32, String) {
    let said = lines(exe, &["create", words], ring).concat();
    let (code, why) = said.split_once(' ').unwrap_or((&said, ""));
    (code.parse().expect("a code"), why.to_owned())
}

/// Returns the names in a directory.
fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name());
    entries.map(|name| name.into_string().unwrap()).collect()
}

/// Returns the words of these options for `c_maker`.
fn words(options: &Options) -> String {
    let Options { size, types_size, mode, .. } = options;
    let flags = [
        ("policy", options.policy == Policy::Overwrite),
        ("evict", options.evict == Evict::Half),
        ("report", options.report == Report::CountersOnly),
        ("time", options.time),
    ];
    let flags = flags.map(|(name, is)| format!(",{name}={}", u8::from(is))).concat();
    format!("size={size},types_size={types_size},mode={mode}{flags}")
}

/// Returns a ring's bytes without the words that differ from one creation to the next: moments, the process, the id.
fn lasting(ring: &Path) -> Vec<u8> {
    let mut bytes = fs::read(ring).unwrap();
    for name in ["created_ns", "creator_pid", "uuid"] {
        bytes[at(name)].fill(0);
    }
    // `clock_ns`, `realtime_ns` and `error_ns` of the first anchor.
    let first = at("anchors").start;
    bytes[first + 8..first + 32].fill(0);
    bytes
}

#[test]
fn c_makes_the_file_that_rust_makes_byte_for_byte() {
    let dir = ring_dir();
    let every = [
        Options::default(),
        Options { size: 4096, types_size: 0, ..Options::default() },
        Options { size: 1 << 16, policy: Policy::Overwrite, time: true, ..Options::default() },
        Options {
            policy: Policy::Overwrite,
            evict: Evict::Half,
            mode: 0o640,
            ..Options::default()
        },
        Options {
            report: Report::CountersOnly,
            types_size: 5000,
            time: true,
            ..Options::default()
        },
        Options { mode: 0o666, types_size: 16 << 20, time: true, ..Options::default() },
        Options { mode: 0o400, ..Options::default() },
    ];
    let mut compared = 0;
    for build in Build::ALL {
        let Some(exe) = c_program(build, "tests/foreign/c_maker.c", dir.path()) else {
            skip("there is no g++, which compiles the C headers as C++");
            continue;
        };
        for (nth, options) in every.iter().enumerate() {
            let ours = dir.path().join("rust");
            create(&ours, options).unwrap();
            for how in
                ["umask=0", "umask=511", "tmpfile=0", "tmpfile=0,link=0", "link=0", "random=0"]
            {
                let case = format!("{build:?}, {how}, options {nth}");
                let theirs = dir.path().join("c");
                assert_eq!(
                    make(&exe, &format!("{},{how}", words(options)), &theirs),
                    (0, String::new())
                );
                assert!(lasting(&theirs) == lasting(&ours), "{case}: other bytes");
                let [ours, theirs] = [&ours, &theirs].map(|ring| fs::metadata(ring).unwrap());
                assert_eq!((theirs.mode(), theirs.nlink()), (ours.mode(), 1), "{case}");
                assert_eq!(theirs.blocks(), ours.blocks(), "{case}: all space is allocated");
                let ring = dir.path().join("c");
                let bytes = fs::read(&ring).unwrap();
                assert_ne!(
                    bytes[at("uuid")],
                    fs::read(dir.path().join("rust")).unwrap()[at("uuid")]
                );
                assert_eq!((bytes[at("uuid")][6] >> 4, bytes[at("uuid")][8] >> 6), (4, 2));
                if options.time {
                    let first = at("anchors").start;
                    let word =
                        |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap());
                    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
                    let age = since.as_nanos() as u64 - word(first + 16);
                    assert!(word(first + 8) > 0 && age < 600_000_000_000, "{case}: {age}");
                }
                fs::remove_file(ring).unwrap();
                compared += 1;
            }
            fs::remove_file(ours).unwrap();
        }
        assert!(names(dir.path()).iter().all(|name| !name.ends_with(".tmp")));
    }
    println!("{compared} files of C are those of Rust");
}

#[test]
fn c_refuses_what_rust_refuses_in_rusts_words_and_leaves_nothing() {
    let dir = ring_dir();
    let exe = maker(Build::Sanitized, dir.path());
    let place = dir.path().join("rings");
    fs::create_dir(&place).unwrap();
    let ring = place.join("ring");
    let rusts = |options: &Options| create(&ring, options).unwrap_err().to_string();
    let base = Options::default();
    for options in [
        Options { size: 1000, ..base },
        Options { size: 0, ..base },
        Options { size: 2048, ..base },
        Options { size: 1 << 41, ..base },
        Options { mode: 0o1777, ..base },
        Options { types_size: (16 << 20) + 1, ..base },
    ] {
        assert_eq!(make(&exe, &words(&options), &ring), (-28, rusts(&options)));
    }
    for word in ["policy=2", "evict=2", "report=7"] {
        let (code, why) = make(&exe, word, &ring);
        assert_eq!(code, -28);
        assert!(why.contains("give 0 or 1 for each"), "{why}");
    }
    // Rust's sentences, as for this ring.
    let location = || ring.clone().into();
    let needed = 1_122_304;
    let no_space = CreateError::NoSpace { location: location(), needed }.to_string();
    let limit = 1_000_000;
    let limited = CreateError::FileSizeLimit { location: location(), needed, limit }.to_string();
    for how in ["time=0", "tmpfile=0"] {
        for errno in [nix::libc::ENOSPC, nix::libc::EDQUOT] {
            let found = make(&exe, &format!("{how},allocate={errno}"), &ring);
            assert_eq!(found, (-29, no_space.clone()));
        }
        let (code, why) = make(&exe, &format!("{how},allocate={}", nix::libc::EFBIG), &ring);
        assert_eq!(code, -30);
        assert!(
            why.contains("this file system has no files of 1122304 bytes: make a smaller"),
            "{why}"
        );
        let found = make(&exe, &format!("{how},limit={limit}"), &ring);
        assert_eq!(found, (-30, limited.clone()), "and no SIGXFSZ");
        let (code, why) = make(&exe, &format!("{how},allocate={}", nix::libc::EIO), &ring);
        let start = format!("cannot make {}: allocating its space: ", ring.display());
        assert!(code == -1 && why.starts_with(&start), "{why}");
        let (code, why) = make(&exe, &format!("{how},link=0,rename=0"), &ring);
        assert!(code == -1 && why.contains("neither hard links nor a rename that never"), "{why}");
        let (code, why) = make(&exe, how, &place.join("none/ring"));
        assert!(code == -1 && why.contains("creating its file: No such file"), "{why}");
        assert_eq!(names(&place), [] as [&str; 0], "{how}");
    }
    // The file with the name stays unchanged: a ring, a link that leads nowhere.
    let exists = CreateError::Exists { location: location() }.to_string();
    std::os::unix::fs::symlink("nowhere", &ring).unwrap();
    assert_eq!(make(&exe, "time=1", &ring), (-27, exists.clone()));
    fs::remove_file(&ring).unwrap();
    create(&ring, &base).unwrap();
    let before = fs::read(&ring).unwrap();
    assert_eq!(make(&exe, "time=1", &ring), (-27, exists));
    assert!(fs::read(&ring).unwrap() == before);
    assert_eq!(names(&place), ["ring"]);
}

#[test]
fn a_signal_while_c_allocates_is_no_error() {
    let dir = ring_dir();
    let exe = maker(Build::Sanitized, dir.path());
    let ring = dir.path().join("ring");
    for longest in [65536, 100_000, 1 << 20] {
        assert_eq!(make(&exe, &format!("interrupt={longest}"), &ring), (0, String::new()));
        let meta = fs::metadata(&ring).unwrap();
        assert!(meta.blocks() * 512 >= meta.len(), "{longest}: all of it");
        fs::remove_file(&ring).unwrap();
    }
}

/// Killed before each of its system calls: then there is no ring, or a whole one; and of a file that needs a temporary
/// name at most that is left, which the next creation removes once it is old.
#[test]
fn a_c_program_killed_while_it_makes_a_ring_leaves_none_or_a_whole_one() {
    let dir = ring_dir();
    let exe = maker(Build::C11, dir.path());
    for how in ["time=1", "time=1,tmpfile=0", "time=1,link=0", "time=1,tmpfile=0,link=0"] {
        let place = dir.path().join(how);
        fs::create_dir(&place).unwrap();
        let ring = place.join("ring");
        let (mut deaths, mut whole, mut drafts) = (0, 0, 0);
        for die in 1.. {
            let mut command = Command::new(&exe);
            command.args(["create", &format!("{how},die={die}")]).arg(&ring).stdout(Stdio::null());
            let status = command.status().unwrap();
            if ring.exists() {
                whole += 1;
                let mut producer = Producer::attach(&ring).unwrap();
                producer.publish_as(NUMBERED, &numbered(0, 8)).unwrap();
                assert!(Consumer::attach(&ring).unwrap().read().unwrap().is_some());
                fs::remove_file(&ring).unwrap();
            }
            for name in names(&place) {
                drafts += 1;
                let draft = place.join(&name);
                assert!(name.starts_with(".perfring-") && name.ends_with(".tmp"), "{name}");
                assert!(how.contains("tmpfile=0") || how.contains("link=0"), "{how}: {name}");
                assert_eq!(dead_drafts(&place).unwrap(), [] as [&Path; 0], "it is young");
                let hour_ago = SystemTime::now() - Duration::from_secs(3600);
                File::options().write(true).open(&draft).unwrap().set_modified(hour_ago).unwrap();
                assert_eq!(dead_drafts(&place).unwrap(), [draft]);
            }
            // The next one removes it, if it needs such a name itself.
            let next = place.join("next");
            assert_eq!(make(&exe, "tmpfile=0", &next), (0, String::new()));
            fs::remove_file(&next).unwrap();
            assert_eq!(names(&place), [] as [&str; 0], "{how}, step {die}");
            if status.success() {
                break;
            }
            deaths += 1;
        }
        println!("{how}: {deaths} deaths, {whole} whole rings, {drafts} drafts left");
        assert!(deaths >= 7 && whole >= 1, "{how}: {deaths} deaths, {whole} whole rings");
        assert!((drafts > 0) == (how.contains("tmpfile=0") || how.contains("link=0")), "{how}");
    }
}

/// Stopped before each of its system calls: its draft is locked, unless it has just been opened or is about to get its
/// name. And a ring that gets the name meanwhile keeps it.
#[test]
fn a_draft_of_c_is_locked_while_it_is_made_and_takes_no_name_from_another_ring() {
    let dir = ring_dir();
    let exe = maker(Build::C11, dir.path());
    for how in ["tmpfile=0", "tmpfile=0,link=0", "tmpfile=1", "link=0"] {
        let place = dir.path().join(how);
        fs::create_dir(&place).unwrap();
        let ring = place.join("ring");
        let (mut held, mut free, mut quicker) = (0, 0, 0);
        for stop in 1.. {
            let mut command = Command::new(&exe);
            command
                .args(["create", &format!("{how},stop={stop}")])
                .arg(&ring)
                .stdout(Stdio::piped());
            let child = command.spawn().unwrap();
            let pid = Pid::from_raw(child.id().cast_signed());
            // Left for `wait_with_output` if it has ended.
            let flags = WaitPidFlag::WSTOPPED | WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT;
            let stopped = matches!(waitid(Id::Pid(pid), flags).unwrap(), WaitStatus::Stopped(..));
            let drafts = names(&place).into_iter().filter(|name| name.ends_with(".tmp"));
            for name in drafts.collect::<Vec<_>>() {
                let hour_ago = SystemTime::now() - Duration::from_secs(3600);
                let draft = File::options().write(true).open(place.join(name)).unwrap();
                draft.set_modified(hour_ago).unwrap();
                match dead_drafts(&place).unwrap().is_empty() {
                    true => held += 1,
                    false => free += 1,
                }
            }
            let is_free = stopped && !ring.exists();
            if is_free {
                create(&ring, &Options::default()).unwrap();
            }
            let before = fs::read(&ring).unwrap();
            if stopped {
                kill(pid, Signal::SIGCONT).unwrap();
            }
            let output = child.wait_with_output().unwrap();
            let said = String::from_utf8(output.stdout).unwrap();
            let wanted = if is_free { "-27 " } else { "0 " };
            assert!(output.status.success() && said.starts_with(wanted), "{how}, {stop}: {said}");
            assert!(fs::read(&ring).unwrap() == before, "{how}, {stop}: another ring's name");
            assert_eq!(names(&place), ["ring"], "{how}, {stop}");
            fs::remove_file(&ring).unwrap();
            quicker += u32::from(is_free);
            if !stopped {
                break;
            }
        }
        println!("{how}: {held} held, {free} free, {quicker} times another was quicker");
        assert!(quicker >= 6, "{how}: {quicker}");
        if how.contains("tmpfile=0") {
            assert!(held >= 6 && free <= 4, "{how}: {held} {free}");
        }
    }
}

#[test]
fn c_removes_no_draft_that_a_process_still_makes() {
    let dir = ring_dir();
    let exe = maker(Build::C11, dir.path());
    let place = dir.path().join("rings");
    fs::create_dir(&place).unwrap();
    let hour_ago = SystemTime::now() - Duration::from_secs(3600);
    let draft = |name: &str| {
        let file = File::create(place.join(name)).unwrap();
        file.set_modified(hour_ago).unwrap();
        file
    };
    let held = draft(".perfring-held.tmp");
    held.try_lock().unwrap();
    drop((draft(".perfring-dead.tmp"), draft(".perfringed.tmp"), draft(".perfring-x")));
    File::create(place.join(".perfring-young.tmp")).unwrap();
    fs::create_dir(place.join(".perfring-dir.tmp")).unwrap();
    assert_eq!(make(&exe, "tmpfile=0", &place.join("ring")), (0, String::new()));
    let mut left = names(&place);
    left.sort();
    let kept = [".perfring-dir.tmp", ".perfring-held.tmp", ".perfring-x", ".perfring-young.tmp"];
    assert_eq!(left, [&kept[..], &[".perfringed.tmp", "ring"]].concat());
    drop(held);
}

/// An attach of either role allocates the pages that a sparse copy has lost, or is refused before anything is stored.
#[test]
fn a_c_program_fills_the_holes_of_a_sparse_copy_or_says_that_there_is_no_room() {
    let dir = ring_dir();
    let exe = maker(Build::Sanitized, dir.path());
    let ring = dir.path().join("ring");
    create(&ring, &Options::default()).unwrap();
    let whole = fs::read(&ring).unwrap();
    let copy = dir.path().join("copy");
    let sparse = || {
        let file = File::create(&copy).unwrap();
        file.write_all_at(&whole[..4096], 0).unwrap();
        file.set_len(whole.len() as u64).unwrap();
        let meta = file.metadata().unwrap();
        assert!(meta.blocks() * 512 < meta.len(), "it has holes");
    };
    for errno in [nix::libc::ENOSPC, nix::libc::EDQUOT] {
        sparse();
        let said = lines(&exe, &["attach", &format!("allocate={errno}")], &copy);
        let location = copy.clone().into();
        let rusts = AttachError::NoSpace { location }.to_string();
        let sentence = rusts.split_once(" lacks pages").unwrap().1;
        let refused = format!("-29 the ring lacks pages{sentence}");
        assert_eq!(said, [refused.clone(), refused]);
        assert!(fs::read(&copy).unwrap()[..4096] == whole[..4096], "nothing was stored");
    }
    // Where the file system does not allocate, nothing is promised.
    sparse();
    let said = lines(&exe, &["attach", &format!("allocate={}", nix::libc::EOPNOTSUPP)], &copy);
    assert_eq!(said, ["0 ", "0 "]);
    sparse();
    let said = lines(&exe, &["attach", "interrupt=65536"], &copy);
    assert_eq!(said, ["0 ", "0 "]);
    let meta = fs::metadata(&copy).unwrap();
    assert!(meta.blocks() * 512 >= meta.len(), "there are no holes left");
    // An observer changes nothing, here too.
    sparse();
    drop(Observer::attach(&copy, Start::Oldest).unwrap());
    let meta = fs::metadata(&copy).unwrap();
    assert!(meta.blocks() * 512 < meta.len());
}

/// The example, in every build: Rust reads its recorded events, twice, with times that rise.
#[test]
fn the_flight_recorder_in_c_holds_the_newest_events_with_their_times() {
    let dir = ring_dir();
    for build in Build::ALL {
        let Some(exe) = c_program(build, "proto/examples/flight_recorder.c", dir.path()) else {
            skip("there is no g++, which compiles the C headers as C++");
            continue;
        };
        let ring = dir.path().join(format!("{build:?}.ring"));
        for _ in 0..2 {
            let run = Command::new(&exe).arg(&ring).arg("5000").output().unwrap();
            assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
        }
        let mut observer = Observer::attach(&ring, Start::Oldest).unwrap();
        let (mut found, mut newest, mut last) = (0, None, Vec::new());
        while let Some(item) = observer.read().unwrap() {
            let perfring_consumer::Item::Record(record) = item else { panic!("nothing was lost") };
            assert!(record.time.is_some() && record.time >= newest);
            (newest, last) = (record.time, record.bytes.to_vec());
            found += 1;
        }
        assert_eq!(String::from_utf8(last).unwrap(), "event 5000");
        let totals = Stat::read(&ring).unwrap().totals.unwrap();
        assert_eq!(totals.producer.written.records, 10_000);
        assert_eq!((totals.present.records, totals.overwritten.records), (found, 10_000 - found));
    }
}
