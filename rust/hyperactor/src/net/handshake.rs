//! The first words on a connection between hosts: both ends prove that they have the cluster key, in four messages of
//! bounded length, before anything else is parsed.
//!
//! ```text
//! dialer                                  listener
//!   hello      version, nonce        →
//!                                    ←    challenge  version, nonce     (or refusal, in words)
//!   proof      MAC of both messages  →
//!                                    ←    proof      MAC of both messages (or refusal)
//! ```
//! Every message is `"Mh"`, a kind, a length of two bytes (little-endian), and at most [`LONGEST_BODY`] bytes. A proof is
//! HMAC-SHA256 under the key over the role of its sender and everything that was said before; both nonces are in there,
//! so nothing that was ever recorded can be said again.
//!
//! # Invariants
//! - **HANDSHAKE-1** A listener that has a key says nothing but its version and a nonce to whoever does not prove the key.
//! - **HANDSHAKE-2** Each end names both versions when they differ.
//! - **HANDSHAKE-3** All of it takes at most [`PATIENCE`], and at most one message is kept in memory.

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use hmac::{Hmac, Mac};
use sha2::Sha256;

use super::key::ClusterKey;
use crate::sys::poll;

/// The version of everything that hosts say to each other, beside the package's own.
pub const PROTOCOL: u16 = 1;

/// The longest that a stranger may say at once.
pub const LONGEST_BODY: usize = 512;

/// How long a whole handshake may take.
pub const PATIENCE: Duration = Duration::from_secs(5);

const MAGIC: [u8; 2] = *b"Mh";
const HEAD_BYTES: usize = 5;
const NONCE_BYTES: usize = 32;
const PROOF_BYTES: usize = 32;

/// What an end demands of the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Auth {
    /// The proof of this key.
    Key(ClusterKey),
    /// Nothing: the socket vouches for the other end's user, or the user does not want to know.
    Open,
}

/// Why a handshake failed, as words for a person.
#[derive(Debug, PartialEq, Eq)]
pub enum Failure {
    /// The other end said no, and why.
    Refused(String),
    /// The other end is not one of ours, or too slow.
    Stranger(String),
    /// This end says no; the other one was told.
    Refusing(String),
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (Self::Refused(text) | Self::Stranger(text) | Self::Refusing(text)) = self;
        f.write_str(text)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Kind {
    Hello = 1,
    Challenge = 2,
    Proof = 3,
    Refusal = 4,
}

/// What both ends introduce themselves with.
#[derive(Debug, PartialEq, Eq)]
struct Introduction {
    protocol: u16,
    has_key: bool,
    nonce: [u8; NONCE_BYTES],
    version: String,
}

impl Introduction {
    fn new(version: &str, auth: &Auth) -> Result<Self, Failure> {
        let mut nonce = [0; NONCE_BYTES];
        getrandom::fill(&mut nonce).map_err(|error| Failure::Stranger(format!("no randomness: {error}")))?;
        Ok(Self { protocol: PROTOCOL, has_key: matches!(auth, Auth::Key(_)), nonce, version: version.into() })
    }

    fn encode(&self) -> Vec<u8> {
        let mut body = self.protocol.to_le_bytes().to_vec();
        body.push(self.has_key.into());
        body.extend(self.nonce);
        body.extend(self.version.as_bytes());
        body
    }

    fn decode(body: &[u8]) -> Result<Self, Failure> {
        let broken = || Failure::Stranger("it does not introduce itself as a monarch host does".into());
        let (fixed, version) = body.split_at_checked(3 + NONCE_BYTES).ok_or_else(broken)?;
        Ok(Self {
            protocol: u16::from_le_bytes([fixed[0], fixed[1]]),
            has_key: fixed[2] != 0,
            nonce: fixed[3..].try_into().map_err(|_| broken())?,
            version: String::from_utf8_lossy(version).chars().filter(|c| !c.is_control()).collect(),
        })
    }

