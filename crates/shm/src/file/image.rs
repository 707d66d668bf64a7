//! A ring inside a larger file: a disk's image, the backing file of a guest's persistent memory, a dump of memory. The
//! location `FILE@0xOFFSET` leads there if there is no file of that name, and to read only.
//!
//! Processes of another kernel may write the ring. They hold no locks here, and the lengths and locks of the larger file are
//! not the ring's.

use crate::file::denied;
use crate::file::error::AttachError;
use crate::file::location::Location;
use crate::sys::host::page_size;
use perfring_abi::{BadRing, HeaderPage, Layout};
use rustix::fs::{MemfdFlags, memfd_create};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The largest ring that is copied out of its file: 1 GiB.
const COPIED_MAX: u64 = 1 << 30;
/// The bytes that are copied at a time.
const PIECE: u64 = 1 << 20;

/// A file of which a location names a part.
pub(super) struct Within {
    pub(super) path: PathBuf,
    pub(super) offset: u64,
}

/// Reads a location `FILE@0xOFFSET`. Returns `None` if something has that name, if the name has no offset, or if `FILE` is not a
/// regular file.
pub(super) fn within(location: &Location) -> Option<Within> {
    let Location::File(path) = location else { return None };
    let (file, offset) = split(path)?;
    let missing = |error: io::Error| error.kind() == io::ErrorKind::NotFound;
    let leads_there = path.symlink_metadata().is_err_and(missing)
        && file.metadata().is_ok_and(|meta| meta.is_file());
    leads_there.then(|| Within { path: file.to_owned(), offset })
}

impl Within {
    /// Opens the file to read it, with these flags of `open(2)`; `wanted` is the access that was asked for. Returns `None` if
    /// no ring begins at the offset.
    pub(super) fn open(
        &self,
        flags: i32,
        wanted: &'static str,
    ) -> Result<Option<File>, AttachError> {
        let holder = Location::File(self.path.clone());
        let opened = OpenOptions::new().read(true).custom_flags(flags).open(&self.path);
        let file = opened.map_err(|source| denied::opening(&holder, source, wanted))?;
        let mut bytes = [0; HeaderPage::LEN];
        // Another file may have taken the name since `within`.
        let is_file = file.metadata().is_ok_and(|meta| meta.is_file());
        let read = match file.read_exact_at(&mut bytes, self.offset) {
            Err(source) if is_file && source.kind() != io::ErrorKind::UnexpectedEof => {
                return Err(AttachError::Io { location: holder, step: "reading it", source });
            }
            read => is_file && read.is_ok(),
        };
        let page = HeaderPage::from_bytes(&bytes).ok().filter(|_| read);
        let is_ring = page.is_some_and(|page| {
            !matches!(Layout::check(&page, u64::MAX), Err(BadRing::Foreign { .. }))
        });
        Ok(is_ring.then_some(file))
    }
}

impl Location {
    /// Returns the path of the file that holds the ring: of `FILE@0xOFFSET` that is `FILE`, where no file has the longer name.
    #[doc(hidden)] // for other crates of perfring
    #[must_use]
    pub fn holder(&self) -> PathBuf {
        within(self).map_or_else(|| self.path(), |within| within.path)
    }
}

/// Splits `FILE@0xOFFSET`.
fn split(path: &Path) -> Option<(&Path, u64)> {
    let bytes = path.as_os_str().as_bytes();
    let at = bytes.iter().rposition(|byte| *byte == b'@')?;
    let digits = std::str::from_utf8(&bytes[at + 1..]).ok()?.strip_prefix("0x")?;
    // The kernel's offsets have a sign.
    let is_one = |offset: &u64| *offset <= i64::MAX as u64 - HeaderPage::LEN as u64;
    let offset = u64::from_str_radix(digits, 16).ok().filter(is_one)?;
    Some((Path::new(std::ffi::OsStr::from_bytes(&bytes[..at])), offset))
}

/// The place of a ring in a larger file.
#[derive(Debug)]
pub(super) struct ImagePart {
    pub(super) offset: u64,
    /// A copy of the ring: a ring that does not begin with a page of this machine, as in a core file, cannot be mapped.
    copy: OnceLock<File>,
}

impl ImagePart {
    pub(super) fn new(offset: u64) -> Self {
        ImagePart { offset, copy: OnceLock::new() }
    }

    /// Returns a file to map the ring of so many bytes from, and its offset there: this file, or a copy in memory, which is made once.
    pub(super) fn mappable<'a>(&'a self, file: &'a File, len: u64) -> io::Result<(&'a File, u64)> {
        if self.offset.is_multiple_of(page_size()) {
            return Ok((file, self.offset));
        }
        let copy = match self.copy.get() {
            Some(copy) => copy,
            None => {
                let copy = copy_out(file, self.offset, len)?;
                self.copy.get_or_init(|| copy)
            }
        };
        Ok((copy, 0))
    }
}

/// Copies a part of a file to memory.
fn copy_out(file: &File, offset: u64, len: u64) -> io::Result<File> {
    if len > COPIED_MAX {
        let why = format!(
            "it begins in the middle of a page, and such a ring is copied to memory if it has at most {COPIED_MAX} bytes: it has \
             {len}, so copy the ring to another file (`tail -c +{} FILE | head -c {len}`)",
            offset + 1
        );
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, why));
    }
    let mut copy = File::from(memfd_create("perfring-image", MemfdFlags::CLOEXEC)?);
    let (mut from, end) = (offset, offset + len);
    let mut buffer = vec![0; PIECE.min(len) as usize];
    // Not sendfile: not every file system has it.
    while from < end {
        let piece = &mut buffer[..PIECE.min(end - from) as usize];
        file.read_exact_at(piece, from).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => {
                io::Error::new(error.kind(), "the file was cut off meanwhile: try again")
            }
            _ => error,
        })?;
        copy.write_all(piece)?;
        from += piece.len() as u64;
    }
    Ok(copy)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot continue has failed")]
    use super::*;

    /// The file of a process's memory cannot be sent or mapped, like a kernel's memory in `/proc/vmcore`.
    #[test]
    fn a_file_that_can_only_be_read_is_copied() {
        let memory: Vec<u8> = (0..3_000_000u32).map(|nth| nth as u8).collect();
        let file = File::open("/proc/self/mem").unwrap();
        let at = memory.as_ptr().addr() as u64;
        let copy = copy_out(&file, at + 1, memory.len() as u64 - 1).unwrap();
        let mut copied = vec![0; memory.len() - 1];
        copy.read_exact_at(&mut copied, 0).unwrap();
        assert!(copied == memory[1..] && copy.metadata().unwrap().len() == copied.len() as u64);
    }

    #[test]
    fn a_path_is_split_at_its_last_offset() {
        let path = |text: &'static str| split(Path::new(text));
        assert_eq!(path("a@b@0x1f"), Some((Path::new("a@b"), 0x1f)));
        for none in [
            "a",
            "a@1",
            "a@0x",
            "a@0xg",
            "a@0x1/b",
            "a@0x7fffffffffffffff",
            "a@0x8000000000000000",
            "a@0x11111111111111111",
        ] {
            assert_eq!(path(none), None);
        }
    }
}
