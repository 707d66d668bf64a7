//! Rings on the heap, and changes of the words that any process with write access to the file can
//! change.

use perfring_abi::{Evict, Policy, Report};
use perfring_ring::heap::HeapRing;
use perfring_ring::{AuxRange, Frame, FrameWords, Next, Place, Reading, Reserved, Scale};
use perfring_testkit::choices::{Choices, Input};
use perfring_testkit::words::{Word, others, positions};

/// Slots of a shared ring, at most.
pub(crate) const MEMBERS: u32 = 4;

/// Returns a ring of some shape; a shared one if `shared`.
pub(crate) fn ring(input: &mut Input<'_>, shared: bool) -> HeapRing {
    let (sizes, shape) = (input.u8(), input.u8());
    let size = 32 << (sizes % 8);
    let policy = if shape & 1 == 0 { Policy::Drop } else { Policy::Overwrite };
    let evict = if shape & 2 == 0 { Evict::Exact } else { Evict::Half };
    let report = if shape & 4 == 0 { Report::InStream } else { Report::CountersOnly };
    let ring = HeapRing::new(size, policy).expect("a power of two");
    let ring = ring.evict(evict).report(report);
    let ring = if shape & 8 == 0 { ring } else { ring.timed() };
    // Of at most 512 bytes, so that the written records fill some of them.
    let ring = if sizes < 128 { ring } else { ring.with_aux(64 << (sizes / 8 % 4)) };
    if shared { ring.many(u32::from(shape >> 4) % MEMBERS + 1) } else { ring }
}

/// Changes a word of the header, of a slot or of the data area.
pub(crate) fn corrupt(heap: &HeapRing, input: &mut Input<'_>) {
    let which = input.u8();
    let word = match which % 4 {
        // The words that are read first.
        0 => {
            let header = heap.header();
            let area = [&header.aux.head, &header.aux.tail];
            let keys = positions(header);
            let keys = if which < 128 { &keys[..] } else { &area };
            Word::Long(keys[usize::from(which / 4) % keys.len()])
        }
        1 => {
            let words = others(heap.header(), heap.shared().slots());
            let at = input.of(words.len());
            words.into_iter().nth(at).expect("one of them")
        }
        _ => Word::Long(&heap.data()[input.of(heap.data().len())]),
    };
    let size = heap.layout().data_size;
    word.store(input.number(word.load(), size));
}

/// Returns a mostly random reading of the clocks.
pub(crate) fn reading(input: &mut Input<'_>) -> Reading {
    let clock_ns = u64::from(input.u32()) << (input.u8() % 33);
    let scale = (input.u8() % 2 == 1).then(|| Scale {
        mult: input.u32(),
        shift: u16::from(input.u8() % 33),
        zero: input.u64(),
    });
    Reading { boot: input.u8().into(), clock_ns, realtime_ns: input.u64(), error_ns: 0, scale }
}

/// Writes a reservation, in place.
pub(crate) fn fill(heap: &HeapRing, reserved: &Reserved, write: impl FnOnce(&[u8])) {
    let bytes = [7; 256];
    match reserved.range() {
        Some(range) => {
            in_area(heap, &range);
            heap.fill_range(range, &bytes[..reserved.len()]);
        }
        None => write(&bytes[..reserved.len()]),
    }
}

/// Checks that a range is inside a mapping that shows the area twice.
fn in_area(heap: &HeapRing, range: &AuxRange) {
    let size = heap.layout().aux_size;
    assert!(range.len as u64 <= size && range.end().wrapping_sub(range.at) <= size, "{range:?}");
    assert!(range.at.is_multiple_of(64), "{range:?}");
}

/// Checks an item that a reader of this ring may return.
pub(crate) fn found(found: &Next<Place>, heap: &HeapRing) {
    match found {
        Next::Record(Place::Ring(frame)) => fits(frame, heap.layout().data_size),
        Next::Record(Place::Aux(frame, range)) => {
            // The frame's length is the payload's.
            assert!(frame.size < heap.layout().data_size && frame.len == range.len, "{frame:?}");
            in_area(heap, range);
        }
        Next::Lost(_) => {}
    }
}

pub(crate) fn fits(frame: &Frame, size: u64) {
    assert!(frame.size < size.max(8), "{frame:?}");
    assert!(frame.len as u64 + 8 <= frame.size, "{frame:?}");
    assert!(frame.pos.is_multiple_of(8));
}

pub(crate) fn seen(seen: &Next<FrameWords<'_>>, heap: &HeapRing) {
    if let Next::Record((frame, words)) = seen {
        copied(frame, words, heap);
    }
}

/// Checks a record that a copying reader may return, wherever its payload was.
pub(crate) fn copied(frame: &Frame, words: &[u64], heap: &HeapRing) {
    let (size, area) = (heap.layout().data_size, heap.layout().aux_size);
    let bytes = 8 * words.len() as u64;
    assert!(frame.len <= 8 * words.len(), "{frame:?}");
    assert!(bytes <= frame.size - 8 || bytes <= area, "{frame:?}");
    assert!(frame.size < size && frame.pos.is_multiple_of(8), "{frame:?}");
}
