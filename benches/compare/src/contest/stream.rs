//! What contestants with descriptors share: waits for room, and records in a stream of bytes.

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd::{read, write};
use perfring_bench::Result;
use perfring_bench::contestant::{Fill, Receiver, Setup, Visit};
use perfring_bench::error::system;
use perfring_bench::waits::Waits;
use std::cell::RefCell;
use std::hint::spin_loop;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// Most bytes of one `write` or `read`: what is copied into the kernel is then still in the nearer
/// caches.
pub const CHUNK: usize = 64 << 10;

/// Polls of a sender that waits for room. Each is a system call, so it yields its core more often
/// than one that polls memory.
const POLLS: u32 = 64;

/// Returns the result of a call that does not wait, or `None` where it would have to wait.
#[inline(always)]
pub fn unless_full<T>(done: Result<T, Errno>) -> Result<Option<T>, Errno> {
    match done {
        Ok(done) => Ok(Some(done)),
        Err(Errno::EAGAIN | Errno::EINTR) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Waits until `attempt` succeeds.
#[inline(always)]
pub fn wait_until<T>(mut attempt: impl FnMut() -> Result<Option<T>, Errno>) -> Result<T, Errno> {
    let mut polls = 0u32;
    loop {
        if let Some(done) = attempt()? {
            return Ok(done);
        }
        spin_loop();
        polls += 1;
        if polls.is_multiple_of(POLLS) {
            // The reader may need this core.
            std::thread::yield_now();
        }
    }
}

/// Sleeps until it is readable, or for so long. Returns whether it is.
pub fn sleep_until_readable(fd: BorrowedFd<'_>, timeout: Duration) -> Result<bool> {
    // A millisecond at least: zero would be a poll.
    let timeout = timeout.max(Duration::from_millis(1));
    let timeout = PollTimeout::try_from(timeout).unwrap_or(PollTimeout::MAX);
    match poll(&mut [PollFd::new(fd, PollFlags::POLLIN)], timeout) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::EINTR) => Ok(false),
        Err(error) => Err(system("poll")(error)),
    }
}

/// A buffer whose records are 8-aligned.
fn buffer(len: usize) -> Box<[[u64; 8]]> {
    vec![[0; 8]; len.div_ceil(64)].into_boxed_slice()
}

fn bytes(buffer: &[[u64; 8]]) -> &[u8] {
    let words = buffer.as_flattened();
    // SAFETY: so many bytes of initialised words, borrowed for as long.
    unsafe { std::slice::from_raw_parts(words.as_ptr().cast(), size_of_val(words)) }
}

fn bytes_mut(buffer: &mut [[u64; 8]]) -> &mut [u8] {
    let words = buffer.as_flattened_mut();
    // SAFETY: as above, borrowed mutably; every byte is good in a word.
    unsafe { std::slice::from_raw_parts_mut(words.as_mut_ptr().cast(), size_of_val(words)) }
}

/// Records to be written to a stream of bytes, several by one `write`.
pub struct Outbox {
    buffer: Box<[[u64; 8]]>,
    /// Bytes of one `write`, where a record is not longer.
    chunk: usize,
}

impl Outbox {
    /// Creates an outbox that writes at most so many bytes at once, with records of so many bytes.
    pub fn new(chunk: usize, payload: usize) -> Self {
        Outbox { buffer: buffer(chunk.max(payload)), chunk }
    }

    /// Fills and writes them all. Waits for room.
    #[inline(always)]
    pub fn send<const N: usize>(
        &mut self,
        fd: &impl AsFd,
        numbers: Range<u64>,
        mut fill: impl Fill<N>,
    ) -> Result<(), Errno> {
        let at_once = (self.chunk / N).max(1) as u64;
        let mut next = numbers.start;
        while next < numbers.end {
            let end = numbers.end.min(next + at_once);
            let (slots, _) = bytes_mut(&mut self.buffer).as_chunks_mut::<N>();
            for (slot, number) in slots.iter_mut().zip(next..end) {
                fill(slot, number);
            }
            let mut rest = &bytes(&self.buffer)[..(end - next) as usize * N];
            while !rest.is_empty() {
                let written = wait_until(|| unless_full(write(fd, rest)))?;
                rest = &rest[written..];
            }
            next = end;
        }
        Ok(())
    }

