//! A process that ends. `ender KIND HOW RING` attaches, keeps the attachment in a place that nothing drops, and ends.
//!
//! | kind | attached |
//! |---|---|
//! | `one`, `many`, `cpu` | a producer; of a directory of rings per CPU, to the ring of CPU 0 |
//! | `consumer`, `named` | a consumer |
//!
//! | how | it |
//! |---|---|
//! | `return`, `exit`, `panic` | returns from `main`, calls `exit(3)`, panics in `main` |
//! | `thread` | returns from `main` while another thread has the attachment in a thread-local value |
//! | `_exit`, `abort` | calls `_exit(2)`, `abort(3)` |
//! | `fork`, `clone` | has a child, by `fork(2)` or by `clone(2)` alone, that calls `exit(3)`; prints `child` after that, waits for the end of its stdin, and calls `_exit(2)` |
//! | `truncated` | truncates its file, and returns from `main` |
//! | `late` | attaches once more while it ends, in a function that `exit(3)` calls |
//! | `busy` | returns from `main` while two threads publish, and two more attach and detach |

use nix::libc;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork};
use perfring_consumer::Consumer;
use perfring_producer::{CpuProducer, Producer, SharedProducer};
use std::any::Any;
use std::cell::RefCell;
use std::fs::OpenOptions;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{OnceLock, mpsc};
use std::time::Duration;

type Outcome<T = ()> = Result<T, Box<dyn std::error::Error>>;

static RING: OnceLock<String> = OnceLock::new();

thread_local! {
    static KEPT: RefCell<Option<Box<dyn Any>>> = const { RefCell::new(None) };
}

fn attach(kind: &str, ring: &str) -> Outcome<Box<dyn Any>> {
    Ok(match kind {
        "one" => Box::new(Producer::attach(ring)?),
        "many" => Box::new(SharedProducer::attach(ring)?),
        "cpu" => {
            let producer = CpuProducer::attach(ring)?;
            producer.attach_to(0)?;
            Box::new(producer)
        }
        "consumer" => Box::new(Consumer::attach(ring)?),
        "named" => Box::new(Consumer::attach_as(ring, "ender")?),
        _ => return Err(format!("unknown kind: {kind}").into()),
    })
}

extern "C" fn attach_late() {
    if let Some(ring) = RING.get()
        && let Ok(late) = SharedProducer::attach_as(ring.as_str(), "late")
    {
        std::mem::forget(late);
    }
}

fn exit_now() -> ! {
    // SAFETY: ends the process at once.
    unsafe { libc::_exit(0) }
}

fn wait_for_stdin() -> Outcome {
    while std::io::stdin().read_line(&mut String::new())? > 0 {}
    Ok(())
}

/// Waits for a child that calls `exit(3)`, and for the end of stdin.
fn after(child: Pid) -> Outcome {
    match waitpid(child, None)? {
        WaitStatus::Exited(_, 0) => println!("child"),
        other => println!("{other:?}"),
    }
    wait_for_stdin()?;
    exit_now()
}

fn publish_for_ever(ring: &str, published: &AtomicU64) -> Outcome {
    let producer = SharedProducer::attach(ring)?;
    for number in 0u64.. {
        producer.publish(&number.to_le_bytes())?;
        published.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

fn attach_for_ever(ring: &str) -> Outcome {
    loop {
        let attached = SharedProducer::attach(ring)?;
        std::thread::sleep(Duration::from_millis(1));
        drop(attached);
        // For a while nothing is mapped where the ring was.
        std::thread::sleep(Duration::from_millis(3));
    }
}

fn be_busy(ring: &str) {
    static PUBLISHED: AtomicU64 = AtomicU64::new(0);
    for _ in 0..2 {
        let (publisher, attacher) = (ring.to_owned(), ring.to_owned());
        std::thread::spawn(move || publish_for_ever(&publisher, &PUBLISHED).map_err(|_| ()));
        std::thread::spawn(move || attach_for_ever(&attacher).map_err(|_| ()));
    }
    while PUBLISHED.load(Ordering::Relaxed) < 1000 {
        std::thread::yield_now();
    }
}

#[expect(clippy::panic, reason = "one of the ends")]
fn main() -> Outcome {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let [kind, how, ring] = args[..] else {
        return Err(format!("unknown arguments: {args:?}").into());
    };
    RING.get_or_init(|| ring.to_owned());
    if how == "late" {
        // Before the first attachment: `exit(3)` calls this after the attachment's function.
        // SAFETY: a function of this program.
        unsafe { libc::atexit(attach_late) };
    }
    if how == "thread" {
        let (kind, ring) = (kind.to_owned(), ring.to_owned());
        let (attached, is_attached) = mpsc::channel();
        std::thread::spawn(move || {
            let kept = attach(&kind, &ring).map_err(|error| error.to_string());
            let said = kept.as_ref().map(|_| ()).map_err(String::clone);
            KEPT.with(|place| *place.borrow_mut() = kept.ok());
            let _ = attached.send(said);
            loop {
                std::thread::park();
            }
        });
        return Ok(is_attached.recv()??);
    }
    std::mem::forget(attach(kind, ring)?);
    match how {
        "return" | "late" => {}
        "exit" => std::process::exit(0),
        "panic" => panic!("as asked"),
        "_exit" => exit_now(),
        "abort" => std::process::abort(),
        "fork" => {
            // SAFETY: this process has one thread.
            match unsafe { fork() }? {
                ForkResult::Child => std::process::exit(0),
                ForkResult::Parent { child } => after(child)?,
            }
        }
        "clone" => {
            // SAFETY: a copy of this process, which has one thread; the child uses its own copy of the stack.
            let child = unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) };
            if child == 0 {
                std::process::exit(0);
            }
            after(Pid::from_raw(i32::try_from(child)?))?;
        }
        "truncated" => OpenOptions::new().write(true).open(ring)?.set_len(0)?,
        "busy" => be_busy(ring),
        _ => return Err(format!("unknown end: {how}").into()),
    }
    Ok(())
}
