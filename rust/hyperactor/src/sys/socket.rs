//! Unix sockets that carry bytes and descriptors.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketFlags, SocketType,
};

/// Most descriptors that travel with one frame.
pub const MAX_DESCRIPTORS: usize = 8;

/// Two connected stream sockets, neither of which a started program inherits.
pub fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let (a, b) = rustix::net::socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::empty(), None)?;
    for end in [&a, &b] {
        close_on_exec(end)?;
        // Without this a large message goes in small pieces, each with a wake-up of its own.
        let _ = rustix::net::sockopt::set_socket_send_buffer_size(end, SOCKET_BUFFER_BYTES);
    }
    Ok((a, b))
}

/// Send without waiting; the descriptors go with the first byte. Returns how many bytes went.
pub fn send(socket: impl AsFd, parts: &[IoSlice<'_>], descriptors: &[OwnedFd]) -> io::Result<usize> {
    let borrowed: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !borrowed.is_empty() && !control.push(SendAncillaryMessage::ScmRights(&borrowed)) {
        return Err(io::Error::other("too many descriptors for one frame"));
    }
    let flags = SendFlags::DONTWAIT | no_signal();
    match retry(|| rustix::net::sendmsg(&socket, parts, &mut control, flags)) {
        // More of this user's descriptors are on their way than the limit allows: room comes as they are received.
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::TOOMANYREFS.raw_os_error()) => {
            Err(io::ErrorKind::WouldBlock.into())
        }
        sent => sent,
    }
}

/// Receive without waiting; received descriptors are appended to `descriptors`. Zero is the end.
pub fn receive(socket: impl AsFd, buffer: &mut [u8], descriptors: &mut Vec<OwnedFd>) -> io::Result<usize> {
    receive_scattered(socket, &mut [IoSliceMut::new(buffer)], descriptors)
}

/// As [`receive`], into one slice after the other.
pub fn receive_scattered(
    socket: impl AsFd,
    slices: &mut [IoSliceMut<'_>],
    descriptors: &mut Vec<OwnedFd>,
) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::DONTWAIT | close_received_on_exec();
    let count = retry(|| rustix::net::recvmsg(&socket, slices, &mut control, flags))?.bytes;
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = message {
            for fd in received {
                close_on_exec(&fd)?;
                descriptors.push(fd);
            }
        }
    }
    Ok(count)
}

/// Let started programs not inherit `fd`.
pub fn close_on_exec(fd: impl AsFd) -> io::Result<()> {
    Ok(rustix::io::fcntl_setfd(fd, rustix::io::FdFlags::CLOEXEC)?)
}

/// The user that the process at the other end ran as when it connected or listened.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub fn peer_user(socket: BorrowedFd<'_>) -> io::Result<u32> {
    Ok(rustix::net::sockopt::socket_peercred(socket)?.uid.as_raw())
}

/// The user that the process at the other end ran as when it connected or listened.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
#[allow(unsafe_code)] // getpeereid has no safe form.
pub fn peer_user(socket: BorrowedFd<'_>) -> io::Result<u32> {
    let (mut user, mut group) = (0, 0);
    // SAFETY: the descriptor is open, and both results point to writable memory of their types.
    match unsafe { libc::getpeereid(std::os::fd::AsRawFd::as_raw_fd(&socket), &mut user, &mut group) } {
        0 => Ok(user),
        _ => Err(io::Error::last_os_error()),
    }
}

fn retry<T>(mut call: impl FnMut() -> rustix::io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(rustix::io::Errno::INTR) => {}
            other => return Ok(other?),
        }
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn no_signal() -> SendFlags {
    SendFlags::NOSIGNAL
}

/// macOS has a socket option instead; Python ignores SIGPIPE anyway, and so does the keeper.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn no_signal() -> SendFlags {
    SendFlags::empty()
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn close_received_on_exec() -> RecvFlags {
    RecvFlags::CMSG_CLOEXEC
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn close_received_on_exec() -> RecvFlags {
    RecvFlags::empty()
}

/// A pickle of a few hundred kilobytes fits, so that the usual message never waits for its receiver.
const SOCKET_BUFFER_BYTES: usize = 1 << 20;
