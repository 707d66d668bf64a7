//! A SIGBUS that is no ring's: for whoever had the signal before.

use nix::libc;
use std::mem::MaybeUninit;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicI64, AtomicPtr, AtomicUsize, Ordering};

/// Who had it last, before us.
static BEFORE: AtomicPtr<Before> = AtomicPtr::new(null_mut());
/// Handlers that run in our place just now.
static PASSING: [Passing; 16] = [const {
    let (frame, to) = (AtomicUsize::new(0), AtomicPtr::new(null_mut()));
    Passing { thread: AtomicI64::new(0), frame, to }
}; 16];

/// Who had the signal before us. Never freed: a handler may be running by it.
struct Before {
    action: libc::sigaction,
    /// Who had it when we took it the time before.
    older: *mut Before,
}

/// A thread in which a handler runs that we called. It may call us in turn, and then it has had it.
struct Passing {
    /// 0 if it is of none. Of one that has left its handler by a jump it stays.
    thread: AtomicI64,
    /// Where our frame was: a call by that handler has its own below it.
    frame: AtomicUsize,
    to: AtomicPtr<Before>,
}

/// To be called by one thread at a time, before our handler is in its place.
pub(super) fn remember(action: libc::sigaction) {
    let older = BEFORE.load(Ordering::Relaxed);
    // One that takes turns with us is not remembered for each.
    if get(older).is_none_or(|older| older.action.sa_sigaction != action.sa_sigaction) {
        let before = Before { action, older };
        BEFORE.store(Box::into_raw(Box::new(before)), Ordering::Release);
    }
}

fn get(before: *mut Before) -> Option<&'static Before> {
    // SAFETY: none, or leaked before it was stored where it was loaded from.
    unsafe { before.as_ref() }
}

fn older(before: *mut Before) -> *mut Before {
    get(before).map_or(null_mut(), |before| before.older)
}

/// Not ours: whoever had the signal before.
pub(super) fn pass_on(
    signal: i32,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
    code: i32,
) {
    // SAFETY: a system call without arguments.
    let me = unsafe { libc::syscall(libc::SYS_gettid) };
    let frame = (&raw const me).expose_provenance();
    let mine = PASSING.iter().find(|passing| passing.thread.load(Ordering::Relaxed) == me);
    // Only this thread writes what is its own, or a signal in it.
    let caller = mine
        .filter(|passing| frame < passing.frame.load(Ordering::Relaxed))
        .map(|passing| passing.to.load(Ordering::Relaxed));
    let before = match caller {
        Some(caller) => older(caller),
        None => BEFORE.load(Ordering::Acquire),
    };
    let action = get(before).map(|before| before.action);
    let handler = action.map_or(libc::SIG_DFL, |action| action.sa_sigaction);
    if handler == libc::SIG_IGN && code <= 0 {
        return; // sent by somebody; a fault cannot be ignored
    }
    if handler == libc::SIG_DFL || handler == libc::SIG_IGN {
        // SAFETY: zeros are a `sigaction` with SIG_DFL.
        let default: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
        // SAFETY: gives the signal back; the fault comes again, or the raise, and ends the process.
        unsafe { libc::sigaction(signal, &raw const default, null_mut()) };
        if code <= 0 {
            // SAFETY: a call with a number.
            unsafe { libc::raise(signal) };
        }
        return;
    }
    let (acquire, relaxed) = (Ordering::Acquire, Ordering::Relaxed);
    // With none free, it is not known when it calls us: as many threads at once fault nowhere.
    let passing = mine.or_else(|| {
        let free = |it: &&Passing| it.thread.compare_exchange(0, me, acquire, relaxed).is_ok();
        PASSING.iter().find(free)
    });
    let outer = passing.map(|it| (it.frame.load(relaxed), it.to.load(relaxed)));
    if let Some(passing) = passing {
        passing.frame.store(frame, relaxed);
        passing.to.store(before, relaxed);
    }
    if action.is_some_and(|action| action.sa_flags & libc::SA_SIGINFO != 0) {
        // SAFETY: installed as a handler that takes three arguments, by whoever had the signal.
        let handler: extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void) =
            unsafe { std::mem::transmute(handler) };
        handler(signal, info, context);
    } else {
        // SAFETY: installed as a handler that takes one.
        let handler: extern "C" fn(i32) = unsafe { std::mem::transmute(handler) };
        handler(signal);
    }
    if let (Some(passing), Some((frame, to))) = (passing, outer) {
        match caller {
            Some(_) => {
                passing.to.store(to, relaxed);
                passing.frame.store(frame, relaxed);
            }
            None => passing.thread.store(0, Ordering::Release),
        }
    }
}
