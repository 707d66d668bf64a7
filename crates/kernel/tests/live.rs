//! The rings of the running kernel.
#![allow(clippy::unwrap_used, clippy::panic)]

mod recorder;

use perfring_consumer::types::read::{TypeTable, Value};
use perfring_consumer::{Cause, Consumer, Item, advanced::MachineClock};
use perfring_kernel::records::{ContextSwitch, PageFault, Switch, Switched};
use perfring_kernel::{EventKind, KernelRing, OpenError, Options, Target, open, types};
use perfring_producer::{Producer, RecordType};
use perfring_testkit::wait::{Watchdog, until};
use perfring_types::Record as _;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

/// The largest difference between one of our timestamps and the clock.
const ERROR_NS: u64 = 12_000;

/// Opens rings, if this machine permits it.
fn rings(options: &Options) -> Option<Vec<KernelRing>> {
    match open(options) {
        Ok(rings) => Some(rings),
        Err(error) if error.is_forbidden() => {
            assert!(std::env::var_os("PERFRING_NO_SKIP").is_none(), "not to be skipped: {error}");
            println!("SKIPPED: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn options(pid: u32, events: &[EventKind]) -> Options {
    Options { events: events.to_vec(), ..Options::of(Target::Process(pid)) }
}

/// A shell that does one thing for each line it gets, and answers with a line.
struct Driven {
    child: Child,
    to: Option<ChildStdin>,
    from: BufReader<ChildStdout>,
}

impl Driven {
    fn start(script: &str) -> Self {
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (to, from) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        let mut driven = Driven { child, to, from };
        driven.ask("begin");
        driven
    }

    fn ask(&mut self, line: &str) -> String {
        writeln!(self.to.as_mut().unwrap(), "{line}").unwrap();
        let mut answer = String::new();
        self.from.read_line(&mut answer).unwrap();
        answer
    }

    fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns the number of context switches so far, once it is off the processor and waits:
    /// `/proc/PID/syscall` is "running" until then.
    fn switches_at_rest(&self) -> u64 {
        let dog = Watchdog::default();
        while fs::read_to_string(format!("/proc/{}/syscall", self.pid()))
            .is_ok_and(|text| text.trim() == "running")
        {
            dog.check("the child waits");
            std::thread::yield_now();
        }
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        status.lines().filter_map(|line| line.split_once("ctxt_switches:")).map(number).sum()
    }
}

fn number((_, text): (&str, &str)) -> u64 {
    text.trim().parse().unwrap()
}

impl Drop for Driven {
    fn drop(&mut self) {
        self.to = None; // it ends at the end of its input
        let _ = self.child.wait();
    }
}

/// The content of a ring.
#[derive(Default)]
struct Seen {
    /// Timestamp, name, value.
    records: Vec<(u64, String, Value)>,
    lost: u64,
}

impl Seen {
    /// Takes everything that is there now.
    fn drain(&mut self, rings: &mut [KernelRing], types: &TypeTable) {
        for ring in rings {
            ring.peek().unwrap();
            while let Some((item, _)) = ring.take().unwrap() {
                match item {
                    Item::Record(record) => {
                        let kind = types.get(RecordType::new(record.kind).unwrap()).unwrap();
                        let value = kind.decode(record.bytes).unwrap();
                        self.records.push((record.time.unwrap(), kind.name.clone(), value));
                    }
                    Item::Lost(lost) => {
                        assert_eq!(lost.cause, Cause::Full);
                        self.lost += lost.records;
                    }
                }
            }
            let resume_point = ring.resume_point();
            ring.release_to(&resume_point);
        }
    }

    fn count(&self, name: &str) -> u64 {
        self.records.iter().filter(|(_, of, _)| of == name).count() as u64
    }
}

const ECHO: &str = "while read line; do echo $line; done";

#[test]
fn each_context_switch_of_a_process_is_a_record_no_more_and_no_less() {
    let mut child = Driven::start(ECHO);
    let before = child.switches_at_rest();
    let clock = MachineClock::find().unwrap();
    let began = clock.now_ns();
    let events = [EventKind::ContextSwitches, EventKind::Switches];
    let Some(mut rings) = rings(&options(child.pid(), &events)) else { return };
    let (types, mut seen, mut rounds) = (types(), Seen::default(), 0);
    while child.switches_at_rest() < before + 200 {
        assert_eq!(child.ask(&format!("line {rounds}")), format!("line {rounds}\n"));
        rounds += 1;
        if rounds % 16 == 0 {
            seen.drain(&mut rings, &types);
        }
    }
    let switches = child.switches_at_rest() - before;
    let ended = clock.now_ns();
    seen.drain(&mut rings, &types);
    println!("{rounds} lines, {switches} switches, {} records", seen.records.len());
    assert_eq!((seen.count(ContextSwitch::SCHEMA.name), seen.lost), (switches, 0));
    // Out and in again, each time.
    let switched: Vec<&Value> = seen
        .records
        .iter()
        .filter(|(_, name, _)| name == Switch::SCHEMA.name)
        .map(|(_, _, value)| value.get("switched").unwrap())
        .collect();
    let ins = switched.iter().filter(|value| value.to_string().contains("in")).count() as u64;
    assert_eq!((switched.len() as u64, ins), (2 * switches, switches), "{:?}", Switched::In);
    for (time, name, value) in &seen.records {
        assert!((began..=ended).contains(time), "{name} at {time}");
        assert_eq!(value.get("pid"), Some(&Value::U64(child.pid().into())), "{name}");
        assert_eq!(value.get("tid"), Some(&Value::U64(child.pid().into())), "{name}");
    }
}

#[test]
fn two_observers_of_one_process_see_the_same() {
    let mut child = Driven::start(ECHO);
    let before = child.switches_at_rest();
    let events = [EventKind::PageFaults, EventKind::CpuMigrations, EventKind::ContextSwitches];
    let Some(mut first) = rings(&options(child.pid(), &events)) else { return };
    let Some(mut second) = rings(&options(child.pid(), &events)) else { return };
    while child.switches_at_rest() < before + 100 {
        child.ask("line");
    }
    let switches = child.switches_at_rest() - before;
    let types = types();
    for rings in [&mut first, &mut second] {
        let mut seen = Seen::default();
        seen.drain(rings, &types);
        assert_eq!(seen.count("perf.Sample"), 0);
        assert_eq!(seen.count(ContextSwitch::SCHEMA.name), switches);
    }
}

#[test]
fn records_that_do_not_fit_are_counted_up_to_the_last() {
    let mut child = Driven::start(ECHO);
    let before = child.switches_at_rest();
    let small =
        Options { data_size: Some(4096), ..options(child.pid(), &[EventKind::ContextSwitches]) };
    let Some(mut rings) = rings(&small) else { return };
    let (types, mut seen) = (types(), Seen::default());
    // A page holds 63 records of 64 bytes. Twice as many as all rings hold, then free space, then
    // again, until one that was full gets another record.
    let mut round = 0;
    while seen.lost == 0 {
        round += 1;
        let many = 2 * 64 * rings.len() as u64;
        while child.switches_at_rest() < before + round * many {
            child.ask("line");
        }
        seen.drain(&mut rings, &types);
    }
    let switches = child.switches_at_rest() - before;
    let reported = seen.lost;
    rings.iter().for_each(|ring| ring.stopper().stop().unwrap());
    child.ask("not observed");
    let counts = |seen: &Seen| seen.count(ContextSwitch::SCHEMA.name) + seen.lost;
    until("all switches are counted", || {
        seen.drain(&mut rings, &types);
        counts(&seen) >= switches
    });
    println!(
        "{switches} switches; lost: {reported} reported before a record, {} in all",
        seen.lost
    );
    assert_eq!(counts(&seen), switches);
    assert!(reported > 0, "no loss was reported before a record");
    assert!(seen.lost > reported, "nothing was lost after the last record");
}

#[test]
fn a_ring_of_one_page_is_read_for_many_laps_in_order() {
    let mut child = Driven::start(ECHO);
    let before = child.switches_at_rest();
    let small =
        Options { data_size: Some(4096), ..options(child.pid(), &[EventKind::ContextSwitches]) };
    let Some(mut rings) = rings(&small) else { return };
    let (types, mut seen) = (types(), Seen::default());
    let mut positions = vec![0; rings.len()];
    // Records that wrap, as 64 does not divide the size of a loss record.
    while rings.iter().all(|ring| ring.resume_point().pos() < 20 * 4096) {
        child.ask("line");
        seen.drain(&mut rings, &types);
        for (ring, position) in rings.iter().zip(&mut positions) {
            assert!(ring.resume_point().pos() >= *position);
            *position = ring.resume_point().pos();
        }
    }
    let switches = child.switches_at_rest() - before;
    seen.drain(&mut rings, &types);
    println!("{switches} switches, positions {positions:?}");
    assert_eq!((seen.count(ContextSwitch::SCHEMA.name), seen.lost), (switches, 0));
}

#[test]
fn page_faults_stand_between_our_own_records_in_time() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ring");
    let ours = perfring_producer::Options { time: true, ..Default::default() };
    let mut producer = Producer::create(&path, &ours).unwrap();
    let mut consumer = Consumer::attach(&path).unwrap();
    let Some(mut rings) = rings(&options(std::process::id(), &[EventKind::PageFaults])) else {
        return;
    };
    let mut all = 0;
    // More than a round of ours, so that some timestamps are from the counter and some from the
    // clock.
    for round in 0..20u8 {
        let len = 64 * 4096;
        let mut memory: Vec<u8> = Vec::with_capacity(len + 8192);
        producer.publish(&[round]).unwrap();
        memory.resize(len, round); // touched here for the first time
        std::hint::black_box(&memory);
        producer.publish(&[round]).unwrap();
        let mut timestamp = || match consumer.read().unwrap() {
            Some(Item::Record(record)) => record.time.unwrap(),
            other => panic!("{other:?}"),
        };
        let (from, to) = (timestamp() - ERROR_NS, timestamp() + ERROR_NS);
        let begin = memory.as_ptr() as u64;
        let tid = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        let mut faults = 0;
        for ring in &mut rings {
            ring.peek().unwrap();
            while let Some((item, _)) = ring.take().unwrap() {
                let Item::Record(record) = item else { panic!("{item:?}") };
                let fault: PageFault = *record.as_pod().unwrap();
                if fault.tid == tid && (begin..begin + len as u64).contains(&fault.addr) {
                    let time = record.time.unwrap();
                    assert!((from..=to).contains(&time), "{from} {time} {to}");
                    faults += 1;
                }
            }
            let resume_point = ring.resume_point();
            ring.release_to(&resume_point);
        }
        println!("round {round}: {faults} faults within {} us", (to - from) / 1000);
        // A page each, or larger pages; the first may be of memory that was used before.
        all += faults;
        std::mem::forget(memory); // so that the next is new
    }
    assert!(all > 0, "no fault seen");
}

#[test]
fn threads_and_processes_that_a_process_starts_are_seen_and_its_end_too() {
    let mut child = Driven::start("while read line; do (exec /bin/true); echo $line; done");
    let events = [EventKind::Tasks, EventKind::Mappings, EventKind::TaskClock];
    let Some(mut rings) = rings(&options(child.pid(), &events)) else { return };
    assert!(rings.iter_mut().all(|ring| !ring.is_over()));
    (0..10).for_each(|_| assert_eq!(child.ask("on"), "on\n"));
    let pid = child.pid();
    drop(child);
    rings.iter_mut().for_each(|ring| until("its end is seen", || ring.is_over()));
    let (types, mut seen) = (types(), Seen::default());
    seen.drain(&mut rings, &types);
    assert_eq!((seen.count("perf.Fork"), seen.count("perf.Exit"), seen.lost), (10, 11, 0));
    let text = |name: &str, field: &str| -> Vec<String> {
        let of = seen.records.iter().filter(|(_, of, _)| of == name);
        of.map(|(_, _, value)| value.get(field).unwrap().to_string()).collect()
    };
    let names = text("perf.Comm", "comm");
    assert_eq!(names.iter().filter(|name| name.contains("true")).count(), 10, "{names:?}");
    assert!(text("perf.Mmap2", "filename").iter().any(|file| file.contains("true")));
    let parents = text("perf.Fork", "parent_pid");
    assert!(parents.iter().all(|parent| *parent == pid.to_string()), "{parents:?}");
}

#[test]
fn a_clock_ticks_while_a_task_runs_and_wakes_a_waiting_reader() {
    let fast = Options {
        clock_period_ns: 100_000,
        data_size: Some(4096),
        ..options(std::process::id(), &[EventKind::TaskClock])
    };
    let Some(mut rings) = rings(&fast) else { return };
    let (types, mut seen, dog) = (types(), Seen::default(), Watchdog::default());
    // A thread that is started after the rings were opened.
    let (send, receive) = std::sync::mpsc::channel();
    let busy = std::thread::spawn(move || {
        send.send(rustix::thread::gettid().as_raw_nonzero().get() as u64).unwrap();
        let mut n = 0u64;
        while !STOP.load(std::sync::atomic::Ordering::Relaxed) {
            n = std::hint::black_box(n + 1);
        }
    });
    let tid = receive.recv().unwrap();
    let of_it = |value: &Value| value.get("tid") == Some(&Value::U64(tid));
    // On a busy machine the other threads of this process may have the first ticks.
    while seen.count("perf.TaskClock") < 50
        || !seen.records.iter().any(|(_, _, value)| of_it(value))
    {
        dog.check("50 ticks, some of them the thread's");
        rings[0].wait(Duration::from_millis(5));
        seen.drain(&mut rings, &types);
    }
    STOP.store(true, std::sync::atomic::Ordering::Relaxed);
    busy.join().unwrap();
    let ticks = seen.records.iter().filter(|(_, _, value)| of_it(value)).count();
    println!("{ticks} of {} ticks are the thread's", seen.records.len());
}

static STOP: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);

#[test]
fn all_tasks_of_the_machine_can_be_observed() {
    let all = Options {
        events: vec![EventKind::Switches, EventKind::ContextSwitches],
        ..Options::of(Target::System)
    };
    let Some(mut rings) = rings(&all) else { return };
    let mut child = Driven::start(ECHO);
    let pid = Value::U64(child.pid().into());
    let (types, mut seen) = (types(), Seen::default());
    let dog = Watchdog::default();
    while !seen.records.iter().any(|(_, name, value)| {
        name == "perf.SwitchCpuWide" && value.get("other_pid") == Some(&pid)
    }) {
        dog.check(format_args!("a record of the child among {}", seen.records.len()));
        child.ask("line");
        seen.drain(&mut rings, &types);
    }
    assert!(seen.count("perf.ContextSwitch") > 0);
    assert!(!rings[0].is_over());
}

#[test]
fn unavailable_rings_are_errors_with_a_reason() {
    let gone = options(u32::MAX >> 1, &[EventKind::PageFaults]);
    assert!(matches!(open(&gone), Err(OpenError::NoProcess { pid }) if pid == u32::MAX >> 1));
    let me = std::process::id();
    assert!(matches!(open(&options(me, &[])), Err(OpenError::Nothing)));
    for data_size in [0, 1, 4095, 1 << 11, 3 << 12] {
        let odd = Options { data_size: Some(data_size), ..options(me, &[EventKind::PageFaults]) };
        if let Err(error) = open(&odd) {
            assert!(error.is_forbidden() || matches!(error, OpenError::Size { .. }), "{error}");
        } else {
            panic!("a ring of {data_size} bytes");
        }
    }
}
