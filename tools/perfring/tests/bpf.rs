//! `perfring tail --bpf`, on maps of the running kernel.
//!
//! Seen red: with space released before stdout has the records, and with what was read ahead released.

use crate::command::{Live, Place, json_lines, run, skipped};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::sys::signal::Signal;
use perfring_bench::bpf::{
    BLOCK, Feeder, Map, Program, create_map, freeze, insn, map_id, number, op, open_map, pin,
};
use perfring_bench::error::BenchError;
use perfring_producer::{Options, Producer};
use perfring_testkit::wait::until;
use serde_json::Value;
use std::ffi::CString;
use std::os::fd::AsFd;
use std::path::Path;

/// A map, and a program that submits numbered records of sixteen bytes.
struct Writer {
    map: Map,
    feeder: Feeder,
    next: u64,
}

impl Writer {
    /// Makes both, if this machine permits it.
    fn new(size: u64) -> Option<Self> {
        let made = Map::create(size).and_then(|map| {
            let feeder = Feeder::load(&map, 16)?;
            drop(open_map(map.id()?)?); // another capability
            Ok(Writer { map, feeder, next: 0 })
        });
        match made {
            Ok(writer) => Some(writer),
            Err(BenchError::System { what, source }) if [1, 13, 38].contains(&(source as i32)) => {
                skipped(&format!("this machine forbids {what}: {source}"));
                None
            }
            Err(error) => panic!("{error}"),
        }
    }

    /// Submits a block of records. Returns how many there was no room for.
    fn feed(&mut self) -> u64 {
        let refused = self.feeder.feed(self.next).unwrap();
        self.next += BLOCK;
        refused
    }

    fn place(&self) -> String {
        format!("id:{}", self.map.id().unwrap())
    }
}

/// Returns the number of a record of the program.
fn number_of(line: &Value) -> u64 {
    use base64::Engine;
    let bytes = match (&line["base64"], &line["text"]) {
        (Value::String(coded), _) => {
            base64::engine::general_purpose::STANDARD.decode(coded).unwrap()
        }
        (_, Value::String(text)) => text.clone().into_bytes(),
        _ => panic!("{line}"),
    };
    assert_eq!(bytes.len(), 16);
    u64::from_le_bytes(*bytes.first_chunk().unwrap())
}

/// Returns the numbers in lines of JSON.
fn numbers(out: &str) -> Vec<u64> {
    json_lines(out).iter().map(number_of).collect()
}

#[test]
fn what_was_shown_leaves_the_map_and_the_rest_stays() {
    let Some(mut writer) = Writer::new(1 << 20) else { return };
    let place = writer.place();
    assert_eq!(writer.feed(), 0);
    let tail = |more: &[&str]| {
        let done = run(&[&["tail", "--json", "--bpf"], more].concat(), b"");
        assert_eq!((done.code(), &*done.err()), (0, ""));
        numbers(&done.out())
    };
    let observed = format!("{place},observe");
    for _ in 0..2 {
        assert_eq!(tail(&[&observed]), (0..BLOCK).collect::<Vec<_>>());
    }
    assert_eq!(tail(&[&place, "--first", "10"]), (0..10).collect::<Vec<_>>());
    assert_eq!(tail(&[&observed, "--first", "1"]), [10]);
    // Without -f it ends with what is there.
    assert_eq!(tail(&[&place]), (10..BLOCK).collect::<Vec<_>>());
    assert!(tail(&[&place]).is_empty());
    let done = run(&["tail", "--bpf", &place, "--timeout", "50ms"], b"");
    assert_eq!((done.code(), &*done.out()), (124, ""));
}

