//! What `perfring sidecar` reports to those who run it: health, systemd, the control socket.
#![cfg(feature = "health")]

use crate::command::{Done, Live, Place, json_lines, perfring, run, skipped};
use nix::sys::signal::Signal;
use perfring_consumer::Consumer;
use perfring_producer::{Options, Policy, Producer};
use perfring_testkit::wait::{WATCHDOG, until};
#[cfg(feature = "otlp")]
use perfring_testrig::otlp::{Reply, Server};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

mod figures;

/// A directory of rings, and a sidecar with a control socket.
struct Run {
    place: Place,
}

impl Run {
    fn new() -> Self {
        let place = Place::new();
        fs::create_dir(place.path("rings")).unwrap();
        Run { place }
    }

    fn path(&self, name: &str) -> String {
        self.place.path(name).to_str().unwrap().to_owned()
    }

    fn ring(&self, name: &str, policy: Policy) -> Producer {
        let options = Options { size: 64 << 10, policy, time: true, ..Options::default() };
        Producer::create(self.place.path("rings").join(name), &options).unwrap()
    }

    /// Writes a configuration with a control socket and this, and an output `out`.
    fn configure(&self, more: &str) -> String {
        let (rings, out) = (self.path("rings"), self.path("out.jsonl"));
        let text = format!(
            "[control]\npath = {:?}\n[[input]]\ndir = {rings:?}\n\
             [[output]]\ntype = \"json\"\nname = \"out\"\npath = {out:?}\n{more}",
            self.path("socket")
        );
        let config = self.path("sidecar.toml");
        fs::write(&config, text).unwrap();
        config
    }

    fn start(&self, env: &[(&str, &str)]) -> Live {
        self.start_with(&[], env)
    }

    fn start_with(&self, args: &[&str], env: &[(&str, &str)]) -> Live {
        let mut command = perfring(&["sidecar", "--config", &self.path("sidecar.toml")]);
        command.args(args).envs(env.iter().copied());
        self.launch(command)
    }

    fn launch(&self, mut command: Command) -> Live {
        let said = File::options().append(true).create(true).open(self.path("said")).unwrap();
        command.stdout(Stdio::piped()).stderr(Stdio::from(said));
        let live = Live::of(command);
        until("it answers", || [0, NOT_READY].contains(&self.ask("status", &[]).code()));
        live
    }

    fn said(&self) -> String {
        fs::read_to_string(self.path("said")).unwrap_or_default()
    }

    fn ask(&self, what: &str, more: &[&str]) -> Done {
        let socket = self.path("socket");
        run(&[&["sidecar", what, "--control", &socket], more].concat(), b"")
    }

    /// Returns the status over the socket.
    fn status(&self) -> Value {
        let done = self.ask("status", &["--json"]);
        let status = json_lines(&done.out()).remove(0);
        let is_ready = status["ready"] == true;
        assert_eq!(done.code(), if is_ready { 0 } else { NOT_READY }, "{}", done.err());
        assert_eq!(done.err().starts_with("perfring: not ready: "), !is_ready, "{}", done.err());
        status
    }

    /// Returns the status code and the body of a page of the endpoint.
    fn get(&self, path: &str, header: &str) -> (u16, String) {
        let address = self.status()["health"].as_str().unwrap().to_owned();
        get(TcpStream::connect(address).unwrap(), path, header)
    }
}

