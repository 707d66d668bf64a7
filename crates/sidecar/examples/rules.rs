//! The cost of a rule: one core drains rings to an output that does nothing, with rules and without, in turns.
//!
//! `cargo run --release -p perfring-sidecar --example rules`

use perfring_consumer::Location;
use perfring_export::Null;
use perfring_producer::{Options, Producer};
use perfring_sidecar::config::{Config, Delivery, Input, InputSource};
use perfring_sidecar::{Engine, Turn};
use perfring_telemetry::{Log, Resource, Severity, Sink, TraceId};
use std::error::Error;
use std::path::Path;
use std::time::Duration;

const REPETITIONS: usize = 5;
/// Times that a ring is filled in a repetition.
const FILLS: u64 = 40;
const CASES: [(&str, &str); 5] = [
    ("no rule", ""),
    ("a type that no record has", "[[rule]]\nname = \"a\"\ntypes = [\"77\"]\ndrop = true"),
    ("all dropped", "[[rule]]\nname = \"a\"\ndrop = true"),
    ("sampled, 0.5", "[[rule]]\nname = \"a\"\nsample = 0.5"),
    ("limited, 1000/s", "[[rule]]\nname = \"a\"\nrate = \"1000/s\""),
];
const LOGS: [(&str, &str); 3] = [
    ("no rule", ""),
    ("a condition", "[[rule]]\nname = \"a\"\nwhere = [\"severity_number<5\"]\ndrop = true"),
    ("sampled by trace, 0.5", "[[rule]]\nname = \"a\"\nsample = 0.5\nby = \"trace_id\""),
];

/// Returns this thread's CPU time, which excludes other processes.
fn busy() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    Duration::from_nanos(stat.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or(0))
}

/// An engine that reads one ring, and what it was asked to leave out.
struct Case {
    engine: Engine,
    written: u64,
}

impl Case {
    fn new(path: &Path, rules: &str) -> Result<Self, Box<dyn Error>> {
        let mut engine = Engine::new(Duration::from_millis(1))?;
        engine.set_record_rules(Config::parse(rules, "rules")?.record_rules);
        let null = Box::new(Null::default());
        engine.add_output("null", Delivery::Required, Default::default(), null)?;
        let location = Location::from(path.to_owned());
        let input = Input::new(InputSource::Ring(location.clone()));
        engine.attach(&location, &input, None, |_| None)?;
        Ok(Case { engine, written: 0 })
    }

    /// Fills the ring and drains it; returns ns of CPU for each record, of the draining.
    fn run(&mut self, mut publish: impl FnMut() -> bool) -> f64 {
        let (mut took, mut all) = (Duration::ZERO, 0);
        for _ in 0..FILLS {
            let mut written = 0u64;
            while publish() {
                written += 1;
            }
            std::thread::sleep(Duration::from_millis(2));
            self.written += written;
            all += written;
            let since = busy();
            while self.engine.rings().map(|ring| ring.figures.records).sum::<u64>() < self.written {
                if self.engine.turn() != Turn::More {
                    self.engine.wait(Duration::from_millis(1));
                }
            }
            took += busy() - since;
            while self.engine.rings().any(|ring| ring.lag > 0) {
                self.engine.turn();
                self.engine.wait(Duration::from_millis(1));
            }
        }
        took.as_nanos() as f64 / all as f64
    }
}

fn report(cases: &[(&str, &str)], figures: &mut [Vec<f64>]) {
    for (at, (name, _)) in cases.iter().enumerate() {
        let ratios: Vec<f64> =
            figures[at].iter().zip(&figures[0]).map(|(one, base)| one / base).collect();
        let sorted = |mut all: Vec<f64>| {
            all.sort_by(f64::total_cmp);
            (all[REPETITIONS / 2], all[0], all[REPETITIONS - 1])
        };
        let (ns, least, most) = sorted(figures[at].clone());
        let (ratio, low, high) = sorted(ratios);
        println!(
            "{name:28} {ns:6.1} ns ({least:.1} to {most:.1}), {ratio:.2} of no rule ({low:.2} to {high:.2})"
        );
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let dir = tempfile::tempdir_in("/dev/shm")?;
    let options = Options { size: 1 << 20, time: true, ..Options::default() };
    let mut plain = Vec::new();
    for (nth, (_, rules)) in CASES.iter().enumerate() {
        let path = dir.path().join(format!("plain-{nth}"));
        let producer = Producer::create(&path, &options)?;
        plain.push((producer, Case::new(&path, rules)?));
    }
    let mut figures = vec![Vec::new(); CASES.len()];
    for _ in 0..REPETITIONS {
        for ((producer, case), figures) in plain.iter_mut().zip(&mut figures) {
            figures.push(case.run(|| producer.publish(&[7; 64]).is_ok()));
        }
    }
    println!("64 bytes without a type:");
    report(&CASES, &mut figures);
    let mut logs = Vec::new();
    let options = Options {
        size: 1 << 20,
        policy: perfring_producer::Policy::Drop,
        ..perfring_telemetry::options()
    };
    for (nth, (_, rules)) in LOGS.iter().enumerate() {
        let path = dir.path().join(format!("logs-{nth}"));
        let sink = Sink::create(&path, &options, Resource::here())?;
        let mut case = Case::new(&path, rules)?;
        case.written = 1; // the resource
        logs.push((sink, case));
    }
    let mut figures = vec![Vec::new(); LOGS.len()];
    let mut n = 0u64;
    for _ in 0..REPETITIONS {
        for ((sink, case), figures) in logs.iter_mut().zip(&mut figures) {
            figures.push(case.run(|| {
                n += 1;
                let mut id = [1; 16];
                id[8..].copy_from_slice(&n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
                let (severity, trace_id) = (Some(Severity::Info), Some(TraceId(id)));
                sink.emit(&Log { severity, trace_id, body: "ready".into(), ..Log::default() })
                    .is_ok()
            }));
        }
    }
    println!("log records, which no output decodes:");
    report(&LOGS, &mut figures);
    Ok(())
}
