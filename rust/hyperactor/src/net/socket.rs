//! Sockets between hosts: connecting and listening, before anybody has proven anything.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::net::sockopt;

use super::address::Address;
use super::protocol::Unreachable;
use crate::sys::fork::Descriptor;
use crate::sys::socket::peer_user;

/// How long one try to connect may take.
const CONNECT_PATIENCE: Duration = Duration::from_secs(5);

/// How many connections may wait to be taken at a descriptor that others have opened.
const BACKLOG: i32 = 128;

/// How long a host may be silent before its connection counts as lost; its kernel answers probes also when it is busy.
const SILENCE: Duration = Duration::from_secs(10);

/// A socket that listens, and its file where it has one.
#[derive(Debug)]
pub struct Bound {
    socket: Descriptor,
    file: Option<PathBuf>,
    /// Where it listens, with the port that the system chose.
    pub address: Address,
    /// Whether others than this machine's can reach it.
    pub is_exposed: bool,
}

impl Bound {
    /// Listen at `address`.
    pub fn new(address: &Address) -> io::Result<Self> {
        match address {
            Address::Tcp(host, port) => Self::tcp(host.as_deref(), *port),
            Address::Inherited(host, number) => {
                let socket = crate::sys::fork::adopt(*number)?;
                // Fails for what is no socket or is connected, and changes nothing for one that listens.
                rustix::net::listen(&socket, BACKLOG)?;
                Self::of_listener(socket.into(), Some(host))
            }
            Address::Path(path) => {
                let listener = listen_at_path(path)?;
                Ok(Self::local(listener.into(), Some(path.clone()), address))
            }
            Address::Abstract(name) => Ok(Self::local(listen_abstract(name)?.into(), None, address)),
        }
    }

    fn local(socket: OwnedFd, file: Option<PathBuf>, address: &Address) -> Self {
        Self { socket: Descriptor::new(socket), file, address: address.clone(), is_exposed: false }
    }

    fn tcp(host: Option<&str>, port: u16) -> io::Result<Self> {
        let listener = match host {
            Some(host) => TcpListener::bind(&resolve(host, port)?[..])?,
            // Also serves IPv4, unless the machine has no IPv6.
            None => TcpListener::bind(("::", port)).or_else(|_| TcpListener::bind(("0.0.0.0", port)))?,
        };
        Self::of_listener(listener, host)
    }

    fn of_listener(listener: TcpListener, host: Option<&str>) -> io::Result<Self> {
        let bound = listener.local_addr()?;
        listener.set_nonblocking(true)?;
        Ok(Self {
            socket: Descriptor::new(listener.into()),
            file: None,
            address: Address::Tcp(host.map(Into::into), bound.port()),
            is_exposed: !bound.ip().is_loopback(),
        })
    }

    /// The next connection that waits; none if none waits. Others than this user and root are hung up on where the
    /// system tells who they are.
    pub fn accept(&self) -> io::Result<Option<OwnedFd>> {
        loop {
            let socket = match rustix::net::accept(&self.socket) {
                Ok(socket) => socket,
                Err(rustix::io::Errno::AGAIN) => return Ok(None),
                Err(rustix::io::Errno::INTR | rustix::io::Errno::CONNABORTED) => continue,
                Err(error) => return Err(error.into()),
            };
            crate::sys::socket::close_on_exec(&socket)?;
            match self.address {
                Address::Tcp(..) => tune(&socket)?,
                _ if !is_same_user(&socket) => continue,
                _ => {}
            }
            return Ok(Some(socket));
        }
    }
}

impl AsFd for Bound {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        if let Some(file) = self.file.as_ref().filter(|_| !crate::sys::fork::is_forked_child()) {
            let _ = std::fs::remove_file(file);
        }
    }
}

/// Connect, trying all numbers of a name in turn.
pub fn connect(address: &Address) -> io::Result<OwnedFd> {
    let socket: OwnedFd = match address {
        Address::Path(path) => UnixStream::connect(path)?.into(),
        Address::Abstract(name) => connect_abstract(name)?.into(),
        Address::Inherited(..) => {
            let cause = "a descriptor is for listening only; give the port to connect to";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, cause));
        }
        Address::Tcp(host, port) => {
            let host = host.as_deref().ok_or_else(|| {
                io::Error::new(io::ErrorKind::InvalidInput, "`*` is for listening only; name the host to connect to")
            })?;
            let stream = connect_tcp(&resolve(host, *port)?)?;
            tune(&stream)?;
            return Ok(stream.into());
        }
    };
    if !is_same_user(&socket) {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "another user listens there"));
    }
    Ok(socket)
}

