//! A ring inside a larger file: a disk's image, the backing file of a guest's persistent memory, a dump of memory. The
//! location `FILE@0xOFFSET` leads there if there is no file of that name, and to read only.
//!
//! Nothing of it is another process's to this kernel: it has none of the ring's locks, and its file is not the ring's.

use crate::file::location::Location;
use crate::sys::host::page_size;
use perfring_abi::{BadRing, HeaderPage, Layout};
use rustix::fs::{MemfdFlags, memfd_create};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// A file of which a location names a part.
pub(super) struct Within {
    pub(super) path: PathBuf,
    pub(super) offset: u64,
}

/// Reads a location `FILE@0xOFFSET`; `None` if it is none such, or there is no such file.
pub(super) fn within(location: &Location) -> Option<Within> {
    let Location::File(path) = location else { return None };
    let (path, offset) = split(path)?;
    path.metadata().is_ok().then(|| Within { path: path.to_owned(), offset })
}

impl Within {
    /// Opens the file.
    pub(super) fn open(&self) -> io::Result<File> {
        // Opening a pipe would wait for its writer.
        match self.path.metadata()?.is_file() {
            true => File::open(&self.path),
            false => Err(io::ErrorKind::InvalidInput.into()),
        }
    }

    /// Returns whether a ring begins there.
    pub(super) fn has_ring(&self) -> bool {
        let mut bytes = [0; HeaderPage::LEN];
        let read = self.open().and_then(|file| file.read_exact_at(&mut bytes, self.offset));
        let page = read.ok().and_then(|()| HeaderPage::from_bytes(&bytes).ok());
        page.is_some_and(|page| {
            !matches!(Layout::check(&page, u64::MAX), Err(BadRing::Foreign { .. }))
        })
    }
}

impl Location {
    /// Returns the path of the file that holds the ring: of `FILE@0xOFFSET` that is `FILE`, where no file has the longer name.
    #[doc(hidden)] // for other crates of perfring
    #[must_use]
    pub fn holder(&self) -> PathBuf {
        let path = self.path();
        match (path.exists(), within(self)) {
            (false, Some(within)) => within.path,
            _ => path,
        }
    }
}

/// Splits `FILE@0xOFFSET`.
fn split(path: &Path) -> Option<(&Path, u64)> {
    let bytes = path.as_os_str().as_bytes();
    let at = bytes.iter().rposition(|byte| *byte == b'@')?;
    let digits = std::str::from_utf8(&bytes[at + 1..]).ok()?.strip_prefix("0x")?;
    // The kernel's offsets have a sign.
    let offset =
        u64::from_str_radix(digits, 16).ok().filter(|offset| i64::try_from(*offset).is_ok())?;
    Some((Path::new(std::ffi::OsStr::from_bytes(&bytes[..at])), offset))
}

/// Returns a file to map a ring of so many bytes from, and the offset of the ring in it. It is a copy in memory where the ring
/// does not begin with a page of this machine, as in a core file: there it cannot be mapped.
pub(super) fn mappable(file: File, offset: u64, len: u64) -> io::Result<(File, u64)> {
    if offset.is_multiple_of(page_size()) {
        return Ok((file, offset));
    }
    let mut copy = File::from(memfd_create("perfring-image", MemfdFlags::CLOEXEC)?);
    (&file).seek(SeekFrom::Start(offset))?;
    match io::copy(&mut (&file).take(len), &mut copy)? {
        copied if copied == len => Ok((copy, 0)),
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            "a@0x8000000000000000",
            "a@0x11111111111111111",
        ] {
            assert_eq!(path(none), None);
        }
    }
}
