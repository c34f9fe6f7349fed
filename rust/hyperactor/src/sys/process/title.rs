//! What others see of this process: its command line and the environment that it began with.
//!
//! A copy of a process shows those of the original. The kernel lets a process name another place of its memory that
//! it shows instead, where it was built with `CONFIG_CHECKPOINT_RESTORE`, as those of the large distributions are.

#![allow(unsafe_code)] // prctl with the addresses of this process's memory.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::{fs, io};

/// `struct prctl_mm_map` of the kernel's interface.
#[repr(C)]
#[derive(Clone, Copy)]
struct MemoryMap {
    start_code: u64,
    end_code: u64,
    start_data: u64,
    end_data: u64,
    start_brk: u64,
    brk: u64,
    start_stack: u64,
    arg_start: u64,
    arg_end: u64,
    env_start: u64,
    env_end: u64,
    auxv: u64,
    auxv_size: u32,
    exe_fd: u32,
}

/// Whether [`show_as`] works here.
pub fn can_show() -> io::Result<()> {
    apply(&present()?)
}

/// From now on show this command line, the program's name first, and this environment.
pub fn show_as(arguments: &[OsString], environment: &[(OsString, OsString)]) -> io::Result<()> {
    let mut text = Vec::new();
    for argument in arguments {
        text.extend_from_slice(argument.as_bytes());
        text.push(0);
    }
    let arguments_end = text.len();
    for (name, value) in environment {
        text.extend([name.as_bytes(), b"=", value.as_bytes(), b"\0"].concat());
    }
    // Shown until the process ends.
    let text: &'static [u8] = text.leak();
    let start = text.as_ptr() as u64;
    let middle = start + arguments_end as u64;
    let end = start + text.len() as u64;
    apply(&MemoryMap { arg_start: start, arg_end: middle, env_start: middle, env_end: end, ..present()? })
}

fn apply(map: &MemoryMap) -> io::Result<()> {
    let size = size_of::<MemoryMap>();
    // SAFETY: the kernel only reads `map`, of the size that is told, and checks that the addresses are this process's.
    // They stay what they are but for those of the two texts, which live for the rest of the process.
    match unsafe { libc::prctl(libc::PR_SET_MM, libc::PR_SET_MM_MAP, std::ptr::from_ref(map), size, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The map as it is.
fn present() -> io::Result<MemoryMap> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    // "pid (name) state …": the name may hold anything, and the third field is the first after it.
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap_or_default().split_ascii_whitespace().collect();
    let field = |number: usize| {
        let text = fields.get(number - 3).ok_or_else(|| io::Error::other("/proc/self/stat lacks a field"))?;
        text.parse().map_err(|_| io::Error::other("/proc/self/stat holds something else than numbers"))
    };
    // SAFETY: an increment of zero changes nothing.
    let brk = unsafe { libc::sbrk(0) } as u64;
    Ok(MemoryMap {
        start_code: field(26)?,
        end_code: field(27)?,
        start_data: field(45)?,
        end_data: field(46)?,
        start_brk: field(47)?,
        brk,
        start_stack: field(28)?,
        arg_start: field(48)?,
        arg_end: field(49)?,
        env_start: field(50)?,
        env_end: field(51)?,
        auxv: 0,
        auxv_size: 0,
        // Keep the program's file.
        exe_fd: u32::MAX,
    })
}
