//! What becomes of a buffer whose files are not as a process leaves them.

use super::kills::{Life, Rings, files};
use perfring_export::Output;
use std::fs;

const ALL: usize = 5000;

/// Returns the records that came, in order.
pub(super) fn records(life: &Life<'_>) -> Vec<String> {
    let came = life.narrow.came().into_iter();
    came.filter(|text| !text.ends_with("Began") && !text.contains("Lost")).collect()
}

/// Passes on and delivers all that is there.
pub(super) fn deliver(life: &mut Life<'_>) {
    for _ in 0..20 {
        life.pass(usize::MAX);
        life.narrow.deliver();
    }
    life.pass(0);
}

#[test]
fn a_file_that_is_damaged_is_kept_and_what_follows_it_is_delivered() {
    let (rings, dir) = (Rings::new(), tempfile::tempdir().unwrap());
    let mut life = Life::begin(&rings, dir.path());
    rings.offer(&mut life.buffered, 0..ALL);
    life.pass(0);
    drop(life);
    let names = files(&dir);
    assert!(names.len() > 4, "{names:?}");
    let second = dir.path().join(&names[1]);
    let mut bytes = fs::read(&second).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&second, &bytes).unwrap();

    let mut life = Life::begin(&rings, dir.path());
    deliver(&mut life);
    let all: Vec<String> = (0..ALL).map(|n| rings.text(n)).collect();
    let came = records(&life);
    let missing = ALL - came.len();
    assert!((1..ALL / 4).contains(&missing), "{missing}");
    let first = (0..).find(|n| came[*n] != all[*n]).unwrap();
    assert_eq!(came[first..], all[first + missing..]);
    // It says so until it ends, also while it takes more.
    rings.offer(&mut life.buffered, ALL..ALL + 1);
    let trouble = life.buffered.figures().trouble.unwrap();
    let kept = second.with_extension("damaged");
    let said = trouble.contains("damaged at byte") && trouble.contains(kept.to_str().unwrap());
    assert!(said, "{trouble}");
    assert_eq!(fs::read(kept).unwrap(), bytes);
    life.pass(0);
    drop(life);
    // Nothing of it comes again.
    let mut life = Life::begin(&rings, dir.path());
    deliver(&mut life);
    assert_eq!(records(&life), [rings.text(ALL)]);
}

#[test]
fn a_file_that_cannot_be_read_now_is_waited_for() {
    let (rings, dir) = (Rings::new(), tempfile::tempdir().unwrap());
    let mut life = Life::begin(&rings, dir.path());
    rings.offer(&mut life.buffered, 0..ALL);
    life.pass(0);
    drop(life);
    let first = dir.path().join(&files(&dir)[0]);
    let aside = dir.path().join("aside");
    fs::rename(&first, &aside).unwrap();
    fs::create_dir(&first).unwrap();
    let mut life = Life::begin(&rings, dir.path());
    life.pass(usize::MAX);
    assert_eq!(life.came(), None);
    let trouble = life.buffered.figures().trouble.unwrap();
    assert!(trouble.contains(first.to_str().unwrap()), "{trouble}");
    fs::remove_dir(&first).unwrap();
    fs::rename(&aside, &first).unwrap();
    deliver(&mut life);
    assert_eq!(life.came(), Some(0..ALL));
}

#[test]
fn a_file_in_which_nothing_was_written_does_not_hide_how_far_delivery_was() {
    let (rings, dir) = (Rings::new(), tempfile::tempdir().unwrap());
    let mut life = Life::begin(&rings, dir.path());
    rings.offer(&mut life.buffered, 0..40);
    life.pass(2 + 20);
    life.narrow.deliver();
    life.pass(0);
    drop(life);
    let empty = dir.path().join("00000000.perfrec");
    fs::write(&empty, b"").unwrap();
    let mut life = Life::begin(&rings, dir.path());
    life.pass(usize::MAX);
    assert_eq!(life.came(), Some(20..40));
    assert!(!empty.exists());
}

#[test]
fn what_another_boot_knew_of_rings_is_forgotten() {
    let now = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let rings = Rings::new();
    for boot in [now.trim(), "00000000-0000-0000-0000-000000000007"] {
        let dir = tempfile::tempdir().unwrap();
        let mut life = Life::begin(&rings, dir.path());
        rings.offer(&mut life.buffered, 0..40);
        deliver(&mut life);
        drop(life);
        let place = dir.path().join("place");
        let text = fs::read_to_string(&place).unwrap();
        let (_, json) = text.split_once(' ').unwrap();
        let json = json.replace(now.trim(), boot);
        fs::write(&place, format!("{:08x} {json}", crc32fast::hash(json.as_bytes()))).unwrap();
        files(&dir).iter().for_each(|name| fs::remove_file(dir.path().join(name)).unwrap());
        // The rings have these positions once more.
        let mut life = Life::begin(&rings, dir.path());
        rings.offer(&mut life.buffered, 0..40);
        life.pass(usize::MAX);
        assert_eq!(life.came(), (boot != now.trim()).then_some(0..40), "{boot}");
    }
}