    /// Fills a record and writes it, if there is room. The caller knows that it is written
    /// completely or not at all.
    pub fn offer<const N: usize>(
        &mut self,
        fd: &impl AsFd,
        number: u64,
        mut fill: impl Fill<N>,
    ) -> Result<bool, Errno> {
        let Some(slot) = bytes_mut(&mut self.buffer).first_chunk_mut() else { return Ok(false) };
        fill(slot, number);
        let written = unless_full(write(fd, slot))?;
        match written {
            None => Ok(false),
            Some(written) if written == N => Ok(true),
            Some(_) => Err(Errno::EMSGSIZE),
        }
    }
}

/// Records as they are read from a stream of bytes.
struct Inbox {
    buffer: Box<[[u64; 8]]>,
    from: usize,
    to: usize,
}

impl Inbox {
    /// Creates an inbox for records of so many bytes.
    fn new(payload: usize) -> Self {
        Inbox { buffer: buffer(CHUNK.max(payload)), from: 0, to: 0 }
    }

    /// Returns whether there is a complete record.
    #[inline(always)]
    fn has(&self, payload: usize) -> bool {
        self.to - self.from >= payload
    }

    /// Reads, if less than a record is left. Returns whether anything arrived. Never waits.
    #[inline(always)]
    fn fetch(&mut self, fd: &impl AsFd, payload: usize) -> Result<bool, Errno> {
        if self.has(payload) {
            return Ok(true);
        }
        let buffer = bytes_mut(&mut self.buffer);
        if self.from > 0 {
            buffer.copy_within(self.from..self.to, 0);
            self.to -= self.from;
            self.from = 0;
        }
        // No bytes at all: the other end is closed, if it was ever open.
        let came = unless_full(read(fd, &mut buffer[self.to..]))?.unwrap_or(0);
        self.to += came;
        Ok(came > 0)
    }

    /// Passes all complete records to `visit`, or only the next one. Returns how many.
    #[inline(always)]
    fn show<const N: usize>(&mut self, most: usize, mut visit: impl Visit<N>) -> u64 {
        let (records, _) = bytes(&self.buffer)[self.from..self.to].as_chunks::<N>();
        let records = &records[..records.len().min(most)];
        for record in records {
            visit(record);
        }
        self.from += size_of_val(records);
        records.len() as u64
    }
}

/// The reading end of a pipe.
pub struct StreamReceiver {
    fd: OwnedFd,
    inbox: Inbox,
    waits: Waits,
    payload: usize,
}

impl StreamReceiver {
    /// Reads from this pipe.
    pub fn new(fd: OwnedFd, setup: &Setup) -> Self {
        let payload = setup.payload;
        StreamReceiver { fd, inbox: Inbox::new(payload), waits: Waits::new(setup.pace), payload }
    }
}

impl Receiver for StreamReceiver {
    #[inline(always)]
    fn drain<const N: usize>(&mut self, mut visit: impl Visit<N>) -> Result<u64> {
        let mut count = 0;
        while self.inbox.fetch(&self.fd, N).map_err(system("read"))? {
            count += self.inbox.show(usize::MAX, &mut visit);
        }
        Ok(count)
    }

    #[inline(always)]
    fn next<const N: usize>(&mut self, mut visit: impl Visit<N>) -> Result<bool> {
        self.inbox.fetch(&self.fd, N).map_err(system("read"))?;
        Ok(self.inbox.show(1, &mut visit) > 0)
    }

    #[inline]
    fn wait(&mut self) {
        // Polling is reading. An error here occurs again in `drain`.
        let (inbox, fd, payload) = (RefCell::new(&mut self.inbox), &self.fd, self.payload);
        self.waits.wait(|| inbox.borrow_mut().fetch(fd, payload).unwrap_or(true));
    }

    fn sleep(&mut self, timeout: Duration) -> Result<()> {
        if self.inbox.has(self.payload) {
            return Ok(());
        }
        sleep_until_readable(self.fd.as_fd(), timeout).map(drop)
    }
}
