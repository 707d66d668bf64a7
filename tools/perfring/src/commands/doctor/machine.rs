//! The machine: /dev/shm, its space, and what the kernel can do.

use super::files;
use super::report::{Report, SHM};
use crate::args::show_size;
use crate::failure::Failure;
use nix::unistd::{AccessFlags, Uid, eaccess};
use perfring_consumer::{advanced::MachineClock, files::FileSystem};
use perfring_producer::error::CpuSetError;
use perfring_shm::{CpuThread, RseqRegistration};
use rustix::thread::{MembarrierCommand, membarrier_query};
use std::path::Path;

/// Docker's default for a container.
const DOCKER_SHM: u64 = 64 << 20;
/// A ring of the default size, with its control pages.
const ONE_RING: u64 = (1 << 20) + (128 << 10);

pub(super) fn check(report: &mut Report) -> Result<(), Failure> {
    let (version, layout) = (env!("CARGO_PKG_VERSION"), perfring_abi::ABI_VERSION);
    report.ok("version", format!("perfring {version}, layout version {layout}"))?;
    shm(report)?;
    let page = rustix::param::page_size();
    report.ok("pages", format!("{page} bytes"))?;
    clock(report)?;
    rseq(report)?;
    if membarrier_query().contains_command(MembarrierCommand::GlobalExpedited) {
        report.ok("membarrier", "available: a sleeping consumer costs its producer no fence")
    } else {
        report.note(
            "membarrier",
            "not available (an old kernel, or a seccomp filter): producers execute a fence for each \
             record, and sleepers poll every 20 ms"
                .to_owned(),
        )
    }
}

/// Reports the clock of rings with timestamps.
fn clock(report: &mut Report) -> Result<(), Failure> {
    match MachineClock::find() {
        Ok(clock) if clock.has_counter() => {
            report.ok("clock", "timestamps come from the processor's counter, which the kernel trusts")
        }
        Ok(_) => report.note(
            "clock",
            "timestamps come from clock_gettime, some 20 ns each: the kernel does not keep its time by the \
             processor's counter"
                .to_owned(),
        ),
        Err(error) => report.warn(
            "clock",
            error.to_string(),
            "attach to rings with time from a process that has entered its time namespace",
        ),
    }
}

/// Reports whether there can be rings per CPU, and in which mode the kernel has this program's threads.
fn rseq(report: &mut Report) -> Result<(), Failure> {
    match CpuThread::registration() {
        Ok(found) if found.is_extensible() == found.can_be_extensible() => {
            report.ok("rseq", mode(found))
        }
        Ok(found) => report.note("rseq", mode(found)),
        Err(source) => report.note("rseq", CpuSetError::Rseq { source }.to_string()),
    }
}

/// Says who registers threads for restartable sequences, and in which mode.
fn mode(found: RseqRegistration) -> String {
    let RseqRegistration { by_libc, len, kernel_len } = found;
    let who = if by_libc { "the C library" } else { "perfring" };
    let registers = format!(
        "rings per CPU can be used: {who} registers each thread for restartable sequences, with {len} bytes"
    );
    let slower = "original mode, in which this kernel does more at each context switch and signal";
    match (found.is_extensible(), found.can_be_extensible()) {
        (true, _) => format!("{registers} (the extensible mode)"),
        (false, false) => format!("{registers} (the original mode; this kernel has no other)"),
        (false, true) if by_libc => format!(
            "{registers} (the {slower}). glibc 2.41 and newer register {kernel_len} bytes (the extensible mode)"
        ),
        (false, true) => format!(
            "{registers} (the {slower}). The extensible mode takes {kernel_len} bytes: this version of perfring has no \
             room for them, or the kernel has refused"
        ),
    }
}

fn shm(report: &mut Report) -> Result<(), Failure> {
    let path = Path::new(SHM);
    let fs = match FileSystem::of(path) {
        Ok(fs) => fs,
        Err(error) => {
            return report.fail(
                "shm",
                format!("{SHM} cannot be used: {error}"),
                format!("mount it: mount -t tmpfs -o mode=1777 tmpfs {SHM}"),
            );
        }
    };
    let mut mount = format!("{SHM}: {}, {} in all", fs.name(), about(fs.size()));
    if fs.name() == "tmpfs" && fs.size() == DOCKER_SHM {
        mount += ", as Docker gives by default: for more, start the container with --shm-size";
    }
    if !fs.is_memory() {
        let advice = format!("mount a tmpfs there: mount -t tmpfs -o mode=1777 tmpfs {SHM}");
        report.warn(
            SHM,
            format!("{mount}: not in memory, so rings there are written to disk"),
            advice,
        )?;
    } else if fs.size() <= DOCKER_SHM {
        report.note("shm", mount)?;
    } else {
        report.ok("shm", mount)?;
    }
    if eaccess(path, AccessFlags::W_OK | AccessFlags::X_OK).is_ok() {
        report.ok("access", format!("rings can be created in {SHM}"))?;
    } else {
        let uid = Uid::effective();
        report.warn(
            "access",
            format!("uid {uid} cannot create rings in {SHM}"),
            format!(
                "it should have mode 1777: chmod 1777 {SHM} as root, or create rings elsewhere"
            ),
        )?;
    }
    let free = format!("{} free in {SHM}", about(fs.free()));
    if fs.free() >= ONE_RING {
        report.ok("space", free)?;
    } else {
        let advice = "remove unused files, or make the file system larger: mount -o \
                    remount,size=...";
        report.warn("space", format!("{free}: no room for another ring"), advice)?;
    }
    files::check_drafts(report, path)
}

/// Formats a size with a unit, to a tenth.
pub(super) fn about(bytes: u64) -> String {
    for (shift, unit) in [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")] {
        if bytes >> shift > 0 {
            return format!("{:.1} {unit}", bytes as f64 / (1u64 << shift) as f64);
        }
    }
    show_size(bytes)
}

#[cfg(test)]
mod tests {
    use super::mode;
    use perfring_shm::RseqRegistration;

    #[test]
    fn each_mode_of_restartable_sequences_is_named() {
        let of = |by_libc, len, kernel_len| mode(RseqRegistration { by_libc, len, kernel_len });
        let slower =
            "the original mode, in which this kernel does more at each context switch and signal";
        let cases = [
            (
                of(true, 32, 0),
                "the C library",
                "32 bytes (the original mode; this kernel has no other)",
            ),
            (
                of(false, 32, 28),
                "perfring",
                "32 bytes (the original mode; this kernel has no other)",
            ),
            (of(true, 33, 33), "the C library", "33 bytes (the extensible mode)"),
            (of(false, 33, 33), "perfring", "33 bytes (the extensible mode)"),
            (
                of(true, 32, 33),
                "the C library",
                &format!(
                    "32 bytes ({slower}). glibc 2.41 and newer register 33 bytes (the extensible mode)"
                ),
            ),
            (
                of(false, 32, 65),
                "perfring",
                &format!(
                    "32 bytes ({slower}). The extensible mode takes 65 bytes: this version of perfring has no room for \
                     them, or the kernel has refused"
                ),
            ),
        ];
        for (said, who, expected) in cases {
            let begin = format!(
                "rings per CPU can be used: {who} registers each thread for restartable sequences"
            );
            assert_eq!(said, format!("{begin}, with {expected}"));
        }
    }
}
