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
use std::path::Path;

/// Opens the file of a location `FILE@0xOFFSET`. Returns it with the offset; `None` if the location is none such, or if no ring
/// is there.
pub(super) fn within(location: &Location) -> Option<(File, u64)> {
    let Location::File(path) = location else { return None };
    let (path, offset) = split(path)?;
    // Opening a pipe would wait for its writer.
    if !path.metadata().ok()?.is_file() {
        return None;
    }
    let file = File::open(path).ok()?;
    let mut bytes = [0; HeaderPage::LEN];
    file.read_exact_at(&mut bytes, offset).ok()?;
    let page = HeaderPage::from_bytes(&bytes).ok()?;
    let is_ring = !matches!(Layout::check(&page, u64::MAX), Err(BadRing::Foreign { .. }));
    is_ring.then_some((file, offset))
}

/// Splits `FILE@0xOFFSET`.
fn split(path: &Path) -> Option<(&Path, u64)> {
    let bytes = path.as_os_str().as_bytes();
    let at = bytes.iter().rposition(|byte| *byte == b'@')?;
    let digits = std::str::from_utf8(&bytes[at + 1..]).ok()?.strip_prefix("0x")?;
    let offset = u64::from_str_radix(digits, 16).ok()?;
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
        for none in ["a", "a@1", "a@0x", "a@0xg", "a@0x1/b", "a@0x11111111111111111"] {
            assert_eq!(path(none), None);
        }
    }
}
