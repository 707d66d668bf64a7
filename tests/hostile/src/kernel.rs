//! A kernel ring with any content, read by its consumer and as a recorder's, and the decoding of its records.

use crate::heap::{self, corrupt};
use perfring_abi::RecordWord;
use perfring_abi::atomic::Ordering;
use perfring_kernel::EventKind;
use perfring_kernel::fuzz::{Decoded, decoded};
use perfring_ring::{KernelCopy, KernelFrame, KernelReader};
use perfring_testkit::choices::{Choices, Input};
use perfring_types::read::TypeTable;
use std::sync::OnceLock;

pub(crate) fn run(data: &[u8]) {
    static TYPES: OnceLock<TypeTable> = OnceLock::new();
    let types = TYPES.get_or_init(perfring_kernel::types);
    let mut input = Input::new(data);
    let heap = heap::ring(&mut input, false);
    let (ring, size) = (heap.ring(), heap.layout().data_size);
    let event = input.one(&EventKind::ALL);
    let (mut reader, mut cursor) = (None, 0);
    let (mut body, mut payload, mut head) = (Vec::new(), Vec::new(), 0_u64);
    let mut copy = KernelCopy::default();
    let mut decode = |frame: &KernelFrame, body: &[u64]| {
        assert_eq!(body.len(), frame.words());
        match decoded(frame, body, event, &mut payload) {
            Some((_, Decoded::Record(id))) => {
                let kind = types.get(id).expect("a type for each record");
                let value = kind.decode(&payload).expect("what we wrote, we read");
                let _ = kind.render_text(&value);
            }
            Some((_, Decoded::Lost(..))) => assert!(payload.is_empty()),
            None => {}
        }
    };
    while !input.is_empty() {
        match input.u8() % 8 {
            0 => corrupt(&heap, &mut input),
            // Like the kernel: a header and words, and then the head.
            1..4 => {
                let kind = u32::from(input.u8() % 18) + 1;
                let misc = input.u16();
                let words = input.bytes(200).chunks(8).map(|part| {
                    let mut word = [0; 8];
                    word[..part.len()].copy_from_slice(part);
                    u64::from_le_bytes(word)
                });
                let mut at = head + 8;
                for word in words {
                    ring_word(&heap, at, word);
                    at += 8;
                }
                let size = (at - head) as u16;
                ring_word(&heap, head, RecordWord::pack(kind, misc, size).raw());
                head = at;
                heap.header().data_head.store(head, Ordering::Relaxed);
            }
            4 => {
                reader = KernelReader::attach(ring).ok();
                cursor = reader.as_ref().map_or(0, KernelReader::released);
            }
            5 | 6 => {
                let Some(reader) = &mut reader else { continue };
                let _ = reader.poll(ring);
                while let Ok(Some(frame)) = reader.peek(ring, cursor) {
                    assert!(frame.size < size && frame.end() > cursor);
                    decode(&frame, reader.copy(ring, &frame, &mut body));
                    cursor = frame.end();
                }
            }
            7 if input.u8().is_multiple_of(2) => {
                // As if the kernel had written backward up to here.
                let before = heap.header().data_head.load(Ordering::Relaxed);
                let head = input.number(head, size).wrapping_neg();
                heap.header().data_head.store(head, Ordering::Relaxed);
                let taken = copy.take(ring);
                heap.header().data_head.store(before, Ordering::Relaxed);
                let frames = copy.frames();
                assert!(taken.is_ok() || frames.is_empty());
                let sizes: u64 = frames.iter().map(|frame| frame.size).sum();
                assert!(sizes < size && sizes <= copy.written());
                for frame in &frames {
                    assert!(frame.end() <= sizes);
                    decode(frame, copy.body(frame));
                }
            }
            _ => {
                if let Some(reader) = &mut reader {
                    reader.release(ring, input.number(cursor, size));
                    assert!(reader.released() <= reader.head());
                }
            }
        }
    }
}

fn ring_word(heap: &perfring_ring::heap::HeapRing, pos: u64, word: u64) {
    let data = heap.data();
    data[(pos / 8) as usize % data.len()].store(word, Ordering::Relaxed);
}
