//! Memory that several processes see: made here, passed as a descriptor, and gone with its last holder.

#![allow(unsafe_code)] // Mapping memory and copying to and from it have no safe form.

use std::ffi::c_void;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;

use bytes::Bytes;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// Smallest granule in which memory is mapped, on any system.
pub const PAGE_BYTES: usize = 64 << 10;

/// Memory of `bytes` bytes without a name, whose size never changes where the system can promise that.
pub fn create(bytes: usize) -> io::Result<OwnedFd> {
    platform::create(bytes)
}

/// From now on no mapping through `fd` may write to the memory; those that exist still can, and private ones.
pub fn forbid_writes(fd: impl AsFd) {
    platform::forbid_writes(fd);
}

/// What tells this memory from any other that lives at the same time.
pub fn identity(fd: impl AsFd) -> io::Result<u64> {
    #[allow(clippy::useless_conversion)] // its type differs between systems
    Ok(rustix::fs::fstat(fd)?.st_ino.into())
}

/// A part of this process's address space.
pub struct Mapping {
    start: NonNull<c_void>,
    bytes: usize,
    is_writable: bool,
}

// SAFETY: a mapping is plain memory, which any thread may reach; who may write to it when is decided by who holds the
// slot in it.
unsafe impl Send for Mapping {}
// SAFETY: as above; all access goes through raw pointers.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// The first `bytes` of the memory behind `fd`, seen and written together with its other holders.
    ///
    /// Fails where the memory is shorter.
    pub fn shared(fd: impl AsFd, bytes: usize) -> io::Result<Self> {
        Self::new(fd, 0, bytes, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED)
    }

    /// The first `bytes` of the memory behind `fd`, to be read only.
    ///
    /// Fails where the memory is shorter.
    pub fn readable(fd: impl AsFd, bytes: usize) -> io::Result<Self> {
        Self::new(fd, 0, bytes, ProtFlags::READ, MapFlags::SHARED)
    }

    /// What the memory behind `fd` holds from `offset` on; what is written to it stays in this process.
    ///
    /// Fails where the memory is shorter.
    pub fn private(fd: impl AsFd, offset: usize, bytes: usize) -> io::Result<Self> {
        Self::new(fd, offset, bytes, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)
    }

    fn new(fd: impl AsFd, offset: usize, bytes: usize, rights: ProtFlags, flags: MapFlags) -> io::Result<Self> {
        let held = u64::try_from(rustix::fs::fstat(&fd)?.st_size).unwrap_or(0);
        if bytes == 0 || (offset as u64).saturating_add(bytes as u64) > held {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the memory is shorter than what is to be mapped"));
        }
        // SAFETY: the kernel chooses an address that nothing uses yet.
        let start = unsafe { mmap(std::ptr::null_mut(), bytes, rights, flags, fd, offset as u64)? };
        let start = NonNull::new(start).ok_or_else(|| io::Error::other("memory was mapped at address zero"))?;
        Ok(Self { start, bytes, is_writable: rights.contains(ProtFlags::WRITE) })
    }

    /// Its length.
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Whether it has no bytes; there is no such mapping.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Where its byte `offset` lies.
    pub fn at(&self, offset: usize) -> *mut u8 {
        assert!(offset <= self.bytes, "an offset lies in its mapping");
        // SAFETY: checked above to lie in the mapping or at its end.
        unsafe { self.start.as_ptr().cast::<u8>().add(offset) }
    }

    /// Have all pages now, ready to be written, in few steps rather than in one fault each; they are made where there are
    /// none yet, and what they hold stays.
    pub fn populate(&self) {
        for start in (0..self.bytes).step_by(POPULATE_BYTES) {
            platform::make_pages(self.at(start).cast(), POPULATE_BYTES.min(self.bytes - start));
        }
    }

    /// Copy `source` to `offset`.
    pub fn write(&self, offset: usize, source: &[u8]) {
        assert!(self.is_writable && offset + source.len() <= self.bytes, "what is copied fits into its mapping");
        // SAFETY: source is readable, the target lies in the mapping, and a slot that is being filled is nobody
        // else's, so nothing overlaps.
        unsafe { std::ptr::copy_nonoverlapping(source.as_ptr(), self.at(offset), source.len()) };
    }

    /// What `range` holds, without a copy; nobody writes there as long as the bytes or copies of them live, for which
    /// they keep `holder`.
    pub fn bytes<H: Send + 'static>(self: Arc<Self>, range: Range<usize>, holder: H) -> Bytes {
        assert!(range.start <= range.end && range.end <= self.bytes, "what is shown lies in its mapping");
        Bytes::from_owner(Shown { mapping: self, range, _holder: holder })
    }

    /// A copy of what `range` holds.
    pub fn read(&self, range: Range<usize>) -> Vec<u8> {
        assert!(range.start <= range.end && range.end <= self.bytes, "what is copied lies in its mapping");
        let mut copy = Vec::with_capacity(range.len());
        // SAFETY: the range lies in the mapping, the copy has room for it, and its length is set to what was written.
        unsafe {
            std::ptr::copy_nonoverlapping(self.at(range.start), copy.as_mut_ptr(), range.len());
            copy.set_len(range.len());
        }
        copy
    }
}

