//! Who owns whom, and who is told of whose end. Neither sockets nor clocks: events go in, what follows from them comes
//! out.
//!
//! A *mesh* belongs to the actor that spawned it, its *owner*; the program itself counts as an actor of the client's
//! process. The members of a process mesh are processes; those of an actor mesh are actors, each on a process of one
//! process mesh. So ownership is a tree, whose root is the client. Whoever keeps a [`Tree`] knows a part of it: the
//! agent of a host the processes of the host, each process what its own actors own. The rules are the same for a part and
//! for the whole.
//!
//! # Invariants
//! - **OWN-1** Each life of a member ends once, of its first cause. News of an earlier life changes nothing.
//! - **OWN-2** What ends after its mesh was stopped, or to make room for its successor, was stopped: that is no failure,
//!   and nobody is told. Nor is an owner that stops a mesh told of a failure of it that it has not heard of before, for a
//!   stop is never a failure; to others that one stays a failure, for the first cause counts.
//! - **OWN-3** The failure of an actor is told to the owner of its mesh and to nobody else. The end of a process is told
//!   to each owner that has something there: for each of its actor meshes with a member there, or, where it has none, for
//!   the process mesh if that is its own. A process that was killed because an actor in it could not be stopped is news
//!   only to the owners of actors that lived there.
//! - **OWN-4** When an owner ends, what it owned is stopped. So an owner that has ended is told nothing: whoever owns it
//!   is told of its end, once, with what fell because of it.
//! - **OWN-5** A stopped mesh stays stopped, and one that ended owns nothing new.
//! - **OWN-6** Failures of one mesh and cause that wait for their owner are told together; the first can be told at once,
//!   none is told twice, none is lost. See [`News`].

mod news;
mod tree;

pub use news::News;
pub use tree::{End, Fallout, Mesh, ORPHANED, Owner, Told, Tree};
