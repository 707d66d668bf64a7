//! What a file has of each ring so far: a frame at both ends of every block of a buffer. With it, what
//! damage takes is counted by ring, and reading goes on behind it.

use super::block::{BLOCK_HEAD, BLOCK_MAX};
use super::frame::{Body, COUNTS, FRAME_HEAD, Frame, put};
use super::head::HEAD;
use perfring_events::{Event, Loss, What};
use std::collections::HashMap;
use std::mem::take;

/// The limit of rings in a frame. Others are in a later one, as their counts go on.
const RINGS_MAX: usize = 4096;
/// Bytes of a frame without rings, and of each.
const FRAME: usize = FRAME_HEAD + 32;
const RING: usize = 48;
/// A flag beside the number of types: the ring has ended.
const ENDED: u32 = 1 << 31;
/// All that is in a file before anything that a program wrote into a ring is within so many bytes.
const START_MOST: u64 = 512;

/// How much a file has of a ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Count {
    /// Records, and those that reported losses count: a loss that is reported is as good as its records.
    pub(super) records: u64,
    /// Their bytes, headers included.
    pub(super) bytes: u64,
    /// The position after the last of them.
    pub(super) end: u64,
}

impl Count {
    pub(super) fn record(&mut self, pos: u64, bytes: u64) {
        self.add(pos.saturating_add(1), 1, bytes);
    }

    pub(super) fn lose(&mut self, loss: &Loss) {
        self.add(loss.pos, loss.records, loss.bytes);
    }

    fn add(&mut self, end: u64, records: u64, bytes: u64) {
        self.records = self.records.saturating_add(records);
        self.bytes = self.bytes.saturating_add(bytes);
        self.end = self.end.max(end);
    }
}

/// The same, with what identifies the ring.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RingCount {
    /// Its number in the file.
    pub(super) id: u32,
    /// How many types it has there, since its last ORIGIN.
    pub(super) types: u32,
    pub(super) has_ended: bool,
    pub(super) uuid: [u8; 16],
    pub(super) count: Count,
}

/// The content of a frame.
#[derive(Debug, Default)]
pub(super) struct Counts {
    /// When the file was begun. The programs whose records are in it do not know that, so none can pass
    /// off a payload as a frame.
    pub(super) began: u64,
    /// The offset of the block's end.
    pub(super) end: u64,
    /// Events of the file up to there.
    pub(super) events: u64,
    /// Rings of which anything is new.
    pub(super) rings: Vec<RingCount>,
}

impl Counts {
    fn put(&self, out: &mut Vec<u8>) {
        let mut body = (self.rings.len() as u32).to_le_bytes().to_vec();
        let mut longs = |longs: &[u64]| longs.iter().for_each(|n| body.extend(n.to_le_bytes()));
        longs(&[self.began, self.end, self.events]);
        for ring in &self.rings {
            let types = ring.types | if ring.has_ended { ENDED } else { 0 };
            longs(&[u64::from(ring.id) | u64::from(types) << 32]);
            let uuid = u128::from_le_bytes(ring.uuid);
            longs(&[uuid as u64, (uuid >> 64) as u64]);
            longs(&[ring.count.records, ring.count.bytes, ring.count.end]);
        }
        put(out, COUNTS, 0, |out| {
            out.extend(crc32fast::hash(&body).to_le_bytes());
            out.extend(body);
        });
    }

    /// Parses a frame of this kind that is intact.
    pub(super) fn parse(mut body: Body<'_>) -> Option<Self> {
        if body.word()? != crc32fast::hash(body.0) {
            return None;
        }
        let count = body.word()?;
        let [began, end, events] = [body.long()?, body.long()?, body.long()?];
        let mut ring = || {
            let (id, types) = (body.word()?, body.word()?);
            let uuid = body.array()?;
            let count = Count { records: body.long()?, bytes: body.long()?, end: body.long()? };
            let has_ended = types & ENDED != 0;
            Some(RingCount { id, types: types & !ENDED, has_ended, uuid, count })
        };
        // No more than the frame has room for.
        let rings = (0..count).map(|_| ring()).collect::<Option<_>>()?;
        Some(Counts { began, end, events, rings })
    }

