//! What a follower reports is what the directory holds, however it came to that.

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use perfring_consumer::{Consumer, files::Identity};
use perfring_producer::{Options, files::create};
use perfring_set::{Change, Follower, RingSet, SetOptions, list};
use perfring_testkit::wait::{WATCHDOG, Watchdog};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::fs;
use std::os::fd::AsFd;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Instant;

/// Small, as there are many.
fn small() -> Options {
    Options { size: 4096, types_size: 0, ..SetOptions::default().ring }
}

/// A follower's view: its changes, applied as a program that acts on them would.
#[derive(Default)]
pub(crate) struct View(pub(crate) BTreeMap<String, Identity>);

impl View {
    fn apply(&mut self, change: &Change) {
        match change {
            Change::Appeared(ring) => {
                let had = self.0.insert(ring.name.clone(), ring.identity);
                assert_eq!(had, None, "{change:?}");
            }
            Change::Replaced { before, now } => {
                assert_eq!((&before.name, &before.path), (&now.name, &now.path));
                let had = self.0.insert(now.name.clone(), now.identity);
                assert_eq!(had, Some(before.identity), "{change:?}");
                assert_ne!(before.identity, now.identity);
            }
            Change::Vanished(ring) => {
                assert_eq!(self.0.remove(&ring.name), Some(ring.identity), "{change:?}");
            }
            _ => {}
        }
    }

    /// All that is reported now.
    pub(crate) fn drain(&mut self, follower: &mut Follower) -> Vec<Change> {
        let changes: Vec<Change> = std::iter::from_fn(|| follower.next()).collect();
        changes.iter().for_each(|change| self.apply(change));
        let reported: BTreeMap<String, Identity> =
            follower.rings().map(|ring| (ring.name.clone(), ring.identity)).collect();
        assert_eq!(reported, self.0);
        changes
    }

    /// Polls and drains until it is so.
    fn until(&mut self, follower: &mut Follower, what: &str, so: impl Fn(&Self) -> bool) {
        let dog = Watchdog::default();
        while !so(self) {
            dog.check(what);
            // As it is meant to be used: only the descriptor says when to poll.
            let fd = follower.as_fd();
            let limit = PollTimeout::try_from(WATCHDOG).unwrap();
            let ready = poll(&mut [PollFd::new(fd, PollFlags::POLLIN)], limit).unwrap();
            assert!(ready > 0, "nothing says when to poll for: {what}");
            self.drain(follower);
        }
    }
}

/// The directory's rings, listed independently. Of several names for one ring only one counts.
fn directory(dir: &Path) -> BTreeMap<String, Identity> {
    let rings = list(dir).map_or_else(|_| Vec::new(), |(rings, _)| rings);
    rings.into_iter().map(|ring| (ring.name, ring.identity)).collect()
}

pub(crate) fn words(changes: &[Change]) -> Vec<String> {
    let word = |change: &Change| match change {
        Change::Appeared(ring) => format!("+{}", ring.name),
        Change::Replaced { now, .. } => format!("={}", now.name),
        Change::Vanished(ring) => format!("-{}", ring.name),
        Change::Refused(no) => format!("!{}", no.name),
        Change::Left(path) => {
            format!("?{}", path.file_name().unwrap_or_default().to_string_lossy())
        }
        other => panic!("{other:?}"),
    };
    changes.iter().map(word).collect()
}

