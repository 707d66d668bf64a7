//! Standard streams that are not ready or full, and limits of a process: `ulimit -f`, `ulimit -n`.

use crate::command::{Done, Place, json_lines, perfring, publish, run, subcommands};
use perfring_testkit::wait::until;
use std::fs;
use std::io::{self, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};

const RECORDS: u64 = 2000;

/// Every subcommand, with arguments by which it writes to stdout; `None` if it writes nothing there, or needs a terminal or
/// a network. `RINGS` is a directory of rings, `RING` one of these.
const COMMANDS: &[(&str, Option<&str>)] = &[
    ("demo", None), // it has a test of its own
    ("create", None),
    ("rm", None),
    ("publish", None),
    ("tail", Some("tail RING")),
    ("consume", Some("consume RING")),
    ("dump", Some("dump --json RING")),
    ("record", Some("record RING -o - -n 1900")),
    ("export", Some("export RING --to json -o -")),
    ("replay", None),
    ("sidecar", Some("sidecar RINGS -o json:- --once")),
    ("types", None),   // these rings have no types
    ("metrics", None), // nor a metrics area
    ("stat", Some("stat RINGS")),
    ("why", Some("why RINGS")),
    ("ls", Some("ls RINGS")),
    ("prune", Some("prune --dry-run RINGS")),
    ("recover", None), // a ring with one producer has nothing to recover
    ("doctor", Some("doctor RING")),
    ("completions", Some("completions bash")),
    ("man", None),
    ("help", Some("help")),
    ("bench", None),
    ("top", None),
    ("view", None),
];

/// A directory with two rings, one of them with records.
fn rings() -> Place {
    let place = Place::new();
    fs::create_dir(place.path("rings")).unwrap();
    for name in ["one", "two"] {
        let path = place.path("rings").join(name);
        let made = run(&["create", path.to_str().unwrap(), "--size", "1M", "--time"], b"");
        assert_eq!(made.code(), 0, "{}", made.err());
    }
    let lines: String = (0..RECORDS).map(|n| format!("record {n:08}\n")).collect();
    publish(place.path("rings/one").to_str().unwrap(), lines.as_bytes());
    place
}

fn args(place: &Place, line: &str) -> Vec<String> {
    let (dir, ring) = (place.path("rings"), place.path("rings/one"));
    let word = |word: &str| match word {
        "RINGS" => dir.to_str().unwrap().to_owned(),
        "RING" => ring.to_str().unwrap().to_owned(),
        word => word.to_owned(),
    };
    line.split(' ').map(word).collect()
}

fn command(args: &[String]) -> Command {
    perfring(&args.iter().map(String::as_str).collect::<Vec<_>>())
}

#[test]
fn the_table_has_all_subcommands() {
    for name in subcommands() {
        assert!(COMMANDS.iter().any(|(its, _)| *its == name), "{name}: add it to the table");
    }
}

/// A pipe that is full and has `O_NONBLOCK`, as one has that a Node process shares.
#[test]
fn a_command_waits_for_a_pipe_that_does_not_block() {
    for line in
        COMMANDS.iter().filter_map(|(_, line)| *line).chain(["--help", "--version", "dump RINGS"])
    {
        let expected = command(&args(&rings(), line)).output().unwrap();
        assert!(!expected.stdout.is_empty(), "{line}");
        let place = rings();
        let (mut reader, mut writer) = io::pipe().unwrap();
        rustix::io::ioctl_fionbio(&writer, true).unwrap();
        let mut filled = 0;
        while let Ok(more) = writer.write(&[b'#'; 4096]) {
            filled += more;
        }
        let mut child = command(&args(&place, line)).stdout(writer).spawn().unwrap();
        let stat = format!("/proc/{}/stat", child.id());
        // It sleeps until there is room, or has failed.
        until("it waits", || {
            let stat = fs::read_to_string(&stat).unwrap();
            matches!(stat.rsplit_once(')').unwrap().1.split_whitespace().next(), Some("S" | "Z"))
        });
        let mut out = Vec::new();
        reader.read_to_end(&mut out).unwrap();
        let mut err = String::new();
        child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
        assert_eq!(child.wait().unwrap().code(), expected.status.code(), "{line}: {err}");
        let lines = |bytes: &[u8]| bytes.iter().filter(|byte| **byte == b'\n').count();
        // Lines of text are as many as otherwise; a recording has the time in it.
        let is_text = !line.starts_with("record");
        assert!(!is_text || lines(&out[filled..]) == lines(&expected.stdout), "{line}: {err}");
        assert!(out.len() > filled, "{line}: {err}");
    }
}

