//! Many processes, a ring for each CPU.

#[path = "../../examples/per_cpu.rs"]
mod example;

use perfring::{CpuProducer, Options, stat::Stat};
use std::io::{Write, stderr};
use std::path::Path;
use std::process::{Child, Stdio};

const DIR: &str = "PERFRING_TEST_PER_CPU";
const WORKER: &str = "PERFRING_TEST_WORKER";

/// Runs only as a child of the test below: one of the workers.
#[test]
fn works_on_request() {
    let Ok(dir) = std::env::var(DIR) else { return };
    example::write(Path::new(&dir), std::env::var(WORKER).unwrap().parse().unwrap()).unwrap();
}

#[test]
fn every_step_of_every_worker_is_read() {
    let temp = tempfile::tempdir().unwrap();
    if let Err(error) = CpuProducer::create(temp.path().join("tried"), &Options::per_cpu()) {
        let _ = writeln!(stderr().lock(), "SKIPPED: {error}");
        return;
    }
    let dir = temp.path().join("work");
    let workers: Vec<Child> = (1..=3)
        .map(|worker| {
            let mut child = super::again("per_cpu::works_on_request");
            child.env(DIR, &dir).env(WORKER, worker.to_string()).stdout(Stdio::null());
            child.spawn().unwrap()
        })
        .collect();
    for mut worker in workers {
        assert!(worker.wait().unwrap().success());
    }
    let mut out = Vec::new();
    example::read(&dir, &mut out).unwrap();
    // A step is lost, and counted, if a worker is off its core with the lock of that CPU's ring.
    let refused = std::fs::read_dir(&dir).unwrap().map(|ring| {
        let producer = Stat::read(ring.unwrap().path()).unwrap().totals.unwrap().producer;
        assert_eq!(producer.refused.total(), producer.refused.contended);
        producer.refused.contended.records
    });
    let refused: u64 = refused.sum();
    let out = String::from_utf8(out).unwrap();
    let steps = (1..=3).map(|worker| {
        let begin = format!("worker {worker}: ");
        let line = out.lines().find_map(|line| line.strip_prefix(&begin)).unwrap();
        line.strip_suffix(" steps").unwrap().parse::<u64>().unwrap()
    });
    assert_eq!(steps.sum::<u64>() + refused, 3 * 4000, "{out}");
    assert!(refused > 0 || out.lines().count() == 3, "{out}");
}
