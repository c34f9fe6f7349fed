//! Learning that files are written to: by inotify on Linux; elsewhere, and where a sandbox denies it, by looking again.

use std::os::fd::{AsFd, BorrowedFd};

use super::fork::Descriptor;

/// Tells once for each armed file that it was written to.
pub struct Watcher {
    inotify: Option<Descriptor>,
}

/// Which call of [`Watcher::arm`] a notice answers.
pub type Notice = i32;

impl Watcher {
    /// One that watches nothing yet.
    pub fn new() -> Self {
        Self { inotify: system::open() }
    }

    /// Readable while there are notices; none where the system has none.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.inotify.as_ref().map(AsFd::as_fd)
    }

    /// Give one notice when `file` is written to from now on. None where that has to be found out by looking.
    ///
    /// One notice and no more, so that whoever writes much pays for it once.
    pub fn arm(&self, file: BorrowedFd<'_>) -> Option<Notice> {
        system::arm(self.descriptor()?, file)
    }

    /// Give no notice of an armed file any more.
    pub fn disarm(&self, notice: Notice) {
        if let Some(inotify) = self.descriptor() {
            system::disarm(inotify, notice);
        }
    }

    /// The notices since the last call.
    pub fn notices(&self) -> Vec<Notice> {
        self.descriptor().map_or_else(Vec::new, system::notices)
    }
}

impl Default for Watcher {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(all(target_os = "linux", not(feature = "portable")))]
mod system {
    use std::mem::MaybeUninit;
    use std::os::fd::{AsRawFd, BorrowedFd};

    use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};

    use super::{Descriptor, Notice};

    pub(super) fn open() -> Option<Descriptor> {
        inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).ok().map(Descriptor::new)
    }

    pub(super) fn arm(inotify: BorrowedFd<'_>, file: BorrowedFd<'_>) -> Option<Notice> {
        // Its name may mean another file by now.
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        inotify::add_watch(inotify, path, WatchFlags::MODIFY | WatchFlags::ONESHOT).ok()
    }

    pub(super) fn disarm(inotify: BorrowedFd<'_>, notice: Notice) {
        let _ = inotify::remove_watch(inotify, notice);
    }

    pub(super) fn notices(inotify: BorrowedFd<'_>) -> Vec<Notice> {
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut reader = Reader::new(inotify, &mut buffer);
        let mut notices = Vec::new();
        while let Ok(event) = reader.next() {
            if event.events().contains(ReadFlags::MODIFY) {
                notices.push(event.wd());
            }
        }
        notices
    }
}

#[cfg(not(all(target_os = "linux", not(feature = "portable"))))]
mod system {
    use std::os::fd::BorrowedFd;

    use super::{Descriptor, Notice};

    pub(super) fn open() -> Option<Descriptor> {
        None
    }

    pub(super) fn arm(_: BorrowedFd<'_>, _: BorrowedFd<'_>) -> Option<Notice> {
        None
    }

    pub(super) fn disarm(_: BorrowedFd<'_>, _: Notice) {}

    pub(super) fn notices(_: BorrowedFd<'_>) -> Vec<Notice> {
        Vec::new()
    }
}

#[cfg(all(test, target_os = "linux", not(feature = "portable")))]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn an_armed_file_gives_one_notice_for_many_writes() {
        let (watcher, mut file) = (Watcher::new(), tempfile::tempfile().unwrap());
        let notice = watcher.arm(file.as_fd()).unwrap();
        assert_eq!(watcher.notices(), []);
        file.write_all(b"a").unwrap();
        file.write_all(b"b").unwrap();
        assert_eq!(watcher.notices(), [notice]);
        file.write_all(b"c").unwrap();
        assert_eq!(watcher.notices(), []);
        assert_ne!(watcher.arm(file.as_fd()), None);
    }
}
