//! Locks of what threads meet in. In a build with `--cfg shuttle` they are those of shuttle, which tries many
//! interleavings: see `interleavings`.

#[cfg(not(all(test, shuttle)))]
pub(crate) use parking_lot::{Mutex, RwLock};
#[cfg(all(test, shuttle))]
pub(crate) use shuttled::{Mutex, RwLock};

#[cfg(all(test, shuttle))]
pub(crate) use shuttle::sync::atomic;
#[cfg(not(all(test, shuttle)))]
pub(crate) use std::sync::atomic;

#[cfg(all(test, shuttle))]
pub(crate) use shuttle::thread;
#[cfg(not(all(test, shuttle)))]
pub(crate) use std::thread;

/// Shuttle's locks as parking_lot has them: without poison.
#[cfg(all(test, shuttle))]
mod shuttled {
    use std::sync::PoisonError;

    use shuttle::sync::{MutexGuard, RwLockReadGuard, RwLockWriteGuard};

    #[derive(Default)]
    pub struct Mutex<T>(shuttle::sync::Mutex<T>);

    #[derive(Default)]
    pub struct RwLock<T>(shuttle::sync::RwLock<T>);

    impl<T> Mutex<T> {
        pub fn new(value: T) -> Self {
            Self(shuttle::sync::Mutex::new(value))
        }

        pub fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().unwrap_or_else(PoisonError::into_inner)
        }
    }

    impl<T> RwLock<T> {
        pub fn read(&self) -> RwLockReadGuard<'_, T> {
            self.0.read().unwrap_or_else(PoisonError::into_inner)
        }

        pub fn write(&self) -> RwLockWriteGuard<'_, T> {
            self.0.write().unwrap_or_else(PoisonError::into_inner)
        }
    }
}
