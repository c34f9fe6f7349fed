//! The native module `monarch._native`: a thin, private border between Python and the Rust core.
//!
//! One class of Python's is one file here, and its methods only delegate. [`enter`] is the only place that releases
//! the interpreter lock and takes it back. No Rust lock is ever held while Python code may run, and no thread of the
//! runtime takes the interpreter lock: it queues what happened and wakes whoever waits for it.

mod buffer;
mod death;
mod enter;
mod errors;
mod finalizer;
mod host;
mod info;
mod keeper;
mod key;
mod mailbox;
mod message;
mod notifier;
mod ownership;
mod payload;
#[cfg(feature = "tensor-engine")]
mod rdma;
mod recycled;
mod replies;
mod runtime;
mod targets;

use pyo3::prelude::*;

/// The module's table of contents.
#[pymodule]
mod _native {
    #[pymodule_export]
    use super::buffer::{Buffer, bytes_of};
    #[pymodule_export]
    use super::death::Death;
    #[pymodule_export]
    use super::enter::interpreter_ends;
    #[pymodule_export]
    use super::finalizer::Finalizer;
    #[pymodule_export]
    use super::host::{HostClient, HostListener, HostSession, check_address, knock};
    #[pymodule_export]
    use super::info::{build_info, new_id};
    #[pymodule_export]
    use super::keeper::{Birth, exit_process, run_keeper, run_template};
    #[pymodule_export]
    use super::key::ClusterKey;
    #[pymodule_export]
    use super::mailbox::Mailbox;
    #[pymodule_export]
    use super::message::Message;
    #[pymodule_export]
    use super::notifier::Notifier;
    #[pymodule_export]
    use super::ownership::{News, Ownership};
    #[cfg(feature = "tensor-engine")]
    #[pymodule_export]
    use super::rdma::{RdmaHandle, RdmaMemory, RdmaRegistration, RdmaTransfer, rdma_drops_of_others};
    #[pymodule_export]
    use super::replies::Replies;
    #[pymodule_export]
    use super::runtime::Runtime;
    #[pymodule_export]
    use super::targets::{Targets, never_wait_for_room};

    use pyo3::prelude::*;
    use pyo3::types::PyBytes;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", super::info::VERSION)?;
        module.add("PROCESS_ACTOR", PyBytes::new(module.py(), &hyperactor::id::PROCESS_ACTOR.0))?;
        module.add("STACKS_ACTOR", PyBytes::new(module.py(), &hyperactor::id::STACKS_ACTOR.0))?;
        super::message::add_statuses(module)
    }
}
