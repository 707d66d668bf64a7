#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot continue has failed")]

use super::*;
use crate::bpf::call::create;
use crate::bpf::mapped::MappedBpf;
use perfring_ring::{BpfRole, BpfStep};

/// Makes a map of a kind, if this machine permits it, and opening it by its id.
fn map(kind: u32, flags: u32) -> Option<OwnedFd> {
    let entry = if kind == RINGBUF { [0, 0] } else { [4, 4] };
    let made = create(kind, entry, 4096, flags).and_then(|fd| {
        drop(by_id(info(fd.as_fd())?.id)?);
        Ok(fd)
    });
    match made {
        Ok(fd) => Some(fd),
        Err(error) if [libc::EPERM, libc::EACCES, libc::ENOSYS].contains(&number(&error)) => {
            assert!(std::env::var_os("PERFRING_NO_SKIP").is_none(), "not to be skipped: {error}");
            println!("SKIPPED: this machine forbids bpf(2): {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn number(error: &io::Error) -> i32 {
    error.raw_os_error().unwrap_or_default()
}

#[test]
fn a_map_is_opened_by_its_id_and_another_kind_is_named() {
    let Some(fd) = map(RINGBUF, 0) else { return };
    let own = BpfMap::of(fd).unwrap();
    assert_eq!((own.data_size(), own.overwrites(), own.name()), (4096, false, ""));
    let other = BpfMap::open(&BpfPlace::Id(own.id())).unwrap();
    assert_eq!((other.id(), other.data_size()), (own.id(), 4096));
    let hash = map(1, 0).unwrap();
    assert!(matches!(BpfMap::of(hash), Err(NoBpfMap::Kind(1))));
    assert!(matches!(BpfMap::open(&BpfPlace::Id(u32::MAX)), Err(NoBpfMap::NotFound)));
    let gone = BpfPlace::Pinned("/there/is/no/such/map".into());
    assert!(matches!(BpfMap::open(&gone), Err(NoBpfMap::NotFound)));
    let file = tempfile::NamedTempFile::new().unwrap();
    let place = BpfPlace::Pinned(file.path().into());
    assert!(matches!(BpfMap::open(&place), Err(NoBpfMap::NotPinned)));
    let zero = BpfPlace::Pinned("a\0b".into());
    assert!(matches!(BpfMap::open(&zero), Err(NoBpfMap::NotFound)));
}

#[test]
fn the_kernels_errors_are_sorted_by_what_can_be_done() {
    let sorted = |error| NoBpfMap::of("a step", io::Error::from_raw_os_error(error));
    assert!(matches!(sorted(libc::EPERM), NoBpfMap::Forbidden));
    assert!(matches!(sorted(libc::EACCES), NoBpfMap::Denied));
    assert!(matches!(sorted(libc::ENOENT), NoBpfMap::NotFound));
    assert!(matches!(sorted(libc::ENOSYS), NoBpfMap::Missing));
    assert!(matches!(sorted(libc::EINVAL), NoBpfMap::Missing));
    assert!(matches!(sorted(libc::EMFILE), NoBpfMap::Descriptors));
    assert!(matches!(sorted(libc::ENOMEM), NoBpfMap::Other { step: "a step", .. }));
}

/// The kernel's own answer, where it has the mode; elsewhere, that it does not have it.
#[test]
fn a_map_in_overwrite_mode_is_only_observed() {
    if map(RINGBUF, 0).is_none() {
        return;
    }
    match create(RINGBUF, [0, 0], 4096, OVERWRITE) {
        Err(error) => {
            println!("this kernel has no overwrite mode, which came with Linux 6.19: {error}");
            assert_eq!(error.raw_os_error(), Some(libc::EINVAL));
        }
        Ok(fd) => {
            let mapped =
                MappedBpf::map(BpfMap::of(fd).unwrap(), BpfRole::Consumer).unwrap().unwrap();
            assert_eq!(mapped.reader().role(), BpfRole::OverwriteObserver);
        }
    }
}

#[test]
fn a_forked_child_has_no_map_and_does_not_fault() {
    let Some(fd) = map(RINGBUF, 0) else { return };
    let mut mapped = MappedBpf::map(BpfMap::of(fd).unwrap(), BpfRole::Consumer).unwrap().unwrap();
    // SAFETY: the child calls nothing but what is tested, which takes no lock and no memory, and `_exit`.
    match unsafe { libc::fork() } {
        0 => {
            let mut body = Vec::new();
            let quiet = mapped.poll() == Ok(())
                && mapped.next(&mut body) == Ok(BpfStep::Empty)
                && mapped.live_head() == 0;
            mapped.release(8);
            mapped.limit();
            // SAFETY: ends the child at once.
            unsafe { libc::_exit(if quiet { 0 } else { 1 }) };
        }
        child => {
            let mut status = -1;
            // SAFETY: stores an int, which is ours.
            unsafe { libc::waitpid(child, &raw mut status, 0) };
            assert_eq!(status, 0, "the child failed");
        }
    }
    assert_eq!(mapped.poll(), Ok(()));
}