#[test]
fn a_full_device_is_an_error_of_every_command() {
    for line in
        COMMANDS.iter().filter_map(|(_, line)| *line).chain(["--help", "--version", "dump RINGS"])
    {
        // The sidecar waits until there is room.
        let Some(line) = (!line.starts_with("sidecar")).then_some(line) else { continue };
        let full = fs::File::options().write(true).open("/dev/full").unwrap();
        let done = Done(command(&args(&rings(), line)).stdout(full).output().unwrap());
        let (code, err) = (done.code(), done.err());
        assert!(code == 1 && err.contains("No space left on device"), "{line}: {code}, {err}");
        assert!(!err.contains(" shown"), "{line}: {err}");
    }
}

#[test]
fn prune_names_what_it_has_removed_also_when_stdout_fails() {
    let place = rings();
    let two = place.path("rings/two");
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let mut prune = command(&args(&place, "prune --dead-for 0s RINGS"));
    let done = Done(prune.stdout(full).output().unwrap());
    assert!(done.code() == 1 && done.err().contains("removed two: "), "{}", done.err());
    assert!(!two.exists() && place.path("rings/one").exists());
}

/// Runs a command of the shell in a directory.
fn shell(dir: &Path, script: &str) -> Done {
    let mut shell = Command::new("bash");
    shell.current_dir(dir).args(["-c", script]).env("PERFRING", env!("CARGO_BIN_EXE_perfring"));
    Done(shell.stdin(Stdio::null()).output().unwrap())
}

#[test]
fn a_file_over_the_limit_is_an_error_that_names_it() {
    let place = rings();
    let formats = ["json", "perfetto", "ctf", "perf-data", "recording"].into_iter();
    let formats = formats.chain(cfg!(feature = "parquet").then_some("parquet"));
    let exports = formats.map(|to| format!("export rings/one --to {to} -o {to} --patience 50ms"));
    let others = ["dump rings/one >dump", "record rings -o record -n 2000", "create new --size 1M"];
    for line in others.map(str::to_owned).into_iter().chain(exports) {
        let done = shell(place.0.path(), &format!("ulimit -f 8; exec \"$PERFRING\" {line}"));
        let (code, err) = (done.code(), done.err());
        assert!(code == 1 && err.contains("ulimit -f"), "{line}: {code}, {err}");
    }
    let left: Vec<_> = fs::read_dir(place.0.path()).unwrap().collect();
    let hidden = |name: &str| name.starts_with('.');
    assert!(left.iter().all(|file| !hidden(file.as_ref().unwrap().file_name().to_str().unwrap())));
}

#[test]
fn an_export_that_cannot_begin_leaves_no_empty_file() {
    let place = rings();
    let before = fs::read_dir(place.0.path()).unwrap().count();
    for to in ["json", "perfetto", "ctf", "perf-data", "recording"] {
        let line = format!("export rings/one --to {to} -o out --patience 50ms");
        // The shell itself writes nothing.
        let done = shell(place.0.path(), &format!("ulimit -f 0; exec \"$PERFRING\" {line}"));
        assert!(done.code() == 1 && done.err().contains("ulimit -f"), "{line}: {}", done.err());
        assert!(!place.path("out").exists(), "{line}");
        // A file that was there stays.
        fs::write(place.path("out"), "").unwrap();
        let done = shell(place.0.path(), &format!("ulimit -f 0; exec \"$PERFRING\" {line}"));
        assert_eq!(done.code(), 1, "{line}: {}", done.err());
        assert!(place.path("out").exists(), "{line}");
        fs::remove_file(place.path("out")).unwrap();
    }
    assert_eq!(fs::read_dir(place.0.path()).unwrap().count(), before);
}

