//! The lease table: what a process lets the others of its host do with its memory, in memory that all of them see.
//!
//! The kernel's copy knows no registrations, so whoever copies *pins* a row first and the owner waits for pins before it
//! lets memory go. A pin is a word that names the process and the row, not a count: the pins of a process that was
//! killed are known for what they are.
//!
//! # Invariants
//! - **LEASE-1** Memory is touched only between a pin and its end, by someone who saw the row live *after* pinning.
//! - **LEASE-2** The owner releases memory, and uses a row again, only after it made the row dead and then saw no pin on
//!   it of any process that lives.
//! - **LEASE-3** A row that is dead never becomes live again with the same generation.
//!
//! From 1 and 2, with both sides' accesses in one total order: whoever sees the row live is seen by the owner.

use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use hyperactor::sys::memory::Mapping;
use rustix::process::{Pid, test_kill_process};

use crate::handle::RegistrationId;
use crate::sys::Words;
use crate::{Capability, Region, Rights};

/// How many registrations there can be at a time; rows that were never used take no memory.
pub const ROWS: usize = 1 << 18;

/// How many pieces of memory of one owner can be copied at a time.
const PINS: usize = 1024;

const HEADER_WORDS: usize = 8;
const ROW_WORDS: usize = 8;
const NONCE: usize = 0;
const DROPS_OF_OTHERS: usize = 2;
const FIRST_ROW: usize = HEADER_WORDS + PINS;

/// How long a table is.
pub const BYTES: usize = (FIRST_ROW + ROWS * ROW_WORDS) * 8;

// The words of a row.
const STATE: usize = 0;
const ADDRESS: usize = 1;
const SIZE: usize = 2;
const READ_KEY: usize = 3;
const WRITE_KEY: usize = 5;

/// A table, the owner's or another's.
pub struct Table(Words);

impl Table {
    /// The table behind `fd`.
    pub fn map(fd: impl AsFd) -> io::Result<Self> {
        Mapping::shared(fd, BYTES).map(|mapping| Self(Words::new(mapping)))
    }

    /// What tells it from every other table.
    pub fn nonce(&self) -> [u8; 16] {
        join(self.two(NONCE))
    }

    /// Give a new table its nonce.
    pub fn set_nonce(&self, nonce: [u8; 16]) {
        self.set_two(NONCE, split(nonce));
    }

    /// How often others made rows dead.
    pub fn drops_of_others(&self) -> u64 {
        self.0.at(DROPS_OF_OTHERS).load(Ordering::Acquire)
    }

    /// Make a row live, which nobody has pinned and which was dead. Only for the owner.
    pub fn grant(&self, id: RegistrationId, region: Region, read: Capability, write: Option<Capability>) {
        let row = row(id);
        self.0.at(row + ADDRESS).store(region.address(), Ordering::Relaxed);
        self.0.at(row + SIZE).store(region.size_bytes(), Ordering::Relaxed);
        self.set_two(row + READ_KEY, split(read.to_bytes()));
        // What is read-only has a key that nobody was told.
        self.set_two(row + WRITE_KEY, write.map_or([0; 2], |key| split(key.to_bytes())));
        self.0.at(row + STATE).store(live(id), Ordering::SeqCst);
    }

