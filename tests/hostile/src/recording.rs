//! Recordings: files of any bytes, and files with valid checksums and invalid frames, which may be
//! compressed, or claim to be.

use perfring_consumer::RecordRef;
use perfring_export::recording::{Existing, Options, Reader, Recording};
use perfring_export::{Compression, Event, Origin, Output as _, Rec, What, json};
use perfring_testkit::choices::{Choices, Input};
use std::cell::RefCell;
use std::io::Read;
use std::path::PathBuf;
use std::time::Instant;

pub(crate) fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let how = input.u8();
    let bytes = match how.is_multiple_of(4) {
        true => input.rest().to_vec(),
        false => {
            let built = built(&mut input, how & 64 != 0);
            let records = read(&*built.plain);
            if let Some(packed) = built.packed {
                let of_packed = read(&*packed);
                assert!(built.spoiled || of_packed == records, "{of_packed} of {records}");
                packed
            } else {
                built.plain
            }
        }
    };
    read(&*bytes);
    if how & 128 != 0 {
        append(&bytes);
    }
}

/// Reads to the end or to an error; nothing comes after that. Returns the number of records.
pub(crate) fn read(bytes: impl Read) -> u64 {
    let mut reader = match Reader::new(bytes) {
        Ok(reader) => reader,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return 0;
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
    records
}

fn see(event: &Event<'_>, records: &mut u64, line: &mut Vec<u8>) {
    if let What::Record(record) = &event.what {
        *records += 1;
        let _ = record.value();
    }
    line.clear();
    if json::encode(event, json::Integers::Number, &Default::default(), line) {
        assert!(!line.contains(&b'\n') && line.ends_with(b"}"));
    }
}

/// A recording of valid blocks with possibly invalid frames.
pub(crate) struct Built {
    pub(crate) plain: Vec<u8>,
    /// The same, compressed.
    pub(crate) packed: Option<Vec<u8>>,
    /// Whether some compressed block does not have the content that its header claims.
    pub(crate) spoiled: bool,
}

pub(crate) fn built(input: &mut Input<'_>, is_packed: bool) -> Built {
    let head = |version: u8| [&b"perfrec\n"[..], &[version, 0, 0, 0], &[version, 0, 0, 0]].concat();
    let (mut plain, mut packed, mut spoiled) = (head(1), is_packed.then(|| head(2)), false);
    let mut start = vec![1, 0, 0, 0, 56, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0];
    start.extend([0; 40]);
    block(&mut plain, 0, 0, 0, &start);
    if let Some(file) = &mut packed {
        block(file, 0, 0, PACKED, &in_block(&start, &stored(&start)));
    }
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
        let last = u32::from(how >> 3 & 1);
        block(&mut plain, before, records, last, &frames);
        if let Some(file) = &mut packed {
            let (content, is_true) = compressed(input, &frames);
            spoiled |= !is_true;
            block(file, before, records, last | PACKED, &content);
        }
        before += u64::from(records);
        if how & 0xf0 == 0xf0 {
            let torn = usize::from(input.u16());
            for file in [Some(&mut plain), packed.as_mut()].into_iter().flatten() {
                file.truncate(file.len() - torn % (file.len() + 1));
            }
            spoiled = true; // they are torn in two places
        }
    }
    Built { plain, packed, spoiled }
}

/// The flag of a compressed block.
const PACKED: u32 = 2;

/// Returns the content of a compressed block, and whether its header describes it.
fn compressed(input: &mut Input<'_>, frames: &[u8]) -> (Vec<u8>, bool) {
    let mut zstd = stored(frames);
    let how = input.u8();
    let claims = [frames.len() as u32, 64, 4 << 20, (4 << 20) + 8, u32::MAX - 7];
    let claimed = claims[usize::from(how >> 3) % claims.len()];
    match how % 8 {
        // Of another length than it claims.
        3 => (in_block_of(input.u32(), 0, &zstd), false),
        // Of another compressed length.
        4 => (in_block_of(frames.len() as u32, input.u32(), &zstd), false),
        // No frame of zstd.
        5 => {
            let at = input.of(zstd.len());
            zstd[at] ^= input.u8();
            zstd.truncate(zstd.len() - usize::from(input.u8()) % zstd.len());
            (in_block(frames, &zstd), false)
        }
        // A bomb, of up to half a GiB.
        6 => (in_block_of(claimed, 0, &bomb(usize::from(input.u16()) % 4096)), false),
        // A frame of zstd that claims any size.
        7 => {
            let mut lie = [&ZSTD[..], &[0b1110_0000]].concat();
            lie.extend(input.u64().to_le_bytes());
            lie.extend(&zstd[6..]);
            (in_block_of(claimed, 0, &lie), false)
        }
        _ => (in_block(frames, &zstd), true),
    }
}

/// The first bytes of a frame of zstd.
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Returns a frame of zstd that has these bytes as they are.
fn stored(bytes: &[u8]) -> Vec<u8> {
    // A window of 4 MiB.
    let mut frame = [&ZSTD[..], &[0, 12 << 3]].concat();
    let mut parts = bytes.chunks(128 << 10).peekable();
    while let Some(part) = parts.next() {
        let last = u32::from(parts.peek().is_none());
        frame.extend(&(last | (part.len() as u32) << 3).to_le_bytes()[..3]);
        frame.extend(part);
    }
    frame
}

/// Returns a frame of zstd of so many blocks, each 128 KiB of one byte.
fn bomb(blocks: usize) -> Vec<u8> {
    let mut frame = [&ZSTD[..], &[0, 12 << 3]].concat();
    for left in (0..=blocks).rev() {
        let last = u32::from(left == 0);
        frame.extend(&(last | 1 << 1 | (128 << 10) << 3).to_le_bytes()[..3]);
        frame.push(0);
    }
    frame
}

/// Returns the content of a block with these frames, compressed.
fn in_block(frames: &[u8], zstd: &[u8]) -> Vec<u8> {
    in_block_of(frames.len() as u32, 0, zstd)
}

/// Returns the content of a block that claims to have so many bytes, and so many more than it has
/// compressed.
fn in_block_of(claimed: u32, more: u32, zstd: &[u8]) -> Vec<u8> {
    let mut content = claimed.to_le_bytes().to_vec();
    content.extend((zstd.len() as u32).wrapping_add(more).to_le_bytes());
    content.extend(zstd);
    content.resize(content.len().next_multiple_of(8), 0);
    content
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

/// Returns a compressed recording of the program's own.
pub(crate) fn recorded() -> Vec<u8> {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("recording");
    let compression = Compression::Zstd;
    let options = Options { path: path.clone(), compression, ..Options::default() };
    let mut recording = Recording::open("seed", &options).expect("it is new");
    let origin = Origin { name: "ring".into(), timed: true, ..Origin::default() };
    for seq in 0..40 {
        let bytes = [&b"a line, "[..]; 8].concat();
        let (pos, time) = (80 * seq, Some(1000 + seq));
        let record = RecordRef { pos, kind: 4096, bytes: &bytes, time, writer: None };
        let event = Event { seq, origin: &origin, what: What::Record(Rec::new(record, &origin)) };
        recording.take(&event).expect("there is room");
        if seq % 20 == 19 {
            recording.flush().expect("there is room");
        }
    }
    recording.close(Instant::now()).expect("there is room");
    std::fs::read(&path).expect("it was written")
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
        let _ = recording.close(Instant::now());
        drop(recording);
        read(std::fs::File::open(&*path).expect("it is there"));
    });
}
