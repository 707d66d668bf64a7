//! What a process that was killed leaves to the next one: what is delivered again, and that nothing is lost.

use super::narrow::Narrow;
use crate::numbered::{offer, origin};
use perfring_export::{BufferOptions, Buffered, Event, Origin, Output, Took, What};
use perfring_testkit::rng::Rng;
use perfring_testkit::size::cases;
use std::fs;
use std::ops::Range;
use std::path::Path;
use tempfile::TempDir;

/// Two rings, whose records alternate.
pub(super) struct Rings(pub(super) [Origin; 2]);

impl Rings {
    pub(super) fn new() -> Self {
        let two = Origin { id: 4, name: "two".into(), uuid: [8; 16], ..origin() };
        Rings([origin(), two])
    }

    fn begin(&self, buffered: &mut Buffered) {
        for (seq, origin) in (1..).zip(&self.0) {
            let began = Event { seq, origin, what: What::Began };
            assert_eq!(buffered.take(&began).unwrap(), Took::Yes);
        }
    }

    /// Offers some of all records of both rings.
    pub(super) fn offer(&self, buffered: &mut Buffered, records: Range<usize>) {
        for n in records {
            let (seq, n) = (3 + n as u64, n as u64 / 2);
            let origin = &self.0[seq as usize % 2];
            assert_eq!(offer(buffered, origin, seq, n), Took::Yes, "{n}");
        }
    }

    /// Returns how a record is shown.
    pub(super) fn text(&self, n: usize) -> String {
        format!("{} {}", self.0[(3 + n) % 2].name, n / 2)
    }
}

/// A process with the buffer: dropped without being closed, it leaves the files as SIGKILL does.
pub(super) struct Life<'a> {
    rings: &'a Rings,
    pub(super) narrow: Narrow,
    pub(super) buffered: Buffered,
}

impl<'a> Life<'a> {
    pub(super) fn begin(rings: &'a Rings, dir: &Path) -> Self {
        let narrow = Narrow::default();
        let options = BufferOptions { path: dir.to_owned(), max_bytes: 4 << 20 };
        let mut buffered = Buffered::open("out", &options, Box::new(narrow.clone())).unwrap();
        rings.begin(&mut buffered);
        Life { rings, narrow, buffered }
    }

    /// Gives the output room for so many events, and passes them on. The first place that a process has is saved
    /// at once, later ones with pauses.
    pub(super) fn pass(&mut self, room: usize) {
        self.narrow.set(room);
        self.buffered.flush().unwrap();
        self.narrow.set(0);
    }

    /// Returns which of all records came, one after the other; `None` if none did.
    pub(super) fn came(&self) -> Option<Range<usize>> {
        let came = self.narrow.came();
        let mut records = came.iter().filter(|text| !text.ends_with("Began"));
        let first = records.next()?;
        let first = (0..).find(|n| self.rings.text(*n) == *first).unwrap();
        let mut end = first + 1;
        for text in records {
            assert_eq!(*text, self.rings.text(end));
            end += 1;
        }
        Some(first..end)
    }
}

#[test]
fn after_a_kill_only_what_was_delivered_since_the_last_place_is_repeated() {
    const ALL: usize = 5000;
    let (rings, dir) = (Rings::new(), tempfile::tempdir().unwrap());
    let mut life = Life::begin(&rings, dir.path());
    rings.offer(&mut life.buffered, 0..ALL);
    life.pass(0);
    drop(life);
    assert!(files(&dir).len() > 4, "{:?}", files(&dir));
    let (mut place, mut repeats, mut lives) = (0, 0, 0);
    while place < ALL {
        lives += 1;
        let mut life = Life::begin(&rings, dir.path());
        life.pass(4 + 37 * lives % 700);
        let came = life.came().unwrap();
        assert_eq!(came.start, place, "{lives}");
        match lives % 4 {
            // Nothing is delivered.
            1 => {}
            // That is not noted.
            2 => {
                life.narrow.deliver();
                repeats += came.len();
            }
            // It is.
            3 => {
                life.narrow.deliver();
                life.pass(0);
                place = came.end;
            }
            // And more since then.
            _ => {
                life.narrow.deliver();
                life.pass(5);
                place = came.end;
                life.narrow.deliver();
                repeats += life.came().unwrap().len() - came.len();
            }
        }
    }
    eprintln!("{lives} kills, {repeats} of {ALL} records were delivered and came again");
}

