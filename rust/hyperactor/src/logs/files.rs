//! Where the output of processes is kept: `<directory>/<run>/<mesh>/<rank>.stdout.log` and `.stderr.log`.

use std::collections::HashSet;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use parking_lot::Mutex;

use super::Stream;
use crate::sys::fork::Descriptor;
use crate::sys::unnamed;

/// Where the logs of a run shall be.
#[derive(Clone, Debug)]
pub struct RunPlace {
    /// The directory of all runs.
    pub directory: PathBuf,
    /// The name of this run.
    pub run: String,
    /// How many runs are kept, this one included. Those that go on are kept in any case.
    pub keep: usize,
    /// What the directories of meshes have behind their names that are started by this agent alone: on one file system
    /// there may be files of the same run from other hosts.
    pub suffix: String,
}

/// The directory of this run, or nothing where no files are kept.
pub(super) struct Run {
    directory: Option<PathBuf>,
    suffix: String,
    /// Names that were promised to meshes without a directory here.
    reserved: Mutex<HashSet<String>>,
    /// Its lock says that the run goes on.
    _lock: Option<Descriptor>,
}

/// What a process writes and the agent reads.
pub(super) struct LogFile {
    file: Descriptor,
    /// What was there before this process.
    pub(super) begin: u64,
    /// Empty for a file without a name.
    pub(super) path: String,
}

/// Held by a run that goes on.
const LOCK: &str = ".lock";

/// Logs may tell more than others shall know.
const DIRECTORY_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;

/// Leaves room for a suffix in any file system's names.
const LONGEST_NAME: usize = 100;

impl Run {
    /// Make the directory of a run and remove those of old ones. Where that cannot be, what to complain of.
    pub(super) fn begin(place: Option<RunPlace>) -> (Self, Option<String>) {
        let run = |directory, suffix, lock| Self { directory, suffix, reserved: Mutex::default(), _lock: lock };
        let Some(place) = place else { return (run(None, String::new(), None), None) };
        let directory = place.directory.join(&place.run);
        match make(&directory).and_then(|()| hold(&directory)) {
            Ok(lock) => {
                remove_old_runs(&place);
                (run(Some(directory), place.suffix, Some(Descriptor::new(lock.into()))), None)
            }
            Err(error) => {
                let (directory, error) = (place.directory.display(), error.kind());
                let complaint = format!(
                    "cannot keep log files in `{directory}`: {error}; output of processes is shown, not kept \
                     (MONARCH_LOG_DIR names another directory)"
                );
                (run(None, String::new(), None), Some(complaint))
            }
        }
    }

    /// Make the directory of a mesh; its name.
    pub(super) fn add_mesh(&self, name: &str) -> String {
        self.choose(&format!("{name}{}", self.suffix), |directory| {
            let made = DirBuilder::new().mode(DIRECTORY_MODE).create(directory);
            !made.is_err_and(|error| error.kind() == io::ErrorKind::AlreadyExists)
        })
    }

    /// A name that no other mesh of this run has; its directory is made elsewhere.
    pub(super) fn reserve(&self, name: &str) -> String {
        self.choose(name, |directory| !directory.exists())
    }

    /// Make the directory of a mesh whose name was chosen where the run began, perhaps on the same file system.
    pub(super) fn join_mesh(&self, folder: &str) -> String {
        let folder = file_name(folder);
        if let Some(directory) = &self.directory {
            // Where it cannot be made, no file can be opened in it, and output is kept without a name.
            let _ = make(&directory.join(&folder));
        }
        folder
    }

    /// The first of `name`, `name-2`, … that nobody has and that `is_free`.
    fn choose(&self, name: &str, is_free: impl Fn(&Path) -> bool) -> String {
        let name = file_name(name);
        let mut reserved = self.reserved.lock();
        let folders = (1u32..).map(|number| if number == 1 { name.clone() } else { format!("{name}-{number}") });
        let free = |folder: &String| {
            !reserved.contains(folder)
                && self.directory.as_ref().is_none_or(|directory| is_free(&directory.join(folder)))
        };
        let folder = folders.into_iter().find(free).unwrap_or(name);
        reserved.insert(folder.clone());
        folder
    }

