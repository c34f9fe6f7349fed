//! `Ownership` and `News`: which owner in this process is told of what.

use std::sync::Arc;

use hyperactor::death::Cause;
use hyperactor::id::{ActorId, MeshId, Place, ProcId};
use hyperactor::ownership::{self, End, Mesh, Owner, Told, Tree};
use hyperactor::runtime;
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::death::Death;
use crate::runtime::Runtime;

/// What the actors of one process own. Why something failed is Python's to know.
#[pyclass(frozen, module = "monarch._native")]
pub struct Ownership {
    runtime: Arc<runtime::Runtime>,
    tree: Mutex<Tree<()>>,
}

type Named<'py> = (Bound<'py, PyBytes>, Bound<'py, PyBytes>);

impl Ownership {
    fn owner(&self, actor: [u8; 16]) -> Owner {
        Owner { proc: self.runtime.proc(), actor: ActorId(actor) }
    }

    /// Those that hold these places, as far as is known here: whoever is sent to now.
    fn processes(&self, mesh: [u8; 16], ranks: Vec<u32>) -> Vec<ProcId> {
        ranks.into_iter().map(|rank| self.runtime.process_at(Place { mesh: MeshId(mesh), rank })).collect()
    }

    fn name<'py>(py: Python<'py>, told: &Told) -> Named<'py> {
        let (Mesh::Actors(ActorId(mesh)) | Mesh::Procs(MeshId(mesh))) = told.mesh;
        (PyBytes::new(py, &told.owner.actor.0), PyBytes::new(py, &mesh))
    }
}

#[pymethods]
impl Ownership {
    #[new]
    fn new(runtime: &Runtime) -> Self {
        Self { runtime: runtime.inner(), tree: Mutex::default() }
    }

    fn spawn_procs(&self, owner: [u8; 16], mesh: [u8; 16], count: u32) {
        self.tree.lock().spawn_procs(self.owner(owner), MeshId(mesh), 0..count);
    }

    fn spawn_actors(&self, owner: [u8; 16], mesh: [u8; 16], procs: [u8; 16], ranks: Vec<u32>) {
        let processes = self.processes(procs, ranks);
        self.tree.lock().spawn_actors(self.owner(owner), ActorId(mesh), MeshId(procs), processes);
    }

    fn respawn_actors(&self, mesh: [u8; 16], procs: [u8; 16], ranks: Vec<u32>) -> Option<u32> {
        let processes = self.processes(procs, ranks);
        self.tree.lock().respawn_actors(ActorId(mesh), processes)
    }

    fn forget(&self, mesh: [u8; 16]) {
        let mut tree = self.tree.lock();
        tree.forget(Mesh::Actors(ActorId(mesh)));
        tree.forget(Mesh::Procs(MeshId(mesh)));
    }

    fn process_ended<'py>(&self, py: Python<'py>, death: &Death) -> Vec<Named<'py>> {
        let death = death.inner();
        let mut tree = self.tree.lock();
        let fallout = match death.cause {
            Cause::Stopped(_) => tree.process_ended(death.proc, End::Stopped(death.reason())),
            Cause::KilledForStop(_) => tree.process_killed_for_stop(death.proc, ()),
            _ => tree.process_ended(death.proc, End::Failed(())),
        };
        drop(tree);
        fallout.map_or_else(Vec::new, |fallout| fallout.told.iter().map(|told| Self::name(py, told)).collect())
    }

    fn actor_failed<'py>(&self, py: Python<'py>, mesh: [u8; 16], rank: u32, life: u32) -> Option<Bound<'py, PyBytes>> {
        let fallout = self.tree.lock().actor_ended(ActorId(mesh), rank, life, End::Failed(()))?;
        fallout.told.first().map(|told| PyBytes::new(py, &told.owner.actor.0))
    }

    fn owner_ended(&self, owner: [u8; 16]) {
        let mut tree = self.tree.lock();
        for mesh in tree.owner_ended(self.owner(owner)) {
            tree.forget(mesh);
        }
    }

    fn __len__(&self) -> usize {
        self.tree.lock().meshes().count()
    }
}

/// Failures that wait for one owner.
#[pyclass(frozen, module = "monarch._native")]
pub struct News(Mutex<ownership::News<Vec<u8>, Vec<u8>>>);

type Failed<'py> = (Bound<'py, PyBytes>, Bound<'py, PyBytes>, Vec<u32>);

#[pymethods]
impl News {
    #[new]
    fn new() -> Self {
        Self(Mutex::default())
    }

    fn add(&self, mesh: Vec<u8>, rank: u32, cause: Vec<u8>) -> bool {
        self.0.lock().add(mesh, rank, cause)
    }

    fn take<'py>(&self, py: Python<'py>) -> Option<Failed<'py>> {
        let (mesh, cause, ranks) = self.0.lock().take()?;
        Some((PyBytes::new(py, &mesh), PyBytes::new(py, &cause), ranks.into_iter().collect()))
    }
}