#[test]
fn rings_for_which_there_is_no_descriptor_are_counted() {
    const RINGS: usize = 40;
    let place = Place::new();
    fs::create_dir(place.path("rings")).unwrap();
    for n in 0..RINGS {
        let path = place.path("rings").join(format!("ring{n:02}"));
        assert_eq!(run(&["create", path.to_str().unwrap()], b"").code(), 0);
        publish(path.to_str().unwrap(), b"one\n");
    }
    let few =
        |line: &str| shell(place.0.path(), &format!("ulimit -n 25; exec \"$PERFRING\" {line}"));
    // One after the other is open.
    let listed = few("ls --json rings");
    assert_eq!((listed.code(), json_lines(&listed.out()).len()), (0, RINGS), "{}", listed.err());
    let done = run(&["sidecar", "/nowhere", "-o", "null", "--once"], b"");
    assert!(done.code() == 1 && done.err().contains("1 input not read"), "{}", done.err());
    let stat = few("stat --json rings");
    assert!(stat.code() == 0 && json_lines(&stat.out()).len() > RINGS, "{}", stat.err());
    let planned = few("prune --dry-run --json rings");
    assert_eq!((planned.code(), json_lines(&planned.out()).len()), (0, RINGS));
    // All at once.
    for line in ["tail --json rings", "dump --json rings", "export rings --to json -o -"] {
        let done = few(line);
        let shown = done.out().matches("\"one\"").count();
        let left_out = format!("{} rings left out", RINGS - shown);
        assert!(shown > 0 && done.err().contains(&left_out), "{line}: {shown}, {}", done.err());
        assert!(done.code() == 1 && done.err().contains("ulimit -n"), "{line}: {}", done.err());
    }
    // It ends by its timeout, and says so.
    let done = few("tail -f --json --timeout 500ms rings");
    let shown = done.out().matches("\"one\"").count();
    let left_out = format!("{} rings left out", RINGS - shown);
    assert!(done.code() == 124 && done.err().contains(&left_out), "{shown}, {}", done.err());
    let done = few("sidecar rings -o json:out --once");
    let read = fs::read_to_string(place.path("out")).unwrap().lines().count();
    let not_read = format!("{} inputs not read", RINGS - read);
    assert!(read > 0 && done.code() == 1 && done.err().contains(&not_read), "{}", done.err());
}

/// A line for each reason, however many files are no rings.
#[test]
fn files_that_are_no_rings_are_reported_in_a_few_lines() {
    let place = rings();
    for n in 0..300 {
        fs::write(place.path("rings").join(format!("note{n}")), format!("{n}")).unwrap();
        fs::write(place.path("rings").join(format!("page{n}")), vec![b'x'; 8192]).unwrap();
    }
    let dir = place.path("rings");
    for line in ["tail", "dump", "ls", "stat", "types", "doctor"] {
        let done = run(&[line, dir.to_str().unwrap()], b"");
        let err = done.err();
        assert!(err.contains("note0 is left out: not a perfring file"), "{line}: {err}");
        assert!(err.contains("595 more files are left out"), "{line}: {err}");
        let of_files = err.lines().filter(|line| line.contains("left out")).count();
        assert!(of_files <= 6 && err.lines().count() <= 7, "{line}: {err}");
    }
    let out = format!("json:{}", place.path("out").display());
    let done = run(&["sidecar", dir.to_str().unwrap(), "-o", &out, "--once"], b"");
    assert!(done.code() == 0 && done.err().lines().count() <= 8, "{}", done.err());
}

#[test]
fn tail_shows_the_last_records_and_the_losses_between_them() {
    let place = Place::new();
    let ring = place.ring(&["--size", "4K"]);
    let lines: String = (0..400).map(|n| format!("{n}\n")).collect();
    publish(&ring, lines.as_bytes());
    let all = run(&["tail", "--json", &ring], b"");
    let all: Vec<_> = all.out().lines().map(str::to_owned).collect();
    let count = all.iter().filter(|line| !line.contains("\"lost\"")).count();
    assert!(count > 10 && all.len() > count, "the ring was full: {all:?}");
    // The rest, in front of which the producer puts what was lost.
    assert_eq!(run(&["consume", "-n", "20", &ring], b"").code(), 0);
    publish(&ring, b"x\ny\nz\n");
    let all = run(&["tail", "--json", &ring], b"").out();
    let all: Vec<&str> = all.lines().collect();
    let is_lost = |line: &&&str| line.contains("\"lost\"");
    let losses = all.iter().filter(is_lost).count();
    assert!(losses > 0);
    for n in 0..=all.len() {
        let done = run(&["tail", "--json", "-n", &n.to_string(), &ring], b"");
        let out = done.out();
        let shown: Vec<&str> = out.lines().collect();
        // All losses, and the last records, in their order.
        let first = all.len() - losses;
        let mut left_out = first.saturating_sub(n);
        let expected: Vec<&str> = all
            .iter()
            .filter(|line| {
                let goes = left_out > 0 && !is_lost(line);
                left_out -= usize::from(goes);
                !goes
            })
            .copied()
            .collect();
        assert_eq!(shown, expected, "{n}");
        let first = run(&["tail", "--json", "--first", &n.to_string(), &ring], b"").out();
        assert!(all.starts_with(&first.lines().collect::<Vec<_>>()), "{n}");
    }
    // With -f, those that follow come too.
    let mut live = crate::command::Live::start(&["tail", "-f", "-n", "2", &ring]);
    assert_eq!([live.line(), live.line()], ["y", "z"]);
    publish(&ring, b"new\n");
    assert_eq!(live.line(), "new");
    run(&["tail", "-n", "1", "--first", "1", &ring], b"").refuses(2, "cannot be used with");
    run(&["tail", "-n", "1", "--perf", "faults", "--all"], b"").refuses(2, "use --first");
}