    fn check_version(&self, ours: &Self) -> Result<(), Failure> {
        if (self.protocol, &self.version) == (ours.protocol, &ours.version) {
            return Ok(());
        }
        Err(Failure::Refusing(format!(
            "the versions differ: here runs monarch {} (protocol {}), there {} (protocol {}); install the same one on \
             every host",
            ours.version, ours.protocol, self.version, self.protocol
        )))
    }
}

/// Shake hands as the end that connected.
pub fn dial(socket: &OwnedFd, version: &str, auth: &Auth) -> Result<(), Failure> {
    let mut wire = Wire::new(socket);
    let ours = Introduction::new(version, auth)?;
    wire.say(Kind::Hello, &ours.encode())?;
    let theirs = Introduction::decode(&wire.hear(Kind::Challenge)?)?;
    theirs.check_version(&ours)?;
    if let (Auth::Key(_), false) = (auth, theirs.has_key) {
        // It may be anybody who listens there.
        return Err(Failure::Refusing(
            "it has no cluster key, so it cannot prove that it belongs to the cluster".into(),
        ));
    }
    let proof = wire.proof("dialer", auth);
    let expected = wire.verifier("listener", auth);
    wire.say(Kind::Proof, &proof)?;
    let proven = wire.hear(Kind::Proof)?;
    expected.verify_slice(&proven).map_err(|_| Failure::Refusing("it has another cluster key".into()))
}

/// Shake hands as the end that listened. What an unproven end sends is bounded in length and time.
pub fn accept(socket: &OwnedFd, version: &str, auth: &Auth) -> Result<(), Failure> {
    let mut wire = Wire::new(socket);
    let ours = Introduction::new(version, auth)?;
    let theirs = Introduction::decode(&wire.hear(Kind::Hello)?)?;
    wire.or_refuse(theirs.check_version(&ours))?;
    if let (Auth::Key(_), false) = (auth, theirs.has_key) {
        let text = "this host demands the cluster key, and the client has none: copy the host's key file to the client, \
                    mode 0600, or name it in MONARCH_CLUSTER_KEY_FILE";
        wire.or_refuse(Err(Failure::Refusing(text.into())))?;
    }
    wire.say(Kind::Challenge, &ours.encode())?;
    let proof = wire.proof("listener", auth);
    let expected = wire.verifier("dialer", auth);
    let proven = wire.hear(Kind::Proof)?;
    let text = "the cluster keys differ: give client and host the same key file (`monarch key create` makes one)";
    wire.or_refuse(expected.verify_slice(&proven).map_err(|_| Failure::Refusing(text.into())))?;
    wire.say(Kind::Proof, &proof)
}

/// Tell an end that connected why it is not served, once it has introduced itself.
pub fn refuse(socket: &OwnedFd, why: &str) -> Result<(), Failure> {
    let mut wire = Wire::new(socket);
    wire.hear(Kind::Hello)?;
    wire.or_refuse(Err(Failure::Refusing(why.into())))
}

/// One message at a time, within the patience, and what was said so far.
struct Wire<'a> {
    socket: &'a OwnedFd,
    deadline: Instant,
    transcript: Vec<u8>,
}

impl<'a> Wire<'a> {
    fn new(socket: &'a OwnedFd) -> Self {
        Self { socket, deadline: Instant::now() + PATIENCE, transcript: Vec::new() }
    }

    fn say(&mut self, kind: Kind, body: &[u8]) -> Result<(), Failure> {
        let mut message = MAGIC.to_vec();
        message.push(kind as u8);
        message.extend((body.len() as u16).to_le_bytes());
        message.extend(body);
        // A few hundred bytes always fit into the buffer of a new socket.
        let slices = [std::io::IoSlice::new(&message)];
        let sent = crate::sys::socket::send(self.socket, &slices, &[]).map_err(|error| lost(&error))?;
        if sent != message.len() {
            return Err(Failure::Stranger("it takes nothing".into()));
        }
        self.transcript.extend(message);
        Ok(())
    }

    fn hear(&mut self, wanted: Kind) -> Result<Vec<u8>, Failure> {
        let mut head = [0; HEAD_BYTES];
        self.fill(&mut head)?;
        let length = usize::from(u16::from_le_bytes([head[3], head[4]]));
        let is_ours = head[..2] == MAGIC && (head[2] == wanted as u8 || head[2] == Kind::Refusal as u8);
        if !is_ours || length > LONGEST_BODY {
            return Err(Failure::Stranger("what is there does not speak as a monarch host does".into()));
        }
        let mut body = vec![0; length];
        self.fill(&mut body)?;
        if head[2] == Kind::Refusal as u8 {
            let text = String::from_utf8_lossy(&body);
            return Err(Failure::Refused(text.chars().filter(|c| !c.is_control()).collect()));
        }
        self.transcript.extend(head);
        self.transcript.extend(&body);
        Ok(body)
    }

