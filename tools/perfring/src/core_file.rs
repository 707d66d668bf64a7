//! The parts of a file that are memory or a disk, each in one piece: of a core file its segments, of any other all of it.

use bytemuck::{Pod, Zeroable};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// `PN_XNUM`: the number of segments is in the first section's `info`.
const MANY: u16 = 0xffff;
/// More segments than any machine's memory has.
const SEGMENTS_MAX: u32 = 1 << 20;

/// A file of at least this length may be the image of a disk or of memory, if it has whole sectors.
const IMAGE_MIN: u64 = 1 << 20;
const SECTOR: u64 = 512;

/// A part of a file whose pages follow each other there as in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    /// Where it begins in the file.
    pub(crate) offset: u64,
    pub(crate) len: u64,
    /// Its bytes if the file were long enough.
    pub(crate) whole: u64,
    /// The address of its first byte: where pages begin follows from it.
    pub(crate) address: u64,
    /// The address is a physical one: the file is no core file of a process.
    pub(crate) is_physical: bool,
}

/// `Elf64_Ehdr`
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct ElfHeader {
    ident: [u8; 16],
    kind: u16,
    machine: u16,
    version: u32,
    entry: u64,
    segments_at: u64,
    sections_at: u64,
    flags: u32,
    size: u16,
    segment_size: u16,
    segments: u16,
    section_size: u16,
    sections: u16,
    names: u16,
}

/// `Elf64_Phdr`
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct ElfSegment {
    kind: u32,
    flags: u32,
    offset: u64,
    virtual_address: u64,
    physical: u64,
    in_file: u64,
    in_memory: u64,
    align: u64,
}

/// `Elf64_Shdr`
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct ElfSection {
    name_and_kind: [u32; 2],
    flags: u64,
    address: u64,
    offset: u64,
    size: u64,
    link: u32,
    info: u32,
    align: u64,
    entry_size: u64,
}

/// `ET_CORE`
const CORE: u16 = 4;
/// `PT_LOAD`
const LOAD: u32 = 1;
/// `ELFDATA2MSB`, in `ident[5]`
const BIG_ENDIAN: u8 = 2;
/// 64 bits, little-endian.
const IDENT: [u8; 6] = *b"\x7fELF\x02\x01";

/// Files that hold pages in another order than memory, or compressed, by their first bytes, with what to do.
const OTHERS: [(&[u8], &str); 6] = [
    (
        b"KDUMP   ",
        "it is a compressed kdump file: dump it as an ELF core with `makedumpfile -E -d 16`, or under qemu with \
         `dump-guest-memory` without -z, -l and -s",
    ),
    (
        b"DISKDUMP",
        "it is a compressed diskdump file: dump it as an ELF core with `makedumpfile -E -d 16`",
    ),
    (
        b"makedumpfile\0",
        "it is a flattened dump: `makedumpfile -R NEW < FILE` makes it a dump again",
    ),
    (b"QFI\xfb", "it is a qcow2 image: `qemu-img convert -O raw FILE NEW` makes it a raw one"),
    (b"\x28\xb5\x2f\xfd", "it is compressed: `zstd -d FILE` first"),
    (b"\x1f\x8b", "it is compressed: `gunzip FILE` first"),
];

/// Reads one of the structs above. `None` beyond the end of the file.
fn read<T: Pod>(file: &File, offset: u64) -> Option<T> {
    let mut value = T::zeroed();
    file.read_exact_at(bytemuck::bytes_of_mut(&mut value), offset).ok()?;
    Some(value)
}

/// Says how the rings are found in a file that is a core file, one that has to be converted first, or maybe an image. `None` for
/// other files.
pub(crate) fn advice(path: &Path) -> Option<String> {
    let file = File::open(path).ok().filter(|_| path.is_file())?;
    let name = path.display();
    if is_core(&file) {
        return Some(format!("it is a core file: `perfring dump {name}` finds the rings in it"));
    }
    if let Some(why) = other(&file).ok()? {
        return Some(format!("{why}; then `perfring dump --image NEW` finds the rings in it"));
    }
    let len = file.metadata().ok()?.len();
    (len >= IMAGE_MIN && len.is_multiple_of(SECTOR)).then(|| {
        format!(
            "if it is the image of a disk or of memory, `perfring dump --image {name}` finds the rings in it"
        )
    })
}

