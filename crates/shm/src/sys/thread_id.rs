//! The identity of the present thread in records, without a system call for each record.

use perfring_abi::WriterId;
use std::cell::Cell;
use std::num::NonZeroU32;

thread_local! {
    /// [`WriterId::to_word`]; 0 before the first call.
    static WRITER: Cell<u64> = const { Cell::new(0) };
}

/// Returns [`WriterId::to_word`] of the present thread, in its own pid namespace. May be called by a signal handler.
#[inline(always)]
pub(crate) fn writer() -> u64 {
    match WRITER.get() {
        0 => ask(),
        known => known,
    }
}

#[cold]
#[inline(never)]
fn ask() -> u64 {
    let tid = rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs();
    let word = NonZeroU32::new(std::process::id()).map_or(0, |pid| WriterId { pid, tid }.to_word());
    WRITER.set(word);
    word
}

/// Called in a forked child: its only thread is a copy of the parent's thread and has another number.
pub(crate) fn forget() {
    WRITER.set(0);
}