fn get(mut stream: impl Read + Write, path: &str, header: &str) -> (u16, String) {
    write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\n{header}\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

fn ended(mut live: Live) -> i32 {
    live.child.wait().unwrap().code().unwrap_or(-1)
}

/// The code with which `perfring sidecar status` ends if the sidecar is not ready.
const NOT_READY: i32 = 7;

/// A required output that cannot deliver anything.
const DEAD: &str = "[[output]]\ntype = \"otlp\"\nname = \"dead\"\n\
                    endpoint = \"http://127.0.0.1:1\"\ndelivered_within = \"100ms\"\n";

#[test]
fn a_start_says_what_is_read_and_written_and_where_the_sidecar_is_asked() {
    let run = Run::new();
    let listens = cfg!(feature = "prometheus");
    let page = "[[output]]\ntype = \"prometheus\"\nlisten = \"127.0.0.1:0\"\n";
    run.configure(&format!(
        "[health]\nlisten = \"127.0.0.1:0\"\n{}[[input]]\nring = {:?}\n",
        if listens { page } else { "" },
        run.path("later")
    ));
    for (args, count) in [(&[][..], 1), (&["-q"], 0), (&["-v"], 1), (&["--once"], 0)] {
        let _ = fs::remove_file(run.path("said"));
        if args == ["--once"] {
            let done = crate::command::run(
                &["sidecar", "--config", &run.path("sidecar.toml"), "--once"],
                b"",
            );
            assert!(!done.err().contains("started"), "{}", done.err());
            continue;
        }
        let live = run.start_with(args, &[]);
        let health = run.status()["health"].as_str().unwrap().to_owned();
        live.signal(Signal::SIGTERM);
        ended(live);
        let started = format!(
            "level=info msg=\"started: reads all rings in {}, the ring {}; writes to out{}; [health] at {health}; [control] at {}\"",
            run.path("rings"),
            run.path("later"),
            if listens { ", prometheus at 127.0.0.1:0" } else { "" },
            run.path("socket")
        );
        let said = run.said();
        assert_eq!(said.matches(&started).count(), count, "{args:?}: {started} {said}");
        assert_eq!(said.matches("started").count(), count, "{args:?}: {said}");
    }
}

#[test]
fn losses_stay_in_totals_and_counters_when_their_ring_is_pruned() {
    let run = Run::new();
    let config = run.configure("[health]\nlisten = \"127.0.0.1:0\"\n");
    let text = fs::read_to_string(&config).unwrap();
    let prunes = "prune_after = \"0\"\n[[output]]";
    fs::write(&config, text.replacen("[[output]]", prunes, 1)).unwrap();
    let live = run.start(&[]);
    let mut all = 0;
    for round in 1..=2 {
        let mut producer = run.ring("one", Policy::Drop);
        for _ in 0..5000 {
            all += u64::from(producer.publish(&[0; 40]).is_err());
        }
        producer.publish(&[0; 100_000]).unwrap_err();
        drop(producer);
        let path = run.place.path("rings").join("one");
        until("it is removed", || !path.exists());
        until("its figures are", || run.status()["rings"] == Value::Array(vec![]));
        let status = run.status();
        assert_eq!(status["ended"]["lost_records"]["full"], all, "{status}");
        assert_eq!(status["ended"]["lost_records"]["too_large"], round, "{status}");
        let page = run.get("/metrics", "").1;
        for (cause, count) in [("full", all), ("too_large", round)] {
            let line = format!("perfring_ring_lost_records_total{{cause=\"{cause}\"}} {count}\n");
            assert!(page.contains(&line), "{line}{page}");
        }
    }
    live.signal(Signal::SIGTERM);
    assert_eq!(ended(live), 0);
    let lines = json_lines(&fs::read_to_string(run.path("out.jsonl")).unwrap());
    let lost = |of: &str| -> u64 {
        let of_cause = lines.iter().filter(|line| line["lost"]["cause"] == of);
        of_cause.map(|line| line["lost"]["records"].as_u64().unwrap()).sum()
    };
    assert_eq!((lost("full"), lost("too_large")), (all, 2));
    assert!(run.said().contains(&format!("{} lost", all + 2)), "{}", run.said());
    // One warning for each of the two rings.
    let warned = run.said().matches("level=warn msg=\"one has lost records, by cause: ").count();
    assert_eq!(warned, 2, "{}", run.said());
}

#[derive(Clone, Copy, perfring_producer::types::Record, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
struct Tick {
    price: f64,
}

/// A field that no type has selects nothing, in an output or in a rule.
#[test]
fn a_condition_that_no_record_can_meet_is_reported_once() {
    let run = Run::new();
    let mut producer = run.ring("one", Policy::Drop);
    let out = run.path("some.jsonl");
    run.configure(&format!(
        "[[output]]\ntype = \"json\"\nname = \"some\"\npath = {out:?}\nwhere = [\"prize>3\"]\n\
         [[output]]\ntype = \"null\"\nname = \"good\"\nwhere = [\"price>3\"]\n\
         [[rule]]\nname = \"typo\"\nwhere = [\"sise=1\"]\ndrop = true\n"
    ));
    let live = run.start(&[]);
    (0..10).for_each(|_| producer.publish_pod(&Tick { price: 1.0 }).unwrap());
    let said = |what: &str| run.said().matches(what).count();
    until("both are reported", || said(" selects nothing: where: no type has a field") >= 2);
    live.signal(Signal::SIGTERM);
    assert_eq!(ended(live), 0);
    assert_eq!(
        said("the output \\\"some\\\" selects nothing: where: no type has a field"),
        1,
        "{}",
        run.said()
    );
    assert_eq!(
        said("the rule \\\"typo\\\" selects nothing: where: no type has a field"),
        1,
        "{}",
        run.said()
    );
    assert_eq!(said("selects nothing"), 2, "{}", run.said());
}

#[test]
fn readyz_says_which_output_does_not_deliver_until_it_does() {
    let run = Run::new();
    let mut producer = run.ring("one", Policy::Drop);
    let health = "[health]\nlisten = \"127.0.0.1:0\"\n";
    run.configure(&format!("{DEAD}{health}"));
    let live = run.start(&[]);
    until("it is ready", || run.get("/readyz", "") == (200, "ok\n".to_owned()));
    // The port that it was given is in its messages, too.
    let address = run.status()["health"].as_str().unwrap().to_owned();
    let is_served = format!("[health] is served at {address}\"");
    assert!(!address.ends_with(":0") && run.said().contains(&is_served), "{}", run.said());
    producer.publish(b"a record").unwrap();
    until("it is not ready", || run.get("/readyz", "").0 == 503);
    let (_, reasons) = run.get("/readyz", "");
    assert_eq!(reasons.lines().count(), 1, "{reasons}");
    assert!(reasons.starts_with("dead: what was read "), "{reasons}");
    assert!(reasons.contains("the limit is 100ms"), "{reasons}");
    // It is alive, and says the same elsewhere.
    assert_eq!(run.get("/healthz", ""), (200, "ok\n".to_owned()));
    let status = run.status();
    assert_eq!(status["ready"], false);
    assert!(status["not_ready"][0].as_str().unwrap().starts_with("dead: what was read "));
    let done = run.ask("status", &[]);
    assert!(done.out().starts_with("not ready\n1 ring"), "{}", done.out());
    assert_eq!(done.code(), NOT_READY);
    assert!(done.err().starts_with("perfring: not ready: dead: what was read "), "{}", done.err());
    run.configure(health);
    assert_eq!(run.ask("reload", &[]).code(), 0);
    until("it is ready again", || run.get("/readyz", "").0 == 200);
    until("the figures are there", || {
        let (code, page) = run.get("/metrics", "");
        assert_eq!(code, 200);
        page.lines().any(|line| {
            line.starts_with("perfring_output_delivered_total")
                && line.contains("out")
                && line.ends_with(" 1")
        })
    });
    let (_, page) = run.get("/metrics", "Accept: application/openmetrics-text\r\n");
    assert!(page.ends_with("# EOF\n"));
    assert_eq!(run.get("/other", "").0, 404);
    live.signal(Signal::SIGTERM);
    assert_eq!(ended(live), 0, "{}", run.said());
}

#[test]
fn readyz_says_what_is_not_followed_and_healthz_that_the_loop_is_slow() {
    let run = Run::new();
    let (missing, later) = (run.path("missing"), run.path("later"));
    let configure = |loop_within: &str| {
        run.configure(&format!(
            "[[input]]\ndir = {missing:?}\n[[input]]\nring = {later:?}\n\
             [health]\nlisten = \"127.0.0.1:0\"\nloop_within = {loop_within:?}\n"
        ));
    };
    configure("0");
    let live = run.start(&[]);
    // The limit is shorter than any round.
    until("it is too slow", || run.get("/healthz", "").0 == 503);
    until("the loop and the directory are named", || {
        let (code, reasons) = run.get("/readyz", "");
        code == 503
            && reasons.contains("the loop has not turned for 0 s\n")
            && reasons.contains(&format!("{missing} does not exist, or may not be read\n"))
            // A ring that its producer has not made yet is no fault.
            && !reasons.contains(&later)
    });
    fs::create_dir(&missing).unwrap();
    until("it is followed", || run.status()["ready"] == true);
    configure("1h");
    assert_eq!(run.ask("reload", &[]).code(), 0);
    // At once, unlike what else is in this table.
    assert_eq!(run.get("/healthz", ""), (200, "ok\n".to_owned()));
    assert!(!run.said().contains("from the next start on"), "{}", run.said());
    live.signal(Signal::SIGTERM);
    assert_eq!(ended(live), 0, "{}", run.said());
}

#[test]
fn rings_that_cannot_be_read_are_in_readiness_status_and_figures() {
    if !rustix::process::geteuid().is_root() {
        return skipped("only root can become another user to try");
    }
    let run = Run::new();
    let mode =
        |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    mode(&run.place.path(""), 0o777);
    let exe = run.place.path("perfring");
    // By another process: a child that another test forks meanwhile would keep the copy from being run.
    let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_perfring")).arg(&exe).status();
    assert!(copied.unwrap().success());
    let ring = |name: &str| run.place.path("rings").join(name);
    for name in ["busy", "closed", "cut", "open"] {
        drop(run.ring(name, Policy::Drop));
        mode(&ring(name), if name == "closed" { 0o600 } else { 0o666 });
    }
    let consumer = Consumer::attach(ring("busy")).unwrap();
    let len = fs::metadata(ring("cut")).unwrap().len();
    File::options().write(true).open(ring("cut")).unwrap().set_len(len / 2).unwrap();
    fs::write(ring("note"), "no ring").unwrap();
    run.configure("[health]\nlisten = \"127.0.0.1:0\"\n");
    let mut command = Command::new(&exe);
    command.args(["sidecar", "--config", &run.path("sidecar.toml")]).uid(65534).gid(65534);
    drop(File::create(run.path("said")).unwrap());
    let live = run.launch(command);
    until("it has looked at all", || run.status()["rings_unreadable"]["other"] == 1);
    let status = run.status();
    let counts = serde_json::json!({ "permission": 1, "damaged": 1, "limit": 0, "other": 1 });
    assert_eq!(status["rings_unreadable"], counts);
    let listed = status["unreadable_rings"].as_array().unwrap();
    let listed: Vec<_> =
        listed.iter().map(|one| (one["path"].as_str().unwrap(), &one["cause"])).collect();
    let paths = ["busy", "closed", "cut"].map(|name| ring(name).to_str().unwrap().to_owned());
    assert_eq!(
        listed,
        [
            (&*paths[0], &"other".into()),
            (&*paths[1], &"permission".into()),
            (&*paths[2], &"damaged".into())
        ]
    );
    until("it says so", || run.get("/readyz", "").0 == 503);
    let (_, reasons) = run.get("/readyz", "");
    let named = |name: usize| reasons.contains(&paths[name]);
    // A damaged ring does not get better: `not_ready_for` leaves it out.
    assert!(named(0) && named(1) && !named(2) && reasons.lines().count() == 2, "{reasons}");
    let why = "closed is not read: no permission to read it: its mode is 0600, its owner uid 0, and this process is of uid 65534";
    assert!(reasons.contains(why), "{reasons}");
    let (_, page) = run.get("/metrics", "");
    for (cause, count) in [("permission", 1), ("damaged", 1), ("limit", 0), ("other", 1)] {
        let line = format!("perfring_rings_unreadable{{cause=\"{cause}\"}} {count}\n");
        assert!(page.contains(&line), "{line}{page}");
    }
    assert!(run.ask("status", &[]).out().contains(", 3 not read"));
    // Each is left out of the counts when it is read, or gone.
    mode(&ring("closed"), 0o666);
    drop(consumer);
    fs::remove_file(ring("cut")).unwrap();
    until("all are read", || run.get("/readyz", "").0 == 200);
    until("nothing is left", || run.status()["unreadable_rings"] == serde_json::json!([]));
    for ring in ["busy", "closed"] {
        assert_eq!(run.said().matches(&format!("{ring} is read now")).count(), 1, "{}", run.said());
    }
    // The last line names what is not read.
    drop(run.ring("later", Policy::Drop));
    until("it is refused", || run.status()["rings_unreadable"]["permission"] == 1);
    live.signal(Signal::SIGTERM);
    assert_eq!(ended(live), 0, "{}", run.said());
    let said = run.said();
    let last = said.lines().last().unwrap();
    assert!(
        last.contains("nothing is left of what was read; not read: ") && last.contains("later"),
        "{last}"
    );
}

/// Figures and records of two rings with one name are apart in every output.
#[test]
fn rings_of_one_name_in_two_directories_have_two_names() {
    let run = Run::new();
    let others = run.place.path("others");
    fs::create_dir(&others).unwrap();
    let publish = |mut producer: Producer, count: usize| {
        (0..count).for_each(|_| producer.publish(b"a record").unwrap());
        producer
    };
    let first = publish(run.ring("orders", Policy::Overwrite), 10);
    let second = publish(
        Producer::create(
            others.join("orders"),
            &Options { policy: Policy::Overwrite, time: true, ..Options::default() },
        )
        .unwrap(),
        25,
    );
    let (dirs, at) = ([run.path("rings"), run.path("others")], others.join("orders"));
    let at = at.to_str().unwrap();
    // The command has the same names.
    let recording = run.path("both.perfrec");
    let [one, two] = [&*dirs[0], &*dirs[1]];
    let done = crate::command::run(&["record", "-o", &recording, "-n", "35", one, two], b"");
    assert_eq!(done.code(), 0, "{}", done.err());
    for inputs in [vec![one, two], vec![&recording]] {
        let args = [&["export", "--to", "json", "-o", "-"][..], &inputs].concat();
        let done = crate::command::run(&args, b"");
        let lines = json_lines(&done.out());
        let of = |ring: &str| lines.iter().filter(|line| line["ring"] == *ring).count();
        assert_eq!((of("orders"), of(at)), (10, 25), "{args:?}: {}{}", done.out(), done.err());
    }
    let health = "[health]\nlisten = \"127.0.0.1:0\"\n";
    let other = |name: &str| format!("[[input]]\n{name}dir = {:?}\n{health}", dirs[1]);
    for (name, expected) in [("", at), ("name = \"shop\"\n", "shop/orders")] {
        let _ = fs::remove_file(run.path("out.jsonl"));
        run.configure(&other(name));
        let live = run.start(&[]);
        until("all are delivered", || run.status()["outputs"][0]["delivered"] == 35);
        let lines = json_lines(&fs::read_to_string(run.path("out.jsonl")).unwrap());
        let of = |ring: &str| lines.iter().filter(|line| line["ring"] == *ring).count();
        assert_eq!((of("orders"), of(expected)), (10, 25));
        let (_, page) = run.get("/metrics", "");
        for (ring, count) in [("orders", 10), (expected, 25)] {
            let line = format!("perfring_ring_records_total{{ring=\"{ring}\"}} {count}\n");
            assert!(page.contains(&line), "{line}{page}");
        }
        live.signal(Signal::SIGTERM);
        assert_eq!(ended(live), 0, "{}", run.said());
        let warned = run.said().matches("two rings are named orders").count();
        assert_eq!(warned, 1, "only without a name: {}", run.said());
    }
    drop((first, second));
    run.configure("[[input]]\nname = \" \"\ndir = \"/x\"\n");
    crate::command::run(&["sidecar", "--check", "--config", &run.path("sidecar.toml")], b"")
        .refuses(2, "the name of an input is empty");
}

/// A record in a buffer has left its ring, and is not delivered.
#[cfg(feature = "otlp")]
#[test]
fn what_waits_in_a_buffer_is_in_readiness_status_figures_and_the_last_line() {
    let run = Run::new();
    let mut producer = run.ring("one", Policy::Drop);
    let buffer = format!("buffer = {{ path = {:?} }}\n", run.path("buffer"));
    run.configure(&format!("[health]\nlisten = \"127.0.0.1:0\"\n{DEAD}{buffer}"));
    let live = run.start(&[]);
    until("it is ready", || run.get("/readyz", "").0 == 200);
    let bytes = || run.status()["outputs"][1]["buffer_bytes"].as_u64();
    assert_eq!((bytes(), run.get("/readyz", "").0), (Some(0), 200));
    (0..100).for_each(|_| producer.publish(b"a record").unwrap());
    until("it is not ready", || run.get("/readyz", "").0 == 503);
    let (_, reasons) = run.get("/readyz", "");
    assert!(
        reasons.contains("bytes wait in its buffer, nothing was delivered for")
            && reasons.contains("the limit is 100ms"),
        "{reasons}"
    );
    let waiting = bytes().unwrap();
    assert!(waiting > 1000, "{waiting}");
    let done = run.ask("status", &[]);
    assert!(done.code() == 7 && done.out().contains("bytes wait in its buffer"), "{}", done.out());
    let (_, page) = run.get("/metrics", "");
    let of = |name: &str| {
        let line = page.lines().find(|line| line.starts_with(name) && line.contains("dead"));
        line.and_then(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok())
    };
    assert_eq!(of("perfring_output_buffer_bytes"), Some(waiting), "{page}");
    assert!(of("perfring_output_buffer_limit_bytes") > Some(waiting), "{page}");
    let done = run.ask("drain", &[]);
    assert_eq!(done.code(), 1, "{}", done.out());
    assert!(done.out().contains("bytes in the buffer of dead"), "{}", done.out());
    assert_eq!(ended(live), 0, "{}", run.said());
    assert!(!run.said().contains("nothing is left"), "{}", run.said());
    // A receiver gets all of it from the next one.
    let server = Server::start();
    let config = fs::read_to_string(run.path("sidecar.toml")).unwrap();
    let dead = "http://127.0.0.1:1";
    fs::write(run.path("sidecar.toml"), config.replace(dead, &server.endpoint())).unwrap();
    let live = run.start(&[]);
    until("all is delivered", || run.status()["outputs"][1]["delivered"] == 100);
    until("nothing waits", || bytes() == Some(0));
    assert_eq!(run.get("/readyz", "").0, 200);
    let done = run.ask("drain", &[]);
    assert_eq!(done.code(), 0, "{}", done.out());
    assert_eq!(ended(live), 0);
    assert!(run.said().contains("nothing is left"), "{}", run.said());
}

/// `prlimit` starts the sidecar with few descriptors, which the sidecar cannot raise.
#[test]
fn rings_leave_descriptors_to_pages_and_the_control_socket() {
    const RINGS: usize = 60;
    let run = Run::new();
    let producers: Vec<Producer> =
        (0..RINGS).map(|n| run.ring(&format!("ring{n:03}"), Policy::Drop)).collect();
    run.configure("[health]\nlisten = \"127.0.0.1:0\"\n");
    let mut command = Command::new("prlimit");
    command.args(["--nofile=128", env!("CARGO_BIN_EXE_perfring")]);
    command.args(["sidecar", "--config", &run.path("sidecar.toml")]);
    let live = run.launch(command);
    let address = run.status()["health"].as_str().unwrap().to_owned();
    let read = run.status()["rings"].as_array().unwrap().len();
    assert!(read > 20 && read < RINGS, "{read}");
    let not_read = format!(
        "rings that are not read: {}; this process may have 128 files open, and keeps 32 of them",
        RINGS - read
    );
    // More connections at once than one descriptor.
    let open = || TcpStream::connect(&address).unwrap();
    let held: Vec<TcpStream> = (0..10).map(|_| open()).collect();
    assert_eq!(get(open(), "/healthz", ""), (200, "ok\n".to_owned()));
    let (code, reasons) = get(open(), "/readyz", "");
    assert!(code == 503 && reasons.contains(&not_read), "{not_read}: {reasons}");
    assert_eq!(get(open(), "/metrics", "").0, 200);
    // One message for all of them, not one a ring.
    let said = run.said();
    assert_eq!(said.matches("is not read, and more rings may not be: this process").count(), 1);
    assert!(!said.contains("Too many open files"), "{said}");
    drop(held);
    // Rings that were left out are read when others are gone.
    drop(producers);
    let status = run.status();
    let names =
        status["rings"].as_array().unwrap().iter().map(|ring| ring["ring"].as_str().unwrap());
    for name in names {
        fs::remove_file(run.place.path("rings").join(name)).unwrap();
    }
    until("all others are read", || run.get("/readyz", "").0 == 200);
    assert_eq!(run.status()["rings"].as_array().unwrap().len(), RINGS - read);
    live.signal(Signal::SIGTERM);
    assert_eq!(ended(live), 0, "{}", run.said());
}

#[test]
fn a_token_is_asked_for_and_read_again_and_a_unix_socket_is_served() {
    let run = Run::new();
    let (token, socket) = (run.path("token"), run.path("health"));
    let health = format!("[health]\nlisten = \"unix:{socket}\"\ntoken_file = {token:?}\n");
    run.configure(&health);
    let refused = crate::command::run(&["sidecar", "--config", &run.path("sidecar.toml")], b"");
    refused.refuses(2, "cannot read the token in");
    fs::write(&token, "secret\n").unwrap();
    let live = run.start(&[]);
    let ask = |header: &str| get(UnixStream::connect(&socket).unwrap(), "/healthz", header).0;
    assert_eq!(ask(""), 401);
    assert_eq!(ask("Authorization: Bearer secre\r\n"), 401);
    assert_eq!(ask("Authorization: Bearer secreT\r\n"), 401);
    assert_eq!(ask("Authorization: Bearer secret\r\n"), 200);
    fs::write(&token, "another").unwrap();
    assert_eq!(ask("Authorization: Bearer secret\r\n"), 401);
    assert_eq!(ask("Authorization: Bearer another\r\n"), 200);
    live.signal(Signal::SIGTERM);
    assert_eq!(ended(live), 0, "{}", run.said());
    assert!(!fs::exists(&socket).unwrap(), "its socket is removed");
    for (line, says) in [
        ("key = \"/k\"\n", "certificate and key go together"),
        ("client_ca = \"/c\"\n", "client_ca needs a certificate"),
        ("port = 1\n", "unknown field `port`"),
    ] {
        run.configure(&format!("[health]\n{line}"));
        let done = crate::command::run(&["sidecar", "--config", &run.path("sidecar.toml")], b"");
        done.refuses(2, says);
    }
}

#[test]
fn clients_without_a_certificate_of_the_authority_are_refused() {
    let run = Run::new();
    let openssl = |args: &str| {
        let mut command = Command::new("openssl");
        command.current_dir(run.place.0.path()).args(args.split(' '));
        command.output().is_ok_and(|done| done.status.success())
    };
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
    let mut made = openssl(&format!(
        "req -x509 {key} -keyout ca.key -out ca.pem -days 2 -subj /CN=ca \
         -addext keyUsage=keyCertSign"
    ));
    for (name, more) in [
        ("server", "-addext subjectAltName=IP:127.0.0.1"),
        ("client", "-addext extendedKeyUsage=clientAuth"),
    ] {
        made &= openssl(&format!(
            "req {key} -keyout {name}.key -out {name}.csr -subj /CN={name} {more}"
        ));
        made &= openssl(&format!(
            "x509 -req -in {name}.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 \
             -copy_extensions copy -out {name}.pem"
        ));
    }
    let curl = Command::new("curl").arg("--version").output().is_ok();
    if !made || !curl {
        let why = "there is no openssl, or no curl";
        assert!(std::env::var_os("PERFRING_NO_SKIP").is_none(), "{why}");
        return eprintln!("SKIPPED: {why}");
    }
    let [certificate, key, ca] = ["server.pem", "server.key", "ca.pem"].map(|name| run.path(name));
    run.configure(&format!(
        "[health]\nlisten = \"127.0.0.1:0\"\ncertificate = {certificate:?}\nkey = {key:?}\n\
         client_ca = {ca:?}\n"
    ));
    let live = run.start(&[]);
    let address = run.status()["health"].as_str().unwrap().to_owned();
    let curl = |args: &[&str]| {
        let mut command = Command::new("curl");
        command.current_dir(run.place.0.path()).args(["-s", "--cacert", "ca.pem"]).args(args);
        let done = command.arg(format!("https://{address}/healthz")).output().unwrap();
        String::from_utf8(done.stdout).unwrap()
    };
    assert_eq!(curl(&["--cert", "client.pem", "--key", "client.key"]), "ok\n");
    assert_eq!(curl(&[]), "", "it has no certificate");
    assert!(openssl(
        "req -x509 -newkey rsa:2048 -nodes -keyout other.key -out other.pem -subj /CN=o"
    ));
    assert_eq!(curl(&["--cert", "other.pem", "--key", "other.key"]), "", "of nobody it trusts");
    live.signal(Signal::SIGTERM);
    assert_eq!(ended(live), 0, "{}", run.said());
}

/// Receives what systemd would.
struct Manager(UnixDatagram);

impl Manager {
    fn at(path: &str) -> Self {
        let socket = UnixDatagram::bind(path).unwrap();
        socket.set_read_timeout(Some(WATCHDOG)).unwrap();
        Manager(socket)
    }

    /// Returns the next message that has this line's beginning.
    fn next(&self, begins: &str) -> String {
        let mut bytes = [0; 8192];
        loop {
            let count = self.0.recv(&mut bytes).unwrap();
            let text = String::from_utf8(bytes[..count].to_vec()).unwrap();
            if text.lines().any(|line| line.starts_with(begins)) {
                return text;
            }
        }
    }
}

#[test]
fn systemd_is_notified_when_it_is_ready_alive_reloading_and_stopping() {
    let run = Run::new();
    run.ring("one", Policy::Drop).publish(b"a record").unwrap();
    let manager = Manager::at(&run.path("notify"));
    let config = run.configure("");
    let began = Instant::now();
    let notify = run.path("notify");
    let live = run.start(&[("NOTIFY_SOCKET", &notify), ("WATCHDOG_USEC", "200000")]);
    assert_eq!(manager.next("READY=1"), "READY=1\n");
    assert!(manager.next("STATUS=").contains(" ring: "));
    for _ in 0..3 {
        manager.next("WATCHDOG=1");
    }
    assert!(began.elapsed() > Duration::from_millis(200), "half of the time is enough");
    live.signal(Signal::SIGHUP);
    let reloading = manager.next("RELOADING=1");
    let since = reloading.lines().find_map(|line| line.strip_prefix("MONOTONIC_USEC=")).unwrap();
    assert!(since.parse::<u64>().unwrap() > 0);
    manager.next("READY=1");
    // One that is refused ends the reload, too.
    fs::write(&config, "nonsense = 1").unwrap();
    live.signal(Signal::SIGHUP);
    manager.next("RELOADING=1");
    manager.next("READY=1");
    live.signal(Signal::SIGTERM);
    manager.next("STOPPING=1");
    assert_eq!(ended(live), 0, "{}", run.said());
}

#[test]
fn requests_are_answered_with_what_came_of_them() {
    let run = Run::new();
    let mut drops = run.ring("drops", Policy::Drop);
    run.ring("flight", Policy::Overwrite).publish(b"last words").unwrap();
    drops.publish(b"a record").unwrap();
    let config = run.configure("");
    // The flag without a path is the configuration's.
    let live = run.start_with(&["--control"], &[]);
    let mode = fs::metadata(run.path("socket")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "{mode:o}");
    until("both are read", || {
        let rings = run.status()["rings"].clone();
        rings.as_array().unwrap().iter().map(|ring| ring["records"].as_u64().unwrap()).sum::<u64>()
            == 2
    });
    let done = run.ask("status", &[]);
    assert!(done.out().starts_with("ready\n2 rings: 2 records, 0 lost"), "{}", done.out());
    // Without a directory for them there are no snapshots.
    run.ask("snapshot", &[]).refuses(1, "no [[snapshot]] names a directory");
    fs::write(&config, "nonsense = 1").unwrap();
    let refused = run.ask("reload", &[]);
    refused.refuses(1, "line 1: unknown field `nonsense`");
    assert!(refused.err().contains("the old configuration stays"), "{}", refused.err());
    let snapshots = run.path("snapshots");
    run.configure(&format!("[[snapshot]]\non = \"signal\"\ndir = {snapshots:?}\n"));
    let reloaded =
        crate::command::run(&["sidecar", "reload", "--control", &run.path("socket")], b"");
    assert_eq!((reloaded.code(), &*reloaded.out()), (0, ""), "{}", reloaded.err());
    let done = run.ask("snapshot", &["--json"]);
    let files = json_lines(&done.out()).remove(0)["snapshots"].clone();
    assert_eq!(files[0]["records"], 1, "{}", done.out());
    assert!(fs::exists(files[0]["path"].as_str().unwrap()).unwrap());
    // What is no request is said to be none.
    let mut stream = UnixStream::connect(run.path("socket")).unwrap();
    stream.write_all(b"{\"do\":\"explode\"}\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let answer: Value = serde_json::from_str(&answer).unwrap();
    assert_eq!(answer["ok"], false);
    assert!(answer["error"].as_str().unwrap().contains("status, reload, snapshot, drain"));
    drops.publish(b"another").unwrap();
    let done = run.ask("drain", &[]);
    assert_eq!(done.code(), 0, "{}", done.err());
    assert!(done.out().contains("out: 3 delivered; nothing is left"), "{}", done.out());
    assert_eq!(ended(live), 0);
    let last = run.said().lines().next_back().unwrap().to_owned();
    assert!(last.contains(done.out().trim_end()), "{last}");
    assert!(!fs::exists(run.path("socket")).unwrap());
    run.ask("status", &[]).refuses(3, "no sidecar listens on");
}

#[test]
fn a_drain_that_leaves_something_fails_and_others_are_answered_meanwhile() {
    let run = Run::new();
    let options = Options { size: 16 << 20, time: true, ..Options::default() };
    let mut producer = Producer::create(run.place.path("rings").join("one"), &options).unwrap();
    for _ in 0..100_000 {
        producer.publish(b"more than a pipe has room for").unwrap();
    }
    // Nobody reads the pipe.
    let config = run.configure("[[output]]\ntype = \"json\"\n");
    let text = fs::read_to_string(&config).unwrap();
    fs::write(&config, format!("drain = \"1h\"\nshutdown = \"0\"\n{text}")).unwrap();
    let live = run.start(&[]);
    std::thread::scope(|scope| {
        let drain = scope.spawn(|| run.ask("drain", &[]));
        until("it is ending", || run.status()["not_ready"].to_string().contains("it is ending"));
        run.ask("reload", &[]).refuses(1, "it is ending");
        // A second signal ends it, and the client says so.
        live.signal(Signal::SIGTERM);
        let done = drain.join().unwrap();
        done.refuses(1, "gave no answer");
    });
    assert_eq!(ended(live), 143);
    fs::write(&config, format!("drain = \"0s\"\nshutdown = \"0\"\n{text}")).unwrap();
    let live = run.start(&[]);
    let done = run.ask("drain", &[]);
    assert_eq!(done.code(), 1);
    assert!(done.out().contains("; left: "), "{}", done.out());
    assert!(done.err().contains("the rest stays in the rings"), "{}", done.err());
    assert_eq!(ended(live), 0);
}

/// A drain is answered when the next sidecar can have the socket, the state and the rings.
#[test]
fn a_sidecar_is_asked_by_its_configuration_whatever_else_is_in_that() {
    let place = Place::new();
    let (config, socket) = (place.path("sidecar.toml"), place.path("control.sock"));
    let status = |text: &str| {
        fs::write(&config, text).unwrap();
        run(&["sidecar", "status", "--config", config.to_str().unwrap()], b"")
    };
    // The variable is in the sidecar's environment, and the file is being edited.
    let others = "drian = \"1s\"\n[resource]\npod = \"$NOT_SET_HERE\"\n";
    status(&format!("{others}[control]\npath = {socket:?}\n"))
        .refuses(3, &format!("no sidecar listens on {}", socket.display()));
    status("[control]\npaht = \"x\"\n").refuses(2, "paht");
    status("[control\n").refuses(2, "line 1");
}

#[test]
fn after_a_drain_the_next_sidecar_starts_at_once() {
    let run = Run::new();
    let mut producer = run.ring("one", Policy::Drop);
    let config = run.configure("");
    let text = fs::read_to_string(&config).unwrap();
    fs::write(&config, format!("state = {:?}\n{text}", run.path("state"))).unwrap();
    for _ in 0..5 {
        let live = run.start(&[]);
        assert_eq!(run.ask("drain", &[]).code(), 0);
        producer.publish(b"a record").unwrap();
        let next = crate::command::run(&["sidecar", "--once", "--config", &config], b"");
        assert!(next.code() == 0 && next.err().contains("1 ring: 1 record, "), "{}", next.err());
        assert!(next.err().contains("out: 1 delivered; nothing is left"), "{}", next.err());
        assert_eq!(ended(live), 0);
    }
    assert_eq!(json_lines(&fs::read_to_string(run.path("out.jsonl")).unwrap()).len(), 5);
}

#[test]
fn a_second_one_on_the_socket_is_refused_and_a_stale_socket_is_replaced() {
    let run = Run::new();
    let config = run.configure("");
    let mut live = run.start(&[]);
    let second = crate::command::run(&["sidecar", "--config", &config], b"");
    second.refuses(1, "another sidecar listens on");
    live.child.kill().unwrap();
    live.child.wait().unwrap();
    let socket = run.path("socket");
    assert!(fs::symlink_metadata(&socket).unwrap().file_type().is_socket());
    let live = run.start(&[]);
    assert_eq!(run.ask("status", &[]).code(), 0);
    live.signal(Signal::SIGTERM);
    assert_eq!(ended(live), 0);
    // What is no socket stays as it is.
    fs::write(&socket, "precious").unwrap();
    crate::command::run(&["sidecar", "--config", &config], b"")
        .refuses(1, "a file that is no socket");
    assert_eq!(fs::read_to_string(&socket).unwrap(), "precious");
}

#[test]
fn no_process_that_may_read_the_directory_of_the_socket_holds_up_the_start() {
    let run = Run::new();
    let config = run.configure("");
    fs::write(
        &config,
        format!("state = {:?}\n{}", run.path("state"), fs::read_to_string(&config).unwrap()),
    )
    .unwrap();
    let dir = File::open(run.place.path("")).unwrap();
    dir.lock().unwrap();
    let live = run.start(&[]);
    // The locks that count cannot be opened by others.
    for lock in [".socket.lock", "state.lock"] {
        let mode = fs::metadata(run.path(lock)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{lock}");
    }
    live.signal(Signal::SIGTERM);
    assert_eq!(ended(live), 0);
    // Another process of this user holds the lock: the start ends, and names it.
    let lock = File::open(run.path(".socket.lock")).unwrap();
    lock.lock().unwrap();
    let refused = crate::command::run(&["sidecar", "--config", &config], b"");
    refused.refuses(1, ".socket.lock is held by another process");
    drop(lock);
    // A process listens, and does not accept: connecting would wait.
    let _listener = UnixListener::bind(run.path("socket")).unwrap();
    let address = SocketAddrUnix::new(run.path("socket")).unwrap();
    let mut waiting = Vec::new();
    loop {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).unwrap();
        match connect(&socket, &address) {
            Err(Errno::AGAIN) => break,
            connected => connected.unwrap(),
        }
        waiting.push(socket);
    }
    let refused = crate::command::run(&["sidecar", "--config", &config], b"");
    refused.refuses(1, "another sidecar listens on");
}

/// Of sidecars that find a stale socket at the same time, one replaces it.
#[test]
fn one_of_several_sidecars_gets_the_socket() {
    let run = Run::new();
    drop(UnixListener::bind(run.path("socket")).unwrap());
    let config = run.path("sidecar.toml");
    let rings = run.path("rings");
    let control =
        format!("[control]\npath = {:?}\n[[input]]\ndir = {rings:?}\n", run.path("socket"));
    fs::write(&config, control + "[[output]]\ntype = \"null\"\n").unwrap();
    let start =
        |_| perfring(&["sidecar", "--config", &config]).stderr(Stdio::piped()).spawn().unwrap();
    let mut all: Vec<_> = (0..4).map(start).collect();
    let mut refused = 0;
    until("all but one are refused", || {
        all.retain_mut(|child| {
            let Some(status) = child.try_wait().unwrap() else { return true };
            let mut why = String::new();
            child.stderr.take().unwrap().read_to_string(&mut why).unwrap();
            assert!(
                status.code() == Some(1) && why.contains("another sidecar listens on"),
                "{why}"
            );
            refused += 1;
            false
        });
        refused == 3
    });
    assert_eq!(run.ask("status", &[]).code(), 0);
    assert_eq!(run.ask("drain", &[]).code(), 0);
    assert!(all.remove(0).wait().unwrap().success());
}

#[test]
fn messages_have_time_level_and_output_in_the_form_that_was_asked_for() {
    let run = Run::new();
    run.ring("one", Policy::Drop).publish(b"a record").unwrap();
    let config = run.configure(DEAD);
    let read = |said: &str| said.contains("Connection refused");
    let end = |live: Live| {
        live.signal(Signal::SIGTERM);
        assert_eq!(ended(live), 0, "{}", run.said());
        fs::read_to_string(run.path("said")).unwrap()
    };
    // The configuration's word, and the flag's.
    let text = fs::read_to_string(&config).unwrap();
    fs::write(&config, format!("shutdown = \"0\"\nlog = \"json\"\n{text}")).unwrap();
    let live = run.start(&[]);
    until("the dead one is reported", || read(&run.said()));
    let said = end(live);
    for line in json_lines(&said) {
        let time = line["time"].as_str().unwrap();
        assert!(time.len() == 24 && time.starts_with("20") && time.ends_with('Z'), "{line}");
        assert!(["warn", "info"].contains(&line["level"].as_str().unwrap()), "{line}");
        assert!(!line["msg"].as_str().unwrap().is_empty(), "{line}");
    }
    let lines = json_lines(&said);
    let of_dead = lines.iter().filter(|line| line["output"] == "dead").count();
    assert!(of_dead > 0 && lines.last().unwrap()["msg"].to_string().contains("dead: 0 delivered"));
    // An end by an error, as the last line.
    let done =
        crate::command::run(&["sidecar", "--config", &config, "-o", "recording:/proc/x"], b"");
    assert_eq!((done.code(), done.err().lines().count()), (1, 1), "{}", done.err());
    assert_eq!(json_lines(&done.err())[0]["level"], "error");
    let quiet = |flag: &str| {
        fs::remove_file(run.path("said")).unwrap();
        let said = File::create(run.path("said")).unwrap();
        let mut command = perfring(&["sidecar", flag, "--log", "text", "--config", &config]);
        command.stderr(Stdio::from(said));
        let live = Live::of(command);
        until("the dead one is reported", || read(&run.said()));
        end(live)
    };
    let said = quiet("-q");
    assert!(!said.contains("level=info") && said.contains(" level=warn output=dead msg=\""));
    assert!(quiet("-v").contains("level=debug msg=\""));
}

#[test]
fn its_own_figures_go_to_its_outputs_as_the_guide_lists_them() {
    let run = Run::new();
    run.ring("shop", Policy::Drop).publish(b"a record").unwrap();
    // A ring with a metrics area: without instruments, so that only the sidecar's own names are sent.
    let options = perfring_telemetry::meter::options();
    perfring_producer::metrics::Metrics::open_or_create(run.path("rings/area"), &options).unwrap();
    let (own, buffer) = (run.path("own"), run.path("buffer"));
    run.configure(&format!(
        "[own]\nring = {own:?}\ninterval = \"100ms\"\n[health]\nlisten = \"127.0.0.1:0\"\n\
         [[output]]\ntype = \"null\"\nname = \"buffered\"\nbuffer = {{ path = {buffer:?} }}\n\
         [[rule]]\nname = \"all\"\nkeep = true\n"
    ));
    let live = run.start(&[]);
    let lines = || {
        let text = fs::read_to_string(run.path("out.jsonl")).unwrap_or_default();
        json_lines(text.rfind('\n').map_or("", |end| &text[..end]))
    };
    let is_of = |line: &Value, name: &str, words: &[&str]| {
        let text = line.to_string();
        text.contains(&format!("\"{name}\"")) && words.iter().all(|word| text.contains(word))
    };
    let delivered = ["otel.component.name", "\"out\"", "otel.component.type", "\"json\""];
    until("a delivered record is counted", || {
        lines().iter().any(|line| is_of(line, "perfring.output.delivered", &delivered))
    });
    let ring = ["perfring.ring.name", "\"shop\""];
    until("the ring's records are counted", || {
        lines().iter().any(|line| is_of(line, "perfring.ring.records", &ring))
    });
    // Each name is in the guide, and each in the guide is sent, or needs a loss.
    let listed: BTreeSet<String> = figures::listed().into_iter().map(|row| row.name).collect();
    let needs_a_loss = ["perfring.ring.lost_bytes", "perfring.ring.lost_records"];
    until("all other figures are sent", || {
        let names = lines()
            .into_iter()
            .filter_map(|line| line["fields"]["name"].as_str().map(str::to_owned));
        let sent: BTreeSet<String> = names.collect();
        assert!(sent.is_subset(&listed), "{sent:?} and {listed:?}");
        listed.difference(&sent).eq(needs_a_loss.iter())
    });
    // The ring stays, and the next one goes on in it.
    live.signal(Signal::SIGTERM);
    assert_eq!(ended(live), 0, "{}", run.said());
    let live = run.start(&[]);
    live.signal(Signal::SIGTERM);
    assert_eq!(ended(live), 0, "{}", run.said());
}

#[cfg(feature = "otlp")]
#[test]
fn its_own_figures_reach_an_otlp_receiver_as_metrics_of_a_service() {
    use perfring_testrig::otlp::metrics::{AggregationTemporality, Point};
    let run = Run::new();
    run.ring("shop", Policy::Drop).publish(b"a record").unwrap();
    let (server, own) = (Server::start(), run.path("own"));
    run.configure(&format!(
        "[own]\nring = {own:?}\ninterval = \"100ms\"\n[[output]]\ntype = \"otlp\"\nname = \"collector\"\n\
         endpoint = {:?}\nbatch_delay = \"0\"\nmetric_interval = \"0\"\n",
        server.endpoint()
    ));
    let live = run.start(&[]);
    let mut points: Vec<Point> = Vec::new();
    let of = |points: &[Point], name: &str, attributes: &[(&str, &str)]| {
        let has = |point: &&Point| {
            let is = |(key, value): &(&str, &str)| {
                point.attributes.get(*key) == Some(&(*value).to_owned())
            };
            point.name == name && attributes.iter().all(is)
        };
        points.iter().rfind(has).cloned()
    };
    let to_collector = [("otel.component.name", "collector"), ("otel.component.type", "otlp")];
    let shop = [("perfring.ring.name", "shop")];
    until("what it delivered itself is counted, beside the rest", || {
        points.extend(server.take_points());
        of(&points, "perfring.output.delivered", &to_collector).is_some_and(|it| it.value > 0.0)
            && of(&points, "perfring.output.held", &to_collector).is_some()
            && of(&points, "perfring.ring.records", &shop).is_some()
    });
    let delivered = of(&points, "perfring.output.delivered", &to_collector).unwrap();
    // A counter since its start, which a collector can make a rate of across restarts.
    assert_eq!((&*delivered.unit, delivered.is_monotonic), ("{record}", Some(true)));
    assert_eq!(delivered.temporality, Some(AggregationTemporality::Cumulative));
    assert!(delivered.start > 0 && delivered.start < delivered.time, "{delivered:?}");
    let shop = of(&points, "perfring.ring.records", &shop).unwrap();
    assert_eq!(shop.value, 1.0);
    let held = of(&points, "perfring.output.held", &to_collector).unwrap();
    assert_eq!((held.is_monotonic, held.temporality), (None, None), "a gauge");
    assert!(points.iter().all(|point| point.service == "perfring-sidecar"), "{points:?}");
    live.signal(Signal::SIGTERM);
    assert_eq!(ended(live), 0, "{}", run.said());
}

#[cfg(feature = "otlp")]
#[test]
fn while_all_is_refused_for_good_it_is_not_ready_and_dead_letters_are_beside_the_state() {
    use perfring_telemetry::{Log, Resource, Sink};
    let (run, server) = (Run::new(), Server::start());
    let (endpoint, state) = (server.endpoint(), run.path("var/state.json"));
    let output = |more: &str| {
        format!(
            "[[output]]\ntype = \"otlp\"\nname = \"collector\"\nendpoint = {endpoint:?}\nbatch_delay = \"0s\"\n{more}\n\
             [health]\nlisten = \"127.0.0.1:0\"\n"
        )
    };
    let configure = |more: &str| {
        let config = run.configure(&output(more));
        let text = fs::read_to_string(&config).unwrap();
        fs::write(&config, format!("state = {state:?}\n{text}")).unwrap();
    };
    configure("");
    let path = run.place.path("rings").join("one");
    let sink = Sink::create(&path, &perfring_telemetry::options(), Resource::default()).unwrap();
    let emit = || sink.emit(&Log { body: "hello".into(), ..Log::default() }).unwrap();
    let live = run.start(&[]);
    until("it is ready", || run.get("/readyz", "").0 == 200);
    let letters = run.place.path("var/dead-letters-collector.jsonl");
    assert!(!letters.exists(), "nothing was refused");

    server.got.lock().unwrap().otherwise = Some(Reply::Status(400, ""));
    emit();
    until("it is not ready", || run.get("/readyz", "").0 == 503);
    let reasons = run.get("/readyz", "").1;
    let refused = "collector: 1 of 1 items were refused (400): ";
    let kept = format!("; kept in {}\n", letters.display());
    assert!(reasons.starts_with(refused) && reasons.ends_with(&kept), "{reasons}");
    let status = run.status();
    assert_eq!(status["not_ready"][0], reasons.trim_end(), "{status}");
    let of = |status: &Value| {
        let all = status["outputs"].as_array().unwrap().clone();
        all.into_iter().find(|output| output["output"] == "collector").unwrap()
    };
    assert_eq!(of(&status)["refusing"], true, "{status}");
    assert!(run.said().contains("1 of 1 items were refused (400)"), "{}", run.said());
    let mode = letters.metadata().unwrap().permissions().mode() & 0o7777;
    assert_eq!((json_lines(&fs::read_to_string(&letters).unwrap()).len(), mode), (1, 0o640));

    server.got.lock().unwrap().otherwise = None;
    emit();
    until("it is ready again", || run.get("/readyz", "").0 == 200);
    let now = of(&run.status());
    assert_eq!((&now["refusing"], &now["refused"]), (&false.into(), &1.into()), "{now}");
    assert!(now["trouble"].as_str().unwrap().contains("were refused (400)"), "for a minute");

    // Without a file it says so.
    configure("dead_letters = false");
    assert_eq!(run.ask("reload", &[]).code(), 0);
    server.got.lock().unwrap().otherwise = Some(Reply::Status(400, ""));
    emit();
    until("it is not ready", || run.get("/readyz", "").0 == 503);
    assert!(run.get("/readyz", "").1.ends_with("; not kept: `dead_letters` names no file\n"));
    assert_eq!(json_lines(&fs::read_to_string(&letters).unwrap()).len(), 1);
    live.signal(Signal::SIGTERM);
    assert_eq!(ended(live), 0);
    let last = run.said().lines().last().unwrap().to_owned();
    assert!(
        last.contains("level=warn") && last.contains("; 1 record was refused for good"),
        "{last}"
    );
}

#[cfg(feature = "otlp")]
#[test]
fn retry_ends_the_pauses_of_all_outputs_or_of_one() {
    let (run, server) = (Run::new(), Server::start());
    let mut producer = run.ring("one", Policy::Drop);
    // The receiver asks for a pause that is longer than this test.
    server.got.lock().unwrap().otherwise = Some(Reply::Status(503, "Retry-After: 600\r\n"));
    let endpoint = server.endpoint();
    run.configure(&format!(
        "[[output]]\ntype = \"otlp\"\nname = \"collector\"\nendpoint = {endpoint:?}\nbatch_delay = \"0s\"\n"
    ));
    let live = run.start(&[]);
    let retry = |args: &[&str]| {
        let done = run.ask("retry", args);
        assert_eq!(done.code(), 0, "{}", done.err());
        (done.out(), done.err())
    };
    let none = "perfring: no output waited before its next attempt\n";
    assert_eq!(retry(&[]), (String::new(), none.to_owned()));
    producer.publish(b"a record").unwrap();
    let asked = || server.got.lock().unwrap().asked.len();
    until("it waits", || retry(&["out"]).0.is_empty() && asked() == 1);
    until("it has tried again", || {
        let before = asked();
        let said = retry(&["collector"]).0;
        until("it tries", || said.is_empty() || asked() > before);
        said == "collector tries again\n"
    });
    run.ask("retry", &["no"])
        .refuses(1, "no output is called \"no\": the outputs are out, collector");
    server.got.lock().unwrap().otherwise = None;
    until("it waits again", || retry(&["--json"]).0.contains("\"retried\":[\"collector\"]"));
    until("all is delivered", || run.status()["settled"] == true);
    assert!(!server.got.lock().unwrap().logs.is_empty());
    live.signal(Signal::SIGTERM);
    assert_eq!(ended(live), 0, "{}", run.said());
}

#[test]
fn the_last_line_does_not_count_a_ring_that_was_removed() {
    let run = Run::new();
    run.configure("");
    let mut producer = run.ring("one", Policy::Drop);
    producer.publish(b"a record").unwrap();
    let live = run.start(&[]);
    until("it is read", || run.ask("status", &[]).out().contains("\n1 ring: 1 record,"));
    // Its producer goes on, so the ring may get more.
    fs::remove_file(run.place.path("rings").join("one")).unwrap();
    until("that is noticed", || run.ask("status", &[]).out().contains("\n0 rings: 1 record,"));
    live.signal(Signal::SIGTERM);
    assert_eq!(ended(live), 0);
    let last = run.said().lines().last().unwrap().to_owned();
    assert!(last.contains("0 rings: 1 record,") && last.ends_with("; nothing is left\""), "{last}");
    drop(producer);
}