/// Says what to do first with a file that holds pages in another order than memory, or compressed.
fn other(file: &File) -> io::Result<Option<&'static str>> {
    let mut first = [0; 16];
    let read_bytes = file.read_at(&mut first, 0)?;
    let first = &first[..read_bytes];
    Ok(OTHERS.iter().find(|(magic, _)| first.starts_with(magic)).map(|(_, why)| *why))
}

/// Returns whether a file is a core file.
pub(crate) fn is_core(file: &File) -> bool {
    read::<ElfHeader>(file, 0).is_some_and(|header| {
        let kind = header.kind.to_ne_bytes();
        let kind = match header.ident[5] {
            BIG_ENDIAN => u16::from_be_bytes(kind),
            _ => u16::from_le_bytes(kind),
        };
        header.ident.starts_with(b"\x7fELF") && kind == CORE
    })
}

/// Returns the segments of a file, by their offsets, and without overlaps; or what to do first.
pub(crate) fn segments(file: &File, len: u64) -> io::Result<Vec<Segment>> {
    let refuse = |why: &str| io::Error::new(io::ErrorKind::InvalidData, why.to_owned());
    if let Some(why) = other(file)? {
        return Err(refuse(why));
    }
    if !is_core(file) {
        let all = Segment { offset: 0, len, whole: u64::MAX, address: 0, is_physical: true };
        return Ok(vec![all]);
    }
    let cut = || refuse("it is a core file whose list of segments is cut off: dump it again");
    let header: ElfHeader = read(file, 0).ok_or_else(cut)?;
    if !header.ident.starts_with(&IDENT) {
        return Err(refuse(
            "it is a core file of 32 bits or of another byte order: perfring reads those of 64 bits, little-endian",
        ));
    }
    if usize::from(header.segment_size) != size_of::<ElfSegment>() {
        return Err(refuse("it is a core file with a list of segments that no kernel writes"));
    }
    let count = match header.segments {
        MANY => read::<ElfSection>(file, header.sections_at).ok_or_else(cut)?.info,
        count => count.into(),
    };
    if count > SEGMENTS_MAX {
        let why = "more than any machine's memory has: dump it again";
        return Err(refuse(&format!("it is a core file of {count} segments, {why}")));
    }
    let mut listed = Vec::new();
    for nth in 0..u64::from(count) {
        let at = header.segments_at.checked_add(nth * size_of::<ElfSegment>() as u64);
        let segment: ElfSegment = at.and_then(|at| read(file, at)).ok_or_else(cut)?;
        if segment.kind == LOAD && segment.in_file > 0 {
            listed.push(segment);
        }
    }
    // The core file of a process has no physical addresses.
    let is_physical = listed.iter().any(|segment| segment.physical != 0)
        || listed.iter().all(|segment| segment.virtual_address == 0);
    let of = |segment: &ElfSegment| {
        let ElfSegment { offset, in_file: whole, physical, virtual_address, .. } = *segment;
        // What is beyond the end was not written: a disk was full.
        let len = whole.min(len.saturating_sub(offset));
        let address = if is_physical { physical } else { virtual_address };
        Segment { offset, len, whole, address, is_physical }
    };
    let mut segments: Vec<Segment> = listed.iter().map(of).collect();
    segments.sort_by_key(|segment| (segment.offset, segment.len));
    // No byte is looked at twice, whatever the list says.
    let mut end = 0;
    segments.retain_mut(|segment| {
        let skip = end.max(segment.offset) - segment.offset;
        segment.len = segment.len.saturating_sub(skip);
        segment.whole = segment.whole.saturating_sub(skip);
        segment.offset = segment.offset.saturating_add(skip);
        segment.address = segment.address.wrapping_add(skip);
        end = end.max(segment.offset.saturating_add(segment.len));
        segment.whole > 0
    });
    // A process has a ring in several mappings, one after the other.
    segments.dedup_by(|next, segment| {
        let follows = segment.offset.checked_add(segment.whole) == Some(next.offset)
            && segment.address.checked_add(segment.whole) == Some(next.address);
        if follows {
            segment.len = segment.len.saturating_add(next.len);
            segment.whole = segment.whole.saturating_add(next.whole);
        }
        follows
    });
    Ok(segments)
}