#[test]
fn each_change_is_reported_once() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("rings");
    let set = RingSet::open(&dir).unwrap();
    create(dir.join("before"), &small()).unwrap();
    fs::create_dir(dir.join("folder")).unwrap();
    fs::write(dir.join("folder/file"), "").unwrap();
    let (mut follower, mut view) = (Follower::new(&dir).unwrap(), View::default());
    let mut changes = words(&view.drain(&mut follower));
    changes.sort();
    assert_eq!(changes, ["!folder", "+before"]);
    let mut reported = |what: &[&str]| {
        assert_eq!(words(&view.drain(&mut follower)), what);
        assert!(view.drain(&mut follower).is_empty());
    };
    reported(&[]);
    let producer = set.producer("a").unwrap();
    reported(&["+a"]);
    drop(producer);
    set.producer("a").unwrap().publish(b"x").unwrap();
    reported(&[]);
    // A half-made ring is not seen, nor any other name that begins with a dot.
    fs::write(dir.join(".perfring-0.tmp"), "").unwrap();
    fs::write(dir.join(".saved"), "position").unwrap();
    reported(&[]);
    fs::remove_file(dir.join("a")).unwrap();
    create(dir.join("a"), &small()).unwrap();
    reported(&["=a"]);
    fs::rename(dir.join("a"), dir.join("b")).unwrap();
    reported(&["-a", "+b"]);
    // The same, in the other order of names.
    fs::rename(dir.join("b"), dir.join("a")).unwrap();
    reported(&["-b", "+a"]);
    fs::rename(dir.join("before"), dir.join("a")).unwrap();
    reported(&["-before", "=a"]);
    // Two that swap names.
    create(dir.join("b"), &small()).unwrap();
    reported(&["+b"]);
    for (from, to) in [("a", "x"), ("b", "a"), ("x", "b")] {
        fs::rename(dir.join(from), dir.join(to)).unwrap();
    }
    reported(&["-b", "=a", "+b"]);
    fs::remove_file(dir.join("b")).unwrap();
    fs::remove_file(dir.join("a")).unwrap();
    reported(&["-b", "-a"]);
}

/// Of a ring and its copies, the file with a producer is read, or else the oldest.
#[test]
fn a_copy_does_not_hide_the_ring() {
    let temp = tempfile::tempdir_in("/dev/shm").unwrap();
    let dir = temp.path().join("rings");
    let set = RingSet::open(&dir).unwrap();
    let at = |name: &str| dir.join(name);
    let seen = |follower: &mut Follower, view: &mut View| {
        let mut words = words(&view.drain(follower));
        words.sort();
        words
    };
    // Whatever the order of the names is, and whichever is found first.
    for (ring, copies) in [("m", ["a", "z"]), ("b", ["x", "y"])] {
        let producer = set.producer(ring).unwrap();
        for copy in copies {
            fs::copy(at(ring), at(copy)).unwrap();
        }
        let expected =
            vec![format!("!{}", copies[0]), format!("!{}", copies[1]), format!("+{ring}")];
        let (mut follower, mut view) = (Follower::new(&dir).unwrap(), View::default());
        assert_eq!(seen(&mut follower, &mut view), expected);
        drop(producer);
        // A reader that starts after the producer's death.
        let (mut follower, mut view) = (Follower::new(&dir).unwrap(), View::default());
        assert_eq!(seen(&mut follower, &mut view), expected);
        // The copy is in use: it is the ring from now on. A change of its file has it checked at once, else it is within 10 s.
        let producer = set.producer(copies[0]).unwrap();
        let mode = fs::metadata(at(copies[0])).unwrap().permissions();
        fs::set_permissions(at(copies[0]), mode).unwrap();
        // The reason of the other copy has changed.
        let mut switched = [("!", ring), ("!", copies[1]), ("+", copies[0]), ("-", ring)]
            .map(|(what, name)| format!("{what}{name}"));
        switched.sort();
        assert_eq!(seen(&mut follower, &mut view), switched);
        drop(producer);
        for name in [ring, copies[0], copies[1]] {
            fs::remove_file(at(name)).unwrap();
        }
        view.drain(&mut follower);
    }
}

