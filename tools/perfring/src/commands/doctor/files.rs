//! Directories and file systems: present rings, leftover drafts, space and locks.

use super::report::Report;
use crate::failure::Failure;
use crate::left_out;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use perfring_abi::{BadRing, FIELDS, HeaderPage, Layout};
use perfring_consumer::Location;
use perfring_producer::files::dead_drafts;
use perfring_set::NotRead;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Returns the files with a ring's magic in a directory, and in the sets of rings per CPU in it, sorted by name.
pub(super) fn rings_in(folder: &Path) -> Vec<PathBuf> {
    let mut rings = perfring_set::paths(folder).unwrap_or_default();
    rings.retain(|path| {
        fs::symlink_metadata(path).is_ok_and(|meta| meta.is_file()) && is_ring(path)
    });
    rings
}

/// Returns the rings that a name refers to: itself, or those of a directory with those that are refused, so that each of these is
/// checked, and says why.
pub(super) fn rings_of(named: &Location) -> Result<Vec<Location>, Failure> {
    let dir = named.path();
    if !dir.is_dir() {
        return Ok(vec![named.clone()]);
    }
    let (rings, others) = perfring_set::list(&dir).map_err(Failure::general)?;
    let (refused, others): (Vec<_>, Vec<_>) = others
        .into_iter()
        .partition(|other| !matches!(other.reason, NotRead::Foreign | NotRead::Limit));
    left_out::report(&others);
    if rings.is_empty() && refused.is_empty() {
        return Err(Failure::NotFound(format!("there is no ring in {}", dir.display())));
    }
    let mut paths: Vec<_> = rings.into_iter().map(|ring| ring.path).collect();
    paths.extend(refused.into_iter().map(|ring| ring.path));
    paths.sort();
    Ok(paths.into_iter().map(Location::from).collect())
}

/// Returns whether a file has a ring's magic; the ring may still be unusable.
fn is_ring(path: &Path) -> bool {
    let Ok((bytes, len)) = header(path) else { return false };
    let page = HeaderPage::from_bytes(&bytes).map(|page| Layout::check(&page, len));
    !matches!(page, Err(_) | Ok(Err(BadRing::Foreign { .. } | BadRing::Short { .. })))
}

pub(super) fn layout_version(path: &Path) -> Option<u32> {
    let (bytes, _) = header(path).ok()?;
    let field = FIELDS.iter().find(|field| field.name == "abi_version")?;
    let version = bytes.get(field.offset..field.offset + field.size)?;
    version.try_into().ok().map(u32::from_ne_bytes)
}

/// Reads the header page of a file, and the file's length.
fn header(path: &Path) -> io::Result<([u8; HeaderPage::LEN], u64)> {
    let mut bytes = [0; HeaderPage::LEN];
    let file = File::open(path)?;
    file.read_exact_at(&mut bytes, 0)?;
    Ok((bytes, file.metadata()?.len()))
}

/// Reports rings whose creator was killed before it finished them.
pub(super) fn check_drafts(report: &mut Report, folder: &Path) -> Result<(), Failure> {
    let drafts = match dead_drafts(folder) {
        Ok(drafts) => drafts,
        Err(error) => {
            let what = format!("cannot look for unfinished rings in {}: {error}", folder.display());
            return report.note("drafts", what);
        }
    };
    if drafts.is_empty() {
        return report.ok("drafts", format!("no unfinished rings in {}", folder.display()));
    }
    for draft in drafts {
        let size = fs::metadata(&draft).map_or(0, |meta| meta.len());
        report.warn(
            "drafts",
            format!("{} was never finished and takes {size} bytes", draft.display()),
            format!(
                "remove it: perfring prune '{}', or rm '{}'",
                folder.display(),
                draft.display()
            ),
        )?;
    }
    Ok(())
}

/// Returns whether two openings of a file see each other's locks, tried on an unused byte.
pub(super) fn locks_work(path: &Path) -> io::Result<bool> {
    let range = |kind: libc::c_int| libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: libc::off_t::MAX - 1,
        l_len: 1,
        l_pid: 0, // the kernel wants it zero
    };
    let (one, other) = (File::open(path)?, File::open(path)?);
    // A read lock needs no more than read permission, and is shared with other doctors.
    match fcntl(&one, FcntlArg::F_OFD_SETLK(&range(libc::F_RDLCK))) {
        Ok(_) => {}
        Err(Errno::EINVAL | Errno::ENOLCK | Errno::ENOSYS) => return Ok(false),
        Err(errno) => return Err(errno.into()),
    }
    let mut probe = range(libc::F_WRLCK);
    fcntl(&other, FcntlArg::F_OFD_GETLK(&mut probe))?;
    Ok(libc::c_int::from(probe.l_type) != libc::F_UNLCK)
}
