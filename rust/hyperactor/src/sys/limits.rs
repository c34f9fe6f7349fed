//! What the system allows, checked before many processes start rather than found out halfway.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::error::{Error, Result};

/// Descriptors that one more process costs its agent: a control socket, a data socket and two log files, plus the four
/// far ends that are open until the keeper has them.
const DESCRIPTORS_PER_PROCESS: u64 = 8;

/// Descriptors that user code and libraries may still want.
const DESCRIPTOR_RESERVE: u64 = 64;

/// Threads of an idle process: its main thread, its I/O thread, and one actor.
const THREADS_PER_PROCESS: u64 = 3;

/// Check that `count` more processes fit into the limits; raises the soft limit of descriptors where that is enough.
pub fn check_processes(count: u64) -> Result<()> {
    check_descriptors(count)?;
    check_tasks(count)
}

fn check_descriptors(count: u64) -> Result<()> {
    let needed = open_descriptors() + count * DESCRIPTORS_PER_PROCESS + DESCRIPTOR_RESERVE;
    let limit = getrlimit(Resource::Nofile);
    let soft = limit.current.unwrap_or(u64::MAX);
    if needed <= soft {
        return Ok(());
    }
    let hard = limit.maximum.unwrap_or(u64::MAX);
    if needed <= hard && setrlimit(Resource::Nofile, Rlimit { current: Some(needed), maximum: limit.maximum }).is_ok() {
        return Ok(());
    }
    Err(Error::Limit {
        what: format!("starting {count} processes"),
        resource: "open files",
        needed,
        limit: "RLIMIT_NOFILE".into(),
        allowed: hard.min(soft.max(hard)),
        remedy: format!("ulimit -n {needed}"),
    })
}

fn open_descriptors() -> u64 {
    std::fs::read_dir("/dev/fd").map_or(0, |entries| entries.count() as u64)
}

fn check_tasks(count: u64) -> Result<()> {
    let Some((used, allowed, limit)) = task_limit() else { return Ok(()) };
    let needed = used + count * THREADS_PER_PROCESS;
    if needed <= allowed {
        return Ok(());
    }
    Err(Error::Limit {
        what: format!("starting {count} processes"),
        resource: "tasks (threads count)",
        needed,
        allowed,
        remedy: if limit == "RLIMIT_NPROC" {
            format!("ulimit -u {needed}")
        } else {
            format!("echo {needed} > {limit}")
        },
        limit,
    })
}

/// The tightest limit on tasks: how many there are, how many may be, and what says so.
#[cfg(target_os = "linux")]
fn task_limit() -> Option<(u64, u64, String)> {
    control_group_limit().into_iter().chain(user_limit()).min_by_key(|(used, allowed, _)| allowed.saturating_sub(*used))
}

#[cfg(not(target_os = "linux"))]
fn task_limit() -> Option<(u64, u64, String)> {
    None
}

/// How many bytes of memory this process may use at most, together with others: what its control group allows, or all
/// that the machine has.
pub fn memory() -> usize {
    let whole = rustix::param::page_size().saturating_mul(physical_pages());
    control_group_memory().map_or(whole, |allowed| allowed.min(whole))
}

#[allow(unsafe_code)] // It has no safe form.
fn physical_pages() -> usize {
    // SAFETY: sysconf only answers.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PHYS_PAGES) }).unwrap_or(0)
}

/// The tightest limit of the group and those around it.
#[cfg(target_os = "linux")]
fn control_group_memory() -> Option<usize> {
    let folder = control_group()?;
    let around = std::path::Path::new(&folder).ancestors().take_while(|folder| folder.starts_with("/sys/fs/cgroup"));
    around.filter_map(|folder| std::fs::read_to_string(folder.join("memory.max")).ok()?.trim().parse().ok()).min()
}

#[cfg(not(target_os = "linux"))]
fn control_group_memory() -> Option<usize> {
    None
}

/// The folder of this process's control group.
#[cfg(target_os = "linux")]
fn control_group() -> Option<String> {
    let groups = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    let path = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    Some(format!("/sys/fs/cgroup{path}"))
}

#[cfg(target_os = "linux")]
fn control_group_limit() -> Option<(u64, u64, String)> {
    let folder = control_group()?;
    let number = |file: &str| std::fs::read_to_string(format!("{folder}/{file}")).ok()?.trim().parse::<u64>().ok();
    Some((number("pids.current")?, number("pids.max")?, format!("{folder}/pids.max")))
}

/// RLIMIT_NPROC counts the tasks of the user and does not bind root.
#[cfg(target_os = "linux")]
fn user_limit() -> Option<(u64, u64, String)> {
    let user = rustix::process::getuid();
    if user.is_root() {
        return None;
    }
    let allowed = getrlimit(Resource::Nproc).current?;
    Some((tasks_of(user.as_raw()), allowed, "RLIMIT_NPROC".into()))
}

#[cfg(target_os = "linux")]
fn tasks_of(user: u32) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let Ok(processes) = std::fs::read_dir("/proc") else { return 0 };
    processes
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().bytes().all(|byte| byte.is_ascii_digit()))
        .filter(|entry| entry.metadata().is_ok_and(|metadata| metadata.uid() == user))
        .map(|entry| std::fs::read_dir(entry.path().join("task")).map_or(1, |tasks| tasks.count() as u64))
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_absurd_number_of_processes_names_the_limit_and_the_remedy() {
        let error = check_processes(1 << 40).unwrap_err().to_string();
        assert!(error.contains("RLIMIT_NOFILE") && error.contains("ulimit -n"), "{error}");
    }

    #[test]
    fn there_is_memory() {
        assert!(memory() > 1 << 20);
    }

    #[test]
    fn one_process_fits() {
        check_processes(1).unwrap();
    }
}
