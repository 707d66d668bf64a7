//! `[[snapshot]] why`: the sidecar as a flight recorder of causes.

use super::shop::Shop;
use super::{Lines, gap, is_forbidden, part};
use crate::command::{Live, Place, json_lines, perfring, run, skipped};
use nix::sys::signal::Signal;
use perfring_testkit::wait::{Watchdog, until};
use serde_json::Value;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A sidecar with a rule, and an overwrite ring in its directory.
struct Flight {
    place: Place,
    ring: String,
}

impl Flight {
    fn new() -> Self {
        let place = Place::new();
        fs::create_dir(place.path("rings")).unwrap();
        let ring = place.path("rings/flight").to_str().unwrap().to_owned();
        let options = ["--time", "--policy", "overwrite", "--size", "64K"];
        let made = run(&[&["create", &ring], &options[..]].concat(), b"");
        assert_eq!(made.code(), 0, "{}", made.err());
        let flight = Flight { place, ring };
        flight.configure("");
        flight
    }

    fn path(&self, name: &str) -> String {
        self.place.path(name).to_str().unwrap().to_owned()
    }

    /// Writes the configuration, with these keys of the rule.
    fn configure(&self, keys: &str) {
        let text = format!(
            "status = {:?}\nstatus_interval = \"100ms\"\n[control]\npath = {:?}\n[[input]]\ndir = {:?}\n[[output]]\n\
             type = \"json\"\npath = {:?}\n[[snapshot]]\ndir = {:?}\nkeep = 1\n{keys}",
            self.path("status"),
            self.path("control"),
            self.path("rings"),
            self.path("out.jsonl"),
            self.path("snapshots"),
        );
        fs::write(self.place.path("sidecar.toml"), text).unwrap();
    }

    /// Starts the sidecar, and waits until it has read so many records.
    fn start(&self, mut command: Command, records: usize) -> Live {
        let said = File::create(self.place.path("said")).unwrap();
        command.args(["sidecar", "-c", &self.path("sidecar.toml")]);
        let live = Live::of({
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(said);
            command
        });
        until("the ring is read", || self.delivered().len() >= records);
        live
    }

    fn said(&self) -> String {
        fs::read_to_string(self.place.path("said")).unwrap()
    }