#[test]
fn a_reader_that_is_killed_at_any_moment_loses_nothing() {
    let Some(mut writer) = Writer::new(1 << 18) else { return };
    let place = writer.place();
    // All that has been shown so far, and the least number that the next reader may begin with.
    let (mut next, mut kills, mut refused) = (0, 0, 0);
    while next < 100_000 {
        let mut tail = Live::start(&["tail", "-f", "--json", "--bpf", &place]);
        let begins = next;
        // At another line each time, while more is written.
        let lines = 500 + 977 * kills % 5000;
        for line in 0..lines {
            while writer.next < next + 2 * BLOCK {
                refused += writer.feed();
            }
            let found = number_of(&json_lines(&tail.line())[0]);
            if line == 0 {
                // What was shown and not released by the one before is shown again.
                assert!(found <= begins, "{found} after {begins}: records are missing");
                next = found;
            }
            assert_eq!(found, next, "line {line} after {kills} kills");
            next += 1;
        }
        // It cannot write on: what it has read by then is partly shown, and partly not.
        while writer.next < next + 4 * BLOCK {
            refused += writer.feed();
        }
        until("stdout is full", || {
            rustix::io::ioctl_fionread(tail.out.get_ref()).unwrap() > 60_000
        });
        tail.signal(Signal::SIGKILL);
        tail.child.wait().unwrap();
        // It may have written more than was read here.
        let (out, _, _) = tail.end();
        let whole = out.lines().filter(|line| line.ends_with('}'));
        for found in whole.map(|line| number_of(&json_lines(line)[0])) {
            assert_eq!(found, next);
            next += 1;
        }
        kills += 1;
    }
    println!("{next} records by {kills} readers that were killed; {refused} refused");
    assert_eq!(refused, 0);
    assert!(kills > 20);
}

#[test]
fn records_of_a_map_stand_between_a_rings_in_time() {
    let Some(_) = Writer::new(4096) else { return };
    let map = create_map(27, [0, 0], 1 << 16, 0).unwrap();
    let program = Program::load(&timed(number(map.as_fd()))).unwrap();
    let ring = Place::new();
    let path = ring.path("ring").to_str().unwrap().to_owned();
    let options = Options { time: true, ..Options::default() };
    let mut producer = Producer::create(&*path, &options).unwrap();
    for round in 0..50u64 {
        producer.publish(format!("round {round}").as_bytes()).unwrap();
        assert_eq!(program.run(&[round]).unwrap(), 0);
    }
    let place = format!("id:{},time=8", map_id(map.as_fd()).unwrap());
    let done = run(&["tail", "--json", "--bpf", &place, &path], b"");
    assert_eq!((done.code(), &*done.err()), (0, ""));
    let lines = json_lines(&done.out());
    assert_eq!(lines.len(), 100);
    let times: Vec<u64> = lines.iter().map(|line| line["time_ns"].as_u64().unwrap()).collect();
    assert!(times.is_sorted());
    assert!(lines.iter().all(|line| line["time"].is_string()));
    // A ring's timestamp differs from the clock by up to 12 us, so that neighbours may change places.
    let at = |text: &str| lines.iter().position(|line| line["text"] == text).unwrap();
    let first_of_map = lines.iter().position(|line| line["len"] == 16).unwrap();
    assert!(first_of_map < at("round 49") && at("round 0") < 50);
}

/// A program that submits its context's word and the time.
fn timed(map: u32) -> Vec<u64> {
    vec![
        insn(op::LOAD, 6, 1, 0, 0),
        insn(op::STORE, 10, 6, -16, 0),
        insn(op::CALL, 0, 0, 0, 5), // bpf_ktime_get_ns
        insn(op::STORE, 10, 0, -8, 0),
        insn(op::LOAD_IMM, 1, op::MAP, 0, map as i32),
        insn(0, 0, 0, 0, 0),
        insn(op::MOVE, 2, 10, 0, 0),
        insn(op::ADD_IMM, 2, 0, 0, -16),
        insn(op::MOVE_IMM, 3, 0, 0, 16),
        insn(op::MOVE_IMM, 4, 0, 0, 0),
        insn(op::CALL, 0, 0, 0, 130), // bpf_ringbuf_output
        insn(op::EXIT, 0, 0, 0, 0),
    ]
}

