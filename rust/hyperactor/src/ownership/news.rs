//! What an owner has not been told of yet.

use std::collections::{BTreeSet, VecDeque};

/// Failures that wait for one owner, merged by mesh and cause: see OWN-6 in [`crate::ownership`].
///
/// A cause is whatever tells two of them apart.
#[derive(Clone, Debug)]
pub struct News<M, C> {
    waiting: VecDeque<(M, C, BTreeSet<u32>)>,
}

impl<M, C> Default for News<M, C> {
    fn default() -> Self {
        Self { waiting: VecDeque::new() }
    }
}

impl<M: PartialEq, C: PartialEq> News<M, C> {
    /// A member failed. True if that is the first news of this mesh and cause, false if it joined other ranks.
    pub fn add(&mut self, mesh: M, rank: u32, cause: C) -> bool {
        let known = self.waiting.iter_mut().find(|(other, why, _)| *other == mesh && *why == cause);
        if let Some((_, _, ranks)) = known {
            ranks.insert(rank);
            return false;
        }
        self.waiting.push_back((mesh, cause, BTreeSet::from([rank])));
        true
    }

    /// The oldest news, with the ranks that have come together until now.
    pub fn take(&mut self) -> Option<(M, C, BTreeSet<u32>)> {
        self.waiting.pop_front()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Failures come in (mesh, rank, cause) and are taken (none) in any order.
        #[test]
        fn own_6_what_waits_is_told_together_and_every_failure_exactly_once(
            steps in prop::collection::vec(prop::option::weighted(0.7, (0u8..3, 0u32..4, 0u8..3)), 0..60),
        ) {
            let mut news = News::default();
            let mut waiting: Vec<(u8, u8, BTreeSet<u32>)> = Vec::new();
            for step in steps.into_iter().chain(std::iter::repeat_n(None, 60)) {
                match step {
                    Some((mesh, rank, cause)) => {
                        let known = waiting.iter().position(|(m, c, _)| (*m, *c) == (mesh, cause));
                        prop_assert_eq!(news.add(mesh, rank, cause), known.is_none());
                        match known {
                            Some(at) => drop(waiting[at].2.insert(rank)),
                            None => waiting.push((mesh, cause, BTreeSet::from([rank]))),
                        }
                    }
                    None => {
                        let expected = if waiting.is_empty() { None } else { Some(waiting.remove(0)) };
                        prop_assert_eq!(news.take(), expected);
                    }
                }
            }
            prop_assert!(news.is_empty());
        }
    }
}
