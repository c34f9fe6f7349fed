//! Starting one worker, and saying why that failed.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::Pid;

use super::protocol::Launch;
use crate::sys::process;

/// Start what `request` describes. `descriptors` are those that arrived with it, and `mark` is the value of
/// [`MARK_VARIABLE`]. An error is text for a person.
pub(super) fn launch(request: &Launch, descriptors: Vec<OwnedFd>, mark: &str) -> Result<Pid, String> {
    let failed = |cause: &str| Err(format!("cannot start `{}`: {cause}", request.program.display()));
    let (control, output) = match <[OwnedFd; 3]>::try_from(descriptors) {
        Ok([control, stdout, stderr]) => (control, Some([stdout, stderr])),
        Err(mut descriptors) if descriptors.len() == 1 => (descriptors.remove(0), None),
        Err(_) => {
            return failed("its control socket did not arrive; the keeper may be out of descriptors (`ulimit -n`)");
        }
    };
    let mut command = Command::new(&request.program);
    command
        .args(&request.arguments)
        .env_clear()
        .envs(request.environment.iter().map(|(name, value)| (name, value)))
        .env(MARK_VARIABLE, mark)
        .current_dir(&request.directory)
        .stdin(Stdio::null());
    if let Some([stdout, stderr]) = output {
        command.stdout(stdout).stderr(stderr);
    }
    let error = match process::spawn(&mut command, control.as_fd()) {
        Ok(pid) => return Ok(pid),
        Err(error) => error,
    };
    match directory_error(&request.directory) {
        Some(cause) => {
            failed(&format!("cannot enter its directory `{}`: {}", request.directory.display(), text_of(&cause)))
        }
        None if error.kind() == io::ErrorKind::WouldBlock => {
            failed(&format!("{}; the limit on processes (`ulimit -u`, or the container's) is reached", text_of(&error)))
        }
        None => failed(&text_of(&error)),
    }
}

/// A failed start does not tell which of its steps failed, so look at the one that users get wrong.
fn directory_error(directory: &OsStr) -> Option<io::Error> {
    // Looking up "." inside takes the same rights as entering.
    std::fs::metadata(Path::new(directory).join(".")).err()
}

/// What the system says, without the number that Rust appends.
fn text_of(error: &io::Error) -> String {
    let text = error.to_string();
    match text.rfind(" (os error ") {
        Some(end) => text[..end].to_owned(),
        None => text,
    }
}

/// Tells which worker a process comes from, however it has daemonised. Workers of workers add to it.
pub(super) const MARK_VARIABLE: &str = "MONARCH_WORKER";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_a_system_error_has_no_number() {
        assert_eq!(text_of(&io::Error::from_raw_os_error(2)), "No such file or directory");
        assert_eq!(text_of(&io::Error::other("odd")), "odd");
    }
}
