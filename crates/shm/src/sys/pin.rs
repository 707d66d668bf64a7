//! A library that contains this code stays loaded.
//!
//! After `dlclose(3)` nothing of a library is mapped. But a thread that has published per CPU has the address of a
//! sequence's descriptor in its `rseq_cs` until its next sequence, and the kernel looks there when it preempts the thread:
//! an address that is not mapped ends the process by SIGSEGV. The kernel has the address of the SIGBUS handler, and libc the
//! addresses of the functions that run at a fork and at the end of a thread.

use nix::libc;
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::sync::Once;

/// Keeps this code loaded, from the first call on: to be called before the kernel or libc gets an address of it.
pub(crate) fn pin() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let (here, mut found) = (pin as *const c_void, MaybeUninit::<libc::Dl_info>::zeroed());
        // SAFETY: asks for the object that has a function of this program, into memory that is large enough for the answer.
        if cfg!(miri) || unsafe { libc::dladdr(here, found.as_mut_ptr()) } == 0 {
            return; // a program without a dynamic linker, which cannot unload it either
        }
        // SAFETY: zeros are a `Dl_info`, and the call above has filled it in.
        let name = unsafe { found.assume_init() }.dli_fname;
        if !name.is_null() {
            // SAFETY: the name is the dynamic linker's, and lives as long as the object. Nothing is loaded, so nothing of it
            // runs; the object is marked. Fails for the program itself, which is not unloaded.
            let _ = unsafe {
                libc::dlopen(name, libc::RTLD_LAZY | libc::RTLD_NOLOAD | libc::RTLD_NODELETE)
            };
        }
    });
}
