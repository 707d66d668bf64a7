//! A producer of a set gets a ring of its own, and the directory's owner is checked.

use perfring_consumer::{AttachError, Consumer, stat::Stat};
use perfring_producer::{Options, Policy, files::create};
use perfring_set::{Access, RingSet, SetError, SetOptions, list};
use std::collections::HashSet;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::PathBuf;

fn names(dir: &std::path::Path) -> Vec<String> {
    list(dir).unwrap().0.into_iter().map(|ring| ring.name).collect()
}

#[test]
fn a_ring_is_continued_when_its_producer_has_ended() {
    let temp = tempfile::tempdir().unwrap();
    let set = RingSet::open(temp.path().join("rings")).unwrap();
    for n in 0..3u8 {
        set.producer("a").unwrap().publish(&[n]).unwrap();
    }
    let stat = Stat::read(set.dir().join("a")).unwrap();
    assert_eq!((stat.epoch(), stat.totals.unwrap().present.records), (3, 3));
    assert!(stat.layout.time, "the merge needs timestamps");
    assert_eq!(stat.layout.policy, Policy::Drop);
    assert_eq!(names(set.dir()), ["a"]);
}

#[test]
fn a_live_producer_keeps_its_name() {
    let temp = tempfile::tempdir().unwrap();
    let set = RingSet::open(temp.path().join("rings")).unwrap();
    let first = set.producer("a").unwrap();
    let error = set.producer("a").unwrap_err();
    assert!(matches!(error, SetError::Attach(AttachError::Busy { .. })), "{error}");
    assert!(error.to_string().contains("has a producer already"), "{error}");
    drop(first);
    set.producer("a").unwrap();
    // Of any number that attach at once, one gets it.
    let barrier = std::sync::Barrier::new(8);
    let won: usize = std::thread::scope(|scope| {
        let (set, barrier) = (&set, &barrier);
        let ask = move || {
            barrier.wait();
            let got = set.producer("b");
            barrier.wait(); // nobody gives it back before all have asked
            match got {
                Ok(_) => 1,
                Err(SetError::Attach(AttachError::Busy { .. })) => 0,
                Err(error) => panic!("{error}"),
            }
        };
        let all: Vec<_> = (0..8).map(|_| scope.spawn(ask)).collect();
        all.into_iter().map(|asked| asked.join().unwrap()).sum()
    });
    assert_eq!(won, 1);
}

#[test]
fn seats_of_consumers_are_part_of_a_shape_and_what_a_ring_ignores_is_not() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("rings");
    let set = RingSet::open(&dir).unwrap();
    let usual = SetOptions::default().ring;
    drop(set.producer("a").unwrap());
    // A drop ring evicts nothing, and has one producer.
    let ignored = Options { evict: perfring_producer::Evict::Half, slots: 3, cpu: 1, ..usual };
    drop(set.producer_with("a", &ignored).unwrap());
    assert_eq!(names(&dir), ["a"]);
    drop(set.producer_with("a", &Options { consumers: 2, ..usual }).unwrap());
    assert_eq!(names(&dir), ["a", "a.2"]);
    assert_eq!(Stat::read(dir.join("a.2")).unwrap().layout.consumers, 2);
}

#[test]
fn a_ring_of_another_shape_is_left_alone() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("rings");
    let set = RingSet::open(&dir).unwrap();
    set.producer("a").unwrap().publish(b"old").unwrap();
    let usual = SetOptions::default().ring;
    let larger = Options { size: 2 * usual.size, ..usual };
    for _ in 0..2 {
        set.producer_with("a", &larger).unwrap().publish(b"new").unwrap();
    }
    assert_eq!(names(&dir), ["a", "a.2"]);
    let stat = Stat::read(dir.join("a.2")).unwrap();
    assert_eq!((stat.epoch(), stat.layout.data_size), (2, larger.size));
    assert!(Consumer::attach(dir.join("a")).unwrap().read().unwrap().is_some());
    // Each of these differs from all before.
    let others = [
        Options { policy: Policy::Overwrite, ..usual },
        Options { mode: 0o640, ..usual },
        Options { types_size: 0, ..usual },
        Options { report: perfring_producer::Report::CountersOnly, ..usual },
    ];
    for other in &others {
        set.producer_with("a", other).unwrap();
    }
    let ring = Options { time: false, ..usual };
    let untimed = RingSet::open_with(&dir, &SetOptions { ring, ..SetOptions::default() }).unwrap();
    untimed.producer("a").unwrap();
    set.shared_producer("a").unwrap();
    assert_eq!(names(&dir).len(), 8);
    set.producer_with("a", &Options { size: 1 << 16, ..usual }).unwrap();
    let error = set.producer_with("a", &Options { size: 1 << 17, ..usual }).unwrap_err();
    assert!(matches!(error, SetError::Shapes { .. }), "{error}");
    // The one that fits is found among them.
    assert_eq!(set.producer_with("a", &others[2]).unwrap().location().path(), dir.join("a.5"));
}

#[test]
fn rings_of_a_set_have_timestamps_unless_the_set_is_opened_without() {
    let temp = tempfile::tempdir().unwrap();
    let set = RingSet::open(temp.path().join("timed")).unwrap();
    let plain = Options { time: false, ..Options::default() };
    assert!(set.producer("a").unwrap().layout().time);
    assert!(set.shared_producer("b").unwrap().layout().time);
    assert!(set.producer_with("c", &plain).unwrap().layout().time);
    let path = set.ring_path("d", &plain).unwrap();
    assert!(Stat::read(path).unwrap().layout.time);
    let options = SetOptions { ring: plain, ..SetOptions::default() };
    let set = RingSet::open_with(temp.path().join("untimed"), &options).unwrap();
    assert!(!set.producer("a").unwrap().layout().time);
    assert!(!set.producer_with("b", &plain).unwrap().layout().time);
    let timed = Options { time: true, ..plain };
    assert!(set.producer_with("c", &timed).unwrap().layout().time);
}

