//! The cost of a thousand nearly idle rings: the time to attach to them, and the share of a core
//! while ten of them get a hundred records a second each.
//!
//! `cargo run --release -p perfring-sidecar --example idle [RINGS [DELAY_MS]]`

use perfring_consumer::Location;
use perfring_producer::{Options, Producer};
use perfring_sidecar::config::{Input, InputSource};
use perfring_sidecar::{Config, Engine, Sidecar, Signals};
use std::error::Error;
use std::time::{Duration, Instant};

/// Rings that are written to.
const WRITTEN: usize = 10;

/// Returns the main thread's CPU time.
fn busy() -> Duration {
    let stat = format!("/proc/self/task/{}/schedstat", std::process::id());
    let stat = std::fs::read_to_string(stat).unwrap_or_default();
    Duration::from_nanos(stat.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or(0))
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let rings: usize = args.next().map_or(Ok(1000), |text| text.parse())?;
    let mut config = Config::default();
    if let Some(delay) = args.next() {
        config.settings.delay = perfring_sidecar::config::parse_duration(&delay)?;
    }
    let dir = tempfile::tempdir_in("/dev/shm")?;
    perfring_sidecar::raise_limits();
    let options = Options { size: 16 << 10, time: true, ..Options::default() };
    let mut producers = Vec::new();
    for n in 0..rings {
        let producer = Producer::create(dir.path().join(format!("ring-{n}")), &options)?;
        // The others end: ten thousand of them need more descriptors than a process may have.
        if n < WRITTEN {
            producers.push(producer);
        }
    }
    let mut engine = Engine::new(Duration::from_millis(1))?;
    let before = busy();
    for n in 0..rings {
        let location = Location::from(dir.path().join(format!("ring-{n}")));
        engine
            .attach(&location, &Input::new(InputSource::Ring(location.clone())), None, |_| None)?;
    }
    println!("{:?} of a core to attach to a ring", (busy() - before) / rings as u32);
    drop(engine);
    let signals = Signals::default();
    let asker = signals.clone();
    let feeder = std::thread::spawn(move || {
        let share = |(busy_before, since): (Duration, Instant)| {
            (busy() - busy_before).as_secs_f64() / since.elapsed().as_secs_f64()
        };
        let mut second = (busy(), Instant::now());
        let mut idle = None;
        loop {
            for producer in &mut producers {
                let _ = producer.publish(&[7; 64]);
            }
            std::thread::sleep(Duration::from_millis(10));
            match idle {
                // All are attached to once it is no longer busy.
                None if second.1.elapsed() > Duration::from_secs(1) => {
                    idle = (share(second) < 0.4).then(|| (busy(), Instant::now()));
                    second = (busy(), Instant::now());
                }
                Some(began) if began.1.elapsed() > Duration::from_secs(10) => {
                    println!("idle: {:.2} % of a core", 100.0 * share(began));
                    break;
                }
                _ => {}
            }
        }
        asker.stop(15);
    });
    config.add_input(Input::new(InputSource::Dir(dir.path().to_owned())));
    config.add_output("null")?;
    let mut sidecar = Sidecar::start(config)?;
    sidecar.run(&signals, &mut || Ok(Config::default()), &mut |message| eprintln!("{message}"));
    let _ = feeder.join();
    Ok(())
}
