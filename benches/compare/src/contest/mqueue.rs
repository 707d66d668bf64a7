//! A POSIX message queue. Each message is a record; there is no call for several.

use super::common::Polls;
use super::stream::{sleep_until_readable, system, unless_full, wait_until};
use super::{About, Can, Contestant, Home, Receiver, Sender, Setup};
use crate::CompareError;
use nix::errno::Errno;
use nix::mqueue::{
    MQ_OFlag, MqAttr, MqdT, mq_close, mq_getattr, mq_open, mq_receive, mq_send, mq_unlink,
};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::stat::Mode;
use nix::unistd::getpid;
use perfring_bench::contest::Waits;
use std::cell::RefCell;
use std::ops::Range;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A message queue.
pub struct Mqueue;

/// The kernel's own limit, also for who may go beyond that of everybody else.
const MOST: u64 = 65_536;
/// Longest payload of any workload.
const LONGEST: u64 = 65_472;

/// A limit of the system's, raised while a queue is made: it does not count thereafter.
struct Raised {
    at: PathBuf,
    before: Option<String>,
}

impl Raised {
    fn to(name: &str, least: u64) -> Self {
        let at = Path::new("/proc/sys/fs/mqueue").join(name);
        let before = std::fs::read_to_string(&at).ok();
        let enough = before.as_ref().and_then(|before| before.trim().parse::<u64>().ok());
        let raise = enough.is_some_and(|before| before < least)
            && std::fs::write(&at, least.to_string()).is_ok();
        Raised { at, before: before.filter(|_| raise) }
    }
}

impl Drop for Raised {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            // It was written to a moment ago.
            let _ = std::fs::write(&self.at, before);
        }
    }
}

/// A queue's name, which no path is: its last part is unlike any other in this machine.
fn name(path: &Path) -> PathBuf {
    let flat = path.to_string_lossy().replace('/', "-");
    // The kernel takes 255 bytes; the end of the path tells more than its beginning.
    let from = flat.char_indices().map(|(at, _)| at).find(|at| flat.len() - at <= 240).unwrap_or(0);
    PathBuf::from(format!("/{}", &flat[from..]))
}

/// Makes a queue of as many messages of so many bytes, or as the user may have.
fn make(name: &Path, wanted: u64, payload: u64) -> Result<MqdT, CompareError> {
    let _count = Raised::to("msg_max", wanted);
    let _len = Raised::to("msgsize_max", payload);
    // The user's own limit: as far as may be without privileges.
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_MSGQUEUE)
        && soft < hard
    {
        // What it leads to shows in what can be made.
        let _ = setrlimit(Resource::RLIMIT_MSGQUEUE, hard, hard);
    }
    let flags = MQ_OFlag::O_RDWR | MQ_OFlag::O_CREAT | MQ_OFlag::O_EXCL | MQ_OFlag::O_NONBLOCK;
    let mode = Mode::S_IRUSR | Mode::S_IWUSR;
    let mut count = wanted;
    loop {
        let attr = MqAttr::new(0, count as i64, payload as i64, 0);
        match mq_open(name, flags, mode, Some(&attr)) {
            // Too many messages, or too many bytes in all.
            Err(Errno::EINVAL | Errno::EMFILE | Errno::EOVERFLOW) if count > 1 => {
                // As many as everybody may have, before even fewer.
                count = if count > 10 { (count * 7 / 8).max(10) } else { count - 1 };
            }
            made => return made.map_err(system("mq_open")),
        }
    }
}

/// The extension of a file beside the path of a queue that was made.
const NOTE: &str = "mqueue";

/// Removes the queues that were made for paths in this directory, and are still there.
pub(crate) fn sweep(dir: &Path) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let note = entry.path();
        if note.extension().is_some_and(|extension| extension == NOTE) {
            // Most are gone already.
            let _ = mq_unlink(&name(&note.with_extension("")));
        }
    }
}

/// The queue's name, removed in the end.
pub struct Held {
    name: PathBuf,
}

