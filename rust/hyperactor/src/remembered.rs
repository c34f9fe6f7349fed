//! A map that forgets what is over, so that a process which makes and ends many things stays as small as it was.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::sync::Arc;

/// Shared things by key. What is over is remembered for a while, for those who still ask for it, and then forgotten.
pub(crate) struct Remembered<K, V> {
    known: HashMap<K, Arc<V>>,
    /// All keys, those whose turn to be looked at is next in front.
    turns: VecDeque<K>,
}

/// So many things are kept before any is forgotten.
const CAPACITY: usize = 1024;

/// For each thing that comes so many are looked at. With two, what is over goes faster than it comes.
const LOOKS: usize = 2;

impl<K, V> Default for Remembered<K, V> {
    fn default() -> Self {
        Self { known: HashMap::new(), turns: VecDeque::new() }
    }
}

impl<K: Copy + Eq + Hash, V> Remembered<K, V> {
    pub(crate) fn get(&self, key: &K) -> Option<&Arc<V>> {
        self.known.get(key)
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &Arc<V>> {
        self.known.values()
    }

    /// The thing under this key, made if there is none. Then some that are over, and that nobody else holds, may go.
    pub(crate) fn get_or_insert(
        &mut self,
        key: K,
        make: impl FnOnce() -> V,
        is_over: impl Fn(&V) -> bool,
    ) -> &mut Arc<V> {
        if !self.known.contains_key(&key) {
            self.forget_some(is_over);
            self.turns.push_back(key);
        }
        self.known.entry(key).or_insert_with(|| Arc::new(make()))
    }

    fn forget_some(&mut self, is_over: impl Fn(&V) -> bool) {
        for _ in 0..LOOKS {
            if self.known.len() < CAPACITY {
                return;
            }
            let Some(key) = self.turns.pop_front() else { return };
            // Whoever holds it would else hold another thing than who asks next.
            if self.known.get(&key).is_some_and(|value| Arc::strong_count(value) == 1 && is_over(value)) {
                self.known.remove(&key);
            } else {
                self.turns.push_back(key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    fn is_over(value: &AtomicBool) -> bool {
        value.load(Ordering::Relaxed)
    }

    #[test]
    fn what_is_over_is_forgotten_some_time_and_what_lives_or_is_held_never() {
        let mut things = Remembered::default();
        let living = 0..100;
        let held = things.get_or_insert(u32::MAX, || AtomicBool::new(true), is_over).clone();
        for key in 0..10 * CAPACITY as u32 {
            things.get_or_insert(key, || AtomicBool::new(!living.contains(&key)), is_over);
        }
        assert!(living.into_iter().all(|key| things.get(&key).is_some()));
        assert!(things.get(&u32::MAX).is_some_and(|found| Arc::ptr_eq(found, &held)));
        assert!(things.get(&(10 * CAPACITY as u32 - 1)).is_some(), "the latest is remembered");
        assert!(things.known.len() <= CAPACITY + 100 && things.turns.len() == things.known.len());
    }
}
