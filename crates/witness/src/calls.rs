//! The system calls in which threads wait, as /proc has them.

use nix::libc;
use std::fs;

/// Returns the system call in which a thread waits. `None` if it has a CPU, or waits elsewhere, or this user may not see it.
pub(crate) fn call_of(pid: u32, tid: u32) -> Option<String> {
    call(&fs::read_to_string(format!("/proc/{pid}/task/{tid}/syscall")).ok()?)
}

/// Reads the number of the call: `running`, or `-1` and more outside of one.
fn call(text: &str) -> Option<String> {
    let number: libc::c_long = text.split_whitespace().next()?.parse().ok()?;
    (number >= 0).then(|| name(number))
}

/// Returns the name of a call: of those that wait.
fn name(number: libc::c_long) -> String {
    let known = CALLS.iter().find(|(call, _)| *call == number);
    known.map_or_else(|| format!("number {number}"), |(_, name)| (*name).to_owned())
}

/// Lists calls by their names.
macro_rules! calls {
    ($($call:ident $name:literal)*) => { &[$((libc::$call, $name)),*] };
}

/// Calls that wait. New architectures have no calls that a newer one replaces.
#[cfg(not(target_arch = "x86_64"))]
const CALLS: &[(libc::c_long, &str)] = calls! {
    SYS_accept "accept" SYS_accept4 "accept4" SYS_clock_nanosleep "clock_nanosleep" SYS_connect "connect"
    SYS_epoll_pwait "epoll_pwait" SYS_fallocate "fallocate" SYS_fcntl "fcntl" SYS_fdatasync "fdatasync" SYS_flock "flock"
    SYS_fsync "fsync" SYS_ftruncate "ftruncate" SYS_futex "futex" SYS_getrandom "getrandom" SYS_ioctl "ioctl"
    SYS_io_uring_enter "io_uring_enter" SYS_madvise "madvise" SYS_mmap "mmap" SYS_mprotect "mprotect" SYS_msync "msync"
    SYS_munmap "munmap" SYS_nanosleep "nanosleep" SYS_openat "openat" SYS_ppoll "ppoll" SYS_pread64 "pread64"
    SYS_preadv "preadv" SYS_pselect6 "pselect6" SYS_pwrite64 "pwrite64" SYS_pwritev "pwritev" SYS_read "read"
    SYS_readv "readv" SYS_recvfrom "recvfrom" SYS_recvmmsg "recvmmsg" SYS_recvmsg "recvmsg" SYS_rt_sigsuspend "rt_sigsuspend"
    SYS_rt_sigtimedwait "rt_sigtimedwait" SYS_sched_yield "sched_yield" SYS_sendfile "sendfile" SYS_sendmmsg "sendmmsg"
    SYS_sendmsg "sendmsg" SYS_sendto "sendto" SYS_splice "splice" SYS_sync "sync" SYS_unlinkat "unlinkat" SYS_wait4 "wait4"
    SYS_waitid "waitid" SYS_write "write" SYS_writev "writev"
};

/// Calls that wait.
#[cfg(target_arch = "x86_64")]
const CALLS: &[(libc::c_long, &str)] = calls! {
    SYS_accept "accept" SYS_accept4 "accept4" SYS_clock_nanosleep "clock_nanosleep" SYS_connect "connect"
    SYS_epoll_pwait "epoll_pwait" SYS_epoll_wait "epoll_wait" SYS_fallocate "fallocate" SYS_fcntl "fcntl"
    SYS_fdatasync "fdatasync" SYS_flock "flock" SYS_fsync "fsync" SYS_ftruncate "ftruncate" SYS_futex "futex"
    SYS_getrandom "getrandom" SYS_ioctl "ioctl" SYS_io_uring_enter "io_uring_enter" SYS_madvise "madvise" SYS_mmap "mmap"
    SYS_mprotect "mprotect" SYS_msync "msync" SYS_munmap "munmap" SYS_nanosleep "nanosleep" SYS_open "open"
    SYS_openat "openat" SYS_pause "pause" SYS_poll "poll" SYS_ppoll "ppoll" SYS_pread64 "pread64" SYS_preadv "preadv"
    SYS_pselect6 "pselect6" SYS_pwrite64 "pwrite64" SYS_pwritev "pwritev" SYS_read "read" SYS_readv "readv"
    SYS_recvfrom "recvfrom" SYS_recvmmsg "recvmmsg" SYS_recvmsg "recvmsg" SYS_rt_sigsuspend "rt_sigsuspend"
    SYS_rt_sigtimedwait "rt_sigtimedwait" SYS_sched_yield "sched_yield" SYS_select "select" SYS_sendfile "sendfile"
    SYS_sendmmsg "sendmmsg" SYS_sendmsg "sendmsg" SYS_sendto "sendto" SYS_splice "splice" SYS_sync "sync"
    SYS_unlink "unlink" SYS_unlinkat "unlinkat" SYS_wait4 "wait4" SYS_waitid "waitid" SYS_write "write" SYS_writev "writev"
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_named_by_the_number_that_this_machine_gives_it() {
        let futex = format!("{} 0x7f 0x80 0x2 0x0 0x0 0x0 0x7ffd 0x7f3b\n", libc::SYS_futex);
        assert_eq!(call(&futex).as_deref(), Some("futex"));
        assert_eq!((call("running\n"), call("-1 0x7ffd 0x7f3b\n"), call("")), (None, None, None));
        assert_eq!(call("99999 0x0\n").as_deref(), Some("number 99999"));
    }
}
