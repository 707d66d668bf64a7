//! The life of rings at several places: each is found once, whatever becomes of its files.

use perfring_consumer::{AttachError, Consumer, Location};
use perfring_producer::{Options, Producer};
use perfring_set::{Feed, FeedChange, Found, NotAttached, PlaceId};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// After this, what waits is found again.
pub(crate) const LATER: Duration = Duration::from_secs(3);

pub(crate) struct Temp {
    dir: tempfile::TempDir,
    pub(crate) feed: Feed,
    a: PlaceId,
}

impl Temp {
    /// A feed of two directories.
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut feed = Feed::default();
        let [a, _] = ["a", "b"].map(|name| {
            fs::create_dir(dir.path().join(name)).unwrap();
            feed.add_dir(dir.path().join(name)).unwrap()
        });
        Temp { dir, feed, a }
    }

    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn ring(&self, name: &str) -> [u8; 16] {
        let options = Options { size: 4096, ..Options::default() };
        Producer::create(self.at(name), &options).unwrap().layout().uuid
    }

    fn rename(&self, from: &str, to: &str) {
        fs::rename(self.at(from), self.at(to)).unwrap();
    }

    fn copy(&self, from: &str, to: &str) {
        fs::copy(self.at(from), self.at(to)).unwrap();
    }

    fn remove(&self, name: &str) {
        fs::remove_file(self.at(name)).unwrap();
    }

    /// A line for each change until `now`. Each ring that is found is attached to.
    fn changes_at(&mut self, now: Instant) -> Vec<String> {
        let mut lines = Vec::new();
        while let Some(change) = self.feed.next(now) {
            lines.push(self.line(&change));
            if let FeedChange::Found(found) = change {
                self.feed.attached(found);
            }
        }
        lines
    }

    fn changes(&mut self) -> Vec<String> {
        self.changes_at(Instant::now())
    }

    pub(crate) fn line(&self, change: &FeedChange) -> String {
        let name = |path: &Path| path.strip_prefix(self.dir.path()).unwrap().display().to_string();
        match change {
            FeedChange::Found(found) if found.is_new => format!("new {}", name(&found.ring.path)),
            FeedChange::Found(found) => format!("found {}", name(&found.ring.path)),
            FeedChange::Copy { found, of } => {
                let of = of.as_ref().map_or("none".to_owned(), |of| name(&of.path()));
                format!("{} is a copy of {of}", name(&found.ring.path))
            }
            FeedChange::Renamed(found) => format!("now {}", name(&found.ring.path)),
            FeedChange::Removed(found) => format!("removed {}", name(&found.ring.path)),
            FeedChange::NotRead(_, file) => format!("not {}", name(&file.path)),
            FeedChange::Left(path) => format!("left {}", name(path)),
            _ => panic!("{change:?}"),
        }
    }
}

#[test]
fn a_ring_that_moves_from_one_place_to_another_is_found_once() {
    let mut temp = Temp::new();
    temp.ring("a/1");
    temp.ring("b/2");
    assert_eq!(temp.changes(), ["found a/1", "found b/2"]);
    // One place is asked before the other: a ring is seen to leave before it comes, or after it.
    temp.rename("a/1", "b/1");
    temp.rename("b/2", "a/2");
    let mut moved = temp.changes();
    moved.sort();
    assert_eq!(moved, ["now a/2", "now b/1"]);
    temp.rename("a/2", "a/3");
    assert_eq!(temp.changes(), ["now a/3"]);
    fs::hard_link(temp.at("a/3"), temp.at("b/3")).unwrap();
    assert!(temp.changes().is_empty(), "a second name");
    temp.remove("a/3");
    assert_eq!(temp.changes(), ["now b/3"]);
    temp.remove("b/3");
    assert_eq!(temp.changes(), ["removed b/3"]);
}

#[test]
fn a_copy_is_found_once_the_ring_has_ended() {
    let mut temp = Temp::new();
    let uuid = temp.ring("a/1");
    assert_eq!(temp.changes(), ["found a/1"]);
    temp.copy("a/1", "b/1");
    assert_eq!(temp.changes(), ["b/1 is a copy of a/1"]);
    assert!(
        temp.changes_at(Instant::now() + LATER).is_empty(),
        "it is not tried while the ring is read"
    );
    assert_eq!(temp.feed.waiting().count(), 1);
    temp.remove("b/1");
    assert_eq!(temp.changes(), ["left b/1"]);
    temp.copy("a/1", "b/1");
    assert_eq!(temp.changes(), ["b/1 is a copy of a/1"]);
    temp.remove("a/1");
    assert_eq!(temp.changes(), ["removed a/1", "b/1 is a copy of none"]);
    temp.feed.ended(&uuid);
    assert_eq!(temp.changes(), ["new b/1"]);
    // In the other order: the copy comes after the ring's own file went.
    temp.rename("b/1", "elsewhere");
    assert_eq!(temp.changes(), ["removed b/1"]);
    temp.copy("elsewhere", "a/1");
    assert_eq!(temp.changes(), ["a/1 is a copy of none"]);
    temp.feed.ended(&uuid);
    assert_eq!(temp.changes(), ["new a/1"]);
}

