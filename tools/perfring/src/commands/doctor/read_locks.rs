//! Read locks on a ring's file: each keeps others from attaching. No program of perfring takes one, but a doctor for
//! a moment, on a byte that no ring uses (`files::locks_work`).

use super::report::Report;
use crate::failure::Failure;
use perfring_consumer::Location;
use std::fs::{self, DirEntry, Metadata};
use std::os::unix::fs::MetadataExt;

pub(super) fn check(report: &mut Report, location: &Location) -> Result<(), Failure> {
    let Ok(ring) = fs::metadata(location.path()) else { return Ok(()) };
    let mut found = false;
    for process in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = process.file_name().to_str().and_then(|name| name.parse::<u32>().ok())
        else {
            continue;
        };
        if pid != std::process::id() && has_read_lock(&process, &ring) {
            found = true;
            let name = fs::read_to_string(process.path().join("comm")).unwrap_or_default();
            report.warn(
                "read locks",
                format!("{} (pid {pid}) has a read lock on it, which keeps others from attaching", name.trim()),
                "end that process, and let only the ring's readers open it: by its mode, or its directory's",
            )?;
        }
    }
    if !found && is_read_locked(&ring) {
        found = true;
        report.warn(
            "read locks",
            "a process that cannot be seen from here has a read lock on it, which keeps others from attaching",
            "run this as root, and outside containers",
        )?;
    }
    if found { Ok(()) } else { report.ok("read locks", "none") }
}

/// Whether a process has the file open, and a read lock through that descriptor.
fn has_read_lock(process: &DirEntry, ring: &Metadata) -> bool {
    let descriptors = fs::read_dir(process.path().join("fd")).into_iter().flatten().flatten();
    let of_ring = |descriptor: &DirEntry| {
        fs::metadata(descriptor.path())
            .is_ok_and(|meta| (meta.dev(), meta.ino()) == (ring.dev(), ring.ino()))
    };
    descriptors.filter(of_ring).any(|descriptor| {
        let info = process.path().join("fdinfo").join(descriptor.file_name());
        fs::read_to_string(info).is_ok_and(|info| {
            info.lines()
                .filter(|line| line.starts_with("lock:"))
                .any(|line| line.contains(" READ "))
        })
    })
}

/// Whether the kernel lists a read lock of this file, whoever has it.
fn is_read_locked(ring: &Metadata) -> bool {
    let (major, minor) = (nix::sys::stat::major(ring.dev()), nix::sys::stat::minor(ring.dev()));
    let file = format!(" {major:02x}:{minor:02x}:{} ", ring.ino());
    fs::read_to_string("/proc/locks").is_ok_and(|locks| {
        locks.lines().any(|lock| lock.contains(" READ ") && lock.contains(&file))
    })
}
