//! A Unix domain socket of packets. Each packet is a record, and many are sent by one `sendmmsg`
//! and received by one `recvmmsg`.

use crate::CompareError;
use crate::contest::handed::Held;
use crate::contest::stream::{CHUNK, sleep_until_readable, system, unless_full, wait_until};
use crate::contest::unix_stream::{accept_all, can, connect_to, listen_at, room, rooms};
use crate::contest::waits::Polls;
use crate::contestant::{About, Can, Contestant, Location, Receiver, Sender, Setup};
use nix::errno::Errno;
use nix::libc;
use nix::sys::socket::SockType;
use perfring_bench::contest::Waits;
use std::cell::RefCell;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;
use std::ptr::null_mut;
use std::time::Duration;

/// A packet socket; each sender has one of its own.
pub struct UnixSeqpacket;

/// Packets of one call: as many as `IOV_MAX` allows, or as the nearer caches hold.
fn batch(payload: usize) -> usize {
    (4 * CHUNK / payload.max(1)).clamp(1, 1024)
}

impl Contestant for UnixSeqpacket {
    type Sender = PacketSender;
    type Receiver = PacketReceiver;
    type Held = Held;

    fn can() -> Can {
        can()
    }

    fn about(setup: &Setup) -> About {
        let batch = batch(setup.payload);
        About {
            name: "unix_seqpacket",
            version: "kernel".into(),
            location: Location::Processes,
            settings: format!(
                "{}, a packet a record, up to {batch} a sendmmsg and recvmmsg",
                room(setup)
            ),
            waits: Polls::or_asleep(setup, "asleep in poll"),
        }
    }

    fn own_channels() -> bool {
        true
    }

    fn kernel_bytes(setup: &Setup) -> Option<u64> {
        rooms(setup)
    }

    fn create(path: &Path, setup: &Setup) -> Result<Held, CompareError> {
        listen_at(path, setup, SockType::SeqPacket)
    }

    fn sender(path: &Path, setup: &Setup, _index: usize) -> Result<PacketSender, CompareError> {
        let socket = connect_to(path, setup, SockType::SeqPacket)?;
        Ok(PacketSender { socket, packets: Packets::new(setup.payload) })
    }

    fn receiver(path: &Path, setup: &Setup, index: usize) -> Result<PacketReceiver, CompareError> {
        let inboxes = accept_all(path, setup, index)?
            .into_iter()
            .map(|socket| Inbox { socket, packets: Packets::new(setup.payload), from: 0, to: 0 })
            .collect();
        Ok(PacketReceiver { inboxes, turn: 0, waits: Waits::new(setup.pace) })
    }
}

/// Buffers of equal length, one behind the other, with the headers that the kernel takes.
struct Packets {
    /// What the headers point to. It is owned here and only reached through this pointer.
    base: *mut u64,
    words: usize,
    headers: Box<[libc::mmsghdr]>,
    /// What the headers also point to; only the kernel reads it.
    _parts: Box<[libc::iovec]>,
    payload: usize,
}

// SAFETY: it owns what the pointers point to, and nothing else has them.
unsafe impl Send for Packets {}

impl Packets {
    fn new(payload: usize) -> Self {
        let count = batch(payload);
        let room = vec![0u64; (count * payload).div_ceil(8)].into_boxed_slice();
        let words = room.len();
        let base = Box::into_raw(room).cast::<u64>();
        let mut parts: Box<[_]> = (0..count)
            .map(|at| libc::iovec {
                iov_base: base.cast::<u8>().wrapping_add(at * payload).cast(),
                iov_len: payload,
            })
            .collect();
        let first = parts.as_mut_ptr();
        let headers = (0..count)
            .map(|at| libc::mmsghdr {
                msg_hdr: libc::msghdr {
                    msg_name: null_mut(),
                    msg_namelen: 0,
                    msg_iov: first.wrapping_add(at),
                    msg_iovlen: 1,
                    msg_control: null_mut(),
                    msg_controllen: 0,
                    msg_flags: 0,
                },
                msg_len: 0,
            })
            .collect();
        Packets { base, words, headers, _parts: parts, payload }
    }

    /// Returns the buffers, for records of this length.
    #[inline(always)]
    fn slots<const N: usize>(&mut self) -> &mut [[u8; N]] {
        let count = if N == self.payload { self.headers.len() } else { 0 };
        // SAFETY: `base` is of at least `count * N` initialised bytes, which only `self` reaches,
        // here borrowed mutably; the kernel touches them only during the calls below.
        unsafe { std::slice::from_raw_parts_mut(self.base.cast(), count) }
    }

    /// Sends those buffers. Returns how many were sent.
    #[inline(always)]
    fn send(&mut self, socket: &OwnedFd, range: Range<usize>) -> Result<usize, Errno> {
        let Some(headers) = self.headers.get_mut(range) else { return Ok(0) };
        let (flags, count) = (libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL, headers.len() as u32);
        // SAFETY: so many headers, each of one part of `payload` bytes of `base`, all of which
        // live as long as `self`; the kernel writes to `msg_len` only.
        let sent =
            unsafe { libc::sendmmsg(socket.as_raw_fd(), headers.as_mut_ptr(), count, flags) };
        Errno::result(sent).map(|sent| sent as usize)
    }