#[test]
fn a_map_that_cannot_be_read_has_a_sentence_and_a_code_for_each_reason() {
    run(&["tail", "--bpf", "id:x"], b"").refuses(2, "has an id that is no number");
    run(&["tail", "--bpf", "x", "-n", "1"], b"").refuses(2, "--bpf has no last one");
    let dir = Place::new();
    run(&["tail", "--bpf", "x", dir.0.path().to_str().unwrap()], b"")
        .refuses(2, "name a ring of the directory");
    run(&["tail", "--bpf", "x", "--from", "latest"], b"").refuses(2, "without -f or --timeout");
    let Some(_) = Writer::new(4096) else { return };
    run(&["tail", "--bpf", "id:4294967295"], b"").refuses(3, "no BPF map with the id 4294967295");
    run(&["tail", "--bpf", "/there/is/no/map"], b"").refuses(3, "has to pin it there");
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path().to_str().unwrap();
    run(&["tail", "--bpf", path], b"").refuses(2, "is not a pinned BPF map");
    let hash = create_map(1, [4, 4], 8, 0).unwrap();
    let place = format!("id:{}", map_id(hash.as_fd()).unwrap());
    run(&["tail", "--bpf", &place], b"").refuses(2, "of the type hash, not a ring buffer");
    let frozen = create_map(27, [0, 0], 4096, 0).unwrap();
    freeze(frozen.as_fd()).unwrap();
    let place = format!("id:{}", map_id(frozen.as_fd()).unwrap());
    run(&["tail", "--bpf", &place], b"").refuses(1, "is frozen");
    let observed = format!("{place},observe");
    assert_eq!(run(&["tail", "--bpf", &observed], b"").code(), 0);
}

#[test]
fn a_recording_has_what_leaves_the_map_and_is_exported() {
    let Some(mut writer) = Writer::new(1 << 20) else { return };
    let (place, dir) = (writer.place(), Place::new());
    let file = dir.path("run.perfrec").to_str().unwrap().to_owned();
    assert_eq!(writer.feed(), 0);
    let record = ["record", "--bpf", &place, "-o", &file];
    let done = run(&[record.as_slice(), &["-n", "1000"]].concat(), b"");
    assert_eq!(done.code(), 0, "{}", done.err());
    assert!(done.err().contains("recorded 1000 records"), "{}", done.err());
    let done = run(&["export", &file, "--to", "json", "-o", "-"], b"");
    assert_eq!(done.code(), 0, "{}", done.err());
    let lines = json_lines(&done.out());
    let records: Vec<&Value> = lines.iter().filter(|line| line["pos"].is_u64()).collect();
    assert_eq!(records.len(), 1000, "{}", done.out());
    assert!(records.iter().all(|line| line["ring"] == format!("bpf/{place}")), "{}", records[0]);
    let read: Vec<u64> = records.iter().map(|line| number_of(line)).collect();
    assert_eq!(read, (0..1000).collect::<Vec<_>>());
    // The rest is still in the map.
    let done = run(&["tail", "--json", "--bpf", &place], b"");
    assert_eq!(numbers(&done.out()), (1000..BLOCK).collect::<Vec<_>>());
    run(&["record", "--bpf", "id:4294967295", "-o", "-"], b"").refuses(3, "no BPF map");
}

#[test]
fn a_sidecar_delivers_the_records_of_a_map_which_leave_it_then() {
    let Some(mut writer) = Writer::new(1 << 20) else { return };
    let (place, dir) = (writer.place(), Place::new());
    let [config, file] = ["sidecar.toml", "out.jsonl"].map(|name| dir.path(name));
    let text = format!(
        "[[input]]\nbpf = \"{place}\"\n[[output]]\ntype = \"json\"\npath = \"{}\"\n",
        file.display()
    );
    std::fs::write(&config, text).unwrap();
    let config = config.to_str().unwrap();
    let checked = run(&["sidecar", "--config", config, "--check"], b"");
    assert_eq!(checked.code(), 0, "{}", checked.err());
    let said = checked.out() + &checked.err();
    assert!(said.contains(&format!("the BPF map {place}: consumed")), "{said}");
    let sidecar = Live::start(&["sidecar", "--config", config]);
    let delivered = || {
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        let whole: String =
            text.split_inclusive('\n').filter(|line| line.ends_with('\n')).collect();
        let lines = json_lines(&whole).into_iter();
        lines.filter(|line| line["pos"].is_u64()).map(|line| number_of(&line)).collect::<Vec<_>>()
    };
    for round in 1..=3 {
        assert_eq!(writer.feed(), 0);
        until("all is delivered", || delivered().len() as u64 == round * BLOCK);
    }
    assert_eq!(delivered(), (0..3 * BLOCK).collect::<Vec<_>>());
    sidecar.signal(Signal::SIGTERM);
    let (_, err, code) = sidecar.end();
    assert_eq!(code, 0, "{err}");
    let done = run(&["tail", "--json", "--bpf", &place], b"");
    assert_eq!((done.code(), &*done.out()), (0, ""), "{}", done.err());
}