impl Drop for Held {
    fn drop(&mut self) {
        // It may be gone already.
        let _ = mq_unlink(&self.name);
    }
}

fn open(path: &Path, flags: MQ_OFlag) -> Result<Queue, CompareError> {
    let flags = flags | MQ_OFlag::O_NONBLOCK | MQ_OFlag::O_CLOEXEC;
    mq_open(&name(path), flags, Mode::empty(), None)
        .map(|queue| Queue(Some(queue)))
        .map_err(system("mq_open"))
}

/// A queue's descriptor, closed in the end.
struct Queue(Option<MqdT>);

impl Queue {
    #[inline(always)]
    fn get(&self) -> Result<&MqdT, Errno> {
        self.0.as_ref().ok_or(Errno::EBADF)
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // Only a descriptor that is none could fail.
        let _ = self.0.take().map(mq_close);
    }
}

impl Contestant for Mqueue {
    type Sender = MqueueSender;
    type Receiver = MqueueReceiver;
    type Held = Held;

    fn check() -> Result<(), String> {
        probe(1, 8).map(drop).map_err(|error| error.to_string())
    }

    fn can() -> Can {
        let long = probe(1, LONGEST).is_ok();
        Can {
            // The kernel's own limit, or that of everybody as it is if nobody has changed it.
            payload: if long { 16 << 20 } else { 8192 },
            lossless: Ok(()),
            senders: Ok(()),
            overwrite: Err("a full queue makes its senders wait"),
            receivers: Err("each message goes to one receiver"),
            sleeping: Ok(()),
            refuses: Ok(()),
        }
    }

    fn about(setup: &Setup) -> About {
        let (wanted, payload) = wanted(setup);
        let size = probe(wanted, payload).map_or_else(
            |error| error.to_string(),
            |attr| {
                let fewer = if (attr.maxmsg() as u64) < wanted {
                    format!(" ({wanted} wanted: sysctl fs.mqueue.msg_max, ulimit -q)")
                } else {
                    String::new()
                };
                format!("{} messages of {} bytes{fewer}", attr.maxmsg(), attr.msgsize())
            },
        );
        About {
            name: "mqueue",
            version: "kernel".into(),
            home: Home::Processes,
            settings: format!("{size}, O_NONBLOCK, a call a record"),
            waits: Polls::or_asleep(setup, "asleep in poll"),
        }
    }

    fn kernel_bytes(setup: &Setup) -> Option<u64> {
        let (wanted, payload) = wanted(setup);
        let attr = probe(wanted, payload).ok()?;
        Some((attr.maxmsg() * attr.msgsize()) as u64)
    }

    fn create(path: &Path, setup: &Setup) -> Result<Held, CompareError> {
        let (wanted, payload) = wanted(setup);
        // What `sweep` finds it by, should nobody be left to drop it.
        std::fs::write(path.with_extension(NOTE), [])?;
        create(path, wanted, payload).map(|(held, _queue)| held)
    }

    fn sender(path: &Path, setup: &Setup, _index: usize) -> Result<MqueueSender, CompareError> {
        let queue = open(path, MQ_OFlag::O_WRONLY)?;
        Ok(MqueueSender { queue, buffer: vec![0; setup.payload] })
    }

    fn receiver(path: &Path, setup: &Setup, _index: usize) -> Result<MqueueReceiver, CompareError> {
        let queue = open(path, MQ_OFlag::O_RDONLY)?;
        let buffer = vec![0; setup.payload];
        Ok(MqueueReceiver { queue, buffer, has: false, waits: Waits::new(setup.pace) })
    }
}

/// What a queue becomes here: it is made under a name that nobody else has, and gone at once.
fn probe(wanted: u64, payload: u64) -> Result<MqAttr, CompareError> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let turn = NEXT.fetch_add(1, Ordering::Relaxed);
    let path = PathBuf::from(format!("perfring-probe-{}-{turn}", getpid()));
    let (_held, queue) = create(&path, wanted, payload)?;
    mq_getattr(queue.get().map_err(system("mq_getattr"))?).map_err(system("mq_getattr"))
}