    fn fill(&self, mut buffer: &mut [u8]) -> Result<(), Failure> {
        while !buffer.is_empty() {
            let left = self.deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Failure::Stranger(format!("it did not introduce itself within {} s", PATIENCE.as_secs())));
            }
            poll::readable([self.socket.as_fd()], Some(left)).map_err(|error| lost(&error))?;
            match crate::sys::socket::receive(self.socket, buffer, &mut Vec::new()) {
                Ok(0) => return Err(Failure::Stranger("it hung up".into())),
                Ok(count) => buffer = &mut buffer[count..],
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(lost(&error)),
            }
        }
        Ok(())
    }

    /// Tell the other end why it is refused.
    fn or_refuse(&mut self, outcome: Result<(), Failure>) -> Result<(), Failure> {
        if let Err(failure) = &outcome {
            let text = failure.to_string();
            let _ = self.say(Kind::Refusal, &text.as_bytes()[..text.len().min(LONGEST_BODY)]);
        }
        outcome
    }

    fn proof(&self, role: &str, auth: &Auth) -> [u8; PROOF_BYTES] {
        self.verifier(role, auth).finalize().into_bytes().into()
    }

    fn verifier(&self, role: &str, auth: &Auth) -> Hmac<Sha256> {
        let secret = match auth {
            Auth::Key(key) => key.secret(),
            Auth::Open => &[],
        };
        // HMAC takes a key of any length.
        let mut mac = Hmac::<Sha256>::new_from_slice(secret).unwrap_or_else(|_| unreachable!("any length will do"));
        mac.update(role.as_bytes());
        mac.update(&self.transcript);
        mac
    }
}

