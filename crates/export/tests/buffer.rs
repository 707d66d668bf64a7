//! What a buffer does before an output.

mod damage;
mod kills;
mod lost;
mod narrow;
mod no_end;

use crate::numbered::{offer, origin};
use narrow::Narrow;
use perfring_export::{BufferOptions, Buffered, Event, Output, Took, What};
use std::path::Path;
use std::time::Instant;

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
    assert_eq!(buffered.unsettled(), None);
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
    assert_eq!(buffered.unsettled(), Some(2 + n));
    buffered.flush().unwrap();
    assert_eq!((narrow.came(), buffered.unsettled()), (expected(n + 1), None));
    assert_eq!(buffered.figures().trouble, None);
}

#[test]
fn the_figures_of_a_buffer_have_what_is_not_delivered() {
    const ALL: u64 = 4000;
    let dir = tempfile::tempdir().unwrap();
    let options = BufferOptions { path: dir.path().join("buffer"), max_bytes: 64 << 20 };
    let (narrow, origin) = (Narrow::default(), origin());
    let mut buffered = Buffered::open("out", &options, Box::new(narrow.clone())).unwrap();
    let began = Event { seq: 1, origin: &origin, what: What::Began };
    assert_eq!(buffered.take(&began).unwrap(), Took::Yes);
    for n in 0..ALL {
        assert_eq!(offer(&mut buffered, &origin, 2 + n, n), Took::Yes, "{n}");
        buffered.flush().unwrap();
    }
    let waits = |buffered: &Buffered| buffered.figures().buffer.unwrap().bytes;
    let all = waits(&buffered);
    assert!(all > ALL * 256, "{all}");
    // In turns, so that a place is marked in each; what is on its way waits still.
    for half in [1, 2] {
        for _ in 0..20 {
            narrow.set(ALL as usize / 40);
            buffered.flush().unwrap();
            narrow.deliver();
        }
        buffered.flush().unwrap();
        let (left, here) = (waits(&buffered), all - all / 2 * half);
        assert!(left.abs_diff(here) < all / 10, "{left} of {all} after {half} halves");
    }
    narrow.set(usize::MAX);
    buffered.flush().unwrap();
    assert!(waits(&buffered) > 0, "the last are on their way");
    narrow.deliver();
    buffered.flush().unwrap();
    assert_eq!(waits(&buffered), 0);
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
