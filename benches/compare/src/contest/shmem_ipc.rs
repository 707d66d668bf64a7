//! shmem-ipc: a ring of fixed items between two processes that need not trust each other.

use crate::contest::slots::{Erased, slots};
use crate::contest::stream::sleep_until_readable;
use nix::sys::socket::{ControlMessage, ControlMessageOwned, MsgFlags, recvmsg, sendmsg};
use perfring_bench::Result;
use perfring_bench::contestant::{
    About, Can, Contestant, Fill, Location, Receiver, Sender, Setup, Visit,
};
use perfring_bench::error::{failed, system};
use perfring_bench::payload::sized;
use perfring_bench::waits::Waits;
use perfring_bench::waits::{Room, until};
use shmem_ipc::sharedring;
use std::fs::File;
use std::io::{IoSlice, IoSliceMut, Read};
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// shmem-ipc's `sharedring`.
pub struct ShmemIpc;

const NAME: &str = "shmem-ipc";
/// Records of a batch at most, and the part of the ring that one may take.
const BATCH: usize = 64;
const SHARE: usize = 8;

fn batch(capacity: usize) -> usize {
    (capacity / SHARE).clamp(1, BATCH)
}

impl Contestant for ShmemIpc {
    type Sender = ItemSender;
    type Receiver = ItemReceiver;
    type Held = Server;

    fn can() -> Can {
        Can {
            senders: Err("one sender a ring"),
            overwrite: Err("a full ring takes nothing"),
            receivers: Err("one receiver a ring"),
            ..Can::all(1 << 30)
        }
    }

    fn about(setup: &Setup) -> About {
        let count = slots(setup.data_size, setup.payload);
        let batch = batch(usize::try_from(count).unwrap_or(usize::MAX));
        let signals = if setup.sleeping {
            "send_raw, which signals an eventfd when the ring was empty"
        } else {
            "sender_mut() and receiver_mut(): no signals"
        };
        let waits = setup.polls_or("poll on that eventfd");
        let settings = format!(
            "{count} items of {} bytes in a memfd, up to {batch} a call, written and read in \
             place, {signals}",
            setup.payload
        );
        let version = "shmem-ipc 0.3.0".to_owned();
        About { version, location: Location::Processes, settings, waits }
    }

    fn create(path: &Path, setup: &Setup) -> Result<Server> {
        if setup.senders > 1 || setup.receivers > 1 || setup.overwrite {
            return Err(failed(NAME)("one sender, one receiver, nothing lost"));
        }
        let capacity = capacity(setup);
        let files = sized!(setup.payload, N => ring::<N>(capacity))?;
        Server::start(path, files)
    }

    fn sender(path: &Path, setup: &Setup, _: usize) -> Result<ItemSender> {
        let [memory, empty, full] = fetch(path)?;
        let capacity = capacity(setup);
        let end = sized!(setup.payload, N => {
            let end = sharedring::Sender::<[u8; N]>::open(capacity, memory, empty, full);
            end.map(Erased::new).map_err(failed(NAME))
        })?;
        let (room, batch, signals) = (Room::default(), batch(capacity), setup.sleeping);
        Ok(ItemSender { end, room, batch, signals })
    }

    fn receiver(path: &Path, setup: &Setup, _: usize) -> Result<ItemReceiver> {
        let [memory, empty, full] = fetch(path)?;
        let signal = empty.try_clone()?;
        let capacity = capacity(setup);
        let (end, behind) = sized!(setup.payload, N => {
            let end = sharedring::Receiver::<[u8; N]>::open(capacity, memory, empty, full);
            end.map(|end| (Erased::new(end), is_behind::<N> as fn(&mut Erased) -> bool))
                .map_err(failed(NAME))
        })?;
        Ok(ItemReceiver {
            end,
            behind,
            waits: Waits::new(setup.pace),
            batch: batch(capacity),
            signal,
        })
    }
}

fn capacity(setup: &Setup) -> usize {
    usize::try_from(slots(setup.data_size, setup.payload)).unwrap_or(usize::MAX)
}

/// Creates a ring, and keeps only its descriptors.
fn ring<const N: usize>(capacity: usize) -> Result<[File; 3]> {
    let ring = sharedring::Receiver::<[u8; N]>::new(capacity).map_err(failed(NAME))?;
    let memory = ring.memfd().as_file().try_clone()?;
    Ok([memory, ring.empty_signal().try_clone()?, ring.full_signal().try_clone()?])
}

fn is_behind<const N: usize>(end: &mut Erased) -> bool {
    let Ok(ring) = end.get::<sharedring::Receiver<[u8; N]>>() else { return true };
    // An error is left to the next read.
    ring.receiver_mut().read_count().map_or(true, |count| count > 0)
}

/// Its writing end.
pub struct ItemSender {
    end: Erased,
    room: Room,
    batch: usize,
    signals: bool,
}

impl ItemSender {
    /// Writes as many records as there is room for, up to a batch. Returns how many.
    #[inline(always)]
    fn put<const N: usize>(&mut self, numbers: Range<u64>, fill: &mut impl Fill<N>) -> Result<u64> {
        let ring = self.end.get::<sharedring::Sender<[u8; N]>>()?;
        let (batch, mut sent) = (self.batch, 0);
        let write = |items: *mut [u8; N], room: usize| {
            let count = room.min(batch).min((numbers.end - numbers.start) as usize);
            for (at, number) in (0..count).zip(numbers) {
                // SAFETY: the library has `room` items here that nothing else touches meanwhile.
                fill(unsafe { &mut *items.add(at) }, number);
            }
            sent = count as u64;
            count
        };
        if self.signals {
            ring.send_raw(write).map_err(failed(NAME))?;
        } else {
            ring.sender_mut().send(write).map_err(failed(NAME))?;
        }
        Ok(sent)
    }
}