#[test]
fn of_a_ring_and_its_copy_in_one_directory_the_one_that_is_read_is_followed() {
    for order in [["a/1", "a/2"], ["a/2", "a/1"]] {
        let mut temp = Temp::new();
        temp.ring("b/1");
        assert_eq!(temp.changes(), ["found b/1"]);
        temp.copy("b/1", order[0]);
        temp.rename("b/1", order[1]);
        let changes = temp.changes();
        assert!(changes.contains(&format!("now {}", order[1])), "{changes:?}");
        assert!(!changes.iter().any(|line| line.contains("removed")), "{changes:?}");
        // A second name of the file that is read, beside a copy.
        fs::hard_link(temp.at(order[1]), temp.at("b/link")).unwrap();
        temp.copy("b/link", "b/copy");
        temp.changes();
        temp.remove(order[1]);
        let changes = temp.changes();
        assert_eq!(changes, ["now b/link", &format!("{} is a copy of b/link", order[0])]);
    }
}

#[test]
fn an_older_file_that_takes_the_name_of_the_one_that_is_read_is_a_copy() {
    let mut temp = Temp::new();
    temp.ring("outside");
    temp.copy("outside", "b/1");
    assert_eq!(temp.changes(), ["found b/1"]);
    temp.rename("b/1", "b/2");
    fs::hard_link(temp.at("outside"), temp.at("b/1")).unwrap();
    let mut lines = Vec::new();
    while let Some(change) = temp.feed.next(Instant::now()) {
        lines.push(temp.line(&change));
        assert!(lines.len() < 10, "{lines:?}");
    }
    assert!(lines.iter().any(|line| line == "now b/2"), "{lines:?}");
    assert!(!lines.iter().any(|line| line.starts_with("removed")), "{lines:?}");
}

#[test]
fn a_copy_of_a_ring_that_is_set_aside_is_found() {
    let mut temp = Temp::new();
    let uuid = temp.ring("a/1");
    assert_eq!(temp.changes(), ["found a/1"]);
    temp.copy("a/1", "b/1");
    assert_eq!(temp.changes(), ["b/1 is a copy of a/1"]);
    temp.feed.set_aside(uuid);
    temp.feed.ended(&uuid);
    assert_eq!(temp.changes_at(Instant::now() + LATER), ["new b/1"]);
}

#[test]
fn what_cannot_be_attached_to_is_found_again_and_what_is_damaged_is_not() {
    let mut temp = Temp::new();
    temp.ring("a/1");
    let find = |temp: &mut Temp, now| match temp.feed.next(now) {
        Some(FeedChange::Found(found)) => found,
        other => panic!("{other:?}"),
    };
    let location = Location::from(temp.dir.path().join("a/1"));
    let first = Consumer::attach(&location).unwrap();
    let busy = Consumer::attach(&location).unwrap_err();
    let found: Found = find(&mut temp, Instant::now());
    let NotAttached { why, is_retried, .. } = temp.feed.failed(found, &busy).unwrap();
    assert!(is_retried && why.ends_with("; it is tried again each second"), "{why}");
    assert_eq!(temp.feed.next(Instant::now()), None);
    let found = find(&mut temp, Instant::now() + LATER);
    assert_eq!(temp.feed.failed(found, &busy), None, "it was reported");
    temp.feed.retry_now();
    drop(first);
    let found = find(&mut temp, Instant::now());
    assert!(!temp.feed.retry(found, &why), "for the same reason");
    let found = find(&mut temp, Instant::now() + LATER);
    // It is gone: the feed reports that, and nothing is tried.
    let gone = AttachError::NotFound { location: location.clone(), leads_to: None, holder: None };
    assert_eq!(temp.feed.failed(found, &gone), None);
    assert_eq!(temp.feed.next(Instant::now() + LATER), None);
    temp.rename("a/1", "b/1");
    let found = loop {
        match temp.feed.next(Instant::now()) {
            Some(FeedChange::Found(found)) => break found,
            Some(FeedChange::Left(_)) => {}
            other => panic!("{other:?}"),
        }
    };
    let uuid = found.ring.identity.uuid;
    let damaged = AttachError::Truncated { location };
    let NotAttached { why, is_retried, .. } = temp.feed.failed(found, &damaged).unwrap();
    assert!(!is_retried && why.ends_with("; the ring is set aside"), "{why}");
    temp.rename("b/1", "a/1");
    assert_eq!(temp.changes_at(Instant::now() + LATER), ["left b/1"]);
    // As is one that was read.
    let other = temp.ring("a/2");
    assert_ne!(uuid, other);
    assert_eq!(temp.changes(), ["new a/2"]);
    temp.feed.set_aside(other);
    temp.feed.ended(&other);
    assert!(temp.changes_at(Instant::now() + LATER).is_empty());
}

