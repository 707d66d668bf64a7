//! A process that attaches while it has threads, and reports whether it is registered with membarrier:
//! `registrar THREADS RING`. After each line that it reads it takes its next step.

use nix::libc;
use perfring_producer::{Options, Producer, register_process};
use perfring_tests::NUMBERED;
use std::sync::mpsc;
use std::time::Instant;

/// Returns whether the kernel's global expedited barriers reach this process (Linux 6.3).
fn registered() -> bool {
    const GET_REGISTRATIONS: libc::c_int = 1 << 9;
    const REGISTER_GLOBAL_EXPEDITED: libc::c_long = 1 << 2;
    // SAFETY: a call that takes numbers and returns one.
    let of = unsafe { libc::syscall(libc::SYS_membarrier, GET_REGISTRATIONS, 0, 0) };
    of > 0 && of & REGISTER_GLOBAL_EXPEDITED != 0
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let (threads, ring) = args.next().zip(args.next()).ok_or("THREADS RING")?;
    let threads: usize = threads.parse()?;
    let (end, ended) = mpsc::channel::<()>();
    let (begun, begins) = mpsc::channel();
    let ended = std::sync::Arc::new(std::sync::Mutex::new(ended));
    let others: Vec<_> = (1..threads)
        .map(|_| {
            let (ended, begun) = (ended.clone(), begun.clone());
            std::thread::spawn(move || {
                let _ = begun.send(());
                let _ = ended.lock().map(|ended| ended.recv());
            })
        })
        .collect();
    begins.iter().take(threads - 1).for_each(drop);

    let began = Instant::now();
    let mut producer = Producer::create(&ring, &Options::default())?;
    producer.publish_as(NUMBERED, &1u64.to_le_bytes())?;
    let took = began.elapsed();
    println!("{}", registered());
    println!("{}", took.as_micros());
    let steps = std::io::stdin().lines();
    for (number, line) in (2u64..).zip(steps) {
        if line? == "register" {
            println!("{}", register_process());
        } else {
            producer.publish_as(NUMBERED, &number.to_le_bytes())?;
            println!("{}", registered());
        }
    }
    drop(end);
    others.into_iter().for_each(|other| drop(other.join()));
    Ok(())
}
