//! `perfring tail --perf`, on the running kernel.

use crate::command::{Live, Place, json_lines, perfring, run, skipped};
use nix::libc;
use nix::sys::signal::Signal;
use perfring_producer::{Options, Producer};
use perfring_testkit::wait::{sleeps, until};
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

/// A shell that answers each line with a line: at least one context switch for each.
struct Echo {
    child: Child,
    to: Option<ChildStdin>,
    from: BufReader<ChildStdout>,
}

impl Echo {
    fn start() -> Self {
        let mut command = Command::new("sh");
        command.args(["-c", "while read line; do echo $line; done"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (to, from) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        Echo { child, to, from }
    }

    fn ask(&mut self) {
        writeln!(self.to.as_mut().unwrap(), "on").unwrap();
        let mut answer = String::new();
        self.from.read_line(&mut answer).unwrap();
        assert_eq!(answer, "on\n");
    }

    fn switches(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let lines = status.lines().filter_map(|line| line.split_once("ctxt_switches:"));
        lines.map(|(_, count)| count.trim().parse::<u64>().unwrap()).sum()
    }

    fn pid(&self) -> String {
        self.child.id().to_string()
    }

    fn end(mut self) {
        self.to = None;
        self.child.wait().unwrap();
    }
}

/// Returns whether this machine forbids it; then it is reported with a code of its own.
fn is_forbidden() -> bool {
    let echo = Echo::start();
    let done =
        run(&["tail", "--perf", "context-switches", "--pid", &echo.pid(), "--timeout", "0s"], b"");
    echo.end();
    if done.code() != 6 {
        return false;
    }
    done.refuses(6, "context-switches");
    assert!(std::env::var_os("PERFRING_NO_SKIP").is_none(), "not to be skipped: {}", done.err());
    let _ = writeln!(std::io::stderr().lock(), "SKIPPED: {}", done.err().trim());
    true
}

#[test]
fn kernel_events_are_merged_with_a_rings_records_until_the_process_ends() {
    if is_forbidden() {
        return;
    }
    let place = Place::new();
    let ring = place.path("ring").to_str().unwrap().to_owned();
    let options = Options { time: true, ..Options::default() };
    let mut producer = Producer::create(&*ring, &options).unwrap();
    let mut echo = Echo::start();
    let events = "context-switches,tasks";
    let args = ["tail", "--perf", events, "--pid", &echo.pid(), "--format", "json", &ring];
    producer.publish(b"begin").unwrap();
    let mut tail = Live::start(&args);
    let mut lines = vec![tail.line()]; // after the kernel's rings were opened
    let before = echo.switches();
    for round in 0..20 {
        producer.publish(format!("round {round}").as_bytes()).unwrap();
        echo.ask();
    }
    let switches = echo.switches() - before;
    producer.publish(b"end").unwrap();
    let pid = echo.pid();
    echo.end();
    let (out, err, code) = tail.end();
    assert_eq!((code, &*err), (0, &*format!("perfring: process {pid} ended: end\n")));
    lines.extend(out.lines().map(str::to_owned));
    let lines = json_lines(&lines.join("\n"));
    let times: Vec<u64> = lines.iter().map(|line| line["time_ns"].as_u64().unwrap()).collect();
    assert!(times.is_sorted());
    assert!(lines.iter().all(|line| line["time"].is_string()));
    let of = |name: &str| lines.iter().filter(|line| line["type_name"] == name).count() as u64;
    let ours = lines.iter().filter(|line| line["text"].is_string()).count();
    println!("{ours} records of ours, {} switches of {switches}", of("perf.ContextSwitch"));
    assert_eq!((ours, of("perf.Exit")), (22, 1));
    assert!(of("perf.ContextSwitch") >= switches);
    // Each answer wakes a waiting reader: its events are between two rounds of ours.
    let between = |from: &str, to: &str| {
        let at = |text: &str| lines.iter().position(|line| line["text"] == text).unwrap();
        lines[at(from)..at(to)].iter().filter(|line| line["fields"]["pid"].is_u64()).count()
    };
    assert!(between("round 0", "end") > 0);
}

#[test]
fn records_are_counted_selected_and_shown_like_those_of_rings() {
    if is_forbidden() {
        return;
    }
    let mut echo = Echo::start();
    let pid = echo.pid();
    let tail = |more: &[&str]| {
        let args = ["tail", "--perf", "switches,context-switches", "--pid", &pid];
        Live::start(&[args.as_slice(), more].concat())
    };
    for (more, shows) in [
        (["--first", "3", "--type", "perf.Switch"], "perf.Switch pid="),
        (["--first", "3", "--where", "switched=out"], "switched=out"),
        (["--first", "3", "--where", "mode=kernel"], "perf.ContextSwitch pid="),
    ] {
        let mut tail = tail(&more);
        // Until it has shown three: its first line shows that it has started.
        let mut ended = None;
        while ended.is_none() {
            echo.ask();
            ended = tail.child.try_wait().unwrap();
        }
        let (out, err, code) = tail.end();
        assert_eq!((code, &*err), (0, ""));
        let lines: Vec<&str> = out.lines().collect();
        assert!(lines.len() == 3 && lines.iter().all(|line| line.contains(shows)), "{out}");
    }
    let done = run(
        &["tail", "--perf", "mappings", "--pid", &pid, "--timeout", "100ms", "--type", "x"],
        b"",
    );
    assert_eq!((done.code(), &*done.out()), (124, ""));
    assert!(
        done.err().contains("no type of the kernel's records is called \"x\""),
        "{}",
        done.err()
    );
    echo.end();
}

#[test]
fn losses_of_the_kernels_ring_are_reported_with_a_code_of_their_own() {
    if is_forbidden() {
        return;
    }
    let mut echo = Echo::start();
    let pid = echo.pid();
    let args = ["tail", "--perf", "context-switches", "--pid", &pid, "--perf-size", "4K"];
    let mut text = Live::start(&args);
    let json = ["--format", "json", "--fail-on-loss"];
    let mut json = Live::start(&[args.as_slice(), &json].concat());
    // Both have started once each has shown a line.
    let shown = AtomicBool::new(false);
    let (first, first_json) = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !shown.load(Ordering::Relaxed) {
                echo.ask();
            }
        });
        let lines = (text.line(), json.line());
        shown.store(true, Ordering::Relaxed);
        lines
    });
    assert!(first.contains("perf.ContextSwitch"), "{first}");
    text.signal(Signal::SIGSTOP);
    json.signal(Signal::SIGSTOP);
    let before = echo.switches();
    let many = 4 * 64 * std::thread::available_parallelism().unwrap().get() as u64;
    while echo.switches() < before + many {
        echo.ask();
    }
    echo.end();
    text.signal(Signal::SIGCONT);
    json.signal(Signal::SIGCONT);
    let (_, err, code) = text.end();
    assert_eq!(code, 0, "{err}");
    let reported =
        err.lines().find(|line| line.contains("LOST")).unwrap_or_else(|| panic!("{err}"));
    assert!(reported.contains(" records of context-switches on processor "), "{reported}");
    assert!(reported.ends_with(": full"), "{reported}");
    let (out, err, code) = json.end();
    assert_eq!(code, 5, "{err}");
    let lost = |line: &Value| line["lost"]["records"].as_u64();
    let lines = json_lines(&(first_json + "\n" + &out));
    let lost: u64 = lines.iter().filter_map(lost).sum();
    println!("{lost} lost of more than {many}; {}", err.trim());
    assert!(lost > 0 && err.contains(&format!("{lost} records were lost")), "{err}");
}