    /// The file of one stream of a process, for reading and for writing. A process in the place of a dead one goes on
    /// with its file. None where no file can be had at all.
    pub(super) fn open(&self, folder: &str, rank: u32, stream: Stream) -> Option<(LogFile, OwnedFd)> {
        let kind = match stream {
            Stream::Stdout => "stdout",
            Stream::Stderr => "stderr",
        };
        let named = self.directory.as_ref().map(|directory| directory.join(folder).join(format!("{rank}.{kind}.log")));
        let named = named.and_then(|path| Some((append_to(&path).ok()?, path.display().to_string())));
        let (ours, theirs, path) = match named {
            Some(((ours, theirs), path)) => (ours, theirs, path),
            None => {
                let file = unnamed::file().ok()?;
                (file.try_clone().ok()?, file, String::new())
            }
        };
        let begin = ours.metadata().ok()?.len();
        Some((LogFile { file: Descriptor::new(ours.into()), begin, path }, theirs.into()))
    }
}

impl LogFile {
    /// Read what is at `offset`; 0 at the end.
    pub(super) fn read(&self, buffer: &mut [u8], offset: u64) -> usize {
        loop {
            match rustix::io::pread(&self.file, &mut *buffer, offset) {
                Err(rustix::io::Errno::INTR) => {}
                other => return other.unwrap_or(0),
            }
        }
    }

    /// How long it is now.
    pub(super) fn len(&self) -> u64 {
        rustix::fs::fstat(&self.file).map_or(self.begin, |status| status.st_size as u64)
    }

    /// The last bytes that this process wrote, at most so many.
    pub(super) fn end(&self, at_most: usize) -> Vec<u8> {
        let begin = self.len().saturating_sub(at_most as u64).max(self.begin);
        let mut buffer = vec![0; at_most];
        let count = self.read(&mut buffer, begin);
        buffer.truncate(count);
        buffer
    }
}

impl AsFd for LogFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

fn make(directory: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(DIRECTORY_MODE).create(directory)
}

fn hold(directory: &Path) -> io::Result<File> {
    let lock = OpenOptions::new().create(true).append(true).mode(FILE_MODE).open(directory.join(LOCK))?;
    // Where a file system has no locks, the age of a run decides.
    try_hold(&lock);
    Ok(lock)
}

fn try_hold(lock: &File) -> bool {
    rustix::fs::flock(lock, rustix::fs::FlockOperation::NonBlockingLockExclusive).is_ok()
}

fn append_to(path: &Path) -> io::Result<(File, File)> {
    let theirs = OpenOptions::new().create(true).append(true).mode(FILE_MODE).open(path)?;
    Ok((File::open(path)?, theirs))
}

/// Only what looks like a run of ours and is not going on is removed: it has a lock that nobody holds.
fn remove_old_runs(place: &RunPlace) {
    let Ok(entries) = std::fs::read_dir(&place.directory) else { return };
    let began = |path: &Path| path.join(LOCK).metadata().and_then(|lock| lock.modified()).ok();
    let mut runs: Vec<(SystemTime, PathBuf)> =
        entries.flatten().filter_map(|entry| Some((began(&entry.path())?, entry.path()))).collect();
    runs.sort_unstable();
    let excess = runs.len().saturating_sub(place.keep.max(1));
    for (_, run) in runs.iter().take(excess) {
        if let Ok(lock) = File::open(run.join(LOCK))
            && try_hold(&lock)
        {
            let _ = std::fs::remove_dir_all(run);
        }
    }
}

