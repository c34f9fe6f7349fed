//! What travels: [`frame`]s, whose header is one of the postcard types of [`header`].

pub mod frame;
pub mod header;

pub use frame::{Frame, FrameError, Limits, Priority};
