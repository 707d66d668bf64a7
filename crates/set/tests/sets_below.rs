//! Sets of rings per CPU in a directory of rings.

use crate::followers::{View, words};
use perfring_producer::{Options, Producers, files::create};
use perfring_set::{Fate, Follower, Merge, PruneRule, Pruner, list};
use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::Duration;

/// Makes the ring of a CPU in a set, which is made if it is missing.
fn ring_of(set: &Path, cpu: u32) {
    fs::create_dir_all(set).unwrap();
    let options =
        Options { size: 4096, types_size: 0, producers: Producers::Cpu, cpu, ..Options::default() };
    create(set.join(format!("cpu{cpu}")), &options).unwrap();
}

fn plain(path: &Path) {
    create(path, &Options { size: 4096, types_size: 0, ..Options::default() }).unwrap();
}

/// A directory with two sets that have the same CPU, a ring whose name looks like a ring of a set, and what is no ring.
fn mixed(dir: &Path) -> UnixListener {
    for set in ["a", "b"] {
        ring_of(&dir.join(set), 0);
    }
    plain(&dir.join("a_cpu0"));
    plain(&dir.join("b/cpu7"));
    plain(&dir.join("b/priority"));
    plain(&dir.join("b/no_priority"));
    fs::create_dir(dir.join("b/cpu8")).unwrap();
    fs::create_dir(dir.join("empty")).unwrap();
    fs::create_dir(dir.join("foreign")).unwrap();
    plain(&dir.join("foreign/ring"));
    ring_of(&dir.join("foreign/deep"), 0);
    symlink(dir.join("nowhere"), dir.join("link")).unwrap();
    symlink(dir.join("a"), dir.join("link_to_a")).unwrap();
    nix::unistd::mkfifo(&dir.join("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    UnixListener::bind(dir.join("socket")).unwrap()
}

const REASONS: [(&str, &str); 7] = [
    ("b/cpu7", "not a ring per CPU"),
    ("b/cpu8", "a directory, not a ring's file"),
    ("foreign", "a directory without rings per CPU"),
    ("link", "nowhere, which does not exist"),
    ("link_to_a", "/a, which is not followed"),
    ("pipe", "a FIFO"),
    ("socket", "a socket"),
];

#[test]
fn the_rings_of_sets_in_a_directory_are_listed_with_the_names_of_their_sets() {
    let dir = tempfile::tempdir().unwrap();
    let _socket = mixed(dir.path());
    let (rings, others) = list(dir.path()).unwrap();
    let names: Vec<&str> = rings.iter().map(|ring| &*ring.name).collect();
    assert_eq!(names, ["a/cpu0", "a_cpu0", "b/cpu0", "b/priority"]);
    let others: Vec<_> = others.iter().map(|no| (&*no.name, &*no.why)).collect();
    assert_eq!(others.len(), REASONS.len(), "{others:?}");
    for ((name, why), (expected, part)) in others.iter().zip(REASONS) {
        assert_eq!(*name, expected);
        assert!(why.contains(part), "{name}: {why}");
    }
    // Named as such, the rings of a set have the same names.
    let (rings, _) = list(dir.path().join("a")).unwrap();
    assert_eq!(rings[0].name, "a/cpu0");
    // What follows the directory has the same rings and reasons.
    let mut follower = Follower::new(dir.path()).unwrap();
    let mut changes = words(&View::default().drain(&mut follower));
    changes.sort();
    let refused = REASONS.iter().map(|(name, _)| format!("!{name}"));
    let all: Vec<_> = refused.chain(names.iter().map(|name| format!("+{name}"))).collect();
    let mut all_sorted = all;
    all_sorted.sort();
    assert_eq!(changes, all_sorted);
    let mut merge = Merge::follow(dir.path()).unwrap();
    while merge.read().is_some() {}
    let mut read: Vec<&str> = merge.rings().collect();
    read.sort_unstable();
    assert_eq!(read, names);
}

#[test]
fn sets_that_come_change_their_names_and_go_are_followed() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("rings");
    fs::create_dir(&dir).unwrap();
    let (mut follower, mut view) = (Follower::new(&dir).unwrap(), View::default());
    // The descriptor of inotify alone reports all this: the next scan is due after 10 s.
    let mut reported = |what: &[&str]| {
        let mut words = words(&view.drain(&mut follower));
        words.sort();
        assert_eq!(words, what);
        assert!(view.drain(&mut follower).is_empty());
    };
    reported(&[]);
    let (set, other, outside) = (dir.join("set"), dir.join("other"), temp.path().join("outside"));
    fs::create_dir(&set).unwrap();
    reported(&[]);
    ring_of(&set, 0);
    reported(&["+set/cpu0"]);
    plain(&set.join("priority"));
    reported(&["+set/priority"]);
    fs::remove_file(set.join("priority")).unwrap();
    reported(&["-set/priority"]);
    ring_of(&set, 1);
    fs::write(set.join("notes"), "").unwrap();
    fs::write(set.join(".perfring-0.tmp"), "").unwrap();
    reported(&["+set/cpu1"]);
    fs::remove_file(set.join("cpu1")).unwrap();
    ring_of(&set, 1);
    reported(&["=set/cpu1"]);
    fs::rename(&set, &other).unwrap();
    reported(&["+other/cpu0", "+other/cpu1", "-set/cpu0", "-set/cpu1"]);
    ring_of(&other, 2);
    fs::remove_file(other.join("cpu0")).unwrap();
    reported(&["+other/cpu2", "-other/cpu0"]);
    // Elsewhere, it is no longer followed.
    fs::rename(&other, &outside).unwrap();
    reported(&["-other/cpu1", "-other/cpu2"]);
    ring_of(&outside, 3);
    reported(&[]);
    symlink(&outside, &other).unwrap();
    reported(&["!other"]);
    fs::remove_file(&other).unwrap();
    fs::rename(&outside, &set).unwrap();
    reported(&["+set/cpu1", "+set/cpu2", "+set/cpu3", "?other"]);
    // All at once, and another set in its place.
    fs::remove_dir_all(&set).unwrap();
    ring_of(&set, 1);
    reported(&["-set/cpu2", "-set/cpu3", "=set/cpu1"]);
    fs::remove_dir_all(&set).unwrap();
    reported(&["-set/cpu1"]);
    plain(&set);
    reported(&["+set"]);
}

#[test]
fn prune_removes_dead_rings_of_sets_below_and_reports_them_by_their_names() {
    let dir = tempfile::tempdir().unwrap();
    let _socket = mixed(dir.path());
    let rule = PruneRule { dead_for: Duration::ZERO, ..PruneRule::default() };
    let verdicts = Pruner::new(dir.path(), rule).prune().unwrap();
    let removed: Vec<&str> = (verdicts.iter())
        .filter(|verdict| matches!(verdict.fate, Fate::Removed { .. }))
        .map(|verdict| &*verdict.ring.name)
        .collect();
    assert_eq!(removed, ["a/cpu0", "a_cpu0", "b/cpu0", "b/priority"]);
    for stays in ["foreign/ring", "foreign/deep/cpu0", "b/cpu7"] {
        assert!(fs::exists(dir.path().join(stays)).unwrap(), "{stays}");
    }
}
