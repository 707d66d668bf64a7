//! LTTng's tracer for user space, as a flight recorder: the sender's cost per record, without a
//! reader. What is left is read at the end from a snapshot, by babeltrace2.
//!
//! It is not a means of transfer, so nothing else is measured. A tracepoint with the payload's
//! length is compiled on the machine where it runs.

use nix::libc;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use perfring_bench::contestant::{
    About, Can, Contestant, Fill, Location, Receiver, Sender, Setup, Visit,
};
use perfring_bench::payload::verify;
use perfring_bench::{BenchError, Result};
use std::ffi::{CStr, CString, c_int, c_void};
use std::io::{BufRead, BufReader};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::ptr::NonNull;
use std::time::{Duration, Instant};

/// LTTng-UST, recording into rings that overwrite.
pub struct Lttng;

const NAME: &str = "lttng";
/// What has to be installed where it cannot run.
const GET_IT: &str =
    "it takes a C compiler, and of Debian lttng-tools, liblttng-ust-dev and babeltrace2";
/// How long a daemon may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// Parts of a ring: LTTng overwrites a whole one.
const PARTS: u64 = 4;

fn failed(what: impl Into<String>) -> BenchError {
    BenchError::Contestant { contestant: NAME, source: what.into().into() }
}

/// The home directory of a user's own daemon. One for all rings of a directory: a process that has
/// found it once does not search elsewhere.
fn location(path: &Path) -> PathBuf {
    path.with_file_name("lttng-home")
}

/// The directory of the provider and the snapshots of a ring.
fn place(path: &Path) -> PathBuf {
    path.with_extension("lttng")
}

fn session(path: &Path) -> String {
    path.file_stem()
        .map_or_else(String::new, |stem| format!("{}-{}", stem.to_string_lossy(), id(path)))
}

/// Returns a number for a path, the same in every process: sessions of several runs share one
/// daemon, if it is root's.
fn id(path: &Path) -> u64 {
    let bytes = path.as_os_str().as_bytes().iter();
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
    })
}

fn command(program: &str, path: &Path) -> Command {
    let mut command = Command::new(program);
    command.env("LTTNG_HOME", location(path)).stdin(Stdio::null());
    command
}

fn lttng(path: &Path, args: &[&str]) -> Result<()> {
    let output = command("lttng", path).arg("--no-sessiond").args(args).output()?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(failed(format!("lttng {}: {said}", args.join(" "))))
}

fn compile(at: &Path, payload: usize) -> Result<()> {
    std::fs::write(at.join("provider.h"), include_str!("lttng/provider.h"))?;
    std::fs::write(at.join("provider.c"), include_str!("lttng/provider.c"))?;
    let output = Command::new("cc")
        .current_dir(at)
        .args(["-O2", "-shared", "-fPIC", "-I.", &format!("-DPAYLOAD={payload}")])
        .args(["-o", "provider.so", "provider.c", "-llttng-ust", "-ldl"])
        .stdin(Stdio::null())
        .output()?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(failed(format!("cc: {}", said.lines().next().unwrap_or_default())))
}

/// The session, and the daemon if there was none.
pub struct Held {
    path: PathBuf,
    daemon: Option<Child>,
}

impl Drop for Held {
    fn drop(&mut self) {
        // Each of them may have been removed already.
        let _ = lttng(&self.path, &["destroy", "--no-wait", &session(&self.path)]);
        if let Some(daemon) = &mut self.daemon {
            // Its consumer ends with it.
            let pid = i32::try_from(daemon.id()).unwrap_or_default();
            if pid > 0 && kill(Pid::from_raw(pid), Signal::SIGTERM).is_ok() {
                let _ = daemon.wait();
            }
        }
        let _ = std::fs::remove_dir_all(place(&self.path));
    }
}

/// Starts a daemon unless one answers: root has one for the whole system.
fn daemon(path: &Path) -> Result<Option<Child>> {
    let answers = || lttng(path, &["list"]).is_ok();
    if answers() {
        return Ok(None);
    }
    std::fs::create_dir_all(location(path))?;
    let mut child = command("lttng-sessiond", path)
        .arg("--no-kernel")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    let start = Instant::now();
    while !answers() {
        if let Some(status) = child.try_wait()? {
            return Err(failed(format!("lttng-sessiond ended: {status}")));
        }
        if start.elapsed() > PATIENCE {
            child.kill()?;
            child.wait()?;
            return Err(failed("lttng-sessiond does not answer"));
        }
        std::thread::yield_now();
    }
    Ok(Some(child))
}

