//! A program that crashes in the middle of its work: its last events are in the rings.
//!
//! `cargo run -p perfring-tracing --example crash -- [abort|kill|segfault] [DIR]`
//!
//! The directory's rings, one for each CPU, have the last events of all threads: `perfring tail DIR`.

use nix::sys::signal::{Signal, raise};
use perfring_tracing::{PerfringLayer, Resource, Sink, options};
use std::path::PathBuf;
use std::sync::mpsc;
use std::time::Duration;
use tracing::{debug, error, info, info_span, warn};
use tracing_subscriber::prelude::*;

/// How it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Death {
    /// As a panic with `panic = "abort"` does.
    Abort,
    /// As the kernel does when memory runs out.
    Kill,
    /// As a bad pointer does.
    Segfault,
}

const WORKERS: u64 = 3;

#[derive(Debug)]
#[allow(dead_code)]
struct Order {
    id: u64,
    items: [&'static str; 2],
}

/// Works until it dies. Does not return if all goes well.
pub(crate) fn run(sink: Sink, death: Death) -> Result<(), Box<dyn std::error::Error>> {
    tracing_subscriber::registry().with(PerfringLayer::new(sink)).try_init()?;

    let (at_work, all_at_work) = mpsc::channel();
    for worker in 0..WORKERS {
        let at_work = at_work.clone();
        std::thread::spawn(move || {
            for id in 0.. {
                serve(worker, Order { id, items: ["tea", "milk"] });
                if id == 20 {
                    let _ = at_work.send(());
                }
            }
        });
    }
    for _ in 0..WORKERS {
        all_at_work.recv()?;
    }
    let _shift = info_span!("shift", workers = WORKERS).entered();
    error!(errno = 5, device = "/dev/sdb", ?death, "this is where it ends");
    match death {
        Death::Abort => std::process::abort(),
        Death::Kill => raise(Signal::SIGKILL)?,
        // The first is caught by std, which checks for stack overflows and then lets the next through.
        Death::Segfault => (0..2).try_for_each(|_| raise(Signal::SIGSEGV))?,
    }
    Ok(())
}

fn serve(worker: u64, order: Order) {
    let span = info_span!("serve", worker, order.id, paid = tracing::field::Empty);
    let _serving = span.enter();
    debug!(?order, "taken");
    {
        let _paying = info_span!("pay", method = "card").entered();
        let price = 3.5 * order.items.len() as f64;
        if order.id % 7 == 3 {
            warn!(price, tries = 2, "the card was refused at first");
        }
        info!(price, currency = "EUR", "paid");
    }
    std::thread::sleep(Duration::from_millis(1)); // the tea
    span.record("paid", true);
}

pub(crate) fn resource() -> Resource {
    Resource::here().with("service.name", "shop").with("service.version", "2.1.0")
}

#[allow(dead_code)]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let death = match arguments.next().as_deref() {
        None | Some("abort") => Death::Abort,
        Some("kill") => Death::Kill,
        Some("segfault") => Death::Segfault,
        Some(other) => {
            return Err(format!("{other:?} is not known: abort, kill or segfault").into());
        }
    };
    let dir = match arguments.next() {
        Some(path) => PathBuf::from(path),
        None => std::env::temp_dir().join(format!("crash-{}", std::process::id())),
    };
    println!("perfring tail {}", dir.display());
    run(Sink::open(dir, &options(), resource())?, death)
}
