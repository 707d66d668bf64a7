//! Records that a kernel need not write.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

use super::*;
use crate::records::types;
use perfring_types::read::Value;

fn frame(kind: u32, misc: u16, body: &[u64]) -> KernelFrame {
    KernelFrame { pos: 0, kind, misc, size: 8 + 8 * body.len() as u64 }
}

/// Makes a word of two halves, in memory's order.
fn pair(first: u32, second: u32) -> u64 {
    let [a, b, c, d] = first.to_ne_bytes();
    let [e, f, g, h] = second.to_ne_bytes();
    u64::from_ne_bytes([a, b, c, d, e, f, g, h])
}

fn text(bytes: &[u8]) -> Vec<u64> {
    let mut bytes = bytes.to_vec();
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    bytes.chunks(8).map(|word| u64::from_ne_bytes(word.try_into().unwrap())).collect()
}

fn id() -> [u64; 4] {
    [pair(10, 11), 777, pair(1, 0), 5]
}

/// Decodes a record with nothing but the type table.
fn read(kind: u32, misc: u16, body: &[u64]) -> (u64, String, Value) {
    read_of(EventKind::PageFaults, kind, misc, body)
}

fn read_of(event: EventKind, kind: u32, misc: u16, body: &[u64]) -> (u64, String, Value) {
    let mut payload = vec![9; 100]; // from the record before
    let (time, what) = decode(&frame(kind, misc, body), body, event, &mut payload).unwrap();
    let What::Record(id) = what else { panic!("{what:?}") };
    let types = types();
    let kind = types.get(id).unwrap();
    (time, kind.name.clone(), kind.decode(&payload).unwrap())
}

fn shown(kind: u32, misc: u16, body: &[u64]) -> String {
    let (time, name, value) = read(kind, misc, body);
    format!("{time} {name} {value}")
}

#[test]
fn each_record_is_shown_by_its_type() {
    let with_id = |body: &[u64]| [body, &id()].concat();
    let fault = [5, 0x1000, pair(10, 11), 777, 0x2000, pair(1, 0), 1];
    let all = [
        shown(9, 2, &fault),
        read_of(EventKind::CpuClock, 9, 1, &fault).1,
        read_of(EventKind::Tasks, 9, 6, &fault).1,
        shown(3, 0, &with_id(&[&[pair(20, 21)], &text(b"a name")[..]].concat())),
        shown(
            3,
            1 << 13,
            &with_id(&[&[pair(20, 21)], &text(b"more than sixteen bytes")[..]].concat()),
        ),
        shown(7, 0, &with_id(&[pair(30, 31), pair(32, 33), 776])),
        shown(4, 0, &with_id(&[pair(30, 31), pair(32, 33), 776])),
        shown(5, 0, &with_id(&[1, 2, 3])),
        shown(6, 0, &with_id(&[1, 2, 3])),
        shown(14, 0, &id()),
        shown(14, 1 << 13, &id()),
        shown(14, 3 << 13, &id()),
        shown(15, 1 << 13, &with_id(&[pair(40, 41)])),
        shown(
            10,
            0,
            &with_id(
                &[
                    &[pair(10, 11), 4096, 8192, 1, pair(8, 1), 99, 0, pair(5, 2)],
                    &text(b"/bin/\xff")[..],
                ]
                .concat(),
            ),
        ),
        shown(33, 4, &with_id(&[u64::from_ne_bytes(*b"eight by")])),
    ];
    println!("{}", all.join("\n"));
    let task = r#""pid":10,"tid":11,"cpu":1"#;
    assert_eq!(all[0].split_once(' ').unwrap().0, "777");
    assert!(all[0].contains("perf.PageFault"));
    let json = |kind, misc, body: &[u64]| serde_json::to_string(&read(kind, misc, body).2).unwrap();
    assert_eq!(
        json(9, 2, &fault),
        format!(r#"{{{task},"mode":"user","period":1,"ip":4096,"addr":8192}}"#)
    );
    assert_eq!((&*all[1], &*all[2]), ("perf.CpuClock", "perf.Sample"));
    assert_eq!(json(14, 0, &id()), format!(r#"{{{task},"switched":"in"}}"#));
    assert_eq!(json(14, 1 << 13, &id()), format!(r#"{{{task},"switched":"out"}}"#));
    assert_eq!(json(14, 3 << 13, &id()), format!(r#"{{{task},"switched":"preempted"}}"#));
    assert!(all[4].contains("more than sixtee") && !all[4].contains("sixteen"));
    assert!(all[13].contains("/bin/\u{fffd}") && all[13].contains("perf.Mmap2"));
    assert!(all[14].contains("perf.Other"));
}

#[test]
fn losses_have_a_number_and_a_cause() {
    let (event, mut payload) = (EventKind::Tasks, Vec::new());
    let full = [&[5, 12], &id()[..]].concat();
    let decoded = decode(&frame(2, 0, &full), &full, event, &mut payload);
    assert_eq!(decoded, Some((777, What::Lost(12, Cause::Full))));
    let processor = [&[13], &id()[..]].concat();
    let decoded = decode(&frame(13, 0, &processor), &processor, event, &mut payload);
    assert_eq!(decoded, Some((777, What::Lost(13, Cause::Foreign))));
}

#[test]
fn any_record_of_any_length_is_decoded_or_refused() {
    let types = types();
    let (mut decoded, mut refused, mut payload) = (0, 0, Vec::new());
    for kind in (0..64).chain([4096, 0x5046_0001, u32::MAX]) {
        let event = EventKind::ALL[kind as usize % EventKind::ALL.len()];
        for words in (0..64).chain([8190]) {
            for fill in [0, 1, 7, u64::MAX, 0x4141_4141_4141_4141] {
                for misc in [0, 0xffff, 1 << 13] {
                    let body = vec![fill; words];
                    match decode(&frame(kind, misc, &body), &body, event, &mut payload) {
                        Some((time, What::Record(id))) => {
                            assert_eq!(time, fill);
                            let kind = types.get(id).unwrap();
                            kind.decode(&payload).unwrap();
                            decoded += 1;
                        }
                        Some((_, What::Lost(lost, _))) => assert_eq!(lost, fill),
                        None => {
                            assert!(words < 12, "type {kind} of {words} words");
                            refused += 1;
                        }
                    }
                }
            }
        }
    }
    println!("{decoded} decoded, {refused} refused");
    assert!(decoded > 10_000 && refused > 1_000);
}

#[test]
fn every_schema_can_be_read_and_ids_are_distinct() {
    let types = types();
    assert_eq!((types.len(), types.damage().len()), (crate::records::SCHEMAS.len(), 0));
    for schema in &crate::records::SCHEMAS {
        let kind = types.get(schema.id).unwrap();
        assert_eq!(kind.name, schema.name);
        assert!(!kind.help.is_empty() && kind.fields.iter().all(|field| !field.help.is_empty()));
    }
}
