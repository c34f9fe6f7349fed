//! The kernel's copy between two processes, and the words of a table that processes share. All `unsafe` code is here.

#![allow(unsafe_code)] // Copying by address and atomics in shared memory have no safe form.

use std::sync::atomic::AtomicU64;

use hyperactor::sys::memory::Mapping;

pub use platform::{CAN_COPY, Copier};

/// A piece of a process's address space, as the kernel takes it.
#[derive(Clone, Copy, Debug)]
pub struct Piece {
    /// Where it begins.
    pub address: u64,
    /// How long it is.
    pub bytes: u64,
}

/// The words of a mapping that all its holders write as atomics only.
pub struct Words(Mapping);

impl Words {
    /// All of a writable mapping.
    pub fn new(mapping: Mapping) -> Self {
        Self(mapping)
    }

    /// The word at `index`, which panics outside of the mapping.
    pub fn at(&self, index: usize) -> &AtomicU64 {
        assert!((index + 1) * 8 <= self.0.len(), "a word lies in its table");
        // SAFETY: inside of the mapping, which is aligned to pages and lives as long as `self`; every process that maps
        // it uses it as atomics of this size only.
        unsafe { AtomicU64::from_ptr(self.0.at(index * 8).cast()) }
    }
}

#[cfg(all(target_os = "linux", not(feature = "portable")))]
mod platform {
    use std::io;
    use std::os::fd::OwnedFd;

    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::process::{Pid, PidfdFlags, pidfd_open};

    use super::Piece;

    /// Whether this system copies between processes.
    pub const CAN_COPY: bool = true;

    /// Copies between this process and another one.
    pub struct Copier {
        pid: i32,
        /// Readable once the process has ended, so that a later one of the same number is not taken for it. None where
        /// the kernel is too old.
        end: Option<OwnedFd>,
    }

    impl Copier {
        /// For a process that lives.
        pub fn new(pid: i32) -> Self {
            Self { pid, end: Pid::from_raw(pid).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok()) }
        }

        /// Whether the process has ended, as far as the kernel tells.
        pub fn has_ended(&self) -> bool {
            let Some(end) = &self.end else { return false };
            let now = Timespec { tv_sec: 0, tv_nsec: 0 };
            matches!(poll(&mut [PollFd::new(end, PollFlags::IN)], Some(&now)), Ok(1..))
        }

        /// Copy between pieces of this process and as many bytes of the other one; how many bytes were copied, from the
        /// first on.
        ///
        /// # Safety
        /// The pieces here stay allocated meanwhile, and may be written to unless `writes`, which is into the other
        /// process: there, too, they stay allocated and are nothing that the program does not expect to change.
        pub unsafe fn copy(&self, here: &[Piece], there: &[Piece], writes: bool) -> io::Result<usize> {
            let (here, there) = (vectors(here), vectors(there));
            let (ours, theirs) = (here.len() as libc::c_ulong, there.len() as libc::c_ulong);
            // SAFETY: the kernel checks every address; what they mean is the caller's promise.
            let copied = unsafe {
                if writes {
                    libc::process_vm_writev(self.pid, here.as_ptr(), ours, there.as_ptr(), theirs, 0)
                } else {
                    libc::process_vm_readv(self.pid, here.as_ptr(), ours, there.as_ptr(), theirs, 0)
                }
            };
            usize::try_from(copied).map_err(|_| io::Error::last_os_error())
        }
    }

    fn vectors(pieces: &[Piece]) -> Vec<libc::iovec> {
        let vector =
            |piece: &Piece| libc::iovec { iov_base: piece.address as *mut libc::c_void, iov_len: piece.bytes as usize };
        pieces.iter().map(vector).collect()
    }
}

#[cfg(not(all(target_os = "linux", not(feature = "portable"))))]
mod platform {
    use std::io;

    use super::Piece;

    /// Whether this system copies between processes.
    pub const CAN_COPY: bool = false;

    /// Copies between this process and another one, where the system can.
    pub struct Copier;

    impl Copier {
        /// For a process that lives.
        pub fn new(_: i32) -> Self {
            Self
        }

        /// Whether the process has ended, as far as the kernel tells.
        pub fn has_ended(&self) -> bool {
            false
        }

        /// Fails.
        ///
        /// # Safety
        /// None is needed.
        pub unsafe fn copy(&self, _: &[Piece], _: &[Piece], _: bool) -> io::Result<usize> {
            Err(io::ErrorKind::Unsupported.into())
        }
    }
}
