//! Starting one worker, and saying why that failed.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::Pid;

use super::protocol::Launch;
use super::template::Birth;
use crate::sys::process::{self, copy};

/// A worker that is to be started, with all that it takes.
pub(super) struct Newcomer {
    pub(super) request: Launch,
    /// Its control socket, and then its standard output and standard error if they are not the keeper's.
    descriptors: Vec<OwnedFd>,
}

impl Newcomer {
    /// What `request` describes, with the descriptors that arrived with it. An error is text for a person, as below.
    pub(super) fn new(request: Launch, descriptors: Vec<OwnedFd>) -> Result<Self, String> {
        if matches!(descriptors.len(), 1 | 3) {
            return Ok(Self { request, descriptors });
        }
        let cause = "its control socket did not arrive; the keeper may be out of descriptors (`ulimit -n`)";
        Err(cannot_start(&request, cause))
    }

    pub(super) fn descriptors(&self) -> &[OwnedFd] {
        &self.descriptors
    }

    fn output(&self) -> Option<&[OwnedFd; 2]> {
        self.descriptors.get(1..3)?.try_into().ok()
    }

    /// What the copy that it becomes has to know, which has loaded `variant`.
    pub(super) fn birth(self, variant: &str) -> Birth {
        Birth { variant: variant.into(), environment: self.request.environment }
    }

    /// Run its program in a new process.
    pub(super) fn start_program(&self) -> Result<Pid, String> {
        let request = &self.request;
        let mut command = Command::new(&request.program);
        command
            .args(&request.arguments)
            .env_clear()
            .envs(request.environment.iter().map(|(name, value)| (name, value)))
            .current_dir(&request.directory)
            .stdin(Stdio::null());
        if let Some([stdout, stderr]) = self.output() {
            let copies = stdout.try_clone().and_then(|stdout| Ok((stdout, stderr.try_clone()?)));
            match copies {
                Ok((stdout, stderr)) => command.stdout(stdout).stderr(stderr),
                Err(error) => return Err(self.failed(&error)),
            };
        }
        process::spawn(&mut command, self.descriptors[0].as_fd()).map_err(|error| self.failed(&error))
    }

    /// Fork this process instead; None in the copy. The copy's parent is `parent`.
    pub(super) fn start_copy(&self, parent: Pid, fork: &mut Fork<'_>) -> Result<Option<Pid>, String> {
        if let Some(error) = directory_error(&self.request.directory) {
            return Err(self.failed(&error));
        }
        let child = copy::fork_with(fork).map_err(|error| self.failed(&error))?;
        if child.is_none() {
            self.settle(parent);
        }
        Ok(child)
    }

    /// In the copy: be what the request says. Ends the process where that is impossible.
    pub(super) fn settle(&self, parent: Pid) {
        let settled = copy::settle(parent, &self.descriptors[0], self.output())
            .and_then(|()| std::env::set_current_dir(&self.request.directory))
            .and_then(|()| process::show_as(&self.command_line(), &self.request.environment));
        if let Err(error) = settled {
            super::complain("a copy of this process cannot become a worker", &error);
            copy::end(1);
        }
    }

    fn command_line(&self) -> Vec<OsString> {
        [&self.request.program].into_iter().chain(&self.request.arguments).cloned().collect()
    }

    /// What a person is told of a failed start.
    pub(super) fn failed(&self, error: &io::Error) -> String {
        let directory = &self.request.directory;
        let cause = match directory_error(directory) {
            Some(cause) => format!("cannot enter its directory `{}`: {}", directory.display(), text_of(&cause)),
            None if error.kind() == io::ErrorKind::WouldBlock => {
                format!("{}; the limit on processes (`ulimit -u`, or the container's) is reached", text_of(error))
            }
            None => text_of(error),
        };
        cannot_start(&self.request, &cause)
    }
}

/// How this process is forked: as fork(2), the child's process id, or 0 in the child.
pub type Fork<'a> = dyn FnMut() -> io::Result<i32> + Send + 'a;

fn cannot_start(request: &Launch, cause: &str) -> String {
    format!("cannot start `{}`: {cause}", request.program.display())
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