    /// Receives into the buffers. Returns how many arrived; a packet of another length is an error.
    #[inline(always)]
    fn receive(&mut self, socket: &OwnedFd) -> Result<usize, Errno> {
        let count = self.headers.len();
        let (flags, headers) = (libc::MSG_DONTWAIT, self.headers.as_mut_ptr());
        // SAFETY: as above, and there is no reference into `base` while `self` is borrowed mutably;
        // the kernel writes to the parts, and to `msg_len` and `msg_flags`.
        let came =
            unsafe { libc::recvmmsg(socket.as_raw_fd(), headers, count as u32, flags, null_mut()) };
        let came = Errno::result(came)? as usize;
        // The end of the stream is signalled by packets of no bytes.
        let lens = self.headers[..came].iter().map(|header| header.msg_len as usize);
        let lens = lens.take_while(|len| *len > 0);
        lens.map(|len| if len == self.payload { Ok(1) } else { Err(Errno::EBADMSG) }).sum()
    }
}

impl Drop for Packets {
    fn drop(&mut self) {
        let room = std::ptr::slice_from_raw_parts_mut(self.base, self.words);
        // SAFETY: the box of `new`, of so many words, which nothing else reaches.
        drop(unsafe { Box::from_raw(room) });
    }
}

/// The writing end.
pub struct PacketSender {
    socket: OwnedFd,
    packets: Packets,
}

impl Sender for PacketSender {
    #[inline(always)]
    fn send<const N: usize>(
        &mut self,
        numbers: Range<u64>,
        mut fill: impl FnMut(&mut [u8; N], u64),
    ) -> Result<(), CompareError> {
        let mut next = numbers.start;
        while next < numbers.end {
            let slots = self.packets.slots::<N>();
            if slots.is_empty() {
                return Err(CompareError::Cannot("send records of another length"));
            }
            let count = slots.len().min((numbers.end - next) as usize);
            for (slot, number) in slots[..count].iter_mut().zip(next..) {
                fill(slot, number);
            }
            let mut sent = 0;
            while sent < count {
                let (packets, socket) = (&mut self.packets, &self.socket);
                sent += wait_until(|| unless_full(packets.send(socket, sent..count)))
                    .map_err(system("sendmmsg"))?;
            }
            next += count as u64;
        }
        Ok(())
    }

    fn offer<const N: usize>(
        &mut self,
        number: u64,
        mut fill: impl FnMut(&mut [u8; N], u64),
    ) -> Result<bool, CompareError> {
        let Some(slot) = self.packets.slots::<N>().first_mut() else { return Ok(false) };
        fill(slot, number);
        let sent =
            unless_full(self.packets.send(&self.socket, 0..1)).map_err(system("sendmmsg"))?;
        Ok(sent == Some(1))
    }
}

/// Packets of one sender.
struct Inbox {
    socket: OwnedFd,
    packets: Packets,
    /// Those that arrived and were not passed on.
    from: usize,
    to: usize,
}

impl Inbox {
    /// Receives, if nothing is left. Returns whether there is something.
    #[inline(always)]
    fn fetch(&mut self) -> Result<bool, Errno> {
        if self.from == self.to {
            let came = unless_full(self.packets.receive(&self.socket))?.unwrap_or(0);
            (self.from, self.to) = (0, came);
        }
        Ok(self.from < self.to)
    }

    #[inline(always)]
    fn show<const N: usize>(&mut self, most: usize, mut visit: impl FnMut(&[u8; N])) -> u64 {
        let to = self.to.min(self.from.saturating_add(most));
        let slots = self.packets.slots::<N>();
        let shown = slots.get(self.from..to).unwrap_or_default();
        for slot in shown {
            visit(slot);
        }
        self.from = to;
        shown.len() as u64
    }
}

/// The reading end.
pub struct PacketReceiver {
    inboxes: Vec<Inbox>,
    /// The inbox whose turn is next where one record is requested.
    turn: usize,
    waits: Waits,
}

impl Receiver for PacketReceiver {
    #[inline(always)]
    fn drain<const N: usize>(
        &mut self,
        mut visit: impl FnMut(&[u8; N]),
    ) -> Result<u64, CompareError> {
        let mut count = 0;
        for inbox in &mut self.inboxes {
            while inbox.fetch().map_err(system("recvmmsg"))? {
                count += inbox.show(usize::MAX, &mut visit);
            }
        }
        Ok(count)
    }

    #[inline(always)]
    fn next<const N: usize>(
        &mut self,
        mut visit: impl FnMut(&[u8; N]),
    ) -> Result<bool, CompareError> {
        for _ in 0..self.inboxes.len() {
            self.turn = if self.turn + 1 < self.inboxes.len() { self.turn + 1 } else { 0 };
            let inbox = &mut self.inboxes[self.turn];
            inbox.fetch().map_err(system("recvmmsg"))?;
            if inbox.show(1, &mut visit) > 0 {
                return Ok(true);
            }
        }
        Ok(false)
    }

    #[inline]
    fn wait(&mut self) {
        // Polling is receiving. An error here occurs again in `drain`.
        let inboxes = RefCell::new(&mut self.inboxes);
        self.waits
            .wait(|| inboxes.borrow_mut().iter_mut().any(|inbox| inbox.fetch().unwrap_or(true)));
    }

    fn sleep(&mut self, timeout: Duration) -> Result<(), CompareError> {
        if self.inboxes.iter().any(|inbox| inbox.from < inbox.to) {
            return Ok(());
        }
        sleep_until_readable(self.inboxes.iter().map(|inbox| inbox.socket.as_fd()), timeout)
    }
}
