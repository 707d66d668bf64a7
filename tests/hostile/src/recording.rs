//! Recordings: files of any bytes, and files with valid checksums and invalid frames.

use perfring_export::recording::{Existing, Options, Reader, Recording};
use perfring_export::{Event, What, json};
use perfring_testkit::choices::{Choices, Input};
use std::cell::RefCell;
use std::io::Read;
use std::path::PathBuf;
use std::time::Instant;

pub(crate) fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let how = input.u8();
    let bytes = if how.is_multiple_of(4) { input.rest().to_vec() } else { built(&mut input) };
    read(&*bytes);
    if how & 128 != 0 {
        append(&bytes);
    }
}

/// Reads to the end or to an error; nothing comes after that.
fn read(bytes: impl Read) {
    let mut reader = match Reader::new(bytes) {
        Ok(reader) => reader,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return;
        }
    };
    let (mut records, mut line) = (0, Vec::new());
    loop {
        match reader.next() {
            Ok(Some(event)) => see(&event, &mut records, &mut line),
            Ok(None) => break,
            Err(error) => {
                assert!(!error.to_string().is_empty());
                assert!(matches!(reader.next(), Ok(None)), "it continues after {error}");
                break;
            }
        }
    }
    assert!(reader.totals().records >= records);
    let _ = (reader.position(), reader.machine());
}

fn see(event: &Event<'_>, records: &mut u64, line: &mut Vec<u8>) {
    if let What::Record(record) = &event.what {
        *records += 1;
        let _ = record.value();
    }
    line.clear();
    if json::encode(event, line) {
        assert!(!line.contains(&b'\n') && line.ends_with(b"}"));
    }
}

/// Returns valid blocks of possibly invalid frames.
fn built(input: &mut Input<'_>) -> Vec<u8> {
    let mut file = b"perfrec\n\x01\0\0\0\x01\0\0\0".to_vec();
    let mut start = vec![1, 0, 0, 0, 56, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0];
    start.extend([0; 40]);
    block(&mut file, 0, 0, 0, &start);
    let mut before = 0_u64;
    while !input.is_empty() {
        let mut frames = Vec::new();
        let (how, mut records) = (input.u8(), 0);
        for _ in 0..=how & 7 {
            let (what, flags) = (u16::from(input.u8() % 12), u16::from(input.u8() & 31));
            records += u32::from(what == 5);
            let mut body = input.bytes(512).to_vec();
            if what == 2 && flags & 24 != 24 {
                body = origin(&body);
            }
            let pad = body.len().next_multiple_of(8) - body.len();
            body.resize(body.len() + pad, 0);
            let change = if input.u8() == 0 { input.u32() } else { 0 };
            frames.extend(what.to_le_bytes());
            frames.extend((flags & !7 | pad as u16).to_le_bytes());
            frames.extend((8 + body.len() as u32).wrapping_add(change).to_le_bytes());
            frames.extend(body);
        }
        block(&mut file, before, records, u32::from(how >> 3 & 1), &frames);
        before += u64::from(records);
        if how & 0xf0 == 0xf0 {
            let len = usize::from(input.u16()) % (file.len() + 1);
            file.truncate(file.len() - len);
        }
    }
    file
}

/// Returns the beginning of a ring's frame, with texts that fit.
fn origin(bytes: &[u8]) -> Vec<u8> {
    let mut fixed = bytes.to_vec();
    fixed.resize(64, 0);
    fixed[0] &= 3;
    fixed[1..4].fill(0);
    for text in ["name", "home", "who"] {
        fixed.extend((text.len() as u32).to_le_bytes());
        fixed.extend(text.as_bytes());
    }
    fixed
}

/// Appends a block in the format of `proto/RECORDING.md`.
fn block(file: &mut Vec<u8>, before: u64, records: u32, flags: u32, frames: &[u8]) {
    let mut head = b"PFRB".to_vec();
    head.extend((frames.len() as u32).to_le_bytes());
    head.extend((file.len() as u64).to_le_bytes());
    head.extend(before.to_le_bytes());
    head.extend(records.to_le_bytes());
    head.extend(flags.to_le_bytes());
    head.extend(crc32fast::hash(frames).to_le_bytes());
    head.extend(crc32fast::hash(&head).to_le_bytes());
    file.extend(head);
    file.extend(frames);
}

/// Appends to the recording.
fn append(bytes: &[u8]) {
    thread_local! {
        static DIR: RefCell<Option<(tempfile::TempDir, PathBuf)>> = const { RefCell::new(None) };
    }
    DIR.with_borrow_mut(|dir| {
        let (_, path) = dir.get_or_insert_with(|| {
            let dir = tempfile::tempdir().expect("a directory");
            let path = dir.path().join("recording");
            (dir, path)
        });
        std::fs::write(&*path, bytes).expect("room for a recording");
        let options =
            Options { path: path.clone(), existing: Existing::Append, ..Options::default() };
        let Ok(mut recording) = Recording::open("fuzz", &options) else { return };
        let _ = perfring_export::Output::close(&mut recording, Instant::now());
        drop(recording);
        read(std::fs::File::open(&*path).expect("it is there"));
    });
}
