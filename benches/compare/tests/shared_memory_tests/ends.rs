//! Two ends, in threads or processes.

use perfring_bench::contestant::{Contestant, Receiver, Sender, Setup};
use perfring_bench::payload::{Check, fill};
use perfring_bench::waits::WaitStrategy;
use std::env::current_exe;
use std::os::unix::process::parent_id;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

/// Marks a run of this executable as the sender of another one.
pub(crate) const CHILD: &str = "PERFRING_COMPARE_TEST_CHILD";
pub(crate) const RECORDS: u64 = 100_000;

pub(crate) fn setup(payload: usize) -> Setup {
    Setup {
        data_size: 1 << 20,
        payload,
        overwrite: false,
        senders: 1,
        receivers: 1,
        pace: WaitStrategy::Adaptive,
        sleeping: false,
    }
}

/// Returns a path in memory for a contestant's files.
pub(crate) fn place() -> (tempfile::TempDir, PathBuf) {
    let shm = Path::new("/dev/shm");
    let dir = if shm.is_dir() { tempfile::tempdir_in(shm) } else { tempfile::tempdir() };
    let dir = dir.expect("a directory");
    let path = dir.path().join("ring");
    (dir, path)
}

/// Two threads in turn; if one of them fails, so does the other.
#[derive(Default)]
pub(crate) struct Turns {
    come: AtomicU64,
    pub(crate) broken: AtomicBool,
}

impl Turns {
    /// Waits until both have arrived here this many times: `turn` counts from 1.
    pub(crate) fn meet(&self, turn: u64) {
        self.come.fetch_add(1, Ordering::AcqRel);
        self.until(|| self.come.load(Ordering::Acquire) >= 2 * turn);
    }

    pub(crate) fn until(&self, ready: impl Fn() -> bool) {
        while !ready() {
            assert!(!self.broken.load(Ordering::Acquire), "the other one failed");
            thread::yield_now();
        }
    }

    pub(crate) fn watch(&self) -> Watch<'_> {
        Watch(self)
    }
}

pub(crate) struct Watch<'a>(&'a Turns);

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.broken.store(true, Ordering::Release);
        }
    }
}

/// Sends blocks as a benchmark does.
pub(crate) fn send_all<C: Contestant, const N: usize>(path: &Path, setup: &Setup, count: u64) {
    let mut sender = C::sender(path, setup, 0).expect("a sender");
    for start in (0..count).step_by(64) {
        sender.send::<N>(start..(start + 64).min(count), fill).expect("sent");
    }
    // What it holds must live until the reader is done; a file signals that.
    let (done, parent) = (path.with_extension("done"), parent_id());
    while !done.exists() && parent_id() == parent {
        thread::yield_now();
    }
}

pub(crate) fn spawn_child(name: &str, path: &Path, setup: &Setup, count: u64) -> Child {
    let order = serde_json::json!({ "name": name, "path": path, "setup": setup, "count": count });
    Command::new(current_exe().expect("this executable"))
        .args(["--exact", "child", "--ignored", "--nocapture"])
        .env(CHILD, order.to_string())
        .stdout(std::process::Stdio::null())
        .spawn()
        .expect("a process")
}

/// Reads until so many records have arrived.
pub(crate) fn read_all<R: Receiver, const N: usize>(receiver: &mut R, count: u64) -> Check {
    let mut check = Check::default();
    let mut seen = 0;
    while seen < count {
        let found = receiver.drain::<N>(|bytes| check.see(bytes)).expect("drained");
        seen += found;
        if found == 0 {
            receiver.wait();
        }
    }
    check
}
