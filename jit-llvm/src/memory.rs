//! Host memory, large blocks of it in large pages: reads at random would else wait for the page table as often as for
//! the element, and fresh memory would fault at every 4 KiB.

use std::alloc::{Layout, alloc, dealloc};

use jit_core::backend::{Allocation, allocate_host};
use jit_core::error::Error;

/// The size of a large page.
const LARGE_PAGE: usize = 2 << 20;

/// Smaller blocks have ordinary pages.
const LARGE_BLOCK: usize = 2 * LARGE_PAGE;

/// Memory for `bytes` (> 0) bytes, aligned to 64.
///
/// # Errors
/// [`Error::OutOfMemory`].
pub(crate) fn allocate(bytes: usize) -> Result<Allocation, Error> {
    if bytes < LARGE_BLOCK {
        return allocate_host(bytes);
    }
    let Ok(layout) = Layout::from_size_align(bytes, LARGE_PAGE) else { return allocate_host(bytes) };
    // SAFETY: the layout has a size above zero.
    let ptr = unsafe { alloc(layout) };
    if ptr.is_null() {
        // Without the alignment there may be room, and the error is made in one place.
        return allocate_host(bytes);
    }
    advise_large_pages(ptr, bytes / LARGE_PAGE * LARGE_PAGE);
    Ok(Allocation::new(ptr, bytes, move |ptr, _| {
        // SAFETY: `ptr` came from `alloc` with this layout and is given back once.
        unsafe { dealloc(ptr, layout) }
    }))
}

/// Asks for large pages under whole ones. It is a wish: without them all is well, only slower.
fn advise_large_pages(ptr: *mut u8, bytes: usize) {
    #[cfg(target_os = "linux")]
    // SAFETY: the pages are whole and this allocation's own; the advice changes nothing that a program can observe.
    unsafe {
        libc::madvise(ptr.cast(), bytes, libc::MADV_HUGEPAGE);
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (ptr, bytes);
}
