//! What the threads of a process are doing, told by the process itself also while its interpreter is busy.
//!
//! A request for it is not queued in a mailbox: whichever thread reads it starts one that answers. That asks the
//! interpreter first, which tells most and disturbs nobody. An interpreter that does not get to it is walked through from
//! outside, by the handler of a signal that the answering thread sends itself: no other thread is interrupted.

use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::mpsc;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;

use crate::message::Message;
use crate::sys::{signals, unnamed};
use crate::wire::header::Kind;

/// How the process tells.
pub struct Stacks {
    /// Asks the interpreter; returns when it gets to it.
    ask: Box<dyn Fn() -> Option<Vec<u8>> + Send + Sync>,
    walk: Option<Walk>,
}

/// The other way, which needs no interpreter.
pub struct Walk {
    signal: i32,
    file: Mutex<File>,
}

/// How long the interpreter may take to get to it. It lets another thread go on every few milliseconds unless it is in
/// code that does not let it.
const INTERPRETER_PATIENCE: Duration = Duration::from_millis(500);

impl Walk {
    /// `signal` has to have a handler that appends the stacks to the descriptor of this.
    pub fn new(signal: i32) -> std::io::Result<Self> {
        Ok(Self { signal, file: Mutex::new(unnamed::file()?) })
    }

    /// Where the handler writes.
    pub fn descriptor(&self) -> RawFd {
        self.file.lock().as_raw_fd()
    }

    fn stacks(&self) -> std::io::Result<Vec<u8>> {
        let mut file = self.file.lock();
        // The signal may have come from somebody else before.
        file.set_len(0)?;
        let signal = self.signal;
        // A thread of its own: from now on it may get this signal also from others.
        let handled =
            std::thread::Builder::new().name("monarch-signal".into()).spawn(move || signals::handle_here(signal));
        let _ = handled?.join();
        let mut text = Vec::new();
        file.seek(SeekFrom::Start(0))?;
        std::io::Read::read_to_end(&mut *file, &mut text)?;
        file.set_len(0)?;
        Ok(text)
    }
}

impl Stacks {
    /// `ask` asks the interpreter; without a `walk`, one that is busy tells nothing.
    pub fn new(ask: impl Fn() -> Option<Vec<u8>> + Send + Sync + 'static, walk: Option<Walk>) -> Self {
        Self { ask: Box::new(ask), walk }
    }

    fn get(self: &Arc<Self>) -> Vec<u8> {
        let (tell, told) = mpsc::channel();
        let stacks = self.clone();
        let asks = std::thread::Builder::new().name("monarch-stacks".into()).spawn(move || {
            signals::block_all();
            let _ = tell.send((stacks.ask)());
        });
        match (asks.is_ok().then(|| told.recv_timeout(INTERPRETER_PATIENCE)), &self.walk) {
            (Some(Ok(Some(text))), _) => text,
            (_, Some(walk)) => walk.stacks().unwrap_or_default(),
            // Nobody else can tell: wait for as long as it takes, or for as long as the asker does.
            (_, None) => told.recv().ok().flatten().unwrap_or_default(),
        }
    }
}

/// Answer a request for the stacks, once it is known how the process tells.
pub(crate) fn answer(stacks: &Arc<OnceLock<Arc<Stacks>>>, request: Message) {
    if !matches!(request.kind, Kind::Call) {
        return;
    }
    let stacks = stacks.clone();
    // A request that is dropped because there can be no thread answers for itself.
    let _ = std::thread::Builder::new().name("monarch-stacks".into()).spawn(move || {
        signals::block_all();
        // A header of this kind always encodes; and a caller that is gone needs no answer.
        let _ = request.answer(Kind::Value, vec![Bytes::new().into(), Bytes::from(stacks.wait().get()).into()]);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_asked_and_answers_in_time_is_believed() {
        let stacks = Arc::new(Stacks::new(|| Some(b"here".to_vec()), None));
        assert_eq!(stacks.get(), b"here");
    }

    #[test]
    fn without_another_way_it_waits_for_the_interpreter() {
        let late = || {
            std::thread::sleep(2 * INTERPRETER_PATIENCE);
            Some(b"late".to_vec())
        };
        assert_eq!(Arc::new(Stacks::new(late, None)).get(), b"late");
    }
}