#[test]
fn a_second_consumer_ends_the_first_with_a_sentence() {
    let Some(mut writer) = Writer::new(1 << 20) else { return };
    let place = writer.place();
    writer.feed();
    let mut tail = Live::start(&["tail", "-f", "--json", "--bpf", &place]);
    (0..BLOCK).for_each(|seq| assert_eq!(number_of(&json_lines(&tail.line())[0]), seq));
    // While it does nothing, another program's reader takes what is there.
    tail.signal(Signal::SIGSTOP);
    let stat = format!("/proc/{}/stat", tail.child.id());
    until("the command is stopped", || {
        let stat = std::fs::read_to_string(&stat).unwrap();
        stat.rsplit_once(") ").is_some_and(|(_, state)| state.starts_with('T'))
    });
    writer.feed();
    writer.map.forget();
    tail.signal(Signal::SIGCONT);
    let (_, err, code) = tail.end();
    assert_eq!(code, 4, "{err}");
    assert!(err.contains("another process consumes this BPF map"), "{err}");
    assert!(err.contains("end the other one, or observe"), "{err}");
}

/// Mounts a BPF file system at a directory, for this thread and the commands that it starts alone.
fn mount_bpf(at: &Path) -> nix::Result<()> {
    unshare(CloneFlags::CLONE_NEWNS)?;
    let none: Option<&str> = None;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)?;
    mount(Some("bpf"), at, Some("bpf"), MsFlags::empty(), none)
}

#[test]
fn a_pinned_map_is_read_by_its_path() {
    // In another thread, with which the namespace ends.
    let test = || {
        let Some(mut writer) = Writer::new(1 << 20) else { return };
        let dir = Place::new();
        if let Err(error) = mount_bpf(dir.0.path()) {
            return skipped(&format!("mounting a BPF file system is forbidden: {error}"));
        }
        let path = |name: &str| dir.path(name).to_str().unwrap().to_owned();
        let c_path = |name: &str| CString::new(path(name)).unwrap();
        pin(writer.map.fd(), &c_path("events")).unwrap();
        assert_eq!(writer.feed(), 0);
        let done = run(&["tail", "--json", "--bpf", &path("events")], b"");
        assert_eq!((done.code(), &*done.err()), (0, ""));
        assert_eq!(numbers(&done.out()), (0..BLOCK).collect::<Vec<_>>());
        let program = Program::load(&timed(number(writer.map.fd()))).unwrap();
        pin(program.as_fd(), &c_path("program")).unwrap();
        run(&["tail", "--bpf", &path("program")], b"")
            .refuses(2, "program is a BPF program, not a map");
        run(&["tail", "--bpf", &path("nothing")], b"").refuses(3, "has to pin it there");
        run(&["tail", "--bpf", dir.0.path().to_str().unwrap()], b"").refuses(2, "not a pinned");
        std::fs::remove_file(path("program")).unwrap();
        std::fs::remove_file(path("events")).unwrap();
        nix::mount::umount(dir.0.path()).unwrap();
    };
    std::thread::spawn(test).join().unwrap();
}

#[test]
fn a_user_without_the_capability_learns_which() {
    let Some(writer) = Writer::new(4096) else { return };
    let place = writer.place();
    let perfring = crate::command::perfring(&["tail", "--bpf", &place]);
    let mut command = std::process::Command::new("setpriv");
    command.args(["--reuid=65534", "--clear-groups", "--inh-caps=-all", "--bounding-set=-all"]);
    let output = |command: &mut std::process::Command| {
        crate::command::Done(command.stdin(std::process::Stdio::null()).output().unwrap())
    };
    command.arg(perfring.get_program());
    let mut version = std::process::Command::new("setpriv");
    version.args(command.get_args()).arg("--version");
    if output(&mut version).code() != 0 {
        return skipped("needs setpriv, and a program that the user nobody may run");
    }
    command.args(perfring.get_args());
    output(&mut command).refuses(6, "CAP_SYS_ADMIN, or name the path of a pinned map");
}