/// A piece of a mapping that nobody writes to.
struct Shown<H> {
    mapping: Arc<Mapping>,
    range: Range<usize>,
    _holder: H,
}

impl<H> AsRef<[u8]> for Shown<H> {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: the range was checked to lie in the mapping, which lives as long as this value, and while the holder
        // lives nobody writes to it.
        unsafe { std::slice::from_raw_parts(self.mapping.at(self.range.start), self.range.len()) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this value owns the range, and whoever holds a pointer into it holds this value.
        let _ = unsafe { munmap(self.start.as_ptr(), self.bytes) };
    }
}

/// Pages that are had in one step: meanwhile the process can map nothing.
const POPULATE_BYTES: usize = 8 << 20;

/// Write `source` to the beginning of the memory behind `fd`.
pub fn write(fd: impl AsFd, source: &[u8]) -> io::Result<()> {
    let mut written = 0;
    while written < source.len() {
        match rustix::io::pwrite(&fd, &source[written..], written as u64) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => written += count,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// A copy of `bytes` bytes of the memory behind `fd`, from `offset` on.
pub fn read(fd: impl AsFd, offset: usize, bytes: usize) -> io::Result<Vec<u8>> {
    let mut copy = vec![0; bytes];
    let mut filled = 0;
    while filled < bytes {
        match rustix::io::pread(&fd, &mut copy[filled..], (offset + filled) as u64) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => filled += count,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(copy)
}

/// Copy `source` to `target`, which is new memory and made while it is filled, with as many threads as that pays.
///
/// # Safety
/// `target` is writable for as many bytes as `source` has, and nobody else uses it.
pub unsafe fn copy(source: &[u8], target: *mut u8) {
    let available = std::thread::available_parallelism().map_or(1, |count| count.get().min(COPY_THREADS));
    let threads = if source.len() < PARALLEL_BYTES { 1 } else { available };
    let share = source.len().div_ceil(threads).next_multiple_of(LARGE_PAGE_BYTES);
    let target = target as usize;
    let copy = |piece: &[u8], start: usize| {
        // SAFETY: the pieces of the target are as long as those of the source, and none overlaps another.
        unsafe { std::ptr::copy_nonoverlapping(piece.as_ptr(), (target + start) as *mut u8, piece.len()) };
    };
    std::thread::scope(|scope| {
        for (number, piece) in source.chunks(share.max(1)).enumerate().skip(1) {
            let here = move || copy(piece, number * share);
            if std::thread::Builder::new().spawn_scoped(scope, here).is_err() {
                here();
            }
        }
        copy(&source[..share.min(source.len())], 0);
    });
}

/// Beyond so many threads the memory itself is what is waited for.
const COPY_THREADS: usize = 4;

/// From so many bytes on a thread costs less than it brings.
const PARALLEL_BYTES: usize = 4 << 20;

/// Make the pages between `start` and `start + bytes`, which is memory of the caller's, as writing there would; what they
/// hold stays.
pub fn make_pages(start: *mut u8, bytes: usize) {
    let page = rustix::param::page_size();
    let first = (start as usize) / page * page;
    platform::make_pages(first as *mut c_void, (start as usize + bytes).next_multiple_of(page) - first);
}

/// Whether pages can be given back to the system while their address stays.
pub const CAN_DISCARD: bool = platform::CAN_DISCARD;

/// Give the whole pages between `start` and `start + bytes` back to the system, with what they hold.
///
/// # Safety
/// The memory is private, and its content is nobody's.
pub unsafe fn discard(start: *mut u8, bytes: usize) {
    let page = rustix::param::page_size();
    let first = (start as usize).next_multiple_of(page);
    let end = (start as usize + bytes) / page * page;
    if first < end {
        platform::discard(first as *mut c_void, end - first);
    }
}

/// Ask for large pages for the whole ones between `start` and `start + bytes`, which is memory of the caller's.
pub fn prefer_large_pages(start: *mut u8, bytes: usize) {
    let first = (start as usize).next_multiple_of(LARGE_PAGE_BYTES);
    let end = (start as usize + bytes) / LARGE_PAGE_BYTES * LARGE_PAGE_BYTES;
    if first < end {
        platform::prefer_large_pages(first as *mut c_void, end - first);
    }
}

/// The page size that processors map in one step where the memory allows; only a hint where it differs.
pub const LARGE_PAGE_BYTES: usize = 2 << 20;

#[cfg(all(target_os = "linux", not(feature = "portable")))]
mod platform {
    use std::ffi::c_void;
    use std::io;
    use std::os::fd::{AsFd, OwnedFd};

    use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
    use rustix::mm::{Advice, madvise};

    pub fn create(bytes: usize) -> io::Result<OwnedFd> {
        let Ok(fd) = memfd_create("monarch", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING) else {
            // Denied, as some sandboxes do.
            return super::posix::create(bytes);
        };
        ftruncate(&fd, bytes as u64)?;
        fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW)?;
        Ok(fd)
    }

    pub fn forbid_writes(fd: impl AsFd) {
        // Before Linux 5.1 there is no such seal: then nothing but our own care keeps receivers from writing.
        let _ = fcntl_add_seals(fd, SealFlags::FUTURE_WRITE);
    }

    pub fn prefer_large_pages(start: *mut c_void, bytes: usize) {
        // SAFETY: advice that changes no content.
        let _ = unsafe { madvise(start, bytes, Advice::LinuxHugepage) };
    }

    pub fn make_pages(start: *mut c_void, bytes: usize) {
        // SAFETY: leaves every page as it is; before Linux 5.14 it fails and the faults come one by one.
        let _ = unsafe { madvise(start, bytes, Advice::LinuxPopulateWrite) };
    }

    pub const CAN_DISCARD: bool = true;

    pub fn discard(start: *mut c_void, bytes: usize) {
        // SAFETY: memory whose content is nobody's, says the caller; its address stays.
        let _ = unsafe { madvise(start, bytes, Advice::LinuxDontNeed) };
    }
}

#[cfg(not(all(target_os = "linux", not(feature = "portable"))))]
mod platform {
    use std::ffi::c_void;
    use std::os::fd::AsFd;

    pub use super::posix::create;

    pub fn forbid_writes(_: impl AsFd) {}

    pub fn prefer_large_pages(_: *mut c_void, _: usize) {}

    pub fn make_pages(_: *mut c_void, _: usize) {}

    pub const CAN_DISCARD: bool = false;

    pub fn discard(_: *mut c_void, _: usize) {}
}

/// Shared memory under a name that is gone before anybody else can use it.
mod posix {
    use std::io;
    use std::os::fd::OwnedFd;

    use rustix::fs::{Mode, ftruncate};
    use rustix::shm::{self, OFlags};

    pub fn create(bytes: usize) -> io::Result<OwnedFd> {
        let mut random = [0; 8];
        getrandom::fill(&mut random).map_err(io::Error::other)?;
        // Short: some systems allow 30 characters.
        let name = format!("/monarch-{:016x}", u64::from_le_bytes(random));
        let fd = shm::open(&name, OFlags::CREATE | OFlags::EXCL | OFlags::RDWR, Mode::RUSR | Mode::WUSR)?;
        shm::unlink(&name)?;
        super::super::socket::close_on_exec(&fd)?;
        ftruncate(&fd, bytes as u64)?;
        Ok(fd)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_mappings_of_one_memory_show_the_same_and_a_private_one_keeps_its_writes() {
        let fd = create(4 * PAGE_BYTES).unwrap();
        write(&fd, &[1; 20]).unwrap();
        let (one, other) = (Mapping::shared(&fd, 4 * PAGE_BYTES).unwrap(), Mapping::shared(&fd, PAGE_BYTES).unwrap());
        one.write(10, b"hello");
        other.populate();
        assert_eq!(other.read(8..16), b"\x01\x01hello\x01");
        let private = Mapping::private(&fd, 0, PAGE_BYTES).unwrap();
        private.write(10, b"H");
        assert_eq!((private.read(10..15), one.read(10..15)), (b"Hello".to_vec(), b"hello".to_vec()));
    }

    #[test]
    fn what_is_longer_than_the_memory_is_refused() {
        let fd = create(PAGE_BYTES).unwrap();
        assert!(Mapping::shared(&fd, PAGE_BYTES + 1).is_err());
        assert!(Mapping::private(&fd, PAGE_BYTES, 1).is_err());
    }

    #[cfg(all(target_os = "linux", not(feature = "portable")))]
    #[test]
    fn memory_cannot_be_resized_nor_written_by_new_mappings_once_that_is_forbidden() {
        let fd = create(PAGE_BYTES).unwrap();
        assert!(rustix::fs::ftruncate(&fd, 0).is_err());
        let ours = Mapping::shared(&fd, PAGE_BYTES).unwrap();
        forbid_writes(&fd);
        ours.write(0, b"still");
        assert!(Mapping::shared(&fd, PAGE_BYTES).is_err());
        assert_eq!(Mapping::private(&fd, 0, PAGE_BYTES).unwrap().read(0..5), b"still");
    }
}
