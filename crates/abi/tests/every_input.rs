//! The header word and the layout check, for all inputs and not for many: what follows from a few bits is tried with all
//! of them.
#![allow(clippy::unwrap_used)]

use perfring_abi::{
    AUX_SIZE_MAX, AUX_SIZE_MIN, CONSUMERS_MAX, CPUS_MAX, DATA_SIZE_MAX, DATA_SIZE_MIN, Evict,
    FEATURE_CONSUMERS, FEATURE_CPU, FIELDS, HeaderPage, Hole, Layout, MAGIC, Policy, Producers,
    RecordType, RecordWord, Report, SLOTS_MAX, TYPES_SIZE_MAX,
};
use std::iter::once;

/// Types of every class: application's, the kernel's, perfring's.
const KINDS: [u32; 9] = [0, 2, 9, 11, 64, 4096, RecordType::NOP, RecordType::BUSY, u32::MAX];

/// What ABI.md says of a word that is a record's: the payload's length follows from size and padding.
fn expected_len(misc: u16, size: u16) -> Option<usize> {
    let (pad, size) = (usize::from(misc % 8), usize::from(size));
    (size % 8 == 0 && size >= 8 + pad).then(|| size - 8 - pad)
}

#[test]
fn every_size_and_misc_is_a_length_or_none() {
    let halves = [0..=0x7fff, 0x8000..=0xffff_u16];
    std::thread::scope(|scope| {
        for half in halves {
            scope.spawn(move || {
                for size in half {
                    for misc in 0..=u16::MAX {
                        let word = RecordWord::pack(RecordType::BYTES.get(), misc, size);
                        assert_eq!(word.payload_len(), expected_len(misc, size), "{misc} {size}");
                    }
                }
            });
        }
    });
}

#[test]
fn every_word_has_the_fields_that_it_was_packed_from() {
    for kind in KINDS {
        for misc in [0, 1, 7, 8, 0x7fff, 0x8000, u16::MAX] {
            for size in 0..=u16::MAX {
                let word = RecordWord::from_raw(RecordWord::pack(kind, misc, size).raw());
                assert_eq!((word.kind(), word.misc(), word.size()), (kind, misc, size.into()));
                assert_eq!(word.payload_len(), expected_len(misc, size));
                let is_busy = kind == RecordType::BUSY;
                assert_eq!(word.owner(), is_busy.then_some(u32::from(misc & 0x7fff) >> 3));
                assert_eq!(word.is_busy_aux(), is_busy && misc >> 15 == 1);
            }
        }
    }
}

#[test]
fn every_word_that_a_producer_makes_is_read_as_it_was_made() {
    for len in 0..=65_520 {
        for kind in KINDS.into_iter().filter_map(RecordType::new) {
            let word = RecordWord::of(kind, len);
            assert_eq!((word.kind(), word.payload_len()), (kind.get(), Some(len)));
            assert!(word.is_data() && word.is_plain() && word.owner().is_none());
        }
    }
    for size in (8..=65_528).step_by(8) {
        for hole in [Hole::Discarded, Hole::Reclaimed, Hole::Rest] {
            let word = RecordWord::nop(size, hole);
            assert_eq!((word.size(), Hole::of(word.misc())), (size, hole));
            assert!(!word.is_data() && !word.is_plain() && word.payload_len().is_some());
        }
        for slot in 0..SLOTS_MAX {
            let word = RecordWord::busy(size, slot);
            assert_eq!((word.size(), word.owner()), (size, Some(slot)));
            assert!(!word.is_busy_aux() && word.payload_len().is_some());
        }
    }
    for slot in 0..SLOTS_MAX {
        let word = RecordWord::busy_aux(slot);
        assert_eq!((word.owner(), word.is_busy_aux()), (Some(slot), true));
    }
}

/// A ring of one page, for one producer.
const SMALLEST: Layout = Layout {
    consumers: 0,
    metrics_size: 0,
    page_size: 4096,
    data_size: 4096,
    policy: Policy::Drop,
    evict: Evict::Exact,
    report: Report::InStream,
    producers: Producers::One,
    cpu: 0,
    slots: 1,
    time: false,
    sample_id: false,
    created_ns: 0,
    creator_pid: 0,
    creator_uid: 0,
    uuid: [0; 16],
    boot_id: [0; 16],
    types_size: 0,
    aux_size: 0,
};