#[test]
fn what_is_no_ring_is_reported_once_and_checked_again() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("rings");
    RingSet::open(&dir).unwrap();
    let outside = temp.path().join("outside");
    create(&outside, &small()).unwrap();
    let (mut follower, mut view) = (Follower::new(&dir).unwrap(), View::default());
    let mut reported = |what: &[&str]| {
        let changes = view.drain(&mut follower);
        assert_eq!(words(&changes), what);
        changes
    };
    fs::write(dir.join("text"), "not a ring").unwrap();
    reported(&["!text"]);
    fs::write(dir.join("text"), "nor now..").unwrap();
    let changes = reported(&["!text"]);
    let Change::Refused(no) = &changes[0] else { panic!() };
    assert!(no.why.contains("9 bytes"), "{}", no.why); // another reason
    fs::write(dir.join("text"), "nor now!!").unwrap();
    reported(&[]);
    symlink(&outside, dir.join("link")).unwrap();
    let changes = reported(&["!link"]);
    assert!(matches!(&changes[0], Change::Refused(no) if no.why.contains("symbolic link")));
    nix::unistd::mkfifo(&dir.join("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    reported(&["!fifo"]);
    // A ring that is copied here is seen when it is whole.
    fs::copy(&outside, dir.join("text")).unwrap();
    reported(&["+text"]);
    fs::write(dir.join("text"), "no more").unwrap();
    reported(&["-text", "!text"]);
    // Two names of one ring, and a copy, are not read twice. If one is removed, the other counts.
    fs::rename(&outside, dir.join("one")).unwrap();
    reported(&["+one"]);
    fs::hard_link(dir.join("one"), dir.join("two")).unwrap();
    let changes = reported(&["!two"]);
    assert!(matches!(&changes[0], Change::Refused(no) if no.why.contains("same ring as one")));
    fs::copy(dir.join("one"), dir.join("three")).unwrap();
    reported(&["!three"]);
    fs::remove_file(dir.join("one")).unwrap();
    let changes = words(&view.drain(&mut follower));
    assert_eq!(changes[0], "-one");
    assert!(changes.contains(&"+two".into()) ^ changes.contains(&"+three".into()), "{changes:?}");
}

#[test]
fn the_directory_may_come_and_go() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("rings");
    let (mut follower, mut view) = (Follower::new(&dir).unwrap(), View::default());
    assert!(view.drain(&mut follower).is_empty() && !follower.is_there());
    for round in 0..3 {
        let set = RingSet::open(&dir).unwrap();
        let _producer = set.producer("a").unwrap();
        view.until(&mut follower, "the ring of a new directory", |view| !view.0.is_empty());
        assert!(follower.is_there());
        create(dir.join("b"), &small()).unwrap();
        view.until(&mut follower, "another ring", |view| view.0.len() == 2);
        match round {
            // Moved away, with all that is in it; or removed; and the next time replaced
            // before the follower has polled.
            0 => fs::rename(&dir, temp.path().join("old")).unwrap(),
            1 => fs::remove_dir_all(&dir).unwrap(),
            _ => {
                fs::remove_dir_all(&dir).unwrap();
                let set = RingSet::open(&dir).unwrap();
                create(set.dir().join("c"), &small()).unwrap();
                view.until(&mut follower, "the new one", |view| view.0.contains_key("c"));
                assert_eq!(view.0, directory(&dir));
                // And it is followed, not only read.
                create(dir.join("d"), &small()).unwrap();
                view.until(&mut follower, "one more", |view| view.0.contains_key("d"));
                return;
            }
        }
        view.until(&mut follower, "none", |view| view.0.is_empty());
    }
}

#[test]
fn an_overflow_of_the_kernels_queue_loses_no_ring() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("rings");
    RingSet::open(&dir).unwrap();
    create(dir.join("goes"), &small()).unwrap();
    let (mut follower, mut view) = (Follower::new(&dir).unwrap(), View::default());
    view.drain(&mut follower);
    let most = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap();
    let most: u32 = most.trim().parse().unwrap();
    // Two events each; equal neighbours would be reported as one.
    fs::write(dir.join(".0"), "").unwrap();
    for n in 0..most / 2 + 10 {
        let (from, to) = (n % 2, 1 - n % 2);
        fs::rename(dir.join(format!(".{from}")), dir.join(format!(".{to}"))).unwrap();
    }
    create(dir.join("comes"), &small()).unwrap();
    fs::remove_file(dir.join("goes")).unwrap();
    assert_eq!(words(&view.drain(&mut follower)), ["-goes", "+comes"]);
    create(dir.join("after"), &small()).unwrap();
    assert_eq!(words(&view.drain(&mut follower)), ["+after"]);
}

