//! What a person who does not know the command tries first.

use super::{Recorded, is_forbidden, shop};
use crate::command::{Done, Place, json_lines, perfring, run, skipped};
use nix::sys::signal::Signal;
use perfring_consumer::Consumer;
use perfring_producer::{ProcessClock, RecordType, SharedProducer};
use serde_json::Value;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// A live ring has no history of its processes, and says how they are now.
#[test]
fn a_loss_in_a_live_ring_says_how_its_consumer_is_now() {
    let place = Place::new();
    let (ring, mut shop) = shop(&place);
    let consumer = Consumer::attach(&*ring).unwrap();
    shop.ask("write fill=7");
    let says = |what: &str| {
        let lines = json_lines(&run(&["why", &ring, "--json"], b"").out());
        let loss = lines.iter().find(|line| line["what"] == "loss").unwrap();
        assert_eq!(loss["cause"], "unknown");
        let sentence = loss["sentence"].as_str().unwrap();
        println!("{sentence}");
        assert!(sentence.starts_with("7 records were lost in ring ring: the ring says \"full\"; "));
        assert!(sentence.contains(what), "{sentence}");
    };
    says(&format!("({}) is running now; how its processes were", std::process::id()));
    drop(consumer);
    says("has given its seat up, and no process has it now; how its processes were");
}

#[test]
fn a_stop_that_lasts_up_to_the_end_of_a_recording_is_a_gap() {
    if is_forbidden() {
        return;
    }
    let place = Place::new();
    let (ring, mut shop) = shop(&place);
    let mut recorded = Recorded::begin(place, &ring);
    assert_eq!(shop.ask("write await write")["awaits"], true);
    shop.0.signal(Signal::SIGSTOP);
    recorded.until("the stop is most of the time since the record", |line| {
        line["what"] == "gap" && line["cause"] == "stopped"
    });
    let lines = json_lines(&recorded.end().out());
    shop.0.signal(Signal::SIGCONT);
    let of = |line: &&Value| line["what"] == "gap" && line["cause"] == "stopped";
    let sentence = lines.iter().find(of).unwrap()["sentence"].as_str().unwrap();
    println!("{sentence}");
    assert!(sentence.contains(", up to the end: a signal or a debugger had stopped the process"));
}

/// A record of the future ends the recording at once: what the ring refused after it is not read.
#[test]
fn a_recording_has_the_losses_that_no_record_reports() {
    const REFUSED: u64 = 7;
    let place = Place::new();
    let ring = place.ring(&["--time", "--size", "64K", "--producers", "many"]);
    let file = place.path("run.perfrec");
    let file = file.to_str().unwrap();
    let producer = SharedProducer::attach(&*ring).unwrap();
    let clock = ProcessClock::find().unwrap();
    let future = clock.now() + 3_600_000_000_000;
    producer.publish_at(RecordType::BYTES, b"later", future, &clock).unwrap();
    while producer.publish(&[0; 1000]).is_ok() {}
    (1..REFUSED).for_each(|_| assert!(producer.publish(&[0; 1000]).is_err()));
    let done = run(&["record", &ring, "-o", file, "--for", "0"], b"");
    let said = done.err();
    assert_eq!(done.code(), 0, "{said}");
    assert!(said.contains("recorded 1 record, lost 7: full 7"), "{said}");
    let lines = json_lines(&run(&["why", file, "--json"], b"").out());
    let losses = lines.iter().filter(|line| line["what"] == "loss");
    let records: u64 = losses.map(|loss| loss["records"].as_u64().unwrap()).sum();
    assert_eq!(records, REFUSED, "{said}");
}

#[test]
fn a_recording_in_a_directory_is_named_with_the_command_that_reads_it() {
    let place = Place::new();
    let (ring, mut shop) = shop(&place);
    shop.ask("write");
    let dir = place.path("dir");
    fs::create_dir(&dir).unwrap();
    let recording = dir.join("run.perfrec").to_str().unwrap().to_owned();
    assert_eq!(run(&["export", &ring, "--to", "recording", "-o", &recording], b"").code(), 0);
    let dir = dir.to_str().unwrap();
    let says = format!("it is a recording: `perfring why {recording}` and");
    let alone = run(&["why", dir], b"");
    assert_eq!(alone.code(), 3);
    assert!(alone.err().contains(&format!("there is no ring in {dir}; {recording}: {says}")));
    fs::rename(&ring, format!("{dir}/ring")).unwrap();
    let beside = run(&["why", dir], b"");
    assert_eq!(beside.code(), 0);
    assert!(beside.err().contains(&format!("{recording} is left out: {says}")), "{}", beside.err());
}

#[test]
fn a_directory_of_rings_that_may_not_be_read_is_no_empty_one() {
    if !rustix::process::geteuid().is_root() {
        return skipped("only root can become another user to try");
    }
    let place = Place::new();
    fs::set_permissions(place.0.path(), Permissions::from_mode(0o755)).unwrap();
    let ring = place.ring(&["--time", "--mode", "600"]);
    let exe = place.path("perfring");
    let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_perfring")).arg(&exe).status();
    assert!(copied.unwrap().success());
    let dir = std::path::Path::new(&ring).parent().unwrap();
    let done = Done(Command::new(&exe).arg("why").arg(dir).uid(65534).gid(65534).output().unwrap());
    assert_eq!(done.code(), 6, "{}", done.err());
    let says = "no permission to read 1 ring of ";
    assert!(done.err().contains(says) && done.err().contains("have the owner allow it"));
    // A recorder waits for rings that may be read, and says at its end that there was none.
    let (file, dir) = ("/dev/null", dir.to_str().unwrap());
    for more in [&[][..], &["--why"]] {
        let args = [&["record", dir, "-o", file, "--for", "10ms"], more].concat();
        let done = Done(Command::new(&exe).args(args).uid(65534).gid(65534).output().unwrap());
        assert_eq!(done.code(), 6, "{}", done.err());
        assert!(done.err().contains("no permission to read 1 ring, and no other is there"));
    }
}

#[test]
fn a_build_without_zstd_makes_no_file_that_it_cannot_write() {
    let place = Place::new();
    let (ring, file) = (place.ring(&["--time"]), place.path("run.perfrec"));
    let args =
        ["record", &ring, "--compress", "-o", file.to_str().unwrap(), "--for", "1ms", "--quiet"];
    let done = run(&args, b"");
    match cfg!(feature = "zstd") {
        true => assert_eq!(done.code(), 0, "{}", done.err()),
        false => {
            done.refuses(1, "this build has no zstd");
            assert!(!file.exists());
        }
    }
}

#[test]
fn sentences_fit_a_narrow_terminal() {
    let place = Place::new();
    let (ring, mut shop) = shop(&place);
    shop.ask("write fill=7");
    let why = |columns: &str| {
        let mut command = perfring(&["why", &ring]);
        Done(command.env("COLUMNS", columns).output().unwrap()).out()
    };
    let (narrow, wide) = (why("60"), why("1000"));
    println!("{narrow}");
    assert!(narrow.lines().all(|line| line.chars().count() <= 60), "{narrow}");
    assert_eq!(wide.lines().count(), 2, "{wide}");
}