#[test]
fn invalid_requests_have_a_message_and_a_code_of_their_own() {
    let place = Place::new();
    let ring = place.ring(&[]);
    let me = std::process::id().to_string();
    for (args, code, says) in [
        (["--perf", "cycles", "--pid", &me], 2, "not one of the kernel's software events"),
        (["--perf", "page-faults", "--pid", "x"], 2, "--pid"),
        (["--perf", "page-faults", "--first", "1"], 2, "<--pid <PID>|--all>"),
        (["--pid", &me, "--first", "1"], 2, "--perf"),
        (["--perf", "page-faults", "--pid", "2147483647"], 3, "there is no process 2147483647"),
    ] {
        run(&[["tail"].as_slice(), &args].concat(), b"").refuses(code, says);
    }
    let since = ["tail", "--perf", "switches", "--pid", &me, "--since", "5s", &ring];
    run(&since, b"").refuses(2, "no timestamps");
    run(&["tail"], b"").refuses(2, "<RING>");
    let odd = ["tail", "--perf", "switches", "--pid", &me, "--perf-size", "12K"];
    let done = run(&odd, b"");
    assert!([2, 6].contains(&done.code()), "{}", done.err());
}

#[test]
fn a_user_without_permission_gets_advice() {
    let paranoid = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid");
    let level: i32 = paranoid.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(9);
    // The user nobody; only root can change to it.
    let as_nobody = |args: &[&str]| {
        let perfring = perfring(args);
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--clear-groups", "--inh-caps=-all", "--bounding-set=-all"]);
        command.arg(perfring.get_program()).args(args);
        crate::command::Done(command.stdin(Stdio::null()).output().unwrap())
    };
    let can = nix::unistd::geteuid().is_root() && as_nobody(&["--version"]).code() == 0;
    if !can || level < 2 {
        let why = "needs root, setpriv, a program that the user nobody may run, and perf_event_paranoid >= 2";
        assert!(std::env::var_os("PERFRING_NO_SKIP").is_none(), "not to be skipped: {why}");
        let _ = writeln!(std::io::stderr().lock(), "SKIPPED: {why}");
        return;
    }
    let done = as_nobody(&["tail", "--perf", "switches", "--all"]);
    done.refuses(6, "this user may not observe switches of the whole machine");
    assert!(done.err().contains("CAP_PERFMON"));
    let done = as_nobody(&["tail", "--perf", "tasks", "--all", "--perf-overwrite"]);
    done.refuses(6, "this user may not observe tasks of the whole machine");
    let done = as_nobody(&["tail", "--perf", "page-faults", "--pid", "1"]);
    done.refuses(6, "this user may not observe page-faults of process 1");
}

