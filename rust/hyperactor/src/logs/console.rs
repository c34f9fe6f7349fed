//! The client's own streams, where the output of processes is shown.

use std::collections::HashMap;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

use super::fold::{Group, Window, write_single};
use super::{LogOptions, Origin, Said, Stream};
use crate::id::MeshId;

/// Folds lines and writes them, each with whose it is.
#[derive(Default)]
pub struct Console {
    host: String,
    streams: HashMap<Stream, Shown>,
    windows: HashMap<(MeshId, Stream), (Window, LogOptions)>,
}

/// One of the client's streams.
struct Shown {
    descriptor: BorrowedFd<'static>,
    buffer: Vec<u8>,
}

/// What a pipe takes whole, so that no other writer's text comes between.
const WHOLE_BYTES: usize = 4096;

impl Console {
    /// For the client on `host`: where its standard output and standard error are shown, if anywhere.
    pub fn new(host: &str, stdout: Option<BorrowedFd<'static>>, stderr: Option<BorrowedFd<'static>>) -> Self {
        let shown = |descriptor| Shown { descriptor, buffer: Vec::new() };
        let streams = [(Stream::Stdout, stdout), (Stream::Stderr, stderr)];
        let streams = streams.into_iter().filter_map(|(stream, descriptor)| Some((stream, shown(descriptor?))));
        Self { host: host.into(), streams: streams.collect(), windows: HashMap::new() }
    }

    /// Take a line without its end.
    pub(super) fn line(
        &mut self,
        origin: &Arc<Origin>,
        stream: Stream,
        line: &[u8],
        options: &LogOptions,
        now: Instant,
    ) {
        let key = (origin.proc.mesh, stream);
        if self.windows.get(&key).is_some_and(|(_, before)| before != options) {
            self.let_out(key);
        }
        if options.window_ms == 0 {
            if let Some(shown) = self.streams.get_mut(&stream) {
                write_single(origin, line, &mut shown.buffer, options.ranks, &self.host);
            }
            return;
        }
        let (window, _) = self.windows.entry(key).or_insert_with(|| (Window::new(now, options), options.clone()));
        if !window.push(origin, line, options.merge_numbers) {
            self.let_out(key);
        }
    }

    /// Take what another host says, with the text of its lines.
    pub(super) fn hear(&mut self, said: Vec<Said>, text: &[u8], now: Instant) {
        let mut rest = text;
        for said in said {
            match said {
                Said::Lines { origin, stream, options, bytes } => {
                    // What contradicts itself is taken as far as it goes.
                    let (lines, after) = rest.split_at(rest.len().min(bytes as usize));
                    rest = after;
                    let origin = Arc::new(origin);
                    for line in lines.split_inclusive(|byte| *byte == b'\n') {
                        self.line(&origin, stream, line.strip_suffix(b"\n").unwrap_or(line), &options, now);
                    }
                }
                Said::LetOut(mesh) => self.let_out_mesh(mesh),
                Said::Complaint(text) => self.complain(&text),
            }
        }
    }

    /// A word of the runtime itself.
    pub(super) fn complain(&mut self, text: &str) {
        if let Some(shown) = self.streams.get_mut(&Stream::Stderr) {
            shown.buffer.extend_from_slice(format!("monarch: {text}\n").as_bytes());
        }
    }

    /// Let out what waits for equal lines in a mesh.
    pub(super) fn let_out_mesh(&mut self, mesh: MeshId) {
        self.let_out((mesh, Stream::Stdout));
        self.let_out((mesh, Stream::Stderr));
    }

    /// Let out all that has waited long enough.
    pub(super) fn let_out_due(&mut self, now: Instant) {
        let due: Vec<_> = self.windows.iter().filter(|(_, (w, _))| w.due <= now).map(|(key, _)| *key).collect();
        due.into_iter().for_each(|key| self.let_out(key));
    }

    /// Let out everything.
    pub(super) fn let_out_all(&mut self) {
        let all: Vec<_> = self.windows.keys().copied().collect();
        all.into_iter().for_each(|key| self.let_out(key));
    }

    /// When [`Console::let_out_due`] has something to do.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.windows.values().map(|(window, _)| window.due).min()
    }

    /// Write what was let out. Waits for a reader where there is one.
    pub(super) fn write(&mut self) {
        self.streams.retain(|_, shown| {
            let buffer = std::mem::take(&mut shown.buffer);
            pieces(&buffer).all(|piece| write_all(shown.descriptor, piece))
        });
    }

    /// How much is ready to be written.
    pub(super) fn unwritten_bytes(&self) -> usize {
        self.streams.values().map(|shown| shown.buffer.len()).sum()
    }

    fn let_out(&mut self, key: (MeshId, Stream)) {
        let Some((window, options)) = self.windows.remove(&key) else { return };
        window.into_groups().iter().for_each(|group| self.show(key.1, group, options.ranks));
    }

    fn show(&mut self, stream: Stream, group: &Group, ranks: bool) {
        if let Some(shown) = self.streams.get_mut(&stream) {
            group.write(&mut shown.buffer, ranks, &self.host);
        }
    }
}

/// Whole lines, as many as a pipe takes at once; a longer line is alone.
fn pieces(mut text: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        if text.is_empty() {
            return None;
        }
        let end = if text.len() <= WHOLE_BYTES {
            text.len()
        } else {
            let last = text[..WHOLE_BYTES].iter().rposition(|byte| *byte == b'\n');
            last.or_else(|| text.iter().position(|byte| *byte == b'\n')).map_or(text.len(), |at| at + 1)
        };
        let (piece, rest) = text.split_at(end);
        text = rest;
        Some(piece)
    })
}

/// False when nobody reads there any more.
fn write_all(descriptor: BorrowedFd<'_>, mut text: &[u8]) -> bool {
    while !text.is_empty() {
        match rustix::io::write(descriptor, text) {
            Ok(count) => text = &text[count..],
            Err(Errno::INTR) => {}
            // The program, or another one at the same terminal, has made it so.
            Err(Errno::AGAIN) => drop(poll(&mut [PollFd::from_borrowed_fd(descriptor, PollFlags::OUT)], None)),
            Err(_) => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_end_with_lines_and_lose_nothing() {
        let long = "x".repeat(2 * WHOLE_BYTES);
        let text = format!("{}{long}\nend", "a line\n".repeat(WHOLE_BYTES / 5));
        let all: Vec<&[u8]> = pieces(text.as_bytes()).collect();
        assert_eq!(all.concat(), text.as_bytes());
        let (last, before) = all.split_last().unwrap();
        assert_eq!(last, b"end");
        assert!(before.iter().all(|piece| piece.ends_with(b"\n")));
        assert!(before.iter().all(|piece| piece.len() <= WHOLE_BYTES || piece.len() == long.len() + 1));
    }
}