impl Contestant for Lttng {
    type Sender = LttngSender;
    type Receiver = LttngReceiver;
    type Held = Held;

    fn check() -> Result<(), String> {
        for program in ["cc", "lttng", "lttng-sessiond", "babeltrace2"] {
            let ran = Command::new(program).arg("--version").output();
            if !ran.is_ok_and(|output| output.status.success()) {
                return Err(format!("no {program}: {GET_IT}"));
            }
        }
        let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
        compile(directory.path(), 8).map_err(|error| format!("{error}: {GET_IT}"))
    }

    fn can() -> Can {
        const NO: Result<(), &str> = Err("a tracer hands no records over: see its overwriting");
        Can {
            lossless: NO,
            senders: NO,
            receivers: NO,
            sleeping: NO,
            refuses: NO,
            follow: Err(
                "its flight recorder is read as a snapshot, at the end: no reader can follow it",
            ),
            // Less than a part of any ring.
            ..Can::all(4096)
        }
    }

    fn about(setup: &Setup) -> About {
        let output = Command::new("lttng").arg("--version").output();
        let version =
            output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
        About {
            version: version.unwrap_or_else(|_| "LTTng, absent".into()),
            location: Location::Processes,
            settings: format!(
                "flight recorder: --overwrite, {PARTS} parts of {} bytes a processor, its timestamp \
                 (monotonic), a tracepoint with an array of {} words, no reader",
                setup.data_size / PARTS,
                setup.payload / 8
            ),
            waits: "its reader is babeltrace2, of a snapshot at the end".into(),
        }
    }

    fn create(path: &Path, setup: &Setup) -> Result<Held> {
        let at = place(path);
        std::fs::create_dir_all(&at)?;
        let daemon = daemon(path)?;
        let held = Held { path: path.to_owned(), daemon };
        compile(&at, setup.payload)?;
        let session = session(path);
        let output = format!("--output={}", at.join("snapshots").display());
        lttng(path, &["create", &session, "--snapshot", &output])?;
        let session = format!("--session={session}");
        let size = format!("--subbuf-size={}", setup.data_size / PARTS);
        let parts = format!("--num-subbuf={PARTS}");
        lttng(
            path,
            &["enable-channel", "--userspace", "--overwrite", &size, &parts, &session, "ring"],
        )?;
        let event = "perfring_compare:record";
        lttng(path, &["enable-event", "--userspace", "--channel=ring", &session, event])?;
        lttng(path, &["start", session.trim_start_matches("--session=")])?;
        Ok(held)
    }

    fn sender(path: &Path, setup: &Setup, _index: usize) -> Result<LttngSender> {
        LttngSender::open(path, setup)
    }

    fn receiver(path: &Path, _setup: &Setup, _index: usize) -> Result<LttngReceiver> {
        Ok(LttngReceiver { path: path.to_owned(), next: 0, snapshots: 0 })
    }
}

/// The writing end: the provider, loaded.
pub struct LttngSender {
    library: NonNull<c_void>,
    record: unsafe extern "C" fn(*const u64),
    payload: usize,
}

impl LttngSender {
    fn open(path: &Path, setup: &Setup) -> Result<Self> {
        // SAFETY: other threads of this process read the environment through the standard library,
        // which has a lock for it; LTTng's own threads begin below.
        unsafe { std::env::set_var("LTTNG_HOME", location(path)) };
        let library = place(path).join("provider.so");
        let library = CString::new(library.as_os_str().as_bytes()).map_err(|_| failed("a path"))?;
        // SAFETY: a string that ends with a zero; the library was compiled by `create` from this
        // package's own source. It registers with the daemon before the call returns.
        let library = unsafe { libc::dlopen(library.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        let Some(library) = NonNull::new(library) else {
            // SAFETY: `dlopen` has failed in this thread, so there is a string that ends with zero,
            // and it is copied before another call.
            let said = unsafe { CStr::from_ptr(libc::dlerror()) };
            return Err(failed(said.to_string_lossy()));
        };
        let find = |name: &CStr| {
            // SAFETY: a library that is loaded, and a string that ends with a zero.
            let found = unsafe { libc::dlsym(library.as_ptr(), name.as_ptr()) };
            NonNull::new(found).ok_or_else(|| failed("the provider lacks a function"))
        };
        let record = find(c"perfring_record")?.as_ptr();
        // SAFETY: the provider's source defines it with this type.
        let record =
            unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*const u64)>(record) };
        let enabled = find(c"perfring_enabled")?.as_ptr();
        // SAFETY: as above.
        let enabled =
            unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn() -> c_int>(enabled) };
        let this = LttngSender { library, record, payload: setup.payload };
        let start = Instant::now();
        // SAFETY: the library stays loaded as long as `this`.
        while unsafe { enabled() } == 0 {
            if start.elapsed() > PATIENCE {
                return Err(failed("the daemon does not enable the tracepoint"));
            }
            std::thread::yield_now();
        }
        Ok(this)
    }
}

