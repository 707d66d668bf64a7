//! A SIGBUS that is not a ring's, for the previous handler.

use nix::libc;
use std::mem::MaybeUninit;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicI64, AtomicPtr, AtomicUsize, Ordering};

/// The last handler before ours.
static BEFORE: AtomicPtr<Before> = AtomicPtr::new(null_mut());
/// Handlers that run in our place right now.
static PASSING: [Passing; 16] = [const {
    let (frame, to) = (AtomicUsize::new(0), AtomicPtr::new(null_mut()));
    Passing { thread: AtomicI64::new(0), frame, to }
}; 16];

/// A handler that was installed before ours. Never freed: it may be running.
struct Before {
    action: libc::sigaction,
    /// The handler that was installed before the previous installation of ours.
    older: *mut Before,
}

/// A thread in which a handler runs that ours called. If the called handler calls ours in turn, it has already had
/// the signal.
struct Passing {
    /// 0 if unused. It keeps its value if a thread has left its handler by a jump.
    thread: AtomicI64,
    /// The address of our frame: a call by the called handler has its own frame below it.
    frame: AtomicUsize,
    to: AtomicPtr<Before>,
}

/// To be called by one thread at a time, before our handler is installed.
pub(super) fn remember(action: libc::sigaction) {
    let older = BEFORE.load(Ordering::Relaxed);
    // A handler that alternates with ours is not remembered each time.
    if get(older).is_none_or(|older| older.action.sa_sigaction != action.sa_sigaction) {
        let before = Before { action, older };
        BEFORE.store(Box::into_raw(Box::new(before)), Ordering::Release);
    }
}

fn get(before: *mut Before) -> Option<&'static Before> {
    // SAFETY: null, or leaked before it was stored where it was loaded from.
    unsafe { before.as_ref() }
}

fn older(before: *mut Before) -> *mut Before {
    get(before).map_or(null_mut(), |before| before.older)
}

/// Passes a signal that is not ours to the previous handler.
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
    // Only this thread writes its own entry, or a signal in it.
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
        return; // sent by a process; a fault cannot be ignored
    }
    if handler == libc::SIG_DFL || handler == libc::SIG_IGN {
        // SAFETY: zeros are a `sigaction` with SIG_DFL.
        let default: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
        // SAFETY: restores the default; the fault comes again, or the raise, and ends the process.
        unsafe { libc::sigaction(signal, &raw const default, null_mut()) };
        if code <= 0 {
            // SAFETY: a call with a number.
            unsafe { libc::raise(signal) };
        }
        return;
    }
    let (acquire, relaxed) = (Ordering::Acquire, Ordering::Relaxed);
    // With none free, a call by that handler is not recognised: that many threads do not fault at
    // once.
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
        // SAFETY: installed as a handler that takes three arguments, by the previous owner of the
        // signal.
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
