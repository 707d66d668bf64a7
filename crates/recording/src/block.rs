//! Blocks: the unit of writing, with a checksum and the count of earlier records.

use super::error::Missing;
use std::io::{self, Read};

/// Bytes of a block's header.
pub(super) const BLOCK_HEAD: usize = 40;
/// The limit of frame bytes in a block.
pub(super) const BLOCK_MAX: usize = 4 << 20;
/// The first bytes of a block.
const MAGIC: [u8; 4] = *b"PFRB";
/// A flag: no block follows.
const LAST: u32 = 1;
/// A flag: its frames are compressed.
const PACKED: u32 = 2;
/// Bytes before compressed frames: how many they are uncompressed, and compressed.
const PACKED_HEAD: usize = 8;

/// A block's header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct BlockHead {
    /// Bytes of its frames as they are in the file.
    pub(super) len: u32,
    /// Its offset in the file, so that a copy of a block in some payload is not taken for one.
    pub(super) at: u64,
    /// Records in the file before this block.
    pub(super) before: u64,
    /// Records in it.
    pub(super) records: u32,
    /// Whether the recording ends with it.
    pub(super) is_last: bool,
    /// Whether its frames are compressed.
    pub(super) is_packed: bool,
    /// CRC-32 of its frames.
    pub(super) crc: u32,
}

impl BlockHead {
    pub(super) fn to_bytes(self) -> [u8; BLOCK_HEAD] {
        let mut bytes = [0; BLOCK_HEAD];
        bytes[0..4].copy_from_slice(&MAGIC);
        bytes[4..8].copy_from_slice(&self.len.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.at.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.before.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.records.to_le_bytes());
        let last = if self.is_last { LAST } else { 0 };
        let flags = last | if self.is_packed { PACKED } else { 0 };
        bytes[28..32].copy_from_slice(&flags.to_le_bytes());
        bytes[32..36].copy_from_slice(&self.crc.to_le_bytes());
        let crc = crc32fast::hash(&bytes[..36]);
        bytes[36..40].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Parses a header that may be at this offset of a file.
    pub(super) fn parse(bytes: &[u8; BLOCK_HEAD], at: u64) -> Option<Self> {
        let word = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|nth| bytes[at + nth]));
        let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
        let head = BlockHead {
            len: word(4),
            at: long(8),
            before: long(16),
            records: word(24),
            is_last: word(28) & LAST != 0,
            is_packed: word(28) & PACKED != 0,
            crc: word(32),
        };
        let good = bytes[..4] == MAGIC
            && word(36) == crc32fast::hash(&bytes[..36])
            && head.at == at
            && head.len.is_multiple_of(8)
            && head.len as usize <= BLOCK_MAX;
        good.then_some(head)
    }

    /// Returns the records in the file up to the end of this block.
    pub(super) fn until(&self) -> u64 {
        self.before.saturating_add(self.records.into())
    }
}

/// Fills `out` with room for a header, and these frames as they are when `packed` is what they are
/// compressed.
pub(super) fn put_packed(frames: &[u8], packed: &[u8], out: &mut Vec<u8>) {
    out.clear();
    out.resize(BLOCK_HEAD, 0);
    out.extend_from_slice(&(frames.len() as u32).to_le_bytes());
    out.extend_from_slice(&(packed.len() as u32).to_le_bytes());
    out.extend_from_slice(packed);
    out.resize(out.len().next_multiple_of(8), 0);
}

/// Returns how many bytes a compressed block has uncompressed, and what to decompress.
pub(super) fn packed(block: &[u8]) -> Option<(usize, &[u8])> {
    let (head, rest) = block.split_first_chunk::<PACKED_HEAD>()?;
    let word = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|nth| head[at + nth])) as usize;
    let is_block = word(0).is_multiple_of(8) && word(0) <= BLOCK_MAX;
    rest.get(..word(4)).filter(|_| is_block).map(|packed| (word(0), packed))
}

/// Reads as much as there is, up to the length of `into`.
pub(super) fn fill(input: &mut impl Read, into: &mut [u8]) -> io::Result<usize> {
    let mut len = 0;
    while len < into.len() {
        match input.read(&mut into[len..]) {
            Ok(0) => break,
            Ok(more) => len += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(len)
}

/// Searches what follows a damage, from offset `at` on, for the headers of later blocks. `known` is
/// the header of the damaged block, if it is intact. Returns the number of bytes, and how many
/// records they held if `read` were read before.
pub(super) fn survey(
    rest: &mut impl Read,
    at: u64,
    known: Option<BlockHead>,
    read: u64,
) -> io::Result<(u64, Missing)> {
    const WINDOW: usize = 64 << 10;
    let mut last = known;
    let mut window = vec![0; WINDOW];
    let (mut kept, mut place) = (0, at); // bytes at the window's beginning, and its offset
    loop {
        let len = kept + fill(rest, &mut window[kept..])?;
        let mut next = 0;
        while let Some(bytes) = window[..len].get(next..).and_then(|rest| rest.first_chunk()) {
            if bytes[..4] == MAGIC
                && let Some(head) = BlockHead::parse(bytes, place + next as u64)
                && last.is_none_or(|last| head.before >= last.before)
            {
                last = Some(head);
            }
            next += 8;
        }
        if len < WINDOW {
            let missing = match last {
                None => Missing::Unknown,
                Some(last) => {
                    let records = last.until().saturating_sub(read);
                    if last.is_last { Missing::Exactly(records) } else { Missing::AtLeast(records) }
                }
            };
            return Ok((place + len as u64 - at, missing));
        }
        let next = next.min(len);
        window.copy_within(next..len, 0);
        (kept, place) = (len - next, place + next as u64);
    }
}
