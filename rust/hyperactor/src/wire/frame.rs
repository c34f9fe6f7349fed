//! Frames: a fixed prologue, a table of part lengths, a header, and the parts themselves.
//!
//! ```text
//! offset  size  field
//!      0     2  magic "Mo"
//!      2     1  version
//!      3     1  priority
//!      4     4  length of the header
//!      8     2  number of parts
//!     10     1  number of descriptors that travel with the frame
//!     11     5  zero
//!     16   8*n  length of each part
//!            …  header, then the parts, without gaps
//! ```
//! Integers are little-endian. Whoever forwards a frame copies and decodes none of its parts. Every length is compared
//! with [`Limits`] before memory is reserved for it.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use serde::{Serialize, de::DeserializeOwned};

/// The version of the frame format, refused when another one arrives.
pub const VERSION: u8 = 1;

const MAGIC: [u8; 2] = *b"Mo";
const PROLOGUE_BYTES: usize = 16;

/// As long as the header of a request is; others grow.
const HEADER_BYTES: usize = 128;

/// What goes first where frames queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord)]
#[repr(u8)]
pub enum Priority {
    /// Requests and answers of user code.
    User = 0,
    /// Stop, supervision, links.
    Control = 1,
}

/// Bounds for what is received.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Longest header.
    pub header_bytes: usize,
    /// Most parts.
    pub parts: usize,
    /// Longest frame.
    pub frame_bytes: u64,
}

impl Default for Limits {
    /// Headers are small by construction; ten gigabytes is what programs in the field are promised for a message.
    fn default() -> Self {
        Self { header_bytes: 1 << 20, parts: 4096, frame_bytes: 10 << 30 }
    }
}

/// Why bytes are not a frame. All of these are the peer's fault.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum FrameError {
    /// The header does not decode.
    #[error("a frame's header does not decode: {0}")]
    Header(postcard::Error),
    /// The stream does not start with a frame.
    #[error("the stream does not hold a frame where one should start")]
    Magic,
    /// The priority is unknown.
    #[error("a frame has the unknown priority {0}")]
    Priority(u8),
    /// A length is beyond its limit.
    #[error("a frame's {what} is {value}, more than the limit of {limit}")]
    TooLong {
        /// Which length.
        what: &'static str,
        /// Its value.
        value: u64,
        /// The limit.
        limit: u64,
    },
    /// The peer speaks another version.
    #[error("the peer speaks version {0} of the frame format, this process version {VERSION}")]
    Version(u8),
}

/// One frame, its parts shared with whoever received or made them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Its place in a queue.
    pub priority: Priority,
    /// The encoded header.
    pub header: Bytes,
    /// The payload, in parts that were never joined.
    pub parts: Vec<Bytes>,
    /// How many descriptors travel with it.
    pub descriptors: u8,
    /// Nobody waits for it, so it may wait a little for others to leave with. Stays here: the wire does not tell.
    pub can_wait: bool,
}

impl Frame {
    /// A frame around `header`, without descriptors.
    pub fn new<H: Serialize>(priority: Priority, header: &H, parts: Vec<Bytes>) -> Result<Self, FrameError> {
        let room = Vec::with_capacity(HEADER_BYTES);
        let header = postcard::to_extend(header, room).map_err(FrameError::Header)?;
        Ok(Self { priority, header: header.into(), parts, descriptors: 0, can_wait: false })
    }

    /// The header as the type that this link carries.
    pub fn decode_header<H: DeserializeOwned>(&self) -> Result<H, FrameError> {
        postcard::from_bytes(&self.header).map_err(FrameError::Header)
    }

    /// Prologue, lengths and header in one piece; the parts follow it on the wire.
    pub fn encode_head(&self) -> Bytes {
        let mut head = BytesMut::with_capacity(PROLOGUE_BYTES + 8 * self.parts.len() + self.header.len());
        head.put_slice(&MAGIC);
        head.put_u8(VERSION);
        head.put_u8(self.priority as u8);
        head.put_u32_le(self.header.len() as u32);
        head.put_u16_le(self.parts.len() as u16);
        head.put_u8(self.descriptors);
        head.put_bytes(0, 5);
        for part in &self.parts {
            head.put_u64_le(part.len() as u64);
        }
        head.put_slice(&self.header);
        head.freeze()
    }

    /// The length on the wire.
    pub fn encoded_bytes(&self) -> usize {
        let parts: usize = self.parts.iter().map(Bytes::len).sum();
        PROLOGUE_BYTES + 8 * self.parts.len() + self.header.len() + parts
    }
}

/// What the front of a buffer holds.
#[derive(Debug)]
pub enum Decoded {
    /// A whole frame; its bytes are gone from the buffer.
    Frame(Frame),
    /// The beginning of a frame whose end is missing: at least so many bytes more.
    Missing(usize),
}

/// Take the first frame off `buffer`.
pub fn decode(buffer: &mut BytesMut, limits: &Limits) -> Result<Decoded, FrameError> {
    let layout = match Front::of(buffer, limits)? {
        Front::Known(layout) if layout.total() <= buffer.len() => layout,
        front => return Ok(Decoded::Missing(front.needed() - buffer.len())),
    };
    buffer.advance(layout.head.until_header());
    let header = buffer.split_to(layout.head.header_bytes).freeze();
    let parts = layout.lengths.into_iter().map(|length| buffer.split_to(length).freeze()).collect();
    Ok(Decoded::Frame(Frame {
        priority: layout.head.priority,
        header,
        parts,
        descriptors: layout.head.descriptors,
        can_wait: false,
    }))
}

/// How long the frame at the front of `bytes` is, or how many bytes it takes to tell.
pub fn needed(bytes: &[u8], limits: &Limits) -> Result<usize, FrameError> {
    Front::of(bytes, limits).map(|front| front.needed())
}