#[test]
fn a_thousand_rings_appear_and_are_attached_to() {
    let temp = tempfile::tempdir_in("/dev/shm").unwrap();
    let dir = temp.path().join("rings");
    RingSet::open(&dir).unwrap();
    for n in 0..1000 {
        create(dir.join(n.to_string()), &small()).unwrap();
    }
    let (mut follower, mut view) = (Follower::new(&dir).unwrap(), View::default());
    let began = Instant::now();
    view.drain(&mut follower);
    let found = began.elapsed();
    assert_eq!(view.0.len(), 1000);
    let began = Instant::now();
    let consumers: Vec<_> =
        follower.rings().map(|ring| Consumer::attach(&ring.path).unwrap()).collect();
    let attached = began.elapsed();
    for (ring, consumer) in follower.rings().zip(&consumers) {
        assert_eq!(ring.layout, *consumer.layout());
    }
    let began = Instant::now();
    for _ in 0..1000 {
        assert_eq!(follower.next(), None);
    }
    println!(
        "1,000 rings: found in {found:?}, attached to in {attached:?}; a poll that finds nothing \
         new: {:?}",
        began.elapsed() / 1000
    );
}

#[derive(Clone, Debug)]
enum Step {
    Make(u8),
    Remove(u8),
    Rename(u8, u8),
    Link(u8, u8),
    Rubbish(u8),
    Symlink(u8),
    Folder(u8),
    NewDirectory,
    Drain,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let name = || 0..5u8;
    let step = prop_oneof![
        6 => name().prop_map(Step::Make),
        4 => name().prop_map(Step::Remove),
        3 => (name(), name()).prop_map(|(from, to)| Step::Rename(from, to)),
        1 => (name(), name()).prop_map(|(from, to)| Step::Link(from, to)),
        1 => name().prop_map(Step::Rubbish),
        1 => name().prop_map(Step::Symlink),
        1 => name().prop_map(Step::Folder),
        1 => Just(Step::NewDirectory),
        5 => Just(Step::Drain),
    ];
    prop::collection::vec(step, 1..40)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Any changes, with a follower that polls now and then: in the end its view is what is there.
    #[test]
    fn a_view_becomes_what_the_directory_is(steps in steps()) {
        let temp = tempfile::tempdir_in("/dev/shm").unwrap();
        let dir = temp.path().join("rings");
        fs::create_dir(&dir).unwrap();
        let (mut follower, mut view) = (Follower::new(&dir).unwrap(), View::default());
        view.drain(&mut follower);
        let at = |n: u8| dir.join(n.to_string());
        for step in &steps {
            // What cannot be done at this moment is not.
            match step {
                Step::Make(n) => { let _ = create(at(*n), &small()); }
                Step::Remove(n) => {
                    let _ = fs::remove_file(at(*n));
                    let _ = fs::remove_dir(at(*n));
                }
                Step::Rename(from, to) => { let _ = fs::rename(at(*from), at(*to)); }
                Step::Link(from, to) => { let _ = fs::hard_link(at(*from), at(*to)); }
                Step::Rubbish(n) => {
                    // Not into a ring that has another name, which is not reported.
                    let _ = fs::remove_file(at(*n));
                    let _ = fs::write(at(*n), "rubbish");
                }
                Step::Symlink(n) => { let _ = symlink(at(0), at(*n)); }
                Step::Folder(n) => { let _ = fs::create_dir(at(*n)); }
                Step::NewDirectory => {
                    fs::remove_dir_all(&dir).unwrap();
                    fs::create_dir(&dir).unwrap();
                }
                Step::Drain => { view.drain(&mut follower); }
            }
        }
        view.drain(&mut follower);
        let there = directory(&dir);
        // Of names of one ring it is any one.
        let mut rings: Vec<_> = there.values().map(|identity| identity.uuid).collect();
        rings.sort_unstable();
        rings.dedup();
        prop_assert_eq!(rings.len(), view.0.len());
        for (name, identity) in &view.0 {
            prop_assert_eq!(there.get(name), Some(identity));
        }
    }
}