#[test]
fn what_a_ring_still_has_is_not_put_into_the_buffer_again() {
    const ALL: usize = 1500;
    let (rings, dir) = (Rings::new(), tempfile::tempdir().unwrap());
    // Another output holds the rings, so they are read from their beginnings each time.
    for all in ALL..ALL + 5 {
        let mut life = Life::begin(&rings, dir.path());
        rings.offer(&mut life.buffered, 0..all);
        life.pass(usize::MAX);
        assert_eq!(life.came(), Some(if all == ALL { 0..all } else { all - 1..all }));
        life.narrow.deliver();
        life.pass(0);
    }
    let place = || fs::read_to_string(dir.path().join("place")).unwrap();
    assert!(place().contains("07070707-") && place().contains("08080808-"), "{}", place());
    // A ring that has ended is forgotten.
    let mut life = Life::begin(&rings, dir.path());
    let ended = Event { seq: 1 << 20, origin: &rings.0[0], what: What::Ended };
    assert_eq!(life.buffered.take(&ended).unwrap(), Took::Yes);
    life.pass(usize::MAX);
    life.narrow.deliver();
    life.pass(0);
    assert!(!place().contains("07070707-") && place().contains("08080808-"), "{}", place());
}

#[test]
fn when_a_file_is_removed_the_place_after_it_is_saved_without_a_pause() {
    const ALL: usize = 2000;
    let (rings, dir) = (Rings::new(), tempfile::tempdir().unwrap());
    let mut life = Life::begin(&rings, dir.path());
    rings.offer(&mut life.buffered, 0..ALL);
    life.pass(5);
    life.narrow.deliver();
    life.pass(0);
    let before = files(&dir).len();
    life.pass(usize::MAX);
    assert_eq!(life.came(), Some(0..ALL));
    life.narrow.deliver();
    life.pass(0);
    assert!(files(&dir).len() < before, "{:?}", files(&dir));
    drop(life);
    let mut life = Life::begin(&rings, dir.path());
    rings.offer(&mut life.buffered, 0..ALL);
    life.pass(usize::MAX);
    assert_eq!(life.came(), None);
}

#[test]
fn whenever_it_is_killed_nothing_is_lost_and_little_repeated() {
    let mut rng = Rng::from_env();
    for _ in 0..cases(20, 500) {
        storm(&mut rng);
    }
}

/// Puts in, passes on, delivers and kills in any order, and compares with a plain list of all records.
fn storm(rng: &mut Rng) {
    let (rings, dir) = (Rings::new(), tempfile::tempdir().unwrap());
    // All records that were put in; those that are in a file, so that their rings may go on from there; and where the
    // next process may go on.
    let (mut all, mut in_file, mut next) = (0, 0, 0..=0);
    for _ in 0..12 {
        let mut life = Life::begin(&rings, dir.path());
        rings.offer(&mut life.buffered, rng.index(in_file + 1)..all);
        // What is delivered at most, what the next place has at least, and what the saved one has.
        let (mut delivered, mut noted, mut saved) = (None, None, None);
        for _ in 0..rng.below(12) {
            let came = life.came();
            match rng.below(4) {
                0 => {
                    let more = rng.index(400);
                    rings.offer(&mut life.buffered, all..all + more);
                    all += more;
                }
                1 if came.is_some() => {
                    life.narrow.deliver();
                    delivered = came.map(|came| came.end);
                    noted = delivered;
                }
                2 if came.is_some() => {
                    life.narrow.deliver_one();
                    let came = came.unwrap();
                    delivered = Some(came.end);
                    noted = noted.or(Some(came.start));
                }
                _ => {
                    saved = saved.or(noted);
                    life.pass(rng.index(900));
                    in_file = all;
                }
            }
        }
        if let Some(came) = life.came() {
            assert!(next.contains(&came.start), "{came:?} came, not from {next:?} on");
            assert_eq!(life.buffered.figures().trouble, None);
            let most = delivered.unwrap_or(came.start).max(*next.end());
            next = saved.unwrap_or(*next.start())..=most;
        }
    }
    let mut life = Life::begin(&rings, dir.path());
    rings.offer(&mut life.buffered, in_file..all);
    for _ in 0..20 {
        life.pass(usize::MAX);
        assert_eq!(life.buffered.figures().trouble, None, "nothing is missing");
    }
    match life.came() {
        Some(came) => {
            assert!(next.contains(&came.start) && came.end == all, "{came:?}, {next:?}, {all}")
        }
        None => {
            assert!(next.contains(&all), "nothing is left, and {next:?} of {all} was delivered")
        }
    }
}

