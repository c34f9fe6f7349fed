//! Large `bytes` objects that are filled again once nobody has them any more.
//!
//! A `bytes` cannot lie in shared memory, so each receiver makes one of its own; and a new one has no pages: the system
//! clears every page before it can be filled, which takes longer than to fill it. So whoever makes a large object here
//! has it remembered. One that only this memory still refers to is nobody's, and takes the next content of its length.
//! As a receiver mostly keeps what it got until the next arrives, a first object of a length gets a companion. Pages of objects that nobody has or wants for a while go back to the system.

#![allow(unsafe_code)] // An object's reference count and hash are fields of it.

use std::sync::OnceLock;
use std::thread;
use std::time::Duration;

use hyperactor::sys::fork::is_forked_child;
use hyperactor::sys::{limits, memory};
use parking_lot::Mutex;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// Shorter objects are made anew: their memory is mostly warm.
pub const LEAST_BYTES: usize = 512 << 10;

/// How many objects are remembered, so that looking for one costs nothing.
const MAX_OBJECTS: usize = 16;

/// Which part of the memory that this process may use the remembered objects may have.
const MEMORY_SHARE: usize = 32;

/// The largest share of that for an object that nobody has asked for yet.
const COMPANION_SHARE: usize = 4;

/// How long nobody has to want an object until its pages go; at most twice as long.
const IDLE: Duration = Duration::from_secs(10);

static REMEMBERED: Mutex<Remembered> = Mutex::new(Remembered { objects: Vec::new(), is_watched: false });

struct Remembered {
    /// The one that was filled last comes last.
    objects: Vec<Entry>,
    /// A thread looks for objects that nobody has.
    is_watched: bool,
}

struct Entry {
    object: Py<PyBytes>,
    start: usize,
    bytes: usize,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Somebody had it when it was looked at.
    Used,
    /// Nobody had it.
    Idle,
    /// Its pages are gone.
    Cold,
    /// A thread makes its pages.
    Unready,
}

