//! A SIGBUS outside all rings goes to the previous handler: each case in a separate process,
//! which ends by the signal.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot continue has failed")]

use super::*;
use crate::file::create::{RingOptions, create};
use crate::map::observer_mapping::ObserverMapping;
use crate::sys::blocks::ENTRIES;
use memmap2::{MmapOptions, MmapRaw};
use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

const CHILD: &str = "PERFRING_GUARD_CHILD";
/// The line that the child prints after a ring was truncated under it.
const GUARDED: &str = "the ring was guarded";
/// A child that runs in circles is ended after so many seconds.
const SECONDS: u32 = perfring_testkit::wait::WATCHDOG.as_secs() as u32;

/// Runs one of the cases of `child`.
fn ended(case: &str) -> ExitStatus {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "sys::sigbus::tests::child", "--nocapture"]).env(CHILD, case);
    let ended = child.output().unwrap();
    let said = String::from_utf8_lossy(&ended.stdout);
    assert!(said.contains(GUARDED), "{case}: {}, and a ring was not guarded", ended.status);
    ended.status
}

fn ring() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ring");
    create(&path, &RingOptions { size: 4096, types_size: 0, ..RingOptions::default() }).unwrap();
    (dir, path)
}

fn truncated(path: &Path) {
    File::options().write(true).open(path).unwrap().set_len(0).unwrap();
}

/// Touches a page of a truncated file that is not a ring's.
fn touch_foreign(dir: &Path) {
    let file = File::create_new(dir.join("foreign")).unwrap();
    file.set_len(4096).unwrap();
    let file = File::options().read(true).write(true).open(dir.join("foreign")).unwrap();
    let map: MmapRaw = MmapOptions::new().map_raw(&file).unwrap();
    file.set_len(0).unwrap();
    // SAFETY: inside the mapping; the test is about the signal that it raises.
    let _ = unsafe { map.as_ptr().read_volatile() };
}

fn install(handler: usize) {
    // SAFETY: zeros are a `sigaction`.
    let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
    (action.sa_sigaction, action.sa_flags) = (handler, libc::SA_SIGINFO);
    // SAFETY: the handlers below, which call nothing but `_exit`, or the one before them.
    assert_eq!(unsafe { libc::sigaction(libc::SIGBUS, &raw const action, null_mut()) }, 0);
}

extern "C" fn ends_with_77(_: i32, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: async-signal-safe.
    unsafe { libc::_exit(77) };
}

/// A handler that chains to the previous one: ours.
extern "C" fn passes_back(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    on_sigbus(signal, info, context);
}

/// Like Python's `faulthandler`: restores the previous handler, and raises the signal.
extern "C" fn restores_and_raises(_: i32, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
    install(on_sigbus as *const () as usize);
    // SAFETY: async-signal-safe.
    unsafe { libc::raise(libc::SIGBUS) };
}

/// Gives this thread an alternate stack with room for the frames of some signals: Rust's has 8 KiB, and a processor with
/// AVX-512 takes up to 3.6 KiB for each frame.
fn make_room() {
    let room = Box::leak(vec![0_u8; 1 << 16].into_boxed_slice());
    let stack = libc::stack_t { ss_sp: room.as_mut_ptr().cast(), ss_flags: 0, ss_size: room.len() };
    // SAFETY: memory that is never freed and is used for nothing else.
    assert_eq!(unsafe { libc::sigaltstack(&raw const stack, null_mut()) }, 0);
}

/// Not a test by itself: each case ends this process.
#[test]
fn child() {
    let Some(case) = std::env::var_os(CHILD) else { return };
    // SAFETY: no memory of ours.
    unsafe { libc::alarm(SECONDS) };
    make_room();
    let (dir, path) = ring();
    let handler = |case: &str| match case {
        "exit" => ends_with_77 as *const () as usize,
        "passes back" => passes_back as *const () as usize,
        _ => restores_and_raises as *const () as usize,
    };
    match case.to_str().unwrap().split_once(", ").unwrap() {
        ("default", _) => install_sigbus_handler().unwrap(),
        ("exit behind another", _) => {
            // Ours is between the two, and then in front of them.
            install(handler("exit"));
            install_sigbus_handler().unwrap();
            install(handler("passes back"));
        }
        (before, "before") => {
            install(handler(before));
            install_sigbus_handler().unwrap();
        }
        (after, _) => {
            install_sigbus_handler().unwrap();
            install(handler(after));
        }
    }
    // A ring that is mapped now is guarded, whichever handler was installed meanwhile.
    let observer = ObserverMapping::open(&path).unwrap();
    truncated(&path);
    assert_eq!(observer.snapshot().err(), Some(ReadError::Truncated));
    println!("{GUARDED}");
    if case == "default, sent" {
        // SAFETY: no memory of ours.
        unsafe { libc::raise(libc::SIGBUS) };
    }
    touch_foreign(dir.path());
}

