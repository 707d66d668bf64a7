//! Overlay mounts. A file in the upper directory of an overlay has two inodes with one set of pages: its
//! own inode, and the overlay's, which has the locks of processes that opened the file through the mount. Locks on one
//! inode are invisible on the other.

use std::ffi::OsString;
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Returns where an overlay shows this file too: it is in the upper directory of that overlay. `None` also
/// where this process cannot see that: the mount is in another mount namespace.
pub(crate) fn shown_at(file: &File) -> Option<PathBuf> {
    // A thread may have its own mount namespace.
    let overlays = overlays(&fs::read("/proc/thread-self/mountinfo").ok()?);
    if overlays.is_empty() {
        return None;
    }
    let path = fs::read_link(format!("/proc/thread-self/fd/{}", file.as_raw_fd())).ok()?;
    let ino = file.metadata().ok()?.ino();
    path.ancestors().skip(1).find_map(|dir| {
        let inside = path.strip_prefix(dir).ok()?;
        overlays.iter().find_map(|overlay| {
            let shown = overlay.mount.join(inside.strip_prefix(&overlay.root).ok()?);
            // A relative path was relative to the directory of the process that mounted it.
            let is_upper = match overlay.upper.is_absolute() {
                true => id(dir).is_some() && id(dir) == id(&overlay.upper),
                // An overlay shows a file of its upper directory by that file's number.
                false => {
                    dir.ends_with(&overlay.upper)
                        && fs::metadata(&shown).is_ok_and(|meta| meta.ino() == ino)
                }
            };
            is_upper.then_some(shown)
        })
    })
}

fn id(path: &Path) -> Option<(u64, u64)> {
    fs::metadata(path).ok().map(|meta| (meta.dev(), meta.ino()))
}

#[derive(Debug, PartialEq, Eq)]
struct Overlay {
    /// The directory of the overlay that is mounted, relative to its top.
    root: PathBuf,
    mount: PathBuf,
    upper: PathBuf,
}

/// Returns the overlays that can be written to, from the text of `/proc/PID/mountinfo`.
fn overlays(mountinfo: &[u8]) -> Vec<Overlay> {
    mountinfo.split(|byte| *byte == b'\n').filter_map(overlay).collect()
}

/// `36 35 0:39 ROOT MOUNT rw,relatime shared:1 - overlay overlay rw,lowerdir=l,upperdir=u,workdir=w`
fn overlay(line: &[u8]) -> Option<Overlay> {
    let mut fields = line.split(|byte| *byte == b' ');
    let (root, mount) = (fields.nth(3)?, fields.next()?);
    // Optional fields end with a dash; the type, the source and the options follow.
    let mut rest = fields.skip_while(|field| *field != b"-").skip(1);
    if rest.next()? != b"overlay" {
        return None;
    }
    let options = rest.nth(1)?.split(|byte| *byte == b',');
    let upper = options.filter_map(|option| option.strip_prefix(b"upperdir=")).next()?;
    let root = unescaped(root.strip_prefix(b"/")?);
    Some(Overlay { root, mount: unescaped(mount), upper: unescaped(upper) })
}

/// The kernel writes spaces, commas and the like as a backslash and three octal digits.
fn unescaped(text: &[u8]) -> PathBuf {
    let (mut plain, mut rest) = (Vec::new(), text);
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        let code = after.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        match code.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(code) if byte == b'\\' => {
                plain.push(code);
                rest = &after[3..];
            }
            _ => plain.push(byte),
        }
    }
    PathBuf::from(OsString::from_vec(plain))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_s_list_of_mounts_is_understood() {
        let listed = b"22 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw,upperdir=/no\n\
            65 43 0:39 / /a\\040b/merged rw,relatime shared:7 master:1 - overlay overlay rw,lowerdir=/l,\
            upperdir=/c\\054d/u,workdir=/w,uuid=on\n\
            66 43 0:40 / /read-only ro - overlay overlay ro,lowerdir=/l:/m\n\
            67 43 0:41 /sub/dir /bound rw - overlay none rw,lowerdir=l,upperdir=id/diff,workdir=id/w\n\
            cut";
        let of = |root: &str, mount: &str, upper: &str| Overlay {
            root: root.into(),
            mount: mount.into(),
            upper: upper.into(),
        };
        assert_eq!(
            overlays(listed),
            [of("", "/a b/merged", "/c,d/u"), of("sub/dir", "/bound", "id/diff")]
        );
        assert_eq!(unescaped(b"a\\1\\"), PathBuf::from("a\\1\\"), "no three digits");
    }

    #[test]
    fn a_file_that_no_overlay_shows_is_not_taken_for_another() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert_eq!(shown_at(file.as_file()), None);
    }
}