/// Powers of two, what is beside them, and nothing.
fn sizes(to: u32) -> impl Iterator<Item = u64> + Clone {
    let beside = (0..to).map(|bit| 1u64 << bit).flat_map(|size| [size - 1, size, size + 1]);
    once(0).chain(beside).chain([u64::MAX])
}

/// What ABI.md says of the sizes of a ring.
fn is_possible(layout: &Layout) -> bool {
    let page = u64::from(layout.page_size);
    let power = |size: u64, from: u64, to| size.is_power_of_two() && (from..=to).contains(&size);
    power(page, 4096, 1 << 20)
        && power(layout.data_size, DATA_SIZE_MIN.max(page), DATA_SIZE_MAX)
        && layout.types_size.is_multiple_of(page)
        && layout.types_size <= TYPES_SIZE_MAX
        && (layout.aux_size == 0 || power(layout.aux_size, AUX_SIZE_MIN.max(page), AUX_SIZE_MAX))
        && match layout.producers {
            Producers::One => layout.slots == 1,
            Producers::Many | Producers::Cpu => (1..=SLOTS_MAX).contains(&layout.slots),
        }
        && layout.cpu < CPUS_MAX
        && (layout.consumers == 0
            || (layout.consumers <= CONSUMERS_MAX
                && layout.policy == Policy::Drop
                && layout.producers != Producers::Cpu
                && layout.aux_size == 0))
        && (!layout.sample_id
            || (layout.producers == Producers::Cpu && layout.time && layout.aux_size == 0))
}

fn set(page: &mut HeaderPage, name: &str, value: u64) {
    let field = FIELDS.iter().find(|field| field.name == name).unwrap();
    let bytes = &mut bytemuck::bytes_of_mut(page)[field.offset..][..field.size];
    bytes.copy_from_slice(&value.to_le_bytes()[..field.size]);
}

fn get(page: &HeaderPage, name: &str) -> u64 {
    let field = FIELDS.iter().find(|field| field.name == name).unwrap();
    u64::from_le_bytes(bytemuck::bytes_of(page)[field.offset..][..8].try_into().unwrap())
}

/// Makes the page of a layout that no ring can have, with the offsets that would follow from it: nothing but its sizes is
/// wrong.
fn impossible(layout: &Layout) -> HeaderPage {
    let aux_size = if layout.aux_size == 0 { 0 } else { AUX_SIZE_MIN };
    let like = Layout {
        page_size: 4096,
        data_size: 4096,
        types_size: 0,
        aux_size,
        consumers: 0,
        ..*layout
    };
    let mut page = Layout { slots: 1, ..like }.to_page();
    let page_size = u64::from(layout.page_size);
    let control_size = match page_size {
        0 => 0,
        _ => (u64::from(layout.slots) * 1024).next_multiple_of(page_size),
    };
    let control = page_size.wrapping_add(layout.data_size);
    let types = control.wrapping_add(control_size);
    let aux = types.wrapping_add(layout.types_size);
    let consumers = aux.wrapping_add(layout.aux_size);
    let seats = match page_size {
        0 => 0,
        _ => (u64::from(layout.consumers) * 512).next_multiple_of(page_size),
    };
    let named = if layout.consumers == 0 { 0 } else { FEATURE_CONSUMERS };
    let bits = get(&page, "features_required") | named;
    for (name, value) in [
        ("page_size", page_size),
        ("data_size", layout.data_size),
        ("types_size", layout.types_size),
        ("slot_count", layout.slots.into()),
        ("aux_size", layout.aux_size),
        ("data_offset", page_size),
        ("control_offset", control),
        ("control_size", control_size),
        ("types_offset", if layout.types_size == 0 { 0 } else { types }),
        ("aux_offset", if layout.aux_size == 0 { 0 } else { aux }),
        ("consumer_count", layout.consumers.into()),
        ("consumers_offset", if layout.consumers == 0 { 0 } else { consumers }),
        ("consumers_size", seats),
        ("features_required", bits),
        ("file_size", consumers.wrapping_add(seats)),
        ("magic", MAGIC),
    ] {
        set(&mut page, name, value);
    }
    page
}