#[test]
fn a_foreign_sigbus_goes_to_the_previous_handler() {
    for when in ["before", "after"] {
        assert_eq!(ended(&format!("exit, {when}")).code(), Some(77), "{when}");
        // And it comes to an end where the two call each other.
        for other in ["passes back", "raises"] {
            let status = ended(&format!("{other}, {when}"));
            assert_eq!(status.signal(), Some(libc::SIGBUS), "{other}, {when}: {status}");
        }
    }
    assert_eq!(ended("exit behind another, which passes back").code(), Some(77));
    assert_eq!(ended("default, foreign").signal(), Some(libc::SIGBUS));
    assert_eq!(ended("default, sent").signal(), Some(libc::SIGBUS));
}

#[test]
fn any_number_of_rings_is_guarded_while_others_come_and_go() {
    install_sigbus_handler().unwrap();
    // More than a block of the table has.
    let rings: Vec<_> = (0..ENTRIES + 40).map(|_| ring()).collect();
    let observers: Vec<_> =
        rings.iter().map(|(_, path)| ObserverMapping::open(path).unwrap()).collect();
    let (stop, whole) = (AtomicBool::new(false), ring());
    std::thread::scope(|scope| {
        let come_and_go = || {
            let mut count = 0u64;
            while !stop.load(Ordering::Relaxed) {
                let observer = ObserverMapping::open(&whole.1).unwrap();
                assert!(observer.snapshot().is_ok(), "it is not cut");
                count += 1;
            }
            count
        };
        let others = scope.spawn(come_and_go);
        let cutters: Vec<_> = [0, 1]
            .map(|half| {
                let (rings, observers) = (&rings, &observers);
                scope.spawn(move || {
                    for (at, observer) in observers.iter().enumerate().skip(half).step_by(2) {
                        assert!(observer.snapshot().is_ok(), "ring {at} is whole");
                        truncated(&rings[at].1);
                        assert_eq!(
                            observer.snapshot().err(),
                            Some(ReadError::Truncated),
                            "ring {at}"
                        );
                    }
                })
            })
            .into();
        cutters.into_iter().for_each(|cutter| cutter.join().unwrap());
        stop.store(true, Ordering::Relaxed);
        println!("{} rings truncated beside {} others", rings.len(), others.join().unwrap());
    });
}

#[test]
fn a_page_that_is_missing_from_a_file_of_the_right_length_is_no_space() {
    install_sigbus_handler().unwrap();
    let dir = tempfile::tempdir().unwrap();
    for (left, wanted) in [
        (8192, ReadError::NoSpace),
        (9000, ReadError::NoSpace),
        (8191, ReadError::Truncated),
        (0, ReadError::Truncated),
    ] {
        let open = |name: &str| {
            let mut options = File::options();
            let options = options.read(true).write(true).create(true).truncate(true);
            options.open(dir.path().join(name)).unwrap()
        };
        let (mapped, file) = (open("mapped"), Arc::new(LockFile::new(open("file"))));
        mapped.set_len(8192).unwrap();
        file.set_len(left).unwrap();
        let map: MmapRaw = MmapOptions::new().map_raw(&mapped).unwrap();
        let base = NonNull::new(map.as_mut_ptr()).unwrap();
        let guard = SigbusGuard::new([(base, 8192), (base, 0), (base, 0)], true, (&file, 8192));
        mapped.set_len(0).unwrap();
        assert_eq!(guard.cut_off(), None);
        // SAFETY: the mapping has 8,192 bytes.
        let at = unsafe { map.as_ptr().add(5000) };
        // SAFETY: inside the mapping, which the handler replaces.
        let _ = unsafe { at.read_volatile() };
        assert_eq!(guard.cut_off(), Some(wanted), "{left} bytes");
        // The first reason stays.
        file.set_len(0).unwrap();
        guard.look();
        assert_eq!(guard.report(perfring_ring::Corrupt { pos: 0 }), wanted, "{left} bytes");
    }
}

#[test]
fn two_threads_may_find_the_same_ring_truncated() {
    install_sigbus_handler().unwrap();
    for _ in 0..200 {
        let (_dir, path) = ring();
        let observer = ObserverMapping::open(&path).unwrap();
        truncated(&path);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| assert_eq!(observer.snapshot().err(), Some(ReadError::Truncated)));
            }
        });
    }
}
