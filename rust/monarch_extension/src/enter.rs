//! The doorway out of the interpreter: whoever blocks goes through here.

use std::cell::OnceCell;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hyperactor::error::Error;
use hyperactor::park::{Interrupt, Waited};
use hyperactor::sys::fork::is_forked_child;
use pyo3::exceptions::{PyOverflowError, PyValueError};
use pyo3::prelude::*;

use crate::errors::to_python;

/// Set when the interpreter is about to end: from then on a thread must not take its lock again, for the interpreter
/// would end the thread in the middle of Rust frames.
static ENDING: AtomicBool = AtomicBool::new(false);

thread_local! {
    static IS_MAIN: OnceCell<bool> = const { OnceCell::new() };
}

/// The interpreter ends after this: threads that wait in the runtime never come back to it.
#[pyfunction]
pub fn interpreter_ends() {
    ENDING.store(true, Ordering::Release);
}

/// Run `body` without the interpreter lock.
pub fn detached<T: Send>(py: Python<'_>, body: impl FnOnce() -> T + Send) -> T {
    py.detach(|| {
        let value = body();
        stay_out_at_the_end();
        value
    })
}

/// Run `body` on a thread of the runtime with the interpreter lock. None at the interpreter's end, or when it raises.
pub fn attached<T>(body: impl FnOnce(Python<'_>) -> PyResult<T>) -> Option<T> {
    if ENDING.load(Ordering::Acquire) {
        return None;
    }
    Python::try_attach(|py| body(py).ok()).flatten()
}

/// Fork as Python does, from within `detached`: so its locks and whoever registered for it know. As fork(2) returns the
/// child's process id, or 0 in the child.
pub fn fork() -> io::Result<i32> {
    Python::attach(|py| {
        let child = py.import("os").and_then(|os| os.call_method0("fork")).and_then(|child| child.extract());
        child.map_err(|error| match error.value(py).getattr("errno").and_then(|number| number.extract()) {
            Ok(number) => io::Error::from_raw_os_error(number),
            Err(_) => io::Error::other(error.to_string()),
        })
    })
}

/// Run a wait without the interpreter lock. On the main thread it looks for signals, whose handlers may end it.
pub fn wait<T, W>(py: Python<'_>, body: W) -> PyResult<T>
where
    T: Send,
    W: FnOnce(Interrupt<'_, PyErr>) -> io::Result<(Waited<PyErr>, T)> + Send,
{
    refuse_in_forked_child()?;
    let watches_signals = is_main_thread(py)?;
    let (waited, value) = detached(py, || {
        let mut check = || Python::attach(|py| py.check_signals());
        body(if watches_signals { Some(&mut check) } else { None })
    })
    .map_err(|error| to_python(Error::system("wait", error)))?;
    match waited {
        Waited::Interrupted(error) => Err(error),
        Waited::Ready | Waited::TimedOut => Ok(value),
    }
}

/// Run something that ends without the interpreter lock. On the main thread it looks for signals, whose handlers may
/// hurry it; what they raise is raised when it is over.
pub fn interruptible<B>(py: Python<'_>, body: B) -> PyResult<()>
where
    B: FnOnce(Interrupt<'_, PyErr>) -> Option<PyErr> + Send,
{
    let watches_signals = is_main_thread(py)?;
    let interrupted = detached(py, || {
        let mut check = || Python::attach(|py| py.check_signals());
        body(if watches_signals { Some(&mut check) } else { None })
    });
    interrupted.map_or(Ok(()), Err)
}

/// In a forked child nothing of the runtime works: its threads are not there, and its descriptors are closed.
pub fn refuse_in_forked_child() -> PyResult<()> {
    if is_forked_child() { Err(to_python(Error::Forked)) } else { Ok(()) }
}

/// When a wait of `timeout` seconds ends.
pub fn deadline(timeout: Option<f64>) -> PyResult<Option<Instant>> {
    let Some(seconds) = timeout else { return Ok(None) };
    if seconds.is_nan() || seconds < 0.0 {
        return Err(PyValueError::new_err(format!("a timeout is a number of seconds from 0 on, not {seconds}")));
    }
    let duration = Duration::try_from_secs_f64(seconds)
        .map_err(|_| PyOverflowError::new_err(format!("a timeout of {seconds} seconds is too long")))?;
    // Beyond what the clock can name nobody waits anyway.
    Ok(Instant::now().checked_add(duration))
}

fn is_main_thread(py: Python<'_>) -> PyResult<bool> {
    if let Some(known) = IS_MAIN.with(|cell| cell.get().copied()) {
        return Ok(known);
    }
    let threading = py.import("threading")?;
    let main = threading.call_method0("main_thread")?.getattr("ident")?;
    let known = threading.call_method0("get_ident")?.eq(main)?;
    Ok(IS_MAIN.with(|cell| *cell.get_or_init(|| known)))
}

fn stay_out_at_the_end() {
    let is_main = IS_MAIN.with(|cell| cell.get().copied().unwrap_or(false));
    while !is_main && ENDING.load(Ordering::Acquire) {
        std::thread::park();
    }
}
