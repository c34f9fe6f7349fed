//! Linux: pidfds, subreapers, parent-death signals and `/proc`.

use std::{fs, io};

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal};

pub use super::title::{can_show, show_as};
use super::{Handle, posix};

/// From now on be the parent of every descendant whose own parent ends.
pub fn adopt_orphans() {
    // Where that is denied we live as on a system without it.
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
}

/// Whether this process is such a parent.
pub fn adopts_orphans() -> bool {
    matches!(rustix::process::child_subreaper(), Ok(Some(_)))
}

/// A pidfd.
pub fn handle_of(process: Pid) -> Handle {
    match rustix::process::pidfd_open(process, PidfdFlags::empty()) {
        Ok(handle) => Handle::Open(handle),
        Err(Errno::SRCH) => Handle::Gone,
        Err(_) => posix::handle_of(process),
    }
}

/// In a new process, before it runs a program: end it when `parent` ends.
pub(super) fn end_with_parent(parent: Pid) -> io::Result<()> {
    // Where that is denied we live as on a system without it.
    let _ = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
    // The parent may have ended before the signal was armed.
    if rustix::process::getppid() == Some(parent) { Ok(()) } else { Err(Errno::SRCH.into()) }
}

/// The children of this process, adopted ones included.
pub fn children() -> Vec<Pid> {
    listed_children().unwrap_or_else(|_| searched_children())
}

/// The environment that `process` began with: `NAME=value`, each ended by a zero.
pub fn environment(process: Pid) -> Vec<u8> {
    fs::read(format!("/proc/{}/environ", Pid::as_raw(Some(process)))).unwrap_or_default()
}

/// Cheap, but not every kernel is built with these files. A process leaves this list only when we reap it, so that it
/// is complete although it is not a snapshot.
fn listed_children() -> io::Result<Vec<Pid>> {
    let mut children = Vec::new();
    for task in fs::read_dir("/proc/self/task")? {
        let list = fs::read_to_string(task?.path().join("children"))?;
        children.extend(list.split_ascii_whitespace().filter_map(parse_pid));
    }
    Ok(children)
}

fn searched_children() -> Vec<Pid> {
    let parent = rustix::process::getpid();
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let processes = entries.filter_map(|entry| parse_pid(entry.ok()?.file_name().to_str()?));
    processes.filter(|&process| parent_of(process) == Some(parent)).collect()
}

fn parent_of(process: Pid) -> Option<Pid> {
    let stat = fs::read(format!("/proc/{}/stat", Pid::as_raw(Some(process)))).ok()?;
    // "pid (name) state parent …"; the name may hold anything, also a parenthesis.
    let after_name = stat.iter().rposition(|&byte| byte == b')')? + 1;
    parse_pid(str::from_utf8(&stat[after_name..]).ok()?.split_ascii_whitespace().nth(1)?)
}

fn parse_pid(text: &str) -> Option<Pid> {
    Pid::from_raw(text.parse().ok()?)
}
