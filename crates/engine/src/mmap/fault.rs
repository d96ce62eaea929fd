//! Page faults that the kernel cannot serve. It then sends SIGBUS, which would end the process and lose everything it
//! has measured. Here the page is replaced by a blank one, the copy continues, and the request fails.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering, compiler_fence};

/// The page size, for the handler, which must not query it.
static PAGE: AtomicUsize = AtomicUsize::new(4096);

/// Mapped memory that a request of this thread is copying, and whether a page of it was missing.
#[derive(Clone, Copy)]
struct GuardedCopy {
    start: usize,
    end: usize,
    missing: bool,
}

const IDLE: GuardedCopy = GuardedCopy { start: 0, end: 0, missing: false };

thread_local! {
    // A constant without a destructor exists in thread-local storage from the start: a signal handler may use it.
    static CURRENT: Cell<GuardedCopy> = const { Cell::new(IDLE) };
}

/// Sets the handler, once for the process. Bus errors elsewhere end the process as before.
pub(super) fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        PAGE.store(rustix::param::page_size(), Ordering::SeqCst);
        // SAFETY: zero is a valid sigaction; the handler has the signature that SA_SIGINFO asks for, and does only
        // what a handler may: it reads and writes its thread's cell and makes system calls.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) = on_bus_error;
            action.sa_sigaction = handler as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            libc::sigaction(libc::SIGBUS, &raw const action, std::ptr::null_mut());
        }
    });
}

/// Runs `copy`, which touches `len` bytes of mapped memory at `at`; false if a page of them was missing.
#[inline]
pub(super) fn guarded(at: *const u8, len: usize, copy: impl FnOnce()) -> bool {
    let start = at as usize;
    CURRENT.set(GuardedCopy { start, end: start + len, missing: false });
    // The handler runs on this thread, between two instructions: only the compiler must keep the order.
    compiler_fence(Ordering::SeqCst);
    copy();
    compiler_fence(Ordering::SeqCst);
    !CURRENT.replace(IDLE).missing
}

extern "C" fn on_bus_error(_signal: c_int, info: *mut libc::siginfo_t, _context: *mut c_void) {
    // SAFETY: the kernel hands a filled siginfo_t to a handler with SA_SIGINFO, and SIGBUS has an address in it.
    let address = unsafe { (*info).si_addr() } as usize;
    let watch = CURRENT.get();
    if (watch.start..watch.end).contains(&address) && blank(address) {
        CURRENT.set(GuardedCopy { missing: true, ..watch });
        return;
    }
    // Not ours: with the default action the same access ends the process when it is made again.
    // SAFETY: setting a signal to its default is allowed in a handler.
    unsafe { libc::signal(libc::SIGBUS, libc::SIG_DFL) };
}

/// Puts a blank page where `address` is.
fn blank(address: usize) -> bool {
    let size = PAGE.load(Ordering::SeqCst);
    let page = (address & !(size - 1)) as *mut c_void;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
    // SAFETY: the page is part of a window that a request of this thread is copying (see `GuardedCopy`): nothing else
    // lives there, and the window is dropped right after.
    let placed = unsafe { libc::mmap(page, size, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
    placed == page
}