/// Why somebody could not be connected to.
pub fn unreachable(error: &io::Error) -> Unreachable {
    let reason = match error.kind() {
        io::ErrorKind::ConnectionRefused => "nobody listens there; is its `monarch worker` running?".into(),
        io::ErrorKind::NotFound => format!("nobody listens there ({error})"),
        _ => format!("cannot connect: {error}"),
    };
    let is_nobody_there = matches!(error.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound);
    Unreachable { is_nobody_there, reason }
}

fn connect_tcp(addresses: &[SocketAddr]) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in addresses {
        match TcpStream::connect_timeout(address, CONNECT_PATIENCE) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn resolve(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    if let Ok(number) = host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(number, port)]);
    }
    let found: Vec<SocketAddr> = (host, port).to_socket_addrs()?.collect();
    if found.is_empty() {
        return Err(io::Error::new(io::ErrorKind::NotFound, "the name has no address"));
    }
    Ok(found)
}

/// Small messages leave at once, and a machine that is gone is noticed.
fn tune(socket: impl AsFd) -> io::Result<()> {
    sockopt::set_tcp_nodelay(&socket, true)?;
    sockopt::set_socket_keepalive(&socket, true)?;
    // Where a system lacks one of these, the others do.
    let _ = sockopt::set_tcp_keepidle(&socket, SILENCE / 4);
    let _ = sockopt::set_tcp_keepintvl(&socket, SILENCE / 4);
    let _ = sockopt::set_tcp_keepcnt(&socket, 3);
    #[cfg(target_os = "linux")]
    let _ = sockopt::set_tcp_user_timeout(&socket, SILENCE.as_millis() as u32);
    Ok(())
}

fn is_same_user(socket: &OwnedFd) -> bool {
    peer_user(socket.as_fd()).is_ok_and(|user| user == 0 || user == rustix::process::geteuid().as_raw())
}

fn listen_at_path(path: &Path) -> io::Result<UnixListener> {
    // A host that was killed leaves its name behind.
    if UnixStream::connect(path).is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused) {
        let _ = std::fs::remove_file(path);
    }
    let listener = UnixListener::bind(path)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

#[cfg(target_os = "linux")]
fn abstract_name(name: &str) -> io::Result<std::os::unix::net::SocketAddr> {
    use std::os::linux::net::SocketAddrExt;

    std::os::unix::net::SocketAddr::from_abstract_name(name)
}

#[cfg(target_os = "linux")]
fn listen_abstract(name: &str) -> io::Result<UnixListener> {
    let listener = UnixListener::bind_addr(&abstract_name(name)?)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

#[cfg(target_os = "linux")]
fn connect_abstract(name: &str) -> io::Result<UnixStream> {
    UnixStream::connect_addr(&abstract_name(name)?)
}

#[cfg(not(target_os = "linux"))]
fn listen_abstract(_: &str) -> io::Result<UnixListener> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "this system has no abstract sockets; use ipc:///path"))
}

#[cfg(not(target_os = "linux"))]
fn connect_abstract(name: &str) -> io::Result<UnixStream> {
    listen_abstract(name).map(|_| unreachable!("it always fails"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bound(text: &str) -> Bound {
        Bound::new(&text.parse().unwrap()).unwrap()
    }

    #[test]
    fn a_port_that_the_system_chose_can_be_connected_to() {
        for text in ["tcp://127.0.0.1:0", "tcp://localhost:0"] {
            let listener = bound(text);
            assert!(!listener.is_exposed);
            connect(&listener.address).unwrap();
            crate::sys::poll::readable([listener.as_fd()], None).unwrap();
            assert!(listener.accept().unwrap().is_some());
        }
    }

    #[test]
    fn every_interface_is_exposed_and_serves_loopback() {
        let listener = bound("tcp://*:0");
        assert!(listener.is_exposed);
        let Address::Tcp(None, port) = listener.address else { panic!("{}", listener.address) };
        connect(&Address::Tcp(Some("127.0.0.1".into()), port)).unwrap();
        assert!(connect(&listener.address).unwrap_err().to_string().contains("for listening only"));
    }

    #[test]
    fn a_name_left_behind_is_taken_over_and_a_living_one_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("host");
        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists(), "left behind");
        let listener = bound(&format!("ipc://{}", path.display()));
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        Bound::new(&listener.address).unwrap_err();
        connect(&listener.address).unwrap();
        drop(listener);
        assert!(!path.exists());
    }
}
