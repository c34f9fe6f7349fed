//! What a controller tells its workers.

use serde::{Deserialize, Serialize};

use crate::{Sequence, StreamRef, TensorRef};

/// One step of the controller's program. All workers of a mesh get the same commands in the same order.
///
/// The enum is a wire format: it only grows at its end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Command {
    /// Open a lane of execution.
    OpenStream {
        /// Its name from now on.
        stream: StreamRef,
        /// What users call it.
        label: String,
    },
    /// Run an operation and keep its results.
    Run {
        /// Where in the program.
        sequence: Sequence,
        /// On which lane.
        stream: StreamRef,
        /// The operation, by the name under which the worker resolves it.
        operation: String,
        /// Its arguments, packed by the controller's Python side; tensors in it are named by the entries of `inputs`.
        arguments: Vec<u8>,
        /// The tensors that it reads: if one of them failed, so does this, with that one's cause.
        inputs: Vec<TensorRef>,
        /// The names of the tensors that it makes.
        outputs: Vec<TensorRef>,
    },
    /// Forget tensors that the controller cannot name any more.
    Delete {
        /// Which ones.
        tensors: Vec<TensorRef>,
    },
}

impl Command {
    /// The tensors that exist because of this command.
    pub fn outputs(&self) -> &[TensorRef] {
        match self {
            Self::Run { outputs, .. } => outputs,
            Self::OpenStream { .. } | Self::Delete { .. } => &[],
        }
    }

    /// The tensors that must be there for this command.
    pub fn inputs(&self) -> &[TensorRef] {
        match self {
            Self::Run { inputs, .. } => inputs,
            Self::Delete { tensors } => tensors,
            Self::OpenStream { .. } => &[],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::References;

    fn program() -> Vec<Command> {
        let mut references = References::default();
        let stream = references.stream();
        let (left, right) = (references.tensor(), references.tensor());
        vec![
            Command::OpenStream { stream, label: "main".to_owned() },
            Command::Run {
                sequence: references.sequence(),
                stream,
                operation: "aten::neg".to_owned(),
                arguments: vec![1, 2, 3],
                inputs: vec![left],
                outputs: vec![right],
            },
            Command::Delete { tensors: vec![left] },
        ]
    }

    #[test]
    fn a_program_survives_the_wire() {
        let program = program();
        let wire = postcard::to_allocvec(&program).unwrap();
        assert_eq!(postcard::from_bytes::<Vec<Command>>(&wire).unwrap(), program);
    }

    #[test]
    fn a_command_names_what_it_needs_and_what_it_makes() {
        let program = program();
        let Command::Run { inputs, outputs, .. } = &program[1] else { unreachable!() };
        assert_eq!((program[1].inputs(), program[1].outputs()), (&inputs[..], &outputs[..]));
        assert_eq!((program[2].inputs(), program[2].outputs()), (&inputs[..], &[][..]));
        assert!(program[0].inputs().is_empty() && program[0].outputs().is_empty());
    }
}