/// A name that a directory can have: no other than the label's where that is possible.
fn file_name(label: &str) -> String {
    let safe: String = label.chars().map(|c| if c == '/' || c.is_control() { '_' } else { c }).collect();
    let end = safe.char_indices().map(|(at, c)| at + c.len_utf8()).take_while(|end| *end <= LONGEST_NAME).last();
    let safe = &safe[..end.unwrap_or(0)];
    if safe.is_empty() || safe.starts_with('.') { format!("_{safe}") } else { safe.into() }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn place(directory: &Path, run: &str, keep: usize) -> Option<RunPlace> {
        Some(RunPlace { directory: directory.into(), run: run.into(), keep, suffix: String::new() })
    }

    fn text_of(log: &LogFile) -> String {
        String::from_utf8(log.end(1000)).unwrap()
    }

    #[test]
    fn the_files_of_a_rank_say_which_stream_they_are() {
        let home = tempfile::tempdir().unwrap();
        let (run, complaint) = Run::begin(place(home.path(), "r", 10));
        assert_eq!(complaint, None);
        let folder = run.add_mesh("trainers");
        let (log, theirs) = run.open(&folder, 3, Stream::Stderr).unwrap();
        File::from(theirs).write_all(b"hello").unwrap();
        assert_eq!(std::fs::read_to_string(home.path().join("r/trainers/3.stderr.log")).unwrap(), "hello");
        assert_eq!(text_of(&log), "hello");
    }

    #[test]
    fn a_successor_goes_on_with_the_file_and_reads_only_what_is_its_own() {
        let home = tempfile::tempdir().unwrap();
        let (run, _) = Run::begin(place(home.path(), "r", 10));
        let folder = run.add_mesh("w");
        let (_, theirs) = run.open(&folder, 0, Stream::Stdout).unwrap();
        File::from(theirs).write_all(b"first").unwrap();
        let (log, theirs) = run.open(&folder, 0, Stream::Stdout).unwrap();
        File::from(theirs).write_all(b"second").unwrap();
        assert_eq!(text_of(&log), "second");
        assert_eq!(std::fs::read_to_string(&log.path).unwrap(), "firstsecond");
    }

    #[test]
    fn meshes_of_one_name_have_directories_of_their_own_and_odd_names_stay_inside() {
        let home = tempfile::tempdir().unwrap();
        let (run, _) = Run::begin(place(home.path(), "r", 10));
        let names = ["w", "w", "..", "a/b", "", &"ä".repeat(300)];
        let folders = names.map(|name| run.add_mesh(name));
        assert_eq!(folders[..5], ["w", "w-2", "_..", "a_b", "_"]);
        for folder in folders {
            assert_eq!(home.path().join("r").join(folder).parent(), Some(home.path().join("r").as_path()));
        }
    }

    #[test]
    fn old_runs_are_removed_except_those_that_go_on_and_what_is_no_run() {
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir(home.path().join("mine")).unwrap();
        let (lasting, _) = Run::begin(place(home.path(), "0", 2));
        for run in ["1", "2", "3"] {
            drop(Run::begin(place(home.path(), run, 2)));
        }
        let mut left: Vec<_> =
            std::fs::read_dir(home.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort_unstable();
        assert_eq!(left, ["0", "2", "3", "mine"]);
        drop(lasting);
    }

    #[test]
    fn where_nothing_can_be_kept_there_is_a_complaint_and_a_file_without_a_name() {
        let (run, complaint) = Run::begin(place(Path::new("/proc/nowhere"), "r", 10));
        let complaint = complaint.unwrap();
        assert!(complaint.contains("/proc/nowhere") && complaint.contains("MONARCH_LOG_DIR"), "{complaint}");
        let (log, theirs) = run.open(&run.add_mesh("w"), 0, Stream::Stdout).unwrap();
        File::from(theirs).write_all(b"hello").unwrap();
        assert_eq!((text_of(&log), log.path.as_str()), ("hello".into(), ""));
    }
}