fn lost(error: &std::io::Error) -> Failure {
    Failure::Stranger(format!("the connection was lost: {error}"))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    use proptest::prelude::*;

    use super::*;

    fn key(text: &str) -> Auth {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("key");
        std::fs::write(&path, text.repeat(16)).unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        Auth::Key(ClusterKey::read(&path).unwrap().unwrap())
    }

    type Outcome = Result<(), Failure>;

    fn shake(dialer: (&'static str, Auth), listener: (&'static str, Auth)) -> (Outcome, Outcome) {
        let (a, b) = crate::sys::socket::pair().unwrap();
        let dialing = std::thread::spawn(move || dial(&a, dialer.0, &dialer.1));
        let accepted = accept(&b, listener.0, &listener.1);
        drop(b);
        (dialing.join().unwrap(), accepted)
    }

    #[test]
    fn ends_with_the_same_key_and_version_agree() {
        assert_eq!(shake(("1.0", key("a")), ("1.0", key("a"))), (Ok(()), Ok(())));
        assert_eq!(shake(("1.0", Auth::Open), ("1.0", Auth::Open)), (Ok(()), Ok(())));
    }

    #[test]
    fn another_key_is_refused_with_what_to_do() {
        let (dialed, accepted) = shake(("1.0", key("a")), ("1.0", key("b")));
        assert!(matches!(&dialed, Err(Failure::Refused(text)) if text.contains("same key file")), "{dialed:?}");
        assert!(accepted.is_err());
    }

    #[test]
    fn no_key_is_refused_with_what_to_do() {
        let (dialed, accepted) = shake(("1.0", Auth::Open), ("1.0", key("b")));
        assert!(
            matches!(&dialed, Err(Failure::Refused(text)) if text.contains("MONARCH_CLUSTER_KEY_FILE")),
            "{dialed:?}"
        );
        assert!(accepted.is_err());
    }

    #[test]
    fn a_dialer_with_a_key_trusts_no_listener_without_one() {
        let (dialed, accepted) = shake(("1.0", key("a")), ("1.0", Auth::Open));
        assert!(matches!(&dialed, Err(Failure::Refusing(text)) if text.contains("no cluster key")), "{dialed:?}");
        assert!(accepted.is_err());
    }

    #[test]
    fn handshake_2_different_versions_are_both_named_at_both_ends() {
        let (dialed, accepted) = shake(("1.0", key("a")), ("2.0", key("a")));
        for outcome in [dialed.unwrap_err().to_string(), accepted.unwrap_err().to_string()] {
            assert!(outcome.contains("monarch 2.0") && outcome.contains("there 1.0"), "{outcome}");
        }
    }

    #[test]
    fn a_recorded_dialer_cannot_be_replayed() {
        // Record what a true dialer says through a relay, then say it again.
        let (dialer, relay_front) = UnixStream::pair().unwrap();
        let (mut relay_back, listener) = UnixStream::pair().unwrap();
        let listening = std::thread::spawn(move || accept(&listener.into(), "1.0", &key("a")));
        let dialing = std::thread::spawn(move || dial(&dialer.into(), "1.0", &key("a")));
        let mut front = relay_front;
        let mut recorded = Vec::new();
        for from_dialer in [true, false, true, false] {
            let (from, to) = if from_dialer { (&mut front, &mut relay_back) } else { (&mut relay_back, &mut front) };
            let mut head = [0; HEAD_BYTES];
            from.read_exact(&mut head).unwrap();
            let mut message = head.to_vec();
            message.resize(HEAD_BYTES + usize::from(u16::from_le_bytes([head[3], head[4]])), 0);
            from.read_exact(&mut message[HEAD_BYTES..]).unwrap();
            to.write_all(&message).unwrap();
            if from_dialer {
                recorded.extend(message);
            }
        }
        assert_eq!((dialing.join().unwrap(), listening.join().unwrap()), (Ok(()), Ok(())));

        let (mut replayer, listener) = UnixStream::pair().unwrap();
        replayer.write_all(&recorded).unwrap();
        let outcome = accept(&listener.into(), "1.0", &key("a"));
        assert!(matches!(&outcome, Err(Failure::Refusing(text)) if text.contains("keys differ")), "{outcome:?}");
    }

    #[test]
    fn a_proof_of_one_role_does_not_serve_for_the_other() {
        // A stranger that dials and sends back what the listener says.
        let (mut stranger, listener) = UnixStream::pair().unwrap();
        let hello = Introduction::new("1.0", &key("a")).unwrap();
        let mut message = MAGIC.to_vec();
        message.push(Kind::Hello as u8);
        message.extend((hello.encode().len() as u16).to_le_bytes());
        message.extend(hello.encode());
        message.extend(b"Mh\x03\x20\x00");
        message.extend([7; PROOF_BYTES]);
        stranger.write_all(&message).unwrap();
        assert!(accept(&listener.into(), "1.0", &key("a")).is_err());
        let mut heard = Vec::new();
        stranger.read_to_end(&mut heard).unwrap();
        assert_eq!(heard[2], Kind::Challenge as u8);
        let after = &heard[HEAD_BYTES + usize::from(u16::from_le_bytes([heard[3], heard[4]]))..];
        assert_eq!(after[2], Kind::Refusal as u8, "HANDSHAKE-1: no proof for who proved nothing");
    }

    proptest! {
        #[test]
        fn garbage_is_refused(garbage in prop::collection::vec(any::<u8>(), 0..600)) {
            let (mut stranger, listener) = UnixStream::pair().unwrap();
            stranger.write_all(&garbage).unwrap();
            stranger.shutdown(std::net::Shutdown::Write).unwrap();
            prop_assert!(accept(&listener.into(), "1.0", &key("a")).is_err());
        }

        #[test]
        fn a_hello_that_was_tampered_with_is_refused(at in HEAD_BYTES..HEAD_BYTES + 3 + NONCE_BYTES + 3, flip in 1u8..) {
            let (dialer, mut relay_front) = UnixStream::pair().unwrap();
            let (mut relay_back, listener) = UnixStream::pair().unwrap();
            let listening = std::thread::spawn(move || accept(&listener.into(), "1.0", &key("a")));
            let dialing = std::thread::spawn(move || dial(&dialer.into(), "1.0", &key("a")));
            let mut hello = vec![0; HEAD_BYTES + 3 + NONCE_BYTES + 3];
            relay_front.read_exact(&mut hello).unwrap();
            hello[at] ^= flip;
            relay_back.write_all(&hello).unwrap();
            let mut back = relay_back.try_clone().unwrap();
            let mut front = relay_front.try_clone().unwrap();
            let up = std::thread::spawn(move || { let _ = std::io::copy(&mut relay_front, &mut relay_back);
                let _ = relay_back.shutdown(std::net::Shutdown::Write); });
            let down = std::thread::spawn(move || { let _ = std::io::copy(&mut back, &mut front);
                let _ = front.shutdown(std::net::Shutdown::Both); });
            let dialed = dialing.join().unwrap();
            let accepted = listening.join().unwrap();
            prop_assert!(dialed.is_err() && accepted.is_err(), "{dialed:?} {accepted:?}");
            up.join().unwrap();
            down.join().unwrap();
        }
    }
}