    /// Searches bytes from this offset of a file for the first such frame: of the file that was begun
    /// then, or if that is not known, of its first block.
    pub(super) fn find(bytes: &[u8], at: u64, began: u64) -> Option<Self> {
        let most = if began == 0 { START_MOST.saturating_sub(at) as usize } else { usize::MAX };
        (0..bytes.len().min(most)).step_by(8).find_map(|from| {
            let frame = Frame::first(&bytes[from..]).filter(|frame| frame.what == COUNTS)?;
            let mut body = frame.body;
            let (_, its) = (body.long()?, body.long()?);
            // Before its checksum: that of a long payload takes long.
            if began != 0 && its != began {
                return None;
            }
            let counts = Counts::parse(frame.body)?;
            (counts.end >= at + (from + frame.size) as u64).then_some(counts)
        })
    }
}

/// What a file that is written has of its rings.
#[derive(Debug, Default)]
pub(super) struct Noted {
    pub(super) began: u64,
    events: u64,
    rings: HashMap<u32, Note>,
    /// How many are in the last block.
    listed: usize,
    /// That block, as it is written.
    block: Vec<u8>,
}

#[derive(Debug, Default)]
struct Note {
    ring: RingCount,
    /// Whether something of it is not in a block yet.
    is_new: bool,
    /// Whether the block that is filled has its origin or types for the first time,
    is_told: bool,
    /// and whether they are to be repeated in the next one with an event of it: damage to one block
    /// does not take both.
    is_due: bool,
}

impl Note {
    fn tell(&mut self, repeats: bool) {
        self.is_new = true;
        self.is_told |= !repeats;
    }
}

impl Noted {
    /// Returns whether the origin and the types of a ring are to be repeated now.
    pub(super) fn repeats(&mut self, id: u32) -> bool {
        self.rings.get_mut(&id).is_some_and(|note| take(&mut note.is_due))
    }

    /// Notes that a ring's origin is in the block, to be followed by its types.
    pub(super) fn origin(&mut self, id: u32, uuid: [u8; 16], repeats: bool) {
        let note = self.rings.entry(id).or_default();
        note.ring = RingCount { id, uuid, types: 0, ..note.ring };
        note.tell(repeats);
    }

    /// Notes that one of its types is.
    pub(super) fn type_of(&mut self, id: u32, repeats: bool) {
        let note = self.rings.entry(id).or_default();
        note.ring.types += 1;
        note.tell(repeats);
    }

    /// Notes an event.
    pub(super) fn event(&mut self, event: &Event<'_>) {
        self.events += 1;
        let note = self.rings.entry(event.origin.id).or_default();
        note.is_new = true;
        match &event.what {
            What::Record(record) => note.ring.count.record(record.pos, record.ring_bytes()),
            What::Lost(loss) => note.ring.count.lose(loss),
            What::Began => {}
            What::Ended => note.ring.has_ended = true,
        }
    }

    /// The next block has all rings.
    pub(super) fn list_all(&mut self) {
        self.rings.values_mut().for_each(|note| note.is_new = true);
    }

    /// Puts a block, whose header is at this offset of the file, between two such frames. The first
    /// one of the file begins with its START as ever.
    pub(super) fn enclose(&mut self, block: &[u8], at: u64) -> &mut Vec<u8> {
        let (head, frames) = block.split_at(BLOCK_HEAD);
        let room = (BLOCK_MAX.saturating_sub(frames.len()) / 2).saturating_sub(FRAME) / RING;
        let new = self.rings.values().filter(|note| note.is_new).map(|note| note.ring);
        let rings: Vec<RingCount> = new.take(room.min(RINGS_MAX)).collect();
        self.listed = rings.len();
        let end = at + (block.len() + 2 * (FRAME + RING * rings.len())) as u64;
        let counts = Counts { began: self.began, end, events: self.events, rings };
        let mut frame = Vec::new();
        counts.put(&mut frame);
        let (first, second) = if at == HEAD as u64 { (frames, &*frame) } else { (&*frame, frames) };
        self.block.clear();
        for part in [head, first, second, &frame] {
            self.block.extend_from_slice(part);
        }
        &mut self.block
    }

    /// Notes that the last block is written.
    pub(super) fn written(&mut self) {
        let new = self.rings.values_mut().filter(|note| note.is_new);
        new.take(self.listed).for_each(|note| note.is_new = false);
        self.rings.values_mut().for_each(|note| note.is_due |= take(&mut note.is_told));
        self.rings.retain(|_, note| note.is_new || !note.ring.has_ended);
    }
}