#[test]
fn what_is_no_ring_is_not_written_to() {
    let temp = tempfile::tempdir().unwrap();
    let set = RingSet::open(temp.path().join("rings")).unwrap();
    fs::write(set.dir().join("text"), "not a ring").unwrap();
    assert!(matches!(set.producer("text"), Err(SetError::Attach(AttachError::Bad { .. }))));
    assert_eq!(fs::read(set.dir().join("text")).unwrap(), b"not a ring");
    // Nor a ring that a link leads to.
    let outside = temp.path().join("outside");
    create(&outside, &SetOptions::default().ring).unwrap();
    symlink(&outside, set.dir().join("link")).unwrap();
    let error = set.producer("link").unwrap_err();
    assert!(matches!(error, SetError::Attach(AttachError::Io { .. })), "{error}");
    assert_eq!(Stat::read(&outside).unwrap().epoch(), 0);
}

#[test]
fn names_are_one_component_and_never_hidden() {
    let temp = tempfile::tempdir().unwrap();
    let set = RingSet::open(temp.path().join("rings")).unwrap();
    let long = "x".repeat(201);
    for name in ["", ".", "..", ".a", "a/b", "/a", "a\nb", "a\0", "\u{1b}[2J", &long] {
        let error = set.producer(name).unwrap_err();
        assert!(matches!(error, SetError::Name { .. }), "{name:?}: {error}");
        assert!(!error.to_string().contains('\u{1b}'));
    }
    for name in ["a", "a.b", "ä b", &long[1..]] {
        set.producer(name).unwrap();
    }
    // Own names are valid, and no two are the same.
    let own: HashSet<String> = (0..1000).map(|_| RingSet::own_name()).collect();
    assert_eq!(own.len(), 1000);
    let randoms: HashSet<&str> = own.iter().map(|name| name.rsplit('.').next().unwrap()).collect();
    assert_eq!(randoms.len(), 1000, "pids and counters are the same in two containers");
    let producer = set.own_producer().unwrap();
    let (path, pid) = (producer.location().path(), std::process::id().to_string());
    assert!(path.file_name().unwrap().to_str().unwrap().contains(&pid), "{path:?}");
}

#[test]
fn a_directory_is_made_for_its_owner_alone_or_with_the_mode_of_the_options() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("rings");
    let mode = |dir: &PathBuf| fs::metadata(dir).unwrap().mode() & 0o7777;
    RingSet::open(&dir).unwrap();
    assert_eq!(mode(&dir), 0o700);
    // The umask has no effect.
    let shared = SetOptions { mode: 0o1777, access: Access::Shared, ..SetOptions::default() };
    let other = temp.path().join("shared");
    let set = RingSet::open_with(&other, &shared).unwrap();
    assert_eq!(mode(&other), 0o1777);
    set.producer("a").unwrap();
    // It is made again if it was removed meanwhile.
    fs::remove_dir_all(&other).unwrap();
    set.producer("a").unwrap();
    assert_eq!(mode(&other), 0o1777);

    assert!(matches!(RingSet::open(&other), Err(SetError::Open { mode: 0o1777, .. })));
    for mode in [0o720, 0o702, 0o777] {
        fs::set_permissions(&dir, Permissions::from_mode(mode)).unwrap();
        let error = RingSet::open(&dir).unwrap_err();
        assert!(error.to_string().contains("others may write"), "{error}");
    }
    fs::set_permissions(&dir, Permissions::from_mode(0o755)).unwrap();
    let set = RingSet::open(&dir).unwrap();
    // Checked again at each producer.
    fs::set_permissions(&dir, Permissions::from_mode(0o777)).unwrap();
    assert!(matches!(set.producer("a"), Err(SetError::Open { .. })));

    let file = temp.path().join("file");
    fs::write(&file, "").unwrap();
    assert!(matches!(RingSet::open(&file), Err(SetError::NoDirectory { .. })));
    let error = RingSet::open(temp.path().join("no/rings")).unwrap_err();
    assert!(matches!(error, SetError::Dir { step: "creating it", .. }), "{error}");
}

#[test]
fn another_users_directory_or_ring_is_refused_by_default() {
    if !nix::unistd::Uid::effective().is_root() {
        let why = "only root can give files away";
        assert!(std::env::var_os("PERFRING_NO_SKIP").is_none(), "{why}");
        println!("SKIPPED: {why}");
        return;
    }
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("rings");
    let set = RingSet::open(&dir).unwrap();
    set.producer("a").unwrap();
    std::os::unix::fs::chown(dir.join("a"), Some(12345), None).unwrap();
    let error = set.producer("a").unwrap_err();
    assert!(matches!(error, SetError::Foreign { owner: 12345, .. }), "{error}");
    std::os::unix::fs::chown(&dir, Some(12345), None).unwrap();
    assert!(matches!(RingSet::open(&dir), Err(SetError::Foreign { owner: 12345, .. })));
    let reported = SetOptions { access: Access::Shared, ..SetOptions::default() };
    RingSet::open_with(&dir, &reported).unwrap().producer("a").unwrap();
}
