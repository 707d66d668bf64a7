//! The seats of named consumers: taking one by name.

use crate::file::error::AttachError;
use crate::file::open::{RingFile, SeatId};
use crate::sys::exit::Signed;
use crate::sys::fork::NotForChildren;
use crate::sys::ofd_lock::ByteLock;
use crate::sys::sigbus::SigbusGuard;
use memmap2::{MmapOptions, MmapRaw};
use perfring_abi::{ConsumerSeat, JOIN_LOCK_BYTE, NAME_WORDS};
use perfring_ring::{NamedSeat, OwnerInfo, Ring, Seats};
use std::ptr::NonNull;
use std::slice;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long an attach waits for another that joins at that moment.
const JOIN_WAIT: Duration = Duration::from_secs(1);
const JOIN_NAP: Duration = Duration::from_millis(1);

/// The seats of a ring, mapped.
#[derive(Debug)]
pub(crate) struct SeatArea {
    // Both before the mapping, as in `Plain`.
    _children: NotForChildren,
    _guard: SigbusGuard,
    map: MmapRaw,
    count: usize,
}

impl SeatArea {
    /// Maps the seats. The caller holds forks off.
    pub(crate) fn map(ring: &RingFile) -> Result<Self, AttachError> {
        let consumers = ring.layout.areas().consumers;
        let (offset, size) = (consumers.start, consumers.end - consumers.start);
        let map = MmapOptions::new()
            .offset(offset)
            .len(size as usize)
            .map_raw(&ring.file)
            .map_err(|source| ring.io("mapping its consumers' seats", source))?;
        let base = NonNull::new(map.as_mut_ptr()).unwrap_or(NonNull::dangling());
        let none = (base, 0);
        Ok(SeatArea {
            _children: NotForChildren::mapping(base, map.len()),
            _guard: SigbusGuard::new([(base, map.len()), none, none], true, ring.watched()),
            map,
            count: ring.layout.consumers as usize,
        })
    }

    fn all(&self) -> &[ConsumerSeat] {
        // SAFETY: the mapping lives as long as `self`, and was made for so many seats, as `Layout::check` has found room for.
        unsafe { seats(self.map.as_ptr(), self.count) }
    }
}

impl Seats for SeatArea {
    fn seat(&self, number: u32) -> Option<&ConsumerSeat> {
        self.all().get(number as usize)
    }
}

/// Returns the seats at the beginning of a mapping of them.
///
/// # Safety
/// The area, which has room for so many seats, is mapped for `'a`.
#[inline]
pub(crate) unsafe fn seats<'a>(area: *const u8, count: usize) -> &'a [ConsumerSeat] {
    // SAFETY: the caller's promise; the area is page-aligned, and all of a seat is atomics, so any content is valid,
    // whichever process stores there.
    unsafe { slice::from_raw_parts(area.cast::<ConsumerSeat>(), count) }
}

/// A named consumer's seat, and its locks and mappings of the file.
#[derive(Debug)]
pub(crate) struct Taken {
    pub(crate) lock: ByteLock,
    pub(crate) seat: NamedSeat,
    /// Until the consumer has joined.
    pub(crate) joining: ByteLock,
    pub(crate) signed: SignedSeat,
}

/// A named consumer's seat, which the end of the process signs off. Producers continue to wait for its consumer until
/// one of them finds it dead: another thread may still read.
#[derive(Debug)]
pub(crate) struct SignedSeat {
    // Before the mapping of the seats.
    _signed: Signed,
    _area: Arc<SeatArea>,
}

/// Takes the seat of this name, or a free one, and the lock for joining. Writes the owner info.
pub(crate) fn take(
    ring: &RingFile,
    at: Ring<'_>,
    area: SeatArea,
    name: &str,
) -> Result<Taken, AttachError> {
    let joining = lock_for_joining(ring)?;
    let me = RingFile::me(name);
    let owners: Vec<OwnerInfo> =
        area.all().iter().map(|seat| OwnerInfo::read(&seat.holder)).collect();
    let numbers = 0..ring.layout.consumers;
    let owner = |seat: &u32| &owners[*seat as usize];
    let own = numbers.clone().find(|seat| owner(seat).epoch != 0 && is_named(owner(seat), name));
    // A seat that was never held, or else the seat whose holder attached first: later holders may come back.
    let mut others: Vec<u32> = numbers.filter(|_| own.is_none()).collect();
    others.sort_by_key(|seat| (owner(seat).epoch != 0, owner(seat).attached_ns));
    let mut taken = 0;
    let lock = ring.take_with(|| {
        for seat in own.iter().chain(&others) {
            let lock = ByteLock::take(&ring.file, ring.lock_byte(SeatId::Named(*seat)));
            if let Some(lock) = lock.map_err(|source| ring.io("locking its seat", source))? {
                taken = *seat;
                return Ok(Some(lock));
            }
        }
        Ok(None)
    })?;
    let Some(lock) = lock else {
        let mut bytes = own.iter().chain(&others).map(|seat| ring.lock_byte(SeatId::Named(*seat)));
        let blocked = bytes.find_map(|byte| ring.read_locked((byte, 1)));
        let (location, consumers) = (ring.location.clone(), ring.layout.consumers);
        return Err(blocked.unwrap_or_else(|| match own {
            Some(seat) => ring.busy(SeatId::Named(seat)),
            None => AttachError::Consumers { location, consumers },
        }));
    };
    let area = Arc::new(area);
    let mut seat = NamedSeat::new(Arc::<SeatArea>::clone(&area), taken)
        .ok_or_else(|| ring.corrupt(perfring_ring::Corrupt { pos: 0 }))?;
    if own.is_none() {
        seat.clear(at);
    }
    seat.sign(&me);
    let _signed = Signed::new(&area.all()[taken as usize].holder, ring.watched());
    Ok(Taken { lock, seat, joining, signed: SignedSeat { _signed, _area: area } })
}

/// Returns whether the owner info has this name, or its beginning if the name is longer than the room for it.
fn is_named(owner: &OwnerInfo, name: &str) -> bool {
    let mut len = name.len().min(NAME_WORDS * 8);
    while !name.is_char_boundary(len) {
        len -= 1;
    }
    owner.name == name[..len]
}

/// Takes the lock for joining, which is held for some microseconds.
fn lock_for_joining(ring: &RingFile) -> Result<ByteLock, AttachError> {
    let io = |source| ring.io("locking its consumers' seats", source);
    let since = Instant::now();
    loop {
        if let Some(lock) = ByteLock::take(&ring.file, JOIN_LOCK_BYTE).map_err(io)? {
            return Ok(lock);
        }
        if since.elapsed() > JOIN_WAIT {
            let busy = "another process has been taking a seat for a second: try again";
            let busy = std::io::Error::new(std::io::ErrorKind::WouldBlock, busy);
            return Err(ring.read_locked((JOIN_LOCK_BYTE, 1)).unwrap_or_else(|| io(busy)));
        }
        std::thread::sleep(JOIN_NAP);
    }
}
