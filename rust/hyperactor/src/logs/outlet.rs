//! Where lines go from the thread that follows files.

use std::sync::Arc;
use std::time::Instant;

use super::{Console, Courier, LogOptions, Origin, Stream};
use crate::id::MeshId;

/// The client's console, or in another host's agent the way to it.
pub enum Outlet {
    /// The streams of this process.
    Console(Console),
    /// The client's.
    Courier(Courier),
}

impl Default for Outlet {
    fn default() -> Self {
        Self::Console(Console::default())
    }
}

impl From<Console> for Outlet {
    fn from(console: Console) -> Self {
        Self::Console(console)
    }
}

impl From<Courier> for Outlet {
    fn from(courier: Courier) -> Self {
        Self::Courier(courier)
    }
}

impl Outlet {
    /// Take a line without its end.
    pub(super) fn line(
        &mut self,
        origin: &Arc<Origin>,
        stream: Stream,
        line: &[u8],
        options: &LogOptions,
        now: Instant,
    ) {
        match self {
            Self::Console(console) => console.line(origin, stream, line, options, now),
            Self::Courier(courier) => courier.line(origin, stream, line, options),
        }
    }

    /// A word of the runtime itself.
    pub(super) fn complain(&mut self, text: &str) {
        match self {
            Self::Console(console) => console.complain(text),
            Self::Courier(courier) => courier.complain(text),
        }
    }

    /// Let out what waits for equal lines in a mesh.
    pub(super) fn let_out_mesh(&mut self, mesh: MeshId) {
        match self {
            Self::Console(console) => console.let_out_mesh(mesh),
            Self::Courier(courier) => courier.let_out_mesh(mesh),
        }
    }

    /// Hand on what was taken, as far as it does not wait for equal lines. Waits for whoever reads.
    pub(super) fn write(&mut self) {
        match self {
            Self::Console(console) => console.write(),
            Self::Courier(courier) => courier.send(),
        }
    }

    /// How much is ready to be written.
    pub(super) fn unwritten_bytes(&self) -> usize {
        match self {
            Self::Console(console) => console.unwritten_bytes(),
            Self::Courier(courier) => courier.unsent_bytes(),
        }
    }

    /// The console, where it is here: lines wait only there.
    pub(super) fn console(&mut self) -> Option<&mut Console> {
        match self {
            Self::Console(console) => Some(console),
            Self::Courier(_) => None,
        }
    }
}
