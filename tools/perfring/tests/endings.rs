//! The promise of every place that shows who had a seat: one that detached is told from one that was killed, in one word,
//! the same everywhere.

use crate::command::{Live, Place, json_lines, run};
#[cfg(feature = "view")]
use nix::sys::signal::Signal;
use perfring_consumer::{
    Consumer, ConsumerOptions,
    stat::{SeatState, Stat},
};
use perfring_producer::{CpuProducer, Producer, SharedProducer};
use std::any::Any;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The environment variables with the seat and the ring of [`a_process_that_has_a_seat`].
const SEAT: &str = "PERFRING_TEST_SEAT";
const RING: &str = "PERFRING_TEST_RING";

/// Each kind of seat, and the options of a ring that has it.
const SEATS: [(&str, &[&str]); 5] = [
    ("cpu", &["--producers", "cpu"]),
    ("many", &["--producers", "many"]),
    ("one", &[]),
    ("consumer", &[]),
    ("named", &["--consumers", "2"]),
];

fn rings(path: &Path) -> Vec<PathBuf> {
    match path.is_dir() {
        true => fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).collect(),
        false => vec![path.to_owned()],
    }
}

/// How a process ends that has a seat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// After it has dropped its attachment.
    Dropped,
    /// By `exit(3)`, with an attachment that is never dropped.
    Exit,
    Killed,
}

/// Not a test of its own: the process that [`ended`] starts from this very file. It keeps its seat until its stdin ends,
/// or until it is killed. After a line, it never drops its attachment.
#[test]
fn a_process_that_has_a_seat() {
    let Ok(seat) = std::env::var(SEAT) else { return };
    let path = PathBuf::from(std::env::var_os(RING).unwrap());
    let kept: Box<dyn Any> = match &*seat {
        "one" => Box::new(Producer::attach_as(path, "who").unwrap()),
        "many" => Box::new(SharedProducer::attach_as(path, "who").unwrap()),
        "cpu" => {
            let producer = CpuProducer::attach_as(&path, "who").unwrap();
            for ring in rings(&path) {
                let name = ring.file_name().unwrap().to_str().unwrap();
                producer.attach_to(name[3..].parse().unwrap()).unwrap();
            }
            Box::new(producer)
        }
        "consumer" => {
            Box::new(Consumer::attach_with(path, &ConsumerOptions::named("who")).unwrap())
        }
        _ => Box::new(Consumer::attach_as(path, "who").unwrap()),
    };
    println!("\nattached");
    match std::io::stdin().read_line(&mut String::new()).unwrap() {
        0 => drop(kept),
        _ => std::mem::forget(kept),
    }
}

/// Has a process take a seat of a ring, and end. Returns its pid.
pub(crate) fn ended(seat: &str, ring: &str, end: End) -> u32 {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "endings::a_process_that_has_a_seat", "--nocapture"])
        .envs([(SEAT, seat), (RING, ring)])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut live = Live::of(command);
    while live.line_or_end().expect("it has attached") != "attached" {}
    match end {
        End::Dropped => {}
        End::Exit => writeln!(live.child.stdin.as_ref().unwrap(), "exit").unwrap(),
        End::Killed => live.child.kill().unwrap(),
    }
    drop(live.child.stdin.take());
    let status = live.child.wait().unwrap();
    assert_eq!(status.success(), end != End::Killed, "{status}");
    live.child.id()
}

/// A ring whose seat was taken by a process that ended.
struct Left {
    seat: &'static str,
    /// Of a set, one of its rings.
    ring: String,
    pid: u32,
    state: SeatState,
}

/// Returns a ring for each kind of seat and end.
fn all_left(place: &Place) -> Vec<Left> {
    let mut left = Vec::new();
    for (seat, options) in SEATS {
        for end in [End::Dropped, End::Exit, End::Killed] {
            let state = if end == End::Killed { SeatState::Dead } else { SeatState::Detached };
            let path = place.path(&format!("{seat}-{end:?}"));
            let named = path.to_str().unwrap();
            let made = run(&[&["create", named][..], options].concat(), b"");
            assert_eq!(made.code(), 0, "{}", made.err());
            let pid = ended(seat, named, end);
            let ring = rings(&path).remove(0).to_str().unwrap().to_owned();
            left.push(Left { seat, ring, pid, state });
        }
    }
    left
}