/// A shell that gives itself each line as its name, and answers.
fn named() -> Echo {
    let mut command = Command::new("sh");
    command.args(["-c", "while read line; do printf %s $line > /proc/$$/comm; echo on; done"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (to, from) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
    Echo { child, to, from }
}

/// Returns whether this kernel hides in which system call a process is: [`until_it_records`] needs it.
fn hides_calls() -> bool {
    // That of another process needs more permission than one's own.
    let echo = Echo::start();
    let hides = std::fs::read(format!("/proc/{}/syscall", echo.pid())).is_err();
    echo.end();
    if hides {
        skipped("this kernel does not say in which system call a thread of another process is");
    }
    hides
}

/// Waits until the command sleeps: it has opened its recorders, and waits for the end.
fn until_it_records(tail: &Live) {
    let asleep = [libc::SYS_clock_nanosleep, libc::SYS_nanosleep].map(|number| number.to_string());
    until("the command sleeps", || {
        let call = std::fs::read_to_string(format!("/proc/{}/syscall", tail.child.id()));
        call.unwrap().split(' ').next().is_some_and(|call| asleep.contains(&call.to_owned()))
    });
}

#[test]
fn the_newest_kernel_events_are_shown_at_the_end_with_what_the_ring_then_has() {
    if is_forbidden() || hides_calls() {
        return;
    }
    let place = Place::new();
    let ring = place.path("ring").to_str().unwrap().to_owned();
    let options = Options { time: true, ..Options::default() };
    let mut producer = Producer::create(&*ring, &options).unwrap();
    producer.publish(b"begin").unwrap();
    let mut shell = named();
    let pid = shell.pid();
    let args = ["tail", "--perf", "tasks", "--pid", &pid, "--perf-overwrite", "--perf-size", "4K"];
    let more = ["--format", "json", "--fail-on-loss", &ring];
    let tail = Live::start(&[args.as_slice(), &more].concat());
    until_it_records(&tail);
    let processors = std::fs::read_dir("/sys/bus/cpu/devices").unwrap().count();
    // More names than all recorders hold.
    let names = 64 * 4 * processors;
    let mut give = |number: usize| {
        writeln!(shell.to.as_mut().unwrap(), "{number}").unwrap();
        let mut answer = String::new();
        shell.from.read_line(&mut answer).unwrap();
    };
    (0..names).for_each(&mut give);
    producer.publish(b"between").unwrap();
    (names..names + 10).for_each(&mut give);
    producer.publish(b"end").unwrap();
    shell.end();
    let (out, err, code) = tail.end();
    assert_eq!(code, 5, "{err}");
    assert!(err.contains("an unknown number of records"), "{err}");
    let lines = json_lines(&out);
    let lost = lines.iter().filter(|line| line["lost"]["cause"] == "lapped");
    assert!(lost.clone().count() > 0 && lost.clone().all(|line| line["lost"]["records"].is_null()));
    let times: Vec<u64> = lines.iter().filter_map(|line| line["time_ns"].as_u64()).collect();
    assert!(times.is_sorted());
    let given: Vec<usize> =
        lines.iter().filter_map(|line| line["fields"]["comm"].as_str()?.parse().ok()).collect();
    println!("{} of {} names: {:?}", given.len(), names + 10, given.first());
    assert!(given.len() < names && given.is_sorted());
    let at = |text: &str| lines.iter().position(|line| line["text"] == text).unwrap();
    let comm = |number: usize| {
        let is = |line: &Value| line["fields"]["comm"] == *number.to_string();
        lines.iter().position(is).unwrap_or_else(|| panic!("{number} is not there"))
    };
    assert!(at("begin") < comm(names - 1) && comm(names - 1) < at("between"));
    // A loss stands where the records of its processor begin.
    let lapped = lines.iter().position(|line| line["lost"]["cause"] == "lapped").unwrap();
    assert!(at("begin") < lapped && lapped < comm(names - 1));
    for number in names..names + 10 {
        assert!(at("between") < comm(number) && comm(number) < at("end"), "{number}");
    }
}

#[test]
fn a_recorder_ends_with_the_time_or_the_first_records_and_needs_events() {
    if is_forbidden() || hides_calls() {
        return;
    }
    let mut echo = Echo::start();
    let pid = echo.pid();
    let args = ["tail", "--perf", "switches", "--pid", &pid, "--perf-overwrite"];
    let started = |more: &[&str]| Live::start(&[args.as_slice(), more].concat());
    // Otherwise its start is an event.
    until("the shell waits", || sleeps(&pid));
    let done = run(&[args.as_slice(), &["--timeout", "0s"]].concat(), b"");
    assert_eq!((done.code(), &*done.out()), (124, ""));
    let (few, all, stopped) = (started(&["--first", "3"]), started(&[]), started(&[]));
    let (newest, every) = (started(&["-n", "3", "--json"]), started(&["--json"]));
    for tail in [&few, &all, &stopped, &newest, &every] {
        until_it_records(tail);
    }
    let before = echo.switches();
    (0..20).for_each(|_| echo.ask());
    let switches = echo.switches() - before;
    stopped.signal(Signal::SIGINT);
    let lines = |live: Live, expected: i32| {
        let (out, err, code) = live.end();
        assert_eq!(code, expected, "{err}");
        out.lines().filter(|line| line.contains("perf.Switch")).count() as u64
    };
    let of_stopped = lines(stopped, 130);
    echo.end();
    // The shell was asleep before the first question. Its last switch may be the one to sleep.
    println!("{of_stopped} events of {switches} switches");
    assert!(of_stopped >= 1 && of_stopped + 1 >= 2 * switches);
    assert_eq!(lines(few, 0), 3);
    assert!(lines(all, 0) > of_stopped);
    // Each observer has its own timestamp of an event.
    let fields = |live: Live| -> Vec<Value> {
        let (out, err, code) = live.end();
        assert_eq!(code, 0, "{err}");
        json_lines(&out).iter().map(|line| line["fields"].clone()).collect()
    };
    let every = fields(every);
    assert_eq!(fields(newest), every[every.len() - 3..]);
    run(&[args.as_slice(), &["-f"]].concat(), b"").refuses(2, "leave out one of the two");
    run(&["tail", "--perf-overwrite", "x"], b"").refuses(2, "--perf");
    let both = [args.as_slice(), &["--bpf", "id:1"]].concat();
    run(&both, b"").refuses(2, "--bpf");
}
