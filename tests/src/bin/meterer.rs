//! A process that measures in a ring's metrics area, until it is killed.
//!
//! `meterer count THREADS COUNT RING`: each thread counts to COUNT, and measures each number; says "done", and waits for the end of
//! its input.
//! `meterer fork RING`: counts 3, forks; the child counts 5 with its parent's instrument and one with its own; the parent counts 2 more.
//! `meterer kill SCENARIO RING`: stops itself, does one thing, stops itself again.

use nix::sys::signal::{Signal, raise};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, fork};
use perfring_producer::metrics::{Buckets, Metric, MetricKind, Metrics};
use perfring_producer::types::{Encoding, Schema};
use std::io::Read;

type Outcome = Result<(), Box<dyn std::error::Error>>;

fn schema(name: &'static str) -> Schema<'static> {
    Schema::new(name, Encoding::Tagged).with_hashed_id()
}

fn counter(metrics: &Metrics, stripes: u32) -> Result<Metric, Box<dyn std::error::Error>> {
    Ok(metrics.register(&schema("demo.count"), MetricKind::CounterU64, stripes)?)
}

fn histogram(metrics: &Metrics) -> Result<Metric, Box<dyn std::error::Error>> {
    let kind = MetricKind::Histogram(Buckets::default());
    Ok(metrics.register(&schema("demo.measured"), kind, 2)?)
}

fn main() -> Outcome {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        ["count", threads, count, ring] => count_to(threads.parse()?, count.parse()?, ring),
        ["fork", ring] => forked(ring),
        ["kill", scenario, ring] => kill(scenario, ring),
        _ => Err(format!("unknown arguments: {args:?}").into()),
    }
}

fn count_to(threads: u32, count: u32, ring: &str) -> Outcome {
    let metrics = Metrics::attach(ring)?;
    let (counter, histogram) = (counter(&metrics, threads)?, histogram(&metrics)?);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                for number in 1..=count {
                    counter.add(1);
                    histogram.record(Buckets::default(), number.into());
                }
            });
        }
    });
    println!("done");
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

fn forked(ring: &str) -> Outcome {
    let metrics = Metrics::attach(ring)?;
    let counted = counter(&metrics, 1)?;
    counted.add(3);
    // SAFETY: the process has one thread.
    match unsafe { fork() }? {
        ForkResult::Child => {
            for _ in 0..5 {
                counted.add(1);
            }
            counter(&metrics, 1)?.add(1);
            assert_eq!(metrics.lost(), 0);
            println!("child {}", std::process::id());
        }
        ForkResult::Parent { child } => {
            counted.add(2);
            assert_eq!(waitpid(child, None)?, WaitStatus::Exited(child, 0));
            println!("parent {}", std::process::id());
        }
    }
    Ok(())
}

fn kill(scenario: &str, ring: &str) -> Outcome {
    nix::sys::ptrace::traceme()?;
    let metrics = Metrics::attach(ring)?;
    if scenario == "register" {
        raise(Signal::SIGSTOP)?;
        std::hint::black_box(counter(&metrics, 1)?);
        raise(Signal::SIGSTOP)?;
        std::mem::forget(metrics);
        return Ok(());
    }
    let (counter, histogram) = (counter(&metrics, 1)?, histogram(&metrics)?);
    let gauge = metrics.register(&schema("demo.set"), MetricKind::GaugeF64, 1)?;
    raise(Signal::SIGSTOP)?;
    match scenario {
        "add" => counter.add(7),
        "record" => histogram.record(Buckets::default(), 2.5),
        "set" => gauge.set(1.5f64.to_bits()),
        _ => return Err("unknown scenario".into()),
    }
    raise(Signal::SIGSTOP)?;
    std::mem::forget(metrics);
    Ok(())
}
