//! What this process has registered.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hyperactor::sys::memory;
use parking_lot::Mutex;

use crate::handle::{BufferHandle, RegistrationId};
use crate::place::{Place, here};
use crate::table::{BYTES, ROWS, Table};
use crate::{Capability, RdmaError, Region, Rights};

/// The table of this process and its free rows. A forked child has its parent's, and makes its own at first need.
struct Registry {
    pid: u32,
    table: Table,
    /// Open as long as the process lives: others open it by its number.
    fd: OwnedFd,
    rows: Mutex<Rows>,
}

#[derive(Default)]
struct Rows {
    /// Never used from here on.
    next: u32,
    /// Free again, with the generation that comes next.
    free: Vec<RegistrationId>,
}

static REGISTRY: Mutex<Option<Arc<Registry>>> = Mutex::new(None);

/// Memory of this process that others may use, until it is revoked or dropped.
pub struct Registration {
    registry: Arc<Registry>,
    /// What others get of it: all that it allows.
    handle: BufferHandle,
    read_key: Capability,
}

impl Registration {
    /// Let holders of the handle use `region`. The memory has to stay where it is until [`Registration::release`] says
    /// that nobody uses it.
    ///
    /// # Errors
    ///
    /// [`RdmaError::Full`], and [`RdmaError::System`] where there is no memory for the table.
    pub fn new(owner: String, region: Region, rights: Rights) -> Result<Self, RdmaError> {
        let registry = Registry::of_this_process()?;
        let (read_key, write_key) = (Capability::draw()?, Capability::draw()?);
        let registration = registry.take_row()?;
        let may_write = rights.can_write();
        registry.table.grant(registration, region, read_key, may_write.then_some(write_key));
        let capability = if may_write { write_key } else { read_key };
        let (place, size_bytes) = (registry.place(), region.size_bytes());
        let handle = BufferHandle { owner, place, registration, size_bytes, rights, capability };
        Ok(Self { registry, handle, read_key })
    }

    /// The handle with all rights that there are.
    pub fn handle(&self) -> BufferHandle {
        self.handle.clone()
    }

    /// A handle that only allows reading.
    pub fn read_only_handle(&self) -> BufferHandle {
        BufferHandle { rights: Rights::Read, capability: self.read_key, ..self.handle() }
    }

    /// Whether nobody, here or elsewhere, has dropped it.
    pub fn is_live(&self) -> bool {
        self.registry.table.is_live(self.handle.registration)
    }

    /// From now on nobody gets at the memory; then wait until nobody is at it any more, at most for `patience`.
    ///
    /// False where a process still is, which can only be one that is stopped: then the memory has to stay for ever.
    /// True in a forked child, whose memory is its own.
    pub fn release(self, patience: Duration) -> bool {
        let (registry, id) = (&self.registry, self.handle.registration);
        if registry.pid != std::process::id() {
            return true;
        }
        registry.table.revoke(id);
        let deadline = Instant::now() + patience;
        let mut pause = Duration::from_micros(1);
        while registry.table.is_pinned(id) {
            if Instant::now() >= deadline {
                return false;
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(1));
        }
        registry.give_row_back(id);
        true
    }
}

/// How often others dropped memory of this process.
pub fn drops_of_others() -> u64 {
    REGISTRY.lock().as_ref().map_or(0, |registry| registry.table.drops_of_others())
}

impl Registry {
    fn of_this_process() -> Result<Arc<Self>, RdmaError> {
        let mut current = REGISTRY.lock();
        match &*current {
            Some(registry) if registry.pid == std::process::id() => Ok(registry.clone()),
            _ => {
                let registry = Arc::new(Self::new()?);
                *current = Some(registry.clone());
                Ok(registry)
            }
        }
    }

    fn new() -> io::Result<Self> {
        let fd = memory::create(BYTES)?;
        let table = Table::map(&fd)?;
        table.set_nonce(Capability::draw()?.to_bytes());
        Ok(Self { pid: std::process::id(), table, fd, rows: Mutex::default() })
    }

    fn place(&self) -> Place {
        let (host, namespace) = here();
        Place { host, namespace, pid: self.pid as i32, fd: self.fd.as_raw_fd(), nonce: self.table.nonce() }
    }

    fn take_row(&self) -> Result<RegistrationId, RdmaError> {
        let mut rows = self.rows.lock();
        if let Some(free) = rows.free.pop() {
            return Ok(free);
        }
        if rows.next as usize == ROWS {
            return Err(RdmaError::Full { limit: ROWS });
        }
        rows.next += 1;
        Ok(RegistrationId { row: rows.next - 1, generation: 1 })
    }

    /// A row whose generations have all been used is used no more.
    fn give_row_back(&self, id: RegistrationId) {
        if let Some(generation) = id.generation.checked_add(1) {
            self.rows.lock().free.push(RegistrationId { generation, ..id });
        }
    }
}