/// What the first bytes of a frame tell of it.
enum Front {
    /// Too little: so many bytes are needed to know more.
    Short(usize),
    Known(Layout),
}

struct Layout {
    head: Head,
    lengths: Vec<usize>,
}

impl Front {
    fn of(bytes: &[u8], limits: &Limits) -> Result<Self, FrameError> {
        let Some(head) = Head::parse(bytes, limits)? else { return Ok(Self::Short(PROLOGUE_BYTES)) };
        let Some(table) = bytes.get(PROLOGUE_BYTES..head.until_header()) else {
            return Ok(Self::Short(head.until_header()));
        };
        Ok(Self::Known(Layout { lengths: part_lengths(table, limits)?, head }))
    }

    fn needed(&self) -> usize {
        match self {
            Self::Short(bytes) => *bytes,
            Self::Known(layout) => layout.total(),
        }
    }
}

impl Layout {
    fn total(&self) -> usize {
        self.head.until_header() + self.head.header_bytes + self.lengths.iter().sum::<usize>()
    }
}

struct Head {
    priority: Priority,
    header_bytes: usize,
    parts: usize,
    descriptors: u8,
}

impl Head {
    fn until_header(&self) -> usize {
        PROLOGUE_BYTES + 8 * self.parts
    }

    fn parse(buffer: &[u8], limits: &Limits) -> Result<Option<Self>, FrameError> {
        let magic = &buffer[..buffer.len().min(2)];
        if magic != &MAGIC[..magic.len()] {
            return Err(FrameError::Magic);
        }
        let Some(mut prologue) = buffer.get(2..PROLOGUE_BYTES) else { return Ok(None) };
        let version = prologue.get_u8();
        if version != VERSION {
            return Err(FrameError::Version(version));
        }
        let priority = match prologue.get_u8() {
            0 => Priority::User,
            1 => Priority::Control,
            other => return Err(FrameError::Priority(other)),
        };
        let header_bytes = prologue.get_u32_le() as usize;
        within("header", header_bytes as u64, limits.header_bytes as u64)?;
        let parts = prologue.get_u16_le() as usize;
        within("number of parts", parts as u64, limits.parts as u64)?;
        Ok(Some(Self { priority, header_bytes, parts, descriptors: prologue.get_u8() }))
    }
}

fn part_lengths(mut table: &[u8], limits: &Limits) -> Result<Vec<usize>, FrameError> {
    let mut lengths = Vec::with_capacity(table.len() / 8);
    let mut total = 0u64;
    while table.has_remaining() {
        let length = table.get_u64_le();
        total = total.saturating_add(length);
        within("length", total, limits.frame_bytes)?;
        lengths.push(length as usize);
    }
    Ok(lengths)
}

fn within(what: &'static str, value: u64, limit: u64) -> Result<(), FrameError> {
    if value > limit { Err(FrameError::TooLong { what, value, limit }) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn encode(frame: &Frame) -> BytesMut {
        let mut wire = BytesMut::from(&frame.encode_head()[..]);
        frame.parts.iter().for_each(|part| wire.extend_from_slice(part));
        wire
    }

    fn decode_all(wire: &[u8], chunk: usize) -> Result<Vec<Frame>, FrameError> {
        let mut buffer = BytesMut::new();
        let mut frames = Vec::new();
        for piece in wire.chunks(chunk) {
            buffer.extend_from_slice(piece);
            while let Decoded::Frame(frame) = decode(&mut buffer, &Limits::default())? {
                frames.push(frame);
            }
        }
        assert!(buffer.is_empty());
        Ok(frames)
    }

    proptest! {
        #[test]
        fn frames_survive_any_cutting_of_the_stream(
            bodies in prop::collection::vec(prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..5), 1..5),
            chunk in 1usize..50,
        ) {
            let frames: Vec<Frame> = bodies.into_iter().map(|parts| {
                Frame::new(Priority::User, &"header", parts.into_iter().map(Bytes::from).collect()).unwrap()
            }).collect();
            let wire: Vec<u8> = frames.iter().flat_map(|frame| encode(frame).to_vec()).collect();
            prop_assert_eq!(decode_all(&wire, chunk).unwrap(), frames);
        }

        #[test]
        fn garbage_never_panics(garbage in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut buffer = BytesMut::from(&garbage[..]);
            while let Ok(Decoded::Frame(_)) = decode(&mut buffer, &Limits::default()) {}
        }

        #[test]
        fn a_corrupted_prologue_never_panics(at in 0usize..40, value in any::<u8>()) {
            let frame = Frame::new(Priority::User, &1u32, vec![Bytes::from_static(b"abc")]).unwrap();
            let mut wire = encode(&frame);
            if let Some(byte) = wire.get_mut(at) { *byte = value; }
            while let Ok(Decoded::Frame(_)) = decode(&mut wire, &Limits::default()) {}
        }
    }

    #[test]
    fn a_huge_length_is_refused_before_memory_is_reserved() {
        let frame = Frame::new(Priority::User, &(), vec![Bytes::from_static(b"x")]).unwrap();
        let mut wire = encode(&frame);
        wire[16..24].copy_from_slice(&u64::MAX.to_le_bytes());
        let error = decode(&mut wire, &Limits::default()).unwrap_err();
        assert!(matches!(error, FrameError::TooLong { what: "length", .. }), "{error}");
    }

    #[test]
    fn another_version_is_named_with_ours() {
        let mut wire = encode(&Frame::new(Priority::User, &(), vec![]).unwrap());
        wire[2] = 9;
        let error = decode(&mut wire, &Limits::default()).unwrap_err();
        assert_eq!(error.to_string(), "the peer speaks version 9 of the frame format, this process version 1");
    }
}
