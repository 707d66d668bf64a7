//! Filters of system calls, by which the kernel refuses the calls that an older kernel, or a sandbox, would refuse.

use nix::libc;

/// Makes a step of a filter.
#[must_use]
pub fn step(code: u16, jt: u8, jf: u8, k: u32) -> libc::sock_filter {
    libc::sock_filter { code, jt, jf, k }
}

/// Installs a filter for this thread, and for the threads that it starts.
///
/// # Panics
/// If the kernel does not take it.
pub fn install(mut filter: Vec<libc::sock_filter>) {
    let len = u16::try_from(filter.len()).expect("a short filter");
    let program = libc::sock_fprog { len, filter: filter.as_mut_ptr() };
    // SAFETY: no pointers among the arguments.
    let privileges = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    assert_eq!(privileges, 0);
    // SAFETY: the program is as long as it says, and lives.
    let done =
        unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) };
    assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
}