/// Room for `length` bytes in an object that nobody has, whose pages are warm.
pub fn take(py: Python<'_>, length: usize) -> Option<Bound<'_, PyBytes>> {
    if !is_recycling(py) {
        return None;
    }
    let entry = {
        let mut remembered = REMEMBERED.lock();
        let is_free = |entry: &Entry| entry.bytes == length && entry.state != State::Cold && entry.is_nobodys();
        let index = remembered.objects.iter().position(is_free)?;
        remembered.objects.remove(index)
    };
    // SAFETY: where the hash lies was looked up, and nobody else has the object, which gets another content.
    unsafe { hash_of(entry.start).write(UNKNOWN_HASH) };
    Some(entry.object.into_bound(py))
}

/// Fill this object again when nobody has it any more.
pub fn remember(object: &Bound<'_, PyBytes>) {
    let bound = limits::memory() / MEMORY_SHARE;
    let content = content_of(object);
    if is_recycling(object.py()) && content.1 <= bound {
        keep(object, content, State::Used, bound);
    }
}

/// Have a new object, which is unfilled, ready for the next content of its length.
pub fn prepare(object: &Bound<'_, PyBytes>) {
    let bound = limits::memory() / MEMORY_SHARE;
    let (start, bytes) = content_of(object);
    if !is_recycling(object.py()) || bytes > bound / COMPANION_SHARE {
        return;
    }
    memory::prefer_large_pages(start as *mut u8, bytes);
    keep(object, (start, bytes), State::Unready, bound);
    if thread::Builder::new().name("monarch-pages".into()).spawn(move || make_pages(start)).is_err() {
        make_pages(start);
    }
}

/// Where the content of an object, which may be unfilled, starts, and how long it is.
fn content_of(object: &Bound<'_, PyBytes>) -> (usize, usize) {
    // SAFETY: the object is alive, and is of this type.
    let (start, bytes) = unsafe { (ffi::PyBytes_AsString(object.as_ptr()), ffi::PyBytes_Size(object.as_ptr())) };
    (start as usize, bytes as usize)
}

fn keep(object: &Bound<'_, PyBytes>, (start, bytes): (usize, usize), state: State, bound: usize) {
    let mut forgotten = Vec::new();
    {
        let mut remembered = REMEMBERED.lock();
        let Remembered { objects, is_watched } = &mut *remembered;
        objects.push(Entry { object: object.clone().unbind(), start, bytes, state });
        forgotten.extend(objects.extract_if(.., |entry| entry.state == State::Cold));
        while objects.len() > MAX_OBJECTS || objects.iter().map(|entry| entry.bytes).sum::<usize>() > bound {
            forgotten.push(objects.remove(0));
        }
        if !*is_watched {
            *is_watched = thread::Builder::new().name("monarch-bytes".into()).spawn(watch).is_ok();
        }
    }
    // Freed without the lock.
    drop(forgotten);
}

/// Make the pages of the object whose content starts here, as long as nobody wants it.
fn make_pages(start: usize) {
    for offset in (0..).step_by(memory::LARGE_PAGE_BYTES) {
        // While the entry is there and locked, so is its object.
        let mut remembered = REMEMBERED.lock();
        let is_meant = |entry: &&mut Entry| entry.start == start && entry.state == State::Unready;
        let Some(entry) = remembered.objects.iter_mut().find(is_meant) else { return };
        if offset >= entry.bytes {
            entry.state = State::Used;
            return;
        }
        memory::make_pages((start + offset) as *mut u8, memory::LARGE_PAGE_BYTES.min(entry.bytes - offset));
    }
}

/// Look for objects that nobody has, as long as any has pages. Never takes the interpreter lock.
fn watch() {
    loop {
        thread::sleep(IDLE);
        let mut remembered = REMEMBERED.lock();
        remembered.objects.iter_mut().for_each(Entry::age);
        if remembered.objects.iter().all(|entry| entry.state == State::Cold) {
            remembered.is_watched = false;
            return;
        }
    }
}

impl Entry {
    /// Only this entry refers to the object, so nobody can come to have it but by way of this entry.
    fn is_nobodys(&self) -> bool {
        // SAFETY: the entry keeps the object alive. Once the count has fallen to one, nobody changes it but through
        // the entry, whose lock the caller holds: so one is never seen too early, also without the interpreter lock.
        unsafe { ffi::Py_REFCNT(self.object.as_ptr()) == 1 }
    }

    fn age(&mut self) {
        self.state = match self.state {
            State::Cold | State::Unready => self.state,
            _ if !self.is_nobodys() => State::Used,
            State::Used => State::Idle,
            State::Idle => {
                // SAFETY: nobody has the object, and its content ends here.
                unsafe { memory::discard(self.start as *mut u8, self.bytes) };
                State::Cold
            }
        };
    }
}

/// Whether objects can be filled again here: a system that takes pages back, and an interpreter whose objects are as
/// they are known to be.
fn is_recycling(py: Python<'_>) -> bool {
    static HASH_IS_KNOWN: OnceLock<bool> = OnceLock::new();
    // In a forked child somebody may hold the lock for ever.
    memory::CAN_DISCARD && !is_forked_child() && *HASH_IS_KNOWN.get_or_init(|| finds_hash(py).unwrap_or(false))
}

/// What stands in the place of a hash that nobody has asked for.
const UNKNOWN_HASH: isize = -1;

/// An object keeps its hash right before its content.
fn hash_of(start: usize) -> *mut isize {
    (start - size_of::<isize>()) as *mut isize
}

/// Whether it does: seen at one whose hash is not known, and then is.
fn finds_hash(py: Python<'_>) -> PyResult<bool> {
    let probe = PyBytes::new(py, b"where does the hash lie?");
    let place = hash_of(probe.as_bytes().as_ptr() as usize);
    // SAFETY: a header longer than a hash precedes the content of an object.
    let read = || unsafe { place.read_volatile() };
    let before = read();
    let hash = probe.hash()?;
    Ok(before == UNKNOWN_HASH && read() == hash)
}