/// Checks a layout's page, for files of about its size. Returns whether it was accepted.
fn checked(layout: &Layout) -> bool {
    if !is_possible(layout) {
        let page = impossible(layout);
        assert!(Layout::check(&page, u64::MAX).is_err(), "{layout:?}");
        return false;
    }
    let mut page = layout.to_page();
    set(&mut page, "magic", MAGIC);
    let size = layout.file_size();
    assert_eq!(Layout::check(&page, size), Ok(*layout));
    assert_eq!(Layout::check(&page, u64::MAX), Ok(*layout));
    assert!(Layout::check(&page, size - 1).is_err() && Layout::check(&page, 0).is_err());
    // One after the other, each in whole pages, without an overlap or a gap.
    let page = u64::from(layout.page_size);
    let mut at = page;
    let areas = layout.areas();
    let sizes = [layout.types_size, layout.aux_size, layout.metrics_size];
    assert_eq!([&areas.types, &areas.aux, &areas.metrics].map(|of| of.end - of.start), sizes);
    assert_eq!(areas.data.end - areas.data.start, layout.data_size);
    let slots = areas.control.end - areas.control.start;
    for of in [areas.data, areas.control, areas.types, areas.aux, areas.consumers, areas.metrics] {
        assert!(of == (0..0) || (of.start == at && at % page == 0), "{layout:?}");
        at = at.checked_add(of.end - of.start).unwrap();
    }
    assert_eq!(at, size);
    assert!(u64::from(layout.slots) * 1024 <= slots);
    assert!(layout.record_size(layout.max_small_len()) < layout.data_size);
    true
}

#[test]
fn every_shape_of_a_ring_is_accepted_or_refused_as_the_document_says() {
    let (mut accepted, mut refused) = (0, 0);
    let mut count = |layout: &Layout| match checked(layout) {
        true => accepted += 1,
        false => refused += 1,
    };
    for page_size in sizes(31).filter_map(|size| u32::try_from(size).ok()) {
        for data_size in sizes(64) {
            for producers in [Producers::One, Producers::Many, Producers::Cpu] {
                for slots in [0, 1, 2, 4, 5, SLOTS_MAX - 1, SLOTS_MAX, SLOTS_MAX + 1, u32::MAX] {
                    count(&Layout { page_size, data_size, producers, slots, ..SMALLEST });
                }
            }
        }
        for cpu in sizes(32).filter_map(|cpu| u32::try_from(cpu).ok()) {
            let (data_size, producers) = (1 << 20, Producers::Cpu);
            count(&Layout { page_size, data_size, producers, cpu, ..SMALLEST });
        }
        for types_size in sizes(40) {
            for (aux_size, time) in sizes(64).zip([false, true].into_iter().cycle()) {
                let data_size = 1 << 20;
                count(&Layout { page_size, data_size, types_size, aux_size, time, ..SMALLEST });
            }
        }
        for consumers in [1, 8, CONSUMERS_MAX, CONSUMERS_MAX + 1, u32::MAX] {
            for policy in [Policy::Drop, Policy::Overwrite] {
                for (producers, aux_size) in [
                    (Producers::One, 0),
                    (Producers::Many, 0),
                    (Producers::Cpu, 0),
                    (Producers::One, 1 << 20),
                ] {
                    let like = Layout { page_size, data_size: 1 << 20, ..SMALLEST };
                    count(&Layout { producers, policy, aux_size, consumers, ..like });
                }
            }
        }
        for producers in [Producers::One, Producers::Many, Producers::Cpu] {
            for (time, aux_size) in [(false, 0), (true, 0), (false, 1 << 20), (true, 1 << 20)] {
                let like = Layout { page_size, data_size: 1 << 20, ..SMALLEST };
                count(&Layout { producers, time, aux_size, sample_id: true, ..like });
            }
        }
    }
    println!("{accepted} accepted, {refused} refused");
    assert!(accepted > 1000 && refused > 100_000);
}

#[test]
fn a_ring_per_cpu_has_a_bit_of_its_own_and_no_other_ring_has() {
    for code in (0..=u16::MAX.into()).chain([u32::MAX]) {
        for bits in [0, FEATURE_CPU] {
            let mut page = SMALLEST.to_page();
            for (name, value) in
                [("magic", MAGIC), ("producers", u64::from(code)), ("features_required", bits)]
            {
                set(&mut page, name, value);
            }
            let found = Layout::check(&page, SMALLEST.file_size()).map(|layout| layout.producers);
            match Producers::from_code(code) {
                Some(producers) if (producers == Producers::Cpu) == (bits != 0) => {
                    assert_eq!(found, Ok(producers));
                }
                _ => assert!(found.is_err(), "{code} {bits}: {found:?}"),
            }
        }
    }
}