#[test]
fn a_ring_that_is_read_no_more_is_found_again_if_its_file_is_there() {
    let mut temp = Temp::new();
    let uuid = temp.ring("a/1");
    assert_eq!(temp.changes(), ["found a/1"]);
    temp.feed.ended(&uuid);
    assert!(temp.changes().is_empty(), "not at once: what ended it may be there still");
    assert_eq!(temp.changes_at(Instant::now() + LATER), ["found a/1"]);
    // One that has ended before its removal was reported.
    let other = temp.ring("a/2");
    assert_eq!(temp.changes(), ["new a/2"]);
    temp.remove("a/2");
    temp.ring("b/1");
    let first = temp.feed.next(Instant::now()).unwrap();
    assert_eq!(temp.line(&first), "new b/1", "the first directory was asked before");
    temp.feed.ended(&other);
    assert!(temp.changes().is_empty());
    temp.remove("b/1");
    assert_eq!(temp.changes(), ["left b/1"], "it was not attached to");
    // A place that is left: its rings are not removed, and are found where they are.
    temp.feed.leave(temp.a);
    assert!(temp.changes().is_empty());
    temp.rename("a/1", "b/1");
    assert_eq!(temp.changes(), ["now b/1"]);
    temp.feed.ended(&uuid);
    temp.remove("b/1");
    assert_eq!(temp.changes_at(Instant::now() + LATER), ["left b/1"]);
}

#[test]
fn one_ring_is_a_place() {
    let mut temp = Temp::new();
    let path = temp.at("one");
    let place = temp.feed.add_ring(&*path);
    assert_eq!(temp.feed.missing().count(), 0, "no place was asked yet");
    let mut later = Instant::now();
    let mut changes = |temp: &mut Temp| {
        later += LATER;
        temp.changes_at(later)
    };
    assert!(changes(&mut temp).is_empty());
    assert!(temp.feed.missing().any(|missing| missing == place));
    fs::write(&path, "no ring").unwrap();
    assert_eq!(changes(&mut temp), ["not one"]);
    assert!(changes(&mut temp).is_empty(), "it was reported");
    assert_eq!(temp.feed.missing().count(), 0);
    temp.ring("other");
    temp.rename("other", "one");
    assert_eq!(changes(&mut temp), ["new one"]);
    temp.ring("other");
    temp.rename("other", "one");
    assert_eq!(changes(&mut temp), ["new one", "removed one"]);
    temp.remove("one");
    assert_eq!(changes(&mut temp), ["removed one"]);
    assert_eq!(temp.feed.missing().collect::<Vec<_>>(), [place]);
    // One that is read already, by the name that it has now.
    let consumer = {
        temp.ring("two");
        Consumer::attach(temp.at("two")).unwrap()
    };
    temp.feed.add_attached(&temp.at("two").into(), consumer.layout());
    assert!(changes(&mut temp).is_empty());
    temp.rename("two", "a/two");
    assert_eq!(changes(&mut temp), ["now a/two"]);
}

#[test]
fn rings_that_wait_do_not_keep_a_feed_from_being_level() {
    let mut temp = Temp::new();
    for n in 0..3 {
        temp.ring(&format!("a/{n}"));
    }
    assert!(!temp.feed.is_level(), "no place was asked");
    for turn in 0..3 {
        temp.feed.retry_now();
        for _ in 0..3 {
            let change = temp.feed.next(Instant::now());
            let Some(FeedChange::Found(found)) = change else { panic!("{change:?}") };
            assert_eq!(temp.feed.is_level(), turn > 0, "in turn {turn}");
            temp.feed.retry(found, "busy");
        }
        assert_eq!(temp.feed.next(Instant::now()), None);
        assert!(temp.feed.is_level());
    }
}

#[test]
fn a_flood_of_one_place_delays_no_other() {
    let mut temp = Temp::new();
    let kept = temp.ring("b/kept");
    temp.ring("b/gone");
    assert_eq!(temp.changes(), ["found b/kept", "found b/gone"]);
    temp.ring("a/early");
    let found = temp.feed.next(Instant::now());
    assert!(matches!(&found, Some(FeedChange::Found(_))), "{found:?}");
    temp.feed.ended(&kept); // it is tried again
    temp.remove("b/gone");
    // Files come for as long as the feed is asked.
    let (mut changes, mut handled) = (0, Vec::new());
    while handled.len() < 2 {
        changes += 1;
        assert!(changes < 1000, "only {handled:?}");
        fs::write(temp.at(&format!("a/{changes}")), "no ring").unwrap();
        match temp.feed.next(Instant::now() + LATER).unwrap() {
            FeedChange::NotRead(..) => {}
            change => handled.push(temp.line(&change)),
        }
    }
    handled.sort();
    assert_eq!(handled, ["found b/kept", "removed b/gone"]);
}