impl Drop for LttngSender {
    fn drop(&mut self) {
        // SAFETY: loaded by `open`, and not called any more.
        let closed = unsafe { libc::dlclose(self.library.as_ptr()) };
        debug_assert_eq!(closed, 0);
    }
}

/// A record as C has it.
#[repr(align(8))]
struct Words<const N: usize>([u8; N]);

impl Sender for LttngSender {
    #[inline(always)]
    fn send<const N: usize>(&mut self, numbers: Range<u64>, mut fill: impl Fill<N>) -> Result<()> {
        if N != self.payload {
            return Err(BenchError::Cannot("send records of another length"));
        }
        let mut words = Words([0; N]);
        for number in numbers {
            fill(&mut words.0, number);
            // SAFETY: the provider was compiled for so many bytes, and copies them; 8-aligned.
            unsafe { (self.record)(words.0.as_ptr().cast()) };
        }
        Ok(())
    }

    fn offer<const N: usize>(&mut self, _number: u64, _fill: impl Fill<N>) -> Result<bool> {
        Err(BenchError::Cannot("refuse: it overwrites"))
    }
}

/// The reading end.
pub struct LttngReceiver {
    path: PathBuf,
    /// The first number that was in no snapshot.
    next: u64,
    snapshots: u32,
}

impl LttngReceiver {
    /// The words of an event as babeltrace2 prints it: `... { w = [ [0] = 7, [1] = 9 ] }`.
    fn words<const N: usize>(line: &str) -> Option<[u8; N]> {
        let mut bytes = [0; N];
        let (slots, _) = bytes.as_chunks_mut::<8>();
        let mut values = line.split_once("w = [")?.1.split("] = ").skip(1).map(|rest| {
            let end = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
            rest[..end].parse::<u64>()
        });
        for slot in slots {
            *slot = values.next()?.ok()?.to_ne_bytes();
        }
        Some(bytes)
    }
}

impl Receiver for LttngReceiver {
    fn drain<const N: usize>(&mut self, mut visit: impl Visit<N>) -> Result<u64> {
        self.snapshots += 1;
        let into = place(&self.path).join(format!("read-{}", self.snapshots));
        std::fs::create_dir_all(&into)?;
        let (session, at) =
            (format!("--session={}", session(&self.path)), into.display().to_string());
        lttng(&self.path, &["snapshot", "record", &session, &at])?;
        let mut reader = command("babeltrace2", &self.path)
            .arg(&into)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let mut count = 0;
        if let Some(out) = reader.stdout.take() {
            for line in BufReader::new(out).lines() {
                let line = line?;
                let Some(bytes) = Self::words::<N>(&line) else {
                    return Err(failed(format!("babeltrace2 says: {line}")));
                };
                let number = bytes.first_chunk().map_or(0, |first| u64::from_ne_bytes(*first));
                // Already in an earlier snapshot. Damaged ones are passed on, to be counted.
                if number < self.next && verify(&bytes, number) {
                    continue;
                }
                self.next = number + 1;
                visit(&bytes);
                count += 1;
            }
        }
        let status = reader.wait()?;
        std::fs::remove_dir_all(&into)?;
        if status.success() { Ok(count) } else { Err(failed(format!("babeltrace2: {status}"))) }
    }

    fn next<const N: usize>(&mut self, _visit: impl Visit<N>) -> Result<bool> {
        Err(BenchError::Cannot("show one record: it is read as a snapshot"))
    }

    fn wait(&mut self) {}
}
