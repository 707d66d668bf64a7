//! A feed against a plain model of the files.

use crate::feeds::{LATER, Temp};
use perfring_consumer::files::RingFile;
use perfring_producer::Producer;
use perfring_set::{FeedChange, RingEntry};
use proptest::prelude::*;
use std::collections::{HashMap, HashSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// What happens to files, each with a name in one of the directories, or outside.
#[derive(Clone, Copy, Debug)]
enum Step {
    Create(usize),
    Rename(usize, usize),
    Copy(usize, usize),
    Link(usize, usize),
    Remove(usize),
    /// A producer attaches.
    Produce(usize),
    /// The feed's changes are handled.
    Look,
    /// As before, and rings whose files were removed have ended.
    End,
}

/// A file's device and inode, its name, and what keeps its inode.
type ReadFile = ((u64, u64), Option<PathBuf>, fs::File);

const NAMES: [&str; 6] = ["a/1", "a/2", "b/1", "b/2", "x", "y"];

fn step() -> impl Strategy<Value = Step> {
    let at = 0..NAMES.len();
    prop_oneof![
        2 => at.clone().prop_map(Step::Create),
        3 => (at.clone(), at.clone()).prop_map(|(from, to)| Step::Rename(from, to)),
        2 => (at.clone(), at.clone()).prop_map(|(from, to)| Step::Copy(from, to)),
        1 => (at.clone(), at.clone()).prop_map(|(from, to)| Step::Link(from, to)),
        2 => at.clone().prop_map(Step::Remove),
        1 => at.prop_map(Step::Produce),
        3 => Just(Step::Look),
        2 => Just(Step::End),
    ]
}

fn uuid_at(path: &Path) -> Option<[u8; 16]> {
    Some(RingFile::inspect(path).ok()?.layout().uuid)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// The model: a ring is read from one file, whose name is known; once its file has no name that is followed,
    /// that is reported. After an end, every ring that has a file in the directories is read, and no other.
    #[test]
    fn each_ring_that_has_a_file_is_read_once(steps in prop::collection::vec(step(), 1..40)) {
        let mut temp = Temp::new();
        let mut read: HashMap<[u8; 16], ReadFile> = HashMap::new();
        let mut producers = Vec::new();
        let mut now = Instant::now();
        for step in steps.into_iter().chain([Step::End, Step::End]) {
            let path = |at: usize| temp.at(NAMES[at]);
            // Some of these find no file.
            match step {
                Step::Create(at) => {
                    let _ = fs::remove_file(path(at));
                    temp.ring(NAMES[at]);
                }
                Step::Rename(from, to) => drop(fs::rename(path(from), path(to))),
                Step::Copy(from, to) if from != to => {
                    let _ = fs::remove_file(path(to));
                    drop(fs::copy(path(from), path(to)));
                }
                Step::Link(from, to) => drop(fs::hard_link(path(from), path(to))),
                Step::Remove(at) => drop(fs::remove_file(path(at))),
                Step::Produce(at) => producers.extend(Producer::attach(path(at))),
                Step::Copy(..) | Step::Look | Step::End => {}
            }
            let (look, end) = (matches!(step, Step::Look | Step::End), matches!(step, Step::End));
            if !look {
                continue;
            }
            now = now.checked_add(LATER).unwrap();
            let mut changes = 0;
            while let Some(change) = temp.feed.next(now) {
                changes += 1;
                prop_assert!(changes < 1000, "the same again and again: {}", temp.line(&change));
                match change {
                    FeedChange::Found(found) => {
                        let of = (found.ring.identity.dev, found.ring.identity.ino);
                        let RingEntry { path, identity, .. } = &found.ring;
                        // A reader holds it open, too: no other file gets its inode.
                        let ring = (of, Some(path.clone()), fs::File::open(path).unwrap());
                        let before = read.insert(identity.uuid, ring);
                        prop_assert!(before.is_none(), "found while it is read");
                        temp.feed.attached(found);
                    }
                    FeedChange::Renamed(found) => {
                        let ring = read.get_mut(&found.ring.identity.uuid).unwrap();
                        ring.1 = Some(found.ring.path);
                    }
                    FeedChange::Removed(found) => {
                        let uuid = found.ring.identity.uuid;
                        read.get_mut(&uuid).unwrap().1 = None;
                        if end {
                            read.remove(&uuid);
                            temp.feed.ended(&uuid);
                        }
                    }
                    _ => {}
                }
            }
            for (uuid, (of, name, _)) in &read {
                let is_it = |path: &Path| {
                    fs::metadata(path).is_ok_and(|meta| (meta.dev(), meta.ino()) == *of)
                };
                match name {
                    Some(name) => prop_assert!(is_it(name), "{name:?} is the name of another file"),
                    // Beside another file of the ring, that one may be followed: it has a producer, or came before this one
                    // was read.
                    None => {
                        let hidden = |at: usize| uuid_at(&temp.at(NAMES[at ^ 1])) == Some(*uuid);
                        let mut followed = (0..4).filter(|at| is_it(&temp.at(NAMES[*at])));
                        prop_assert!(followed.all(hidden));
                    }
                }
            }
            if end {
                let nameless: Vec<[u8; 16]> =
                    read.iter().filter(|(_, ring)| ring.1.is_none()).map(|(uuid, _)| *uuid).collect();
                for uuid in nameless {
                    read.remove(&uuid);
                    temp.feed.ended(&uuid);
                }
            }
        }
        let there: HashSet<[u8; 16]> = NAMES[..4]
            .iter()
            .filter_map(|name| uuid_at(&temp.at(name)))
            .collect();
        prop_assert_eq!(read.keys().copied().collect::<HashSet<_>>(), there);
    }
}
