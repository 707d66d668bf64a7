//! Invalid ring files: one wrong value, several consistent values, or random bytes.

use crate::choices::Choices;
use crate::image::{Image, at, slot_at};
use crate::nasty::{INVALID_LOCKS, LOCKS, bits, records, reservations, values};
use crate::rng::Rng;
use crate::size::every;
use perfring_abi::{FIELDS, RecordType, RecordWord};

/// Drop rings of different kinds to start from.
pub const DROP: [&str; 5] =
    ["drop_wrapped_with_losses", "drop_foreign_reader", "timed_drop", "aux_drop", "named_drop"];

/// Overwrite rings of different kinds to start from.
pub const OVERWRITE: [&str; 4] =
    ["overwrite_wrapped", "overwrite_half", "killed_between_mark_and_tail", "aux_overwrite"];

/// Shared rings to start from. The last has an open reservation, for which all processes wait a
/// little.
pub const SHARED: [&str; 5] = [
    "shared_drop",
    "shared_overwrite_lapped",
    "timed_shared",
    "aux_shared",
    "shared_killed_with_open",
];

/// Returns these golden files.
#[must_use]
pub fn golden(names: &[&'static str]) -> Vec<Image> {
    names.iter().map(|name| Image::golden(name)).collect()
}

/// An invalid ring file, and a description of its error.
pub type Case = (String, Image);

/// Returns the bytes of the header's fields, in pieces of up to eight: name, offset, size.
fn pieces() -> impl Iterator<Item = (&'static str, usize, usize)> {
    FIELDS.iter().flat_map(|field| {
        let step = field.size.min(8);
        // A few of the reserved words represent all of them.
        let words = match field.name {
            "reserved" => 3,
            "anchors" => 8,
            _ => field.size / step,
        };
        (0..words).map(move |word| (field.name, field.offset + word * step, step))
    })
}

/// Returns whether a field changes while a ring is in use; the others are its shape.
fn is_live(offset: usize) -> bool {
    offset >= at("tail_mark").start
        || (at("data_head").start..at("data_tail").end).contains(&offset)
}

/// Returns every value in every field of the header, each on one ring of `of`: this is the `nth`.
/// Single bits are changed only in the ring's shape; the bits of other fields are changed in rings
/// in memory.
pub fn fields(base: &Image, nth: usize, of: usize) -> impl Iterator<Item = Case> {
    let mut taken = every(nth, of);
    let cases = pieces().flat_map(|(name, offset, size)| {
        let old = base.get(offset, size);
        let shape = if is_live(offset) { 0 } else { size * 8 };
        let all = values(old, size * 8, 4096).into_iter().chain(bits(old, shape));
        all.map(move |value| (name, offset, size, value))
    });
    cases.filter(move |_| taken()).map(|(name, offset, size, value)| {
        let what = format!("{}: {name} at {offset} is {value:#x}", base.name);
        (what, base.with(offset, size, value))
    })
}

/// Returns every value in every word that the producers of a shared ring share: positions, lock,
/// running totals, marks, totals, and the first two slots; each on one ring of `of`. Locks that no
/// process can hold are left out: each of them takes time.
pub fn shared_words(base: &Image, nth: usize, of: usize) -> impl Iterator<Item = Case> {
    let mut taken = every(nth, of);
    let places = [
        at("data_head").start..at("data_tail").end,
        at("shared_lock").start..at("recover_byte").end,
        at("tail_mark").start..at("producer_totals").end,
        slot_at(&base.bytes, 0),
        slot_at(&base.bytes, 1),
    ];
    let cases = places.into_iter().flat_map(|place| place.step_by(8)).flat_map(|offset| {
        let old = base.get(offset, 8);
        let all = values(old, 64, 4096).into_iter().chain(reservations(4096)).chain(LOCKS);
        let is_lock = offset == at("shared_lock").start;
        all.filter(move |value| !is_lock || value & 0xffff <= 5).map(move |value| (offset, value))
    });
    cases.filter(move |_| taken()).map(|(offset, value)| {
        (format!("{}: byte {offset} is {value:#x}", base.name), base.with(offset, 8, value))
    })
}

/// Returns images with a lock that no process can hold.
pub fn invalid_locks(base: &Image) -> impl Iterator<Item = (u64, Image)> {
    INVALID_LOCKS.into_iter().map(|lock| {
        let mut image = base.clone();
        image.set_field("shared_lock", lock);
        (lock, image)
    })
}

/// Returns every wrong header word in every word of the data area, each on one ring of `of`; for
/// shared rings also the words of open reservations, some with another reservation open further on.
pub fn data(base: &Image, nth: usize, of: usize) -> impl Iterator<Item = Case> {
    let mut taken = every(nth, of);
    let shared = base.is_shared();
    let area = base.data();
    let start = area.start;
    let cases = area.step_by(8).flat_map(move |offset| {
        let old = base.get(offset, 8);
        let mut all = records(4096);
        all.extend([0, u64::MAX, old ^ 1 << 48, old ^ 1 << 51, old ^ 1 << 63]);
        if shared {
            all.extend(reservations(4096));
        }
        all.into_iter().map(move |value| (offset, value))
    });
    cases.enumerate().filter(move |_| taken()).map(move |(index, (offset, value))| {
        let mut image = base.with(offset, 8, value);
        if shared && index % 3 == 0 {
            image.set_field("producer_pos", base.word("producer_pos") + 64);
        }
        (format!("{}: data at {} is {value:#x}", base.name, offset - start), image)
    })
}

/// Returns images with a record at the tail that would end beyond the mapping, and a head that
/// permits it.
pub fn long_records(base: &Image) -> impl Iterator<Item = Case> {
    let tail = base.word("data_tail");
    let at = base.data().start + (tail % 4096) as usize;
    let sizes = [8u16, 16, 24, 4088, 4096, 8192, 65_528];
    [4088, 4096, 8192, 65_528, 65_536, 1 << 40].into_iter().flat_map(move |ahead| {
        sizes.into_iter().flat_map(move |size| {
            [4096, RecordType::NOP, RecordType::LOST].into_iter().map(move |kind| {
                let word = RecordWord::pack(kind, 0, size).raw();
                let mut image = base.with(at, 8, word);
                image.set_field("data_head", tail + ahead);
                let what = format!("{}: {ahead} bytes, of them {size} of type {kind}", base.name);
                (what, image)
            })
        })
    })
}

/// Writes one copy of a sequence latch so that it is consistent, or not.
fn forge(image: &mut Image, rng: &mut Rng, seq_latch: &str) {
    let words = at(seq_latch).len() / 16;
    let start = at(seq_latch).start + rng.index(2) * words * 8;
    for offset in (start..start + words * 8).step_by(8) {
        if rng.below(2) == 0 {
            spoil(image, rng, offset);
        }
    }
    if rng.below(4) != 0 {
        let first = image.get(start, 8);
        image.set(start + (words - 1) * 8, 8, first);
    }
}

fn spoil(image: &mut Image, rng: &mut Rng, offset: usize) {
    let old = image.get(offset, 8);
    let value = match rng.below(4) {
        0 => old.wrapping_add(8 * rng.below(600)).wrapping_sub(8 * 300),
        _ => rng.number(old, 4096),
    };
    image.set(offset, 8, value);
}

/// Changes all positions, in a consistent order.
fn positions(image: &mut Image, rng: &mut Rng) {
    let tail = rng.below(1 << 40) & !7;
    let head = tail + (rng.below(4096) & !7);
    let end = if image.is_shared() { head + (rng.below(4096) & !7) } else { 0 };
    for (field, value) in [("data_tail", tail), ("data_head", head), ("producer_pos", end)] {
        image.set_field(field, value);
    }
    let mark = at("tail_mark").start;
    image.set(mark, 8, tail);
    image.set(mark + 24, 8, tail);
    let totals = at("producer_totals").start;
    for copy in [0, 224] {
        let pos = head - (rng.below(head - tail + 1) & !7);
        image.set(totals + copy + 8, 8, pos);
    }
}

/// Makes up to four consistent changes.
#[must_use]
pub fn several(base: &Image, rng: &mut Rng) -> Image {
    let (mut image, data) = (base.clone(), base.data());
    let kinds = if base.is_shared() { 11 } else { 7 };
    for _ in 0..=rng.below(3) {
        match rng.below(kinds) {
            0 => forge(&mut image, rng, "producer_totals"),
            1 => forge(&mut image, rng, "consumer_totals"),
            2 => forge(&mut image, rng, "tail_mark"),
            3 => positions(&mut image, rng),
            4 => {
                for _ in 0..8 {
                    let offset = data.start + 8 * rng.index(512);
                    spoil(&mut image, rng, offset);
                }
            }
            // The whole area is holes, or records of the smallest size.
            5 => {
                let kind = if rng.below(2) == 0 { RecordType::NOP } else { 4096 };
                fill(&mut image, RecordWord::pack(kind, 0, 8));
            }
            6 => {
                let offset = at("data_head").start + 8 * rng.index(2);
                spoil(&mut image, rng, offset);
            }
            7 => {
                let slot = slot_at(&base.bytes, rng.below(4) as u32).start;
                let offset = slot + 8 * rng.index(96);
                spoil(&mut image, rng, offset);
            }
            8 => {
                for _ in 0..8 {
                    let offset = data.start + 8 * rng.index(512);
                    let open = RecordWord::busy(8 * rng.below(40), rng.below(5) as u32);
                    image.set(offset, 8, open.raw());
                }
            }
            // The whole area is open reservations of the smallest size, or holes that one left.
            9 => match rng.below(2) {
                0 => fill(&mut image, RecordWord::pack(RecordType::NOP, 8, 8)),
                _ => fill(&mut image, RecordWord::busy(8, rng.below(5) as u32)),
            },
            _ => {
                image.set_field("producer_pos", rng.below(9000) & !7);
                image.set_field("shared_lock", rng.below(6));
            }
        }
    }
    // A lock that no process can hold makes all of them wait, and is tested elsewhere.
    if image.is_shared() && image.word("shared_lock") & 0xffff > 5 {
        image.set_field("shared_lock", 0);
    }
    image
}

fn fill(image: &mut Image, word: RecordWord) {
    for offset in image.data().step_by(8) {
        image.set(offset, 8, word.raw());
    }
}

/// Returns random bytes behind a header of the right shape, or instead of it.
#[must_use]
pub fn random(base: &Image, rng: &mut Rng, round: u64) -> Image {
    let mut image = Image { name: base.name, bytes: rng.bytes(base.bytes.len()) };
    if !round.is_multiple_of(4) {
        for kept in [at("magic").start..at("tail_mark").start, at("data_offset"), at("data_size")] {
            image.bytes[kept.clone()].copy_from_slice(&base.bytes[kept]);
        }
    }
    if !round.is_multiple_of(2) {
        let tail = 8 * rng.below(1000);
        image.set_field("data_tail", tail);
        image.set_field("data_head", tail + 8 * rng.below(511));
    }
    if round.is_multiple_of(4) {
        image.bytes.truncate(rng.index(20_000));
    }
    image
}