/// How many messages of how many bytes.
fn wanted(setup: &Setup) -> (u64, u64) {
    let payload = setup.payload.max(1) as u64;
    ((setup.data_size / payload).clamp(1, MOST), payload)
}

fn create(path: &Path, wanted: u64, payload: u64) -> Result<(Held, Queue), CompareError> {
    let name = name(path);
    let queue = Queue(Some(make(&name, wanted, payload)?));
    Ok((Held { name }, queue))
}

/// The writing end.
pub struct MqueueSender {
    queue: Queue,
    buffer: Vec<u8>,
}

impl Sender for MqueueSender {
    #[inline(always)]
    fn send<const N: usize>(
        &mut self,
        numbers: Range<u64>,
        mut fill: impl FnMut(&mut [u8; N], u64),
    ) -> Result<(), CompareError> {
        let error = system("mq_send");
        let queue = self.queue.get().map_err(&error)?;
        let Some(slot) = self.buffer.as_mut_slice().first_chunk_mut() else {
            return Err(CompareError::Cannot("send longer records than it was made for"));
        };
        for number in numbers {
            fill(slot, number);
            wait_until(|| unless_full(mq_send(queue, slot, 0))).map_err(&error)?;
        }
        Ok(())
    }

    fn offer<const N: usize>(
        &mut self,
        number: u64,
        mut fill: impl FnMut(&mut [u8; N], u64),
    ) -> Result<bool, CompareError> {
        let error = system("mq_send");
        let queue = self.queue.get().map_err(&error)?;
        let Some(slot) = self.buffer.as_mut_slice().first_chunk_mut() else { return Ok(false) };
        fill(slot, number);
        Ok(unless_full(mq_send(queue, slot, 0)).map_err(error)?.is_some())
    }
}

/// The reading end.
pub struct MqueueReceiver {
    queue: Queue,
    buffer: Vec<u8>,
    /// Whether a record is in the buffer that was not shown.
    has: bool,
    waits: Waits,
}

impl MqueueReceiver {
    #[inline(always)]
    fn fetch(&mut self) -> Result<bool, Errno> {
        if !self.has {
            let into = self.buffer.as_mut_slice();
            let came = unless_full(mq_receive(self.queue.get()?, into, &mut 0))?;
            self.has = match came {
                Some(len) if len != into.len() => return Err(Errno::EBADMSG),
                came => came.is_some(),
            };
        }
        Ok(self.has)
    }
}

impl Receiver for MqueueReceiver {
    #[inline(always)]
    fn drain<const N: usize>(
        &mut self,
        mut visit: impl FnMut(&[u8; N]),
    ) -> Result<u64, CompareError> {
        let mut count = 0;
        while self.next(&mut visit)? {
            count += 1;
        }
        Ok(count)
    }

    #[inline(always)]
    fn next<const N: usize>(
        &mut self,
        mut visit: impl FnMut(&[u8; N]),
    ) -> Result<bool, CompareError> {
        let came = self.fetch().map_err(system("mq_receive"))?;
        self.has = false;
        if let Some(record) = self.buffer.as_slice().first_chunk()
            && came
        {
            visit(record);
        }
        Ok(came)
    }

    #[inline]
    fn wait(&mut self) {
        // To look is to receive. What fails here fails again in `drain`. The waits are taken out
        // meanwhile: the look needs the rest.
        let waits = Waits::new(perfring_bench::Pace::Latency);
        let mut waits = std::mem::replace(&mut self.waits, waits);
        let me = RefCell::new(&mut *self);
        waits.wait(|| me.borrow_mut().fetch().unwrap_or(true));
        self.waits = waits;
    }

    fn sleep(&mut self, timeout: Duration) -> Result<(), CompareError> {
        if self.has {
            return Ok(());
        }
        let queue = self.queue.get().map_err(system("mq_receive"))?;
        sleep_until_readable([queue.as_fd()].into_iter(), timeout)
    }
}
