//! Rings in an image, by the magic of their first pages.

use crate::core_file::{Segment, segments};
use perfring_abi::{BadRing, FIELDS, HeaderPage, Layout, MAGIC};
use rustix::fs::{SeekFrom, seek};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// The smallest page of any machine: a ring begins with a page.
const PAGE: u64 = 4096;
/// Bytes that are read at a time.
const CHUNK: u64 = 1 << 20;
/// Rings beyond this number are only counted, and so are first pages without a ring: an image may hold a file of forged first
/// pages.
const MOST: usize = 1000;

/// The first page of a ring.
#[derive(Clone, Debug)]
pub(super) struct Found {
    /// Where it is in the file.
    pub(super) offset: u64,
    /// Its physical address, if that is known; in an image, its offset.
    pub(super) physical: Option<u64>,
    /// The ring's shape, if the ring can begin here.
    pub(super) layout: Result<Layout, BadRing>,
    /// It lies inside the ring at this offset.
    pub(super) inside: Option<u64>,
    /// Bytes from here on that would be memory if the file were long enough.
    pub(super) room: u64,
}

impl Found {
    /// Returns whether it is a ring of which the image lacks the end.
    pub(super) fn is_cut(&self) -> bool {
        matches!(self.layout, Err(BadRing::Truncated { .. }))
    }

    /// Returns why no ring can begin here.
    pub(super) fn fault(&self) -> Option<String> {
        self.layout.as_ref().err().map(ToString::to_string)
    }
}

/// What was found in an image.
#[derive(Clone, Debug, Default)]
pub(super) struct Scan {
    pub(super) found: Vec<Found>,
    /// The rings and the first pages without a ring in `found`.
    rings: usize,
    bad: usize,
    /// More rings than are in `found`.
    pub(super) more: u64,
    /// More first pages without a ring than are in `found`.
    pub(super) more_bad: u64,
    /// Bytes of memory that the file lacks, because it was cut off.
    pub(super) missing: u64,
    /// Bytes that were looked at.
    pub(super) bytes: u64,
}

impl Scan {
    /// Looks for rings in an open file. `stop` is asked now and then.
    pub(super) fn of<E: From<io::Error>>(
        file: &File,
        mut stop: impl FnMut() -> Result<(), E>,
    ) -> Result<Self, E> {
        let len = file.metadata()?.len();
        let mut scan = Scan::default();
        let mut buffer = vec![0; CHUNK as usize];
        for segment in segments(file, len)? {
            if segment.whole != u64::MAX {
                scan.missing = scan.missing.saturating_add(segment.whole - segment.len);
            }
            if segment.len == 0 {
                continue;
            }
            let end = segment.offset + segment.len;
            let mut at = segment.offset + segment.address.wrapping_neg() % PAGE;
            while at < end {
                stop()?;
                at += data_after(file, at, end)?.saturating_sub(at) / PAGE * PAGE;
                let piece = (end - at).min(CHUNK) as usize;
                let piece = &mut buffer[..piece];
                file.read_exact_at(piece, at)?;
                for (nth, page) in piece.chunks(PAGE as usize).enumerate() {
                    scan.look(page, at + nth as u64 * PAGE, &segment);
                }
                scan.bytes += piece.len() as u64;
                at += CHUNK;
            }
        }
        Ok(scan)
    }

    /// Notes a page if it is the first of a ring.
    fn look(&mut self, page: &[u8], offset: u64, segment: &Segment) {
        let magic = page.get(magic_at()..).and_then(|bytes| bytes.first_chunk());
        if magic.is_none_or(|magic| u64::from_ne_bytes(*magic) != MAGIC) {
            return;
        }
        let Ok(header) = HeaderPage::from_bytes(page) else { return };
        let layout = Layout::check(&header, segment.offset + segment.len - offset);
        // The magic is a word, which the texts of programs have, too.
        if matches!(layout, Err(BadRing::Endian)) {
            return;
        }
        let (shown, more) = match layout {
            Ok(_) => (&mut self.rings, &mut self.more),
            Err(_) => (&mut self.bad, &mut self.more_bad),
        };
        if *shown == MOST {
            *more += 1;
            return;
        }
        *shown += 1;
        let holds = |found: &&Found| {
            found.layout.is_ok_and(|layout| offset < found.offset + layout.file_size())
        };
        // Those are in the order of their offsets, inside a segment.
        let inside = self.found.iter().rev().find(holds).map(|found| found.offset);
        let address = segment.address.wrapping_add(offset - segment.offset);
        let physical = segment.is_physical.then_some(address);
        let room = segment.whole.saturating_sub(offset - segment.offset);
        self.found.push(Found { offset, physical, layout, inside, room });
    }
}

/// Returns where the next data of a file is, at or after an offset: a disk's image has large holes.
fn data_after(file: &File, at: u64, end: u64) -> io::Result<u64> {
    match seek(file, SeekFrom::Data(at)) {
        Ok(data) => Ok(data.min(end)),
        Err(rustix::io::Errno::NXIO) => Ok(end),
        Err(_) => Ok(at), // a file system that does not know
    }
}

/// Returns where the magic is in a first page.
fn magic_at() -> usize {
    FIELDS.iter().find(|field| field.name == "magic").map_or(0, |field| field.offset)
}
