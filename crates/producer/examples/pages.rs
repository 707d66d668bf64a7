//! What huge pages, faulting in and locking gain: a producer alone in an overwrite ring of 256 MiB.
//!
//! ```sh
//! cargo run --release -p perfring-producer --example pages -- /dev/shm
//! ```
//!
//! Each repetition makes a new ring for each setting, in turn. Figures are ratios to a ring
//! that was only attached to, of the same repetition: medians of five, with their range.

use perfring_producer::{Options, Pages, Policy, Producer};
use std::error::Error;
use std::path::Path;
use std::time::{Duration, Instant};

const SIZE: u64 = 256 << 20;
const PAYLOAD: [u8; 4088] = [7; 4088];
const REPETITIONS: usize = 5;
const SETTINGS: [(&str, Option<Pages>); 4] = [
    ("attached", None),
    ("faulted in", Some(Pages::FaultIn)),
    ("locked", Some(Pages::Lock)),
    ("huge", Some(Pages::Huge)),
];

/// How long setting took, the first lap, and the mean of the next four.
fn sample(ring: &Path, pages: Option<Pages>) -> Result<[Duration; 3], Box<dyn Error>> {
    let options = Options { size: SIZE, policy: Policy::Overwrite, ..Options::default() };
    let mut producer = Producer::create(ring, &options)?;
    let begin = Instant::now();
    if let Some(pages) = pages {
        producer.set_pages(pages)?;
    }
    let set = begin.elapsed();
    let mut lap = || -> Result<Duration, Box<dyn Error>> {
        let begin = Instant::now();
        for _ in 0..SIZE / 4096 {
            producer.publish(&PAYLOAD)?;
        }
        Ok(begin.elapsed())
    };
    let first = lap()?;
    let next = (lap()? + lap()? + lap()? + lap()?) / 4;
    std::fs::remove_file(ring)?;
    Ok([set, first, next])
}

fn main() -> Result<(), Box<dyn Error>> {
    let dir = std::env::args().nth(1).unwrap_or_else(|| "/dev/shm".to_owned());
    let ring = Path::new(&dir).join(format!("pages-{}", std::process::id()));
    let mut samples = vec![Vec::new(); SETTINGS.len()];
    for _ in 0..REPETITIONS {
        for ((name, pages), samples) in SETTINGS.iter().zip(&mut samples) {
            match sample(&ring, *pages) {
                Ok(sample) => samples.push(sample),
                Err(error) => {
                    let _ = std::fs::remove_file(&ring);
                    println!("{name}: {error}");
                }
            }
        }
    }
    println!("{:12} {:>10} {:>22} {:>22}", "", "ms to set", "first lap", "later laps");
    for ((name, _), own) in SETTINGS.iter().zip(&samples) {
        if own.len() < REPETITIONS {
            continue;
        }
        let of = |at: usize| {
            let mut ratios: Vec<f64> = own
                .iter()
                .zip(&samples[0])
                .map(|(own, plain)| own[at].as_secs_f64() / plain[at].as_secs_f64())
                .collect();
            ratios.sort_by(f64::total_cmp);
            let [least, .., most] = ratios[..] else { return String::new() };
            format!("{:.2} ({least:.2} to {most:.2})", ratios[REPETITIONS / 2])
        };
        let mut set: Vec<_> = own.iter().map(|sample| sample[0]).collect();
        set.sort();
        let set = set[REPETITIONS / 2].as_secs_f64() * 1e3;
        println!("{name:12} {set:10.1} {:>22} {:>22}", of(1), of(2));
    }
    Ok(())
}
