//! Where the lease table of a process is found by others of its host.

use std::fs;
use std::os::fd::RawFd;
use std::os::unix::fs::MetadataExt;
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

/// A process of one host and its table. The nonce tells it from any process that gets the same number later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Place {
    pub(crate) host: [u8; 16],
    pub(crate) namespace: u64,
    pub(crate) pid: i32,
    pub(crate) fd: RawFd,
    pub(crate) nonce: [u8; 16],
}

impl Place {
    /// Whether process numbers mean the same here and there: it is this boot of this machine, seen from one namespace.
    pub fn is_on_this_host(&self) -> bool {
        (self.host, self.namespace) == here()
    }

    /// The process.
    pub fn pid(&self) -> i32 {
        self.pid
    }
}

/// This boot of this machine, and how this process sees the numbers of others. Zeros where the system does not tell.
pub(crate) fn here() -> ([u8; 16], u64) {
    static HERE: OnceLock<([u8; 16], u64)> = OnceLock::new();
    *HERE.get_or_init(|| {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let digits: String = boot.chars().filter(char::is_ascii_hexdigit).collect();
        let host = u128::from_str_radix(&digits, 16).unwrap_or(0).to_be_bytes();
        (host, fs::metadata("/proc/self/ns/pid").map_or(0, |namespace| namespace.ino()))
    })
}
