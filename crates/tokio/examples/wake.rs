//! How long it takes from a publish until a sleeping reader has the record: the blocking wait beside the
//! descriptor, by an io_uring and by the thread, and beside a tokio task.
//!
//! ```sh
//! cargo run --release -p perfring-tokio --example wake
//! ```
//!
//! Each sample is the median of 500 round trips with a process that sleeps by the method measured and
//! answers through a second ring, read by spinning. Five repetitions, the methods taking turns; the
//! figures are ratios to the blocking wait of the same repetition.

use perfring_consumer::{Consumer, poll::PollBy};
use perfring_producer::{Options, Producer, files::create};
use std::error::Error;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

const METHODS: [&str; 5] = ["blocking", "io_uring", "thread", "tokio", "tokio-thread"];
const ROUNDS: u32 = 500;
const REPETITIONS: usize = 5;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [method, dir] = &args[..] {
        return answer(method, Path::new(dir));
    }
    let dir = tempfile::tempdir_in("/dev/shm")?;
    let mut figures = vec![Vec::new(); METHODS.len()];
    for _ in 0..REPETITIONS {
        for (method, figures) in METHODS.iter().zip(&mut figures) {
            figures.push(sample(method, dir.path())?);
        }
    }
    for (method, own) in METHODS.iter().zip(&figures) {
        let mut ratios: Vec<f64> = own
            .iter()
            .zip(&figures[0])
            .map(|(own, blocking)| own.as_secs_f64() / blocking.as_secs_f64())
            .collect();
        ratios.sort_by(f64::total_cmp);
        let (least, median, most) = (ratios[0], ratios[REPETITIONS / 2], ratios[REPETITIONS - 1]);
        println!(
            "{method:12} {median:.2} ({least:.2} to {most:.2}) of the blocking wait's {:?}",
            {
                let mut blocking = figures[0].clone();
                blocking.sort();
                blocking[REPETITIONS / 2]
            }
        );
    }
    Ok(())
}

/// The median round trip.
fn sample(method: &str, dir: &Path) -> Result<Duration, Box<dyn Error>> {
    let (ask, reply) = (dir.join("ask"), dir.join("reply"));
    let small = Options { size: 4096, types_size: 0, ..Options::default() };
    create(&ask, &small)?;
    create(&reply, &small)?;
    let mut child = Command::new(std::env::current_exe()?).args([method]).arg(dir).spawn()?;
    let mut producer = Producer::attach(&ask)?;
    let mut consumer = Consumer::attach(&reply)?;
    let mut took = Vec::new();
    for round in 0..ROUNDS {
        // It is asleep by then: going to sleep is not measured.
        std::thread::sleep(Duration::from_micros(300));
        let begin = Instant::now();
        producer.publish(&round.to_le_bytes())?;
        while consumer.read()?.is_none() {
            std::hint::spin_loop();
        }
        took.push(begin.elapsed());
    }
    child.wait()?;
    std::fs::remove_file(ask)?;
    std::fs::remove_file(reply)?;
    took.sort();
    Ok(took[took.len() / 2])
}

/// The sleeper.
fn answer(method: &str, dir: &Path) -> Result<(), Box<dyn Error>> {
    let mut consumer = Consumer::attach(dir.join("ask"))?;
    let mut producer = Producer::attach(dir.join("reply"))?;
    let mut reply = || producer.publish(b"reply");
    let by = if method.contains("thread") { PollBy::Thread } else { PollBy::Any };
    match method {
        "blocking" => {
            for _ in 0..ROUNDS {
                while consumer.read()?.is_none() {
                    consumer.sleep(Duration::MAX);
                }
                reply()?;
            }
        }
        "io_uring" | "thread" => {
            let mut pollable = consumer.pollable(by)?;
            for _ in 0..ROUNDS {
                while consumer.read()?.is_none() {
                    if consumer.arm(&mut pollable, Duration::MAX)? {
                        let mut fds =
                            [rustix::event::PollFd::new(&pollable, rustix::event::PollFlags::IN)];
                        let _ = rustix::event::poll(&mut fds, None);
                        consumer.disarm(&mut pollable)?;
                    }
                }
                reply()?;
            }
        }
        _ => {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(async {
                let mut consumer = perfring_tokio::Consumer::new(consumer, by)?;
                for _ in 0..ROUNDS {
                    let _ = consumer.read().await?;
                    reply()?;
                }
                Ok::<(), Box<dyn Error>>(())
            })?;
        }
    }
    Ok(())
}