    /// Make a row dead; whether it was live.
    pub fn revoke(&self, id: RegistrationId) -> bool {
        let state = self.0.at(row(id) + STATE);
        state.compare_exchange(live(id), 0, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// As [`Table::revoke`], by another process, which proves that it may.
    pub fn revoke_as_other(&self, id: RegistrationId, key: Capability) -> bool {
        let may = join(self.two(row(id) + WRITE_KEY)) == key.to_bytes();
        let was_live = may && self.revoke(id);
        if was_live {
            self.0.at(DROPS_OF_OTHERS).fetch_add(1, Ordering::AcqRel);
        }
        was_live
    }

    /// Whether a row is live.
    pub fn is_live(&self, id: RegistrationId) -> bool {
        self.0.at(row(id) + STATE).load(Ordering::SeqCst) == live(id)
    }

    /// Whether a process that lives has pinned the row.
    pub fn is_pinned(&self, id: RegistrationId) -> bool {
        (0..PINS).map(|index| self.0.at(HEADER_WORDS + index)).any(|word| {
            let pin = word.load(Ordering::SeqCst);
            let is_of_row = pin != 0 && pin as u32 == id.row + 1;
            if is_of_row && !lives((pin >> 32) as i32) {
                let _ = word.compare_exchange(pin, 0, Ordering::SeqCst, Ordering::SeqCst);
                return false;
            }
            is_of_row
        })
    }

    /// Pin a row for a copy by `process`, which is the caller's: to ask the system for each pin costs more than the pin.
    /// None while all pins are taken.
    pub fn pin(&self, id: RegistrationId, process: u32) -> Option<Pin<'_>> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let start = NEXT.fetch_add(1, Ordering::Relaxed) as usize + process as usize * 97;
        let value = u64::from(process) << 32 | u64::from(id.row + 1);
        (0..PINS).map(|step| self.0.at(HEADER_WORDS + (start + step) % PINS)).find_map(|word| {
            let is_free = word.load(Ordering::Relaxed) == 0;
            let taken = is_free && word.compare_exchange(0, value, Ordering::SeqCst, Ordering::SeqCst).is_ok();
            taken.then(|| Pin { table: self, word, id }) // only if taken: the end of one frees its word
        })
    }

    /// Free the pins of processes that have ended, which is for whoever finds none.
    pub fn forget_the_dead(&self) {
        for word in (0..PINS).map(|index| self.0.at(HEADER_WORDS + index)) {
            let pin = word.load(Ordering::SeqCst);
            if pin != 0 && !lives((pin >> 32) as i32) {
                let _ = word.compare_exchange(pin, 0, Ordering::SeqCst, Ordering::SeqCst);
            }
        }
    }

    fn two(&self, index: usize) -> [u64; 2] {
        [self.0.at(index).load(Ordering::Relaxed), self.0.at(index + 1).load(Ordering::Relaxed)]
    }

    fn set_two(&self, index: usize, values: [u64; 2]) {
        self.0.at(index).store(values[0], Ordering::Relaxed);
        self.0.at(index + 1).store(values[1], Ordering::Relaxed);
    }
}

/// While it lives, the owner keeps the memory of the row, if it was live when [`Pin::region`] looked.
pub struct Pin<'a> {
    table: &'a Table,
    word: &'a AtomicU64,
    id: RegistrationId,
}

impl Pin<'_> {
    /// The memory, for whoever proves the rights; None for a row that is dead and for a wrong proof alike.
    pub fn region(&self, rights: Rights, key: Capability) -> Option<Region> {
        let row = row(self.id);
        let words = &self.table.0;
        if words.at(row + STATE).load(Ordering::SeqCst) != live(self.id) {
            return None;
        }
        let index = if rights.can_write() { WRITE_KEY } else { READ_KEY };
        let proven = Capability::from_random(join(self.table.two(row + index))) == key && key.to_bytes() != [0; 16];
        let (address, size) = (words.at(row + ADDRESS), words.at(row + SIZE));
        proven.then(|| Region::new(address.load(Ordering::Relaxed), size.load(Ordering::Relaxed)).ok()).flatten()
    }
}

impl Drop for Pin<'_> {
    fn drop(&mut self) {
        self.word.store(0, Ordering::SeqCst);
    }
}

fn row(id: RegistrationId) -> usize {
    FIRST_ROW + (id.row as usize).min(ROWS - 1) * ROW_WORDS
}

fn live(id: RegistrationId) -> u64 {
    u64::from(id.generation) << 1 | 1
}

fn lives(pid: i32) -> bool {
    Pid::from_raw(pid).is_some_and(|pid| test_kill_process(pid) != Err(rustix::io::Errno::SRCH))
}

fn split(key: [u8; 16]) -> [u64; 2] {
    let value = u128::from_ne_bytes(key);
    [value as u64, (value >> 64) as u64]
}

fn join(words: [u64; 2]) -> [u8; 16] {
    (u128::from(words[1]) << 64 | u128::from(words[0])).to_ne_bytes()
}