#[test]
fn what_rules_left_out_unreported_is_not_taken_for_delivered() {
    let (rings, dir) = (Rings::new(), tempfile::tempdir().unwrap());
    // Record 10 is left out, and the process is killed before that is reported.
    let mut life = Life::begin(&rings, dir.path());
    life.buffered.leaves_out();
    rings.offer(&mut life.buffered, 0..10);
    rings.offer(&mut life.buffered, 11..20);
    life.pass(usize::MAX);
    life.narrow.deliver();
    life.pass(0);
    drop(life);
    // The rule is removed. The first process without it is killed before it reads anything.
    let mut life = Life::begin(&rings, dir.path());
    life.pass(0);
    drop(life);
    let mut records = Vec::new();
    for _ in 0..2 {
        let mut life = Life::begin(&rings, dir.path());
        rings.offer(&mut life.buffered, 0..20);
        life.pass(usize::MAX);
        let came = life.narrow.came().into_iter();
        records.push(came.filter(|text| !text.ends_with("Began")).collect::<Vec<_>>());
    }
    let all: Vec<String> = (0..20).map(|n| rings.text(n)).collect();
    assert!(records[0].ends_with(&all), "{:?}", records[0]);
    assert_eq!(records[0], records[1], "from then on, it knows what it has");
}

/// What is wrong with a place.
fn spoil(place: &Path, how: usize) -> bool {
    let good = fs::read(place).unwrap();
    let mut bad = good.clone();
    match how.checked_sub(good.len()) {
        // It is cut short at any byte, or one is changed.
        None => bad.truncate(how),
        Some(at) if at < good.len() => bad[at] ^= 1,
        Some(_) => return false,
    }
    fs::write(place, bad).unwrap();
    true
}

#[test]
fn with_a_place_that_cannot_be_used_all_comes_again_and_that_is_said() {
    const ALL: usize = 40;
    let rings = Rings::new();
    // Half of what is in the buffer is delivered.
    let prepare = |name: &str| {
        let dir = tempfile::tempdir().unwrap();
        let options = BufferOptions { path: dir.path().to_owned(), max_bytes: 4 << 20 };
        let narrow = Narrow::default();
        let mut buffered = Buffered::open(name, &options, Box::new(narrow.clone())).unwrap();
        rings.begin(&mut buffered);
        rings.offer(&mut buffered, 0..ALL);
        narrow.set(2 + ALL / 2);
        buffered.flush().unwrap();
        narrow.deliver();
        narrow.set(0);
        buffered.flush().unwrap();
        dir
    };
    let check = |dir: &TempDir, from: usize, why: Option<&str>| {
        let mut life = Life::begin(&rings, dir.path());
        let trouble = life.buffered.figures().trouble;
        match why {
            Some(why) => {
                let trouble = trouble.unwrap();
                let said = trouble.contains("all that it holds is delivered again")
                    && trouble.contains(why);
                assert!(said, "{trouble}");
            }
            None => assert_eq!(trouble, None),
        }
        if from > 0 {
            rings.offer(&mut life.buffered, 0..ALL);
        }
        life.pass(usize::MAX);
        assert_eq!(life.came(), Some(from..ALL));
    };
    let dir = prepare("out");
    let place = dir.path().join("place");
    let good = fs::read(&place).unwrap();
    check(&dir, ALL / 2, None);
    for how in 0.. {
        fs::write(&place, &good).unwrap();
        if !spoil(&place, how) {
            break;
        }
        check(&dir, 0, Some(""));
        // What that process began.
        files(&dir).iter().skip(1).for_each(|name| fs::remove_file(dir.path().join(name)).unwrap());
    }
    fs::remove_file(&place).unwrap();
    check(&dir, 0, Some("is missing"));
    // That of another output, and one that is about another file.
    check(&prepare("other"), 0, Some("the output other"));
    fs::write(&place, fs::read(prepare("out").path().join("place")).unwrap()).unwrap();
    check(&dir, 0, Some("a file that was replaced"));
}

/// Returns the names of the buffer's files with events, in order.
pub(super) fn files(dir: &TempDir) -> Vec<String> {
    let names = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name());
    let names = names.map(|name| name.into_string().unwrap());
    let mut names: Vec<String> = names.filter(|name| name.ends_with("perfrec")).collect();
    names.sort();
    names
}
