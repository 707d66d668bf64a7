//! Reading in place no more than a header: for a consumer whose producer is not trusted.

use crate::file::error::{AttachError, COPIED_AUX_MAX};
use crate::file::open::RingFile;
use crate::map::mirror::Mirror;
use crate::observer::bytes_of;
use crate::reader::{AHEAD, Item, record};
use crate::sys::futex;
use crate::sys::sigbus::install_guard;
use perfring_abi::SIZE_MAX;
use perfring_ring::{Corrupt, Found, Frame, Front, Range, Reader, Ring};

/// Mode bits by which others than the owner may write.
const OTHERS_WRITE: u32 = 0o022;

/// Whether the consumer of a drop ring keeps those who may write the ring's file from its records.
/// Positions and lengths are checked in any case, and are looked at once: what they become afterwards
/// does not matter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Guard {
    /// Records are borrowed where they stand. They stay as they are while all keep to the protocol.
    #[default]
    Never,
    /// As [`Guard::Never`] if the file is this process's user's, and nobody else may write it; else as
    /// [`Guard::Always`].
    Auto,
    /// Each record is copied before anybody sees it, so nobody rewrites it while it is read; and
    /// [`install_guard`](crate::install_guard) is called. Not of rings with an AUX area of more than
    /// [`Guard::MAX_AUX`], of which a single payload could take that much memory.
    Always,
}

impl Guard {
    /// The largest AUX area that [`Guard::Always`] reads: 256 MiB.
    pub const MAX_AUX: u64 = COPIED_AUX_MAX;

    /// What it comes to for this file, which is mapped next: one of the other two.
    pub(crate) fn prepare(self, ring: &RingFile) -> Result<Self, AttachError> {
        let guard = self.of(ring)?;
        if guard == Guard::Always {
            let size = ring.layout.aux_size;
            if size > Guard::MAX_AUX {
                return Err(AttachError::Unguarded { home: ring.home.clone(), size });
            }
            install_guard().map_err(|source| ring.io("taking SIGBUS for it", source))?;
        }
        Ok(guard)
    }

    fn of(self, ring: &RingFile) -> Result<Self, AttachError> {
        if self != Guard::Auto {
            return Ok(self);
        }
        let (owner, mode) = ring.owner()?;
        let own = owner == nix::unistd::geteuid().as_raw() && mode & OTHERS_WRITE == 0;
        Ok(if own { Guard::Never } else { Guard::Always })
    }
}

/// A private copy of the newest record.
#[derive(Debug)]
pub(crate) struct Body {
    words: Vec<u64>,
}

impl Body {
    pub(crate) fn new() -> Self {
        Body { words: vec![0; (SIZE_MAX / 8) as usize] }
    }

    /// Room for a payload of the AUX area: its words.
    fn space_for(&mut self, frame: &Frame, range: Range) -> Result<usize, Corrupt> {
        let words = range.len.div_ceil(8);
        let more = words.saturating_sub(self.words.len());
        self.words.try_reserve_exact(more).map_err(|_| Corrupt { pos: frame.pos })?;
        self.words.resize(words.max(self.words.len()), 0);
        Ok(words)
    }

    /// A copy of a record's payload. The frame's length was checked against the head, and is ours.
    #[inline]
    fn of(&mut self, ring: Ring<'_>, frame: &Frame) -> &[u8] {
        let words = frame.len.div_ceil(8);
        if words > self.words.len() {
            self.words.resize(words, 0);
        }
        let to = &mut self.words[..words];
        ring.copy_out(frame.payload_pos(), to);
        bytes_of(to, frame.len)
    }

    /// The same, of a payload in the AUX area: no longer than that.
    #[cold]
    fn of_range(&mut self, map: &Mirror, frame: &Frame, range: Range) -> Result<&[u8], Corrupt> {
        let words = self.space_for(frame, range)?;
        map.ring().copy_range(map.aux(), range, &mut self.words[..words]);
        Ok(bytes_of(&self.words[..words], range.len))
    }
}

/// The next item by a copy, as [`MappedReader::read`](crate::MappedReader::read).
#[inline]
pub(crate) fn read<'a>(
    reader: &mut Reader,
    body: &'a mut Body,
    map: &Mirror,
) -> Result<Option<Item<'a>>, Corrupt> {
    reader.hand_lines(map.ring());
    let found = next(reader, body, map)?;
    copied(found, reader.known(), body, map)
}

/// The next item by a copy, and what is next after it, as
/// [`MappedReader::take`](crate::MappedReader::take).
#[inline]
pub(crate) fn take<'a>(
    reader: &mut Reader,
    body: &'a mut Body,
    map: &Mirror,
) -> Result<Option<(Item<'a>, Front)>, Corrupt> {
    let found = next(reader, body, map)?;
    // What is wrong with the next is told by the next look.
    let front = reader.front(map.ring()).unwrap_or(Front::More);
    let item = copied(found, reader.known(), body, map)?;
    Ok(item.map(|item| (item, front)))
}

#[inline]
fn next(reader: &mut Reader, body: &mut Body, map: &Mirror) -> Result<Option<Found>, Corrupt> {
    let ring = map.ring();
    let known = match reader.is_plain() {
        true => reader.next_record(ring),
        false => reader.next_any(ring),
    };
    if let Some(frame) = known {
        return Ok(Some(Found::Record(frame)));
    }
    if !reader.is_plain() {
        // Before it is passed: without memory for it, it comes again.
        let _ = reader.look_ahead(ring);
        if let Ok(Some((Found::Large(frame, range), _))) = reader.peek(ring, reader.cursor()) {
            body.space_for(&frame, range)?;
        }
    }
    let (found, owed) = reader.next(ring).map_err(|corrupt| map.tell(corrupt))?;
    if owed {
        futex::wake(ring.space_word());
    }
    Ok(found)
}

#[inline]
fn copied<'a>(
    found: Option<Found>,
    known: u64,
    body: &'a mut Body,
    map: &Mirror,
) -> Result<Option<Item<'a>>, Corrupt> {
    let item = match found {
        Some(Found::Record(frame)) => {
            // As for a reader in place, see there.
            if frame.size <= AHEAD && known > AHEAD {
                map.prefetch(frame.pos + AHEAD);
            }
            record(&frame, body.of(map.ring(), &frame))
        }
        Some(Found::Large(frame, range)) => record(&frame, body.of_range(map, &frame, range)?),
        Some(Found::Lost(lost)) => Item::Lost(lost),
        None => return Ok(None),
    };
    // The last thing: then all that was loaded before was the file's.
    if map.is_cut() {
        return Err(Corrupt::CUT);
    }
    Ok(Some(item))
}