impl Sender for ItemSender {
    #[inline(always)]
    fn send<const N: usize>(
        &mut self,
        mut numbers: Range<u64>,
        mut fill: impl Fill<N>,
    ) -> Result<()> {
        while !numbers.is_empty() {
            let sent = self.put(numbers.clone(), &mut fill)?;
            if sent == 0 {
                self.room.wait();
            }
            numbers.start += sent;
        }
        Ok(())
    }

    #[inline(always)]
    fn offer<const N: usize>(&mut self, number: u64, mut fill: impl Fill<N>) -> Result<bool> {
        Ok(self.put(number..number + 1, &mut fill)? == 1)
    }
}

/// Its reading end.
pub struct ItemReceiver {
    end: Erased,
    behind: fn(&mut Erased) -> bool,
    waits: Waits,
    batch: usize,
    signal: File,
}

impl ItemReceiver {
    #[inline(always)]
    fn take<const N: usize>(&mut self, limit: usize, visit: &mut impl Visit<N>) -> Result<u64> {
        let ring = self.end.get::<sharedring::Receiver<[u8; N]>>()?;
        let mut taken = 0;
        let read = |items: *const [u8; N], there: usize| {
            let count = there.min(limit);
            for at in 0..count {
                // SAFETY: the library has `there` items here that the sender does not touch.
                visit(unsafe { &*items.add(at) });
            }
            taken = count as u64;
            count
        };
        ring.receiver_mut().recv(read).map_err(failed(NAME))?;
        Ok(taken)
    }
}

impl Receiver for ItemReceiver {
    #[inline(always)]
    fn drain<const N: usize>(&mut self, mut visit: impl Visit<N>) -> Result<u64> {
        let mut total = 0;
        loop {
            let taken = self.take(self.batch, &mut visit)?;
            total += taken;
            if taken < self.batch as u64 {
                return Ok(total);
            }
        }
    }

    #[inline(always)]
    fn next<const N: usize>(&mut self, mut visit: impl Visit<N>) -> Result<bool> {
        Ok(self.take(1, &mut visit)? == 1)
    }

    #[inline]
    fn wait(&mut self) {
        let (end, behind) = (std::cell::RefCell::new(&mut self.end), self.behind);
        self.waits.wait(|| behind(&mut end.borrow_mut()));
    }

    fn sleep(&mut self, timeout: Duration) -> Result<()> {
        if (self.behind)(&mut self.end) {
            return Ok(());
        }
        if sleep_until_readable(self.signal.as_fd(), timeout)? {
            // Consumes the signal, as its own block_until_readable does.
            self.signal.read_exact(&mut [0; 8])?;
        }
        Ok(())
    }
}

/// Passes the ring's three descriptors to each process that connects: memory, and the two signals.
pub struct Server {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    path: std::path::PathBuf,
}

impl Server {
    fn start(path: &Path, files: [File; 3]) -> Result<Self> {
        let listener = UnixListener::bind(path)?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread =
            std::thread::Builder::new().name("descriptors".to_owned()).spawn(move || {
                let fds = files.each_ref().map(AsRawFd::as_raw_fd);
                for stream in listener.incoming().flatten() {
                    if stopped.load(Ordering::Acquire) {
                        return;
                    }
                    let (bytes, rights) = ([IoSlice::new(b"3")], [ControlMessage::ScmRights(&fds)]);
                    // A process that asked and has ended gets nothing; no other is affected.
                    let _ =
                        sendmsg::<()>(stream.as_raw_fd(), &bytes, &rights, MsgFlags::empty(), None);
                }
            })?;
        Ok(Server { stop, thread: Some(thread), path: path.to_owned() })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        // The next connection ends it.
        if UnixStream::connect(&self.path).is_ok()
            && let Some(thread) = self.thread.take()
        {
            let _ = thread.join();
        }
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Requests the descriptors.
fn fetch(path: &Path) -> Result<[File; 3]> {
    let stream =
        until(NAME, "no process provides its descriptors", || Ok(UnixStream::connect(path).ok()))?;
    let mut byte = [0; 1];
    let mut bytes = [IoSliceMut::new(&mut byte)];
    let mut space = nix::cmsg_space!([std::os::fd::RawFd; 3]);
    let flags = MsgFlags::MSG_CMSG_CLOEXEC;
    let message = recvmsg::<()>(stream.as_raw_fd(), &mut bytes, Some(&mut space), flags)
        .map_err(system("recvmsg"))?;
    let mut files = Vec::new();
    for rights in message.cmsgs().map_err(system("recvmsg"))? {
        if let ControlMessageOwned::ScmRights(fds) = rights {
            // SAFETY: the kernel has just created them for this process, and nothing else uses
            // them.
            files.extend(fds.into_iter().map(|fd| unsafe { File::from(OwnedFd::from_raw_fd(fd)) }));
        }
    }
    files.try_into().map_err(|_| failed(NAME)("it takes three descriptors"))
}