#[test]
fn who_detached_and_who_was_killed_are_told_apart_alike_by_the_library_and_every_command() {
    let place = Place::new();
    for Left { seat, ring, pid, state } in all_left(&place) {
        let word = state.word();
        let here = format!("{seat}, {word}");

        let stat = Stat::read(&*ring).unwrap();
        let (found, owner) = match seat {
            "one" => (stat.producer.state, stat.producer.owner),
            "consumer" => (stat.consumer.state, stat.consumer.owner),
            "named" => (stat.consumers[0].state, stat.consumers[0].owner.clone()),
            _ => {
                // A slot that nobody had is taken first: the last one is this process's.
                let member = stat.producers.last().unwrap();
                (member.state, member.owner.clone())
            }
        };
        assert_eq!((found, owner.pid, &*owner.name), (state, pid, "who"), "{here}");
        assert_eq!(owner.user().is_none(), state == SeatState::Detached, "{here}");

        let said = json_lines(&run(&["stat", "--json", &ring], b"").out()).remove(0);
        let said = match seat {
            "one" => &said["producer"],
            "consumer" => &said["consumer"],
            "named" => &said["consumers"][0],
            _ => said["slots"].as_array().unwrap().last().unwrap(),
        };
        assert_eq!((&said["state"], &said["alive"]), (&word.into(), &false.into()), "{here}");
        assert_eq!((&said["pid"], said["uid"].is_null()), (&pid.into(), word == "detached"));

        let text = run(&["stat", &ring], b"").out();
        let shown = match seat {
            "cpu" | "many" => {
                let line = text.lines().find(|line| line.ends_with("  who")).unwrap();
                line.split_whitespace().nth(1).unwrap().to_owned()
            }
            _ => {
                let line = text.lines().find(|line| line.contains(": who")).unwrap();
                line.split(':').next().unwrap().rsplit(' ').next().unwrap().to_owned()
            }
        };
        assert_eq!(shown, word, "{here}: {text}");

        let doctor = run(&["doctor", &ring], b"").out();
        let line = |what: &str| doctor.lines().any(|line| line.contains(what));
        match seat {
            "cpu" | "many" => {
                let told = format!("(who, pid {pid}), {word}: it was killed, or ended otherwise");
                assert_eq!(line(&told), word == "dead", "{here}: {doctor}");
            }
            _ => assert!(line(&format!("who, pid {pid}, {word}")), "{here}: {doctor}"),
        }

        let dir = Path::new(&ring).parent().unwrap().to_str().unwrap();
        let list = run(&["ls", dir], b"").out();
        let name = Path::new(&ring).file_name().unwrap().to_str().unwrap();
        // A ring per CPU has its set's name before its own.
        let is_its = |shown: &str| shown.rsplit('/').next() == Some(name);
        let row = list.lines().find(|line| line.split_whitespace().next().is_some_and(is_its));
        let row = row.unwrap();
        let column = if seat == "consumer" { 2 } else { 1 };
        if seat != "named" {
            let cells = row.split("  ").map(str::trim).filter(|cell| !cell.is_empty());
            assert_eq!(cells.collect::<Vec<_>>()[column], word, "{here}: {list}");
        }
    }
}

#[cfg(feature = "view")]
#[test]
fn the_page_says_who_detached_and_who_was_killed_in_the_words_of_stat() {
    let place = Place::new();
    let left = all_left(&place);
    let mut server = Live::start(&["view", place.0.path().to_str().unwrap()]);
    let url = server.line();
    // The first update has all rings.
    let rows = crate::view::Updates::open(&url).rows();
    for Left { seat, ring, pid, state } in left {
        let row = rows.iter().find(|row| row["loc"] == ring.as_str()).unwrap();
        let holders = if ["consumer", "named"].contains(&seat) { "readers" } else { "producers" };
        let mut holders = row[holders].as_array().unwrap().iter();
        let who = holders.find(|holder| holder["pid"] == pid).unwrap();
        assert_eq!((&who["how"], &who["alive"]), (&state.word().into(), &false.into()), "{ring}");
    }
    server.signal(Signal::SIGTERM);
    assert_eq!(server.end().2, 0);
}
