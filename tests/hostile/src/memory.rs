//! An allocator with a limit: libFuzzer's own (`-malloc_limit_mb`) needs a sanitizer's runtime.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes that may be allocated at a time, by all code together. An allocation beyond that fails:
/// code that handles the failure continues, and code that does not has an allocation whose size a
/// hostile file decides.
pub const MEMORY: usize = 256 << 20;

struct Limited;

static HAD: AtomicUsize = AtomicUsize::new(0);

#[global_allocator]
static ALLOCATOR: Limited = Limited;

// SAFETY: every call is passed on to the system's allocator unchanged, or answered with null, which
// means a failure.
unsafe impl GlobalAlloc for Limited {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if HAD.fetch_add(layout.size(), Ordering::Relaxed) + layout.size() > MEMORY {
            HAD.fetch_sub(layout.size(), Ordering::Relaxed);
            return std::ptr::null_mut();
        }
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if HAD.fetch_add(layout.size(), Ordering::Relaxed) + layout.size() > MEMORY {
            HAD.fetch_sub(layout.size(), Ordering::Relaxed);
            return std::ptr::null_mut();
        }
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        HAD.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: `at` came from the same allocator with this layout, says the caller.
        unsafe { System.dealloc(at, layout) }
    }
}
