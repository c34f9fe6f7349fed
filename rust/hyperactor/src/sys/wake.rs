//! A descriptor that one thread makes readable to wake another: an eventfd on Linux, else a pipe.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use super::fork::Descriptor;

/// Readable after [`WakeFd::wake`] until [`WakeFd::clear`].
#[derive(Debug)]
pub struct WakeFd {
    read: Descriptor,
    /// A pipe's other end; an eventfd has only one.
    write: Option<Descriptor>,
}

impl WakeFd {
    /// A new one, not readable.
    pub fn new() -> io::Result<Self> {
        if let Some(read) = event_fd() {
            return Ok(Self { read: Descriptor::new(read), write: None });
        }
        let (read, write) = pipe()?;
        Ok(Self { read: Descriptor::new(read), write: Some(Descriptor::new(write)) })
    }

    /// Make it readable.
    pub fn wake(&self) {
        let target = self.write.as_ref().unwrap_or(&self.read);
        // A full pipe or counter is readable already, which is all that is wanted.
        let _ = rustix::io::write(target, &1u64.to_ne_bytes());
    }

    /// Make it unreadable.
    pub fn clear(&self) {
        let mut buffer = [0; 512];
        // An eventfd is empty after one read; a pipe when it does not fill the buffer.
        while rustix::io::read(&self.read, &mut buffer).is_ok_and(|count| count == buffer.len()) {}
    }
}

impl AsFd for WakeFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.read.as_fd()
    }
}

impl AsRawFd for WakeFd {
    fn as_raw_fd(&self) -> RawFd {
        self.read.as_raw_fd()
    }
}

#[cfg(all(target_os = "linux", not(feature = "portable")))]
fn event_fd() -> Option<OwnedFd> {
    use rustix::event::{EventfdFlags, eventfd};
    eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).ok()
}

#[cfg(not(all(target_os = "linux", not(feature = "portable"))))]
fn event_fd() -> Option<OwnedFd> {
    None
}

fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (read, write) = rustix::pipe::pipe()?;
    for end in [&read, &write] {
        super::socket::close_on_exec(end)?;
        rustix::io::ioctl_fionbio(end, true)?;
    }
    Ok((read, write))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn readable(fd: &WakeFd) -> bool {
        super::super::poll::readable([fd.as_fd()], Some(std::time::Duration::ZERO)).unwrap().unwrap()[0]
    }

    #[test]
    fn wakes_add_up_to_one_and_clear_takes_all_back() {
        let fd = WakeFd::new().unwrap();
        assert!(!readable(&fd));
        fd.wake();
        fd.wake();
        assert!(readable(&fd));
        fd.clear();
        assert!(!readable(&fd));
    }
}