    fn delivered(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.place.path("out.jsonl")).unwrap_or_default();
        json_lines(text.rsplit_once('\n').map_or("", |(whole, _)| whole))
    }

    fn status(&self) -> Value {
        serde_json::from_slice(&fs::read(self.place.path("status")).unwrap()).unwrap()
    }

    fn ask(&self, what: &str) -> Value {
        let done = run(&["sidecar", what, "--control", &self.path("control"), "--json"], b"");
        assert_eq!(done.code(), 0, "{}", done.err());
        serde_json::from_str(&done.out()).unwrap()
    }

    /// Has a snapshot taken. Returns its path.
    fn snapshot(&self) -> String {
        self.ask("snapshot")["snapshots"][0]["path"].as_str().unwrap().to_owned()
    }

    /// Returns what `perfring why` says of a new snapshot.
    fn why(&self) -> Vec<Value> {
        let done = run(&["why", &self.snapshot(), "--json", "--top", "100000"], b"");
        assert_eq!(done.code(), 0, "{}", done.err());
        json_lines(&done.out())
    }

    /// Returns the names of the files beside snapshots, sorted.
    fn files(&self) -> Vec<String> {
        let files = fs::read_dir(self.place.path("snapshots")).unwrap();
        let mut names: Vec<String> =
            files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

/// Returns how many descriptors a process has open, and the names of its threads.
fn has(pid: u32) -> (usize, Vec<String>) {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let names = tasks.filter_map(|task| fs::read_to_string(task.unwrap().path().join("comm")).ok());
    let names = names.map(|name| name.trim().to_owned()).collect();
    (fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count(), names)
}

/// Waits for the end, and returns the code.
fn ended(mut live: Live) -> Option<i32> {
    live.child.wait().unwrap().code()
}

#[test]
fn a_snapshot_names_the_cause_and_so_does_the_text_beside_it() {
    if is_forbidden() {
        return;
    }
    let flight = Flight::new();
    let mut shop = Shop::start(&flight.ring);
    shop.ask("write");
    let live = flight.start(perfring(&[]), 1);
    let pid = live.child.id();
    // Once a request is answered, its thread has ended.
    let is_quiet = || !has(pid).1.iter().any(|name| name == "control");
    flight.ask("status");
    until("its connection is closed", is_quiet);
    let before = has(pid);
    flight.configure("why = true\n");
    flight.ask("reload");
    until("the witness looks", || has(pid).1.iter().any(|name| name == "witness"));
    until("the writer of its records is known", || {
        shop.ask("write");
        let lines = flight.why();
        let summary = &lines.last().unwrap()["summary"];
        let of = |name: &str| summary[name].as_u64().unwrap();
        of("covered_ns") > 0 && of("records") > of("records_without_thread")
    });
    let begun = Instant::now();
    assert_eq!(shop.ask("write await write")["awaits"], true);
    shop.0.signal(Signal::SIGSTOP);
    until("the stop is seen", || flight.why().iter().any(|line| line["cause"] == "owner stopped"));
    // So that the stop is most of the gap.
    let (so_far, dog) = (begun.elapsed(), Watchdog::default());
    while begun.elapsed() < so_far * 3 + Duration::from_millis(200) {
        dog.pause("it has been stopped for long enough");
    }
    shop.0.signal(Signal::SIGCONT);
    shop.say("");
    let answer = shop.answer();
    let path = flight.snapshot();
    let lines = json_lines(&run(&["why", &path, "--json", "--top", "100000"], b"").out());
    let gap = gap(&lines, shop.pid(), &answer);
    println!("{}", gap["sentence"].as_str().unwrap());
    let (length, stopped) =
        (gap["duration_ns"].as_u64().unwrap(), gap["stopped_ns"].as_u64().unwrap());
    assert!(stopped > 0, "{gap}");
    // A snapshot pauses the kernel's rings: events that the kernel dropped meanwhile leave no parts.
    if gap["parts"].is_object() {
        assert!(stopped <= part(gap, "waited_ns"), "{gap}");
    }
    // A machine that is busy may continue it late.
    assert_eq!(gap["cause"] == "stopped", stopped > length / 2, "{gap}");
    // The text is what the command prints.
    let text = path.replace(".perfrec", ".why.txt");
    until("it is explained", || fs::exists(&text).unwrap());
    let (said, printed) = (fs::read_to_string(&text).unwrap(), run(&["why", &path], b"").out());
    assert_eq!(said, printed);
    assert!(said.contains(gap["sentence"].as_str().unwrap()), "{said}");
    until("the first finding is logged", || flight.said().contains(&format!("why {path}: ")));
    // All earlier snapshots were removed, each with its text.
    let names = flight.files();
    assert_eq!(names.len(), 2, "{names:?}");
    assert!(path.ends_with(&names[0]) && text.ends_with(&names[1]), "{names:?}");
    // Nothing of the witness is a ring of the sidecar's.
    let delivered = flight.delivered();
    assert!(delivered.iter().all(|line| line["ring"] == "flight"), "{delivered:?}");
    let status = flight.ask("status");
    assert_eq!(status["rings"].as_array().unwrap().len(), 1, "{status}");
    assert_eq!(status["snapshots_trouble"], Value::Null);
    assert_eq!(status["unreadable_rings"].as_array().map_or(0, Vec::len), 0, "{status}");
    // The answer names the text, and the text leaves short gaps out.
    flight.configure("why = true\nslower_than = \"1h\"\n");
    flight.ask("reload");
    let said = run(&["sidecar", "snapshot", "--control", &flight.path("control")], b"").out();
    assert!(said.contains("; its causes are soon in ") && said.ends_with(".why.txt\n"), "{said}");
    let answer = flight.ask("snapshot")["snapshots"][0].clone();
    let [path, text] = ["path", "why"].map(|key| answer[key].as_str().unwrap().to_owned());
    until("it is explained", || fs::exists(&text).unwrap());
    let printed = run(&["why", &path, "--slower-than", "1h"], b"").out();
    assert_eq!(fs::read_to_string(&text).unwrap(), printed);
    assert!(printed.contains(" 0 gaps"), "{printed}");
    flight.configure("");
    flight.ask("reload");
    until("the witness is gone", || is_quiet() && has(pid) == before);
    live.signal(Signal::SIGTERM);
    assert_eq!(ended(live), Some(0), "{}", flight.said());
}

#[test]
fn a_snapshot_of_a_user_without_privileges_says_what_is_missing() {
    if !rustix::process::geteuid().is_root() {
        return skipped("only root can become another user to try");
    }
    if is_forbidden() {
        return;
    }
    let paranoid = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap();
    if paranoid.trim().parse::<i32>().unwrap() < 1 {
        return skipped("every user of this machine may watch all tasks");
    }
    let flight = Flight::new();
    for path in [flight.place.0.path(), &flight.place.path("rings")] {
        fs::set_permissions(path, Permissions::from_mode(0o777)).unwrap();
    }
    fs::set_permissions(&flight.ring, Permissions::from_mode(0o666)).unwrap();
    let exe = flight.place.path("perfring");
    let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_perfring")).arg(&exe).status();
    assert!(copied.unwrap().success());
    let as_nobody = || {
        let mut command = Command::new(&exe);
        command.uid(65534).gid(65534).current_dir(flight.place.0.path());
        command
    };
    flight.configure("why = true\n");
    let mut publish = as_nobody();
    publish.args(["publish", "rings/flight"]);
    let mut lines = Lines::start(publish);
    lines.say(&flight.ring, 1);
    // Its open files may be seen by root alone.
    let other = flight.path("rings/other");
    let made = run(&["create", &other, "--time", "--policy", "overwrite", "--mode", "666"], b"");
    assert_eq!(made.code(), 0, "{}", made.err());
    let mut of_root = Lines::start(perfring(&["publish", &other]));
    of_root.say(&other, 1);
    let missing = "this user may not observe switches of the whole machine";
    let check = as_nobody().args(["sidecar", "-c", "sidecar.toml", "--check"]).output().unwrap();
    let check = String::from_utf8(check.stderr).unwrap();
    assert!(check.contains("each with the causes of its gaps and losses"), "{check}");
    assert!(check.contains(missing), "{check}");
    let live = flight.start(as_nobody(), 2);
    until("it says what is missing", || flight.said().contains("[[snapshot]] why: "));
    let path = flight.snapshot();
    let text = path.replace(".perfrec", ".why.txt");
    until("it is explained", || fs::exists(&text).unwrap());
    let explained = run(&["why", &path, "--json"], b"");
    assert_eq!(explained.code(), 0, "{}", explained.err());
    let explained = json_lines(&explained.out());
    assert_eq!(explained.last().unwrap()["summary"]["records"], 2, "{explained:?}");
    // By perf_event_paranoid, the user may watch its own processes, or none.
    let said = fs::read_to_string(&text).unwrap();
    let is_in_part = said.contains("only the context switches of some processes were recorded");
    assert!(is_in_part || said.contains("were not recorded"), "{said}");
    let unseen =
        format!("this user may not see the open files of process {}: ", of_root.0.child.id());
    until("the status has it", || flight.status().to_string().contains(&unseen));
    let trouble = flight.status()["snapshots_trouble"].as_str().unwrap().to_owned();
    for says in [missing, "CAP_PERFMON", "without that, the recording has", "CAP_SYS_PTRACE"] {
        assert!(trouble.contains(says), "{trouble}");
    }
    for once in [missing, &*unseen] {
        assert_eq!(flight.said().matches(once).count(), 1, "{}", flight.said());
    }
    live.signal(Signal::SIGTERM);
    assert_eq!(ended(live), Some(0), "{}", flight.said());
}
