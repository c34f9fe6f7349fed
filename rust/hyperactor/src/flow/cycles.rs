//! Searches for cycles of threads that wait for each other, as rules without threads and links.
//!
//! A thread that has waited for a while asks along what it waits for. Whoever is asked and waits as well asks on, and
//! answers when everybody that it asked has answered; whoever works does not answer. So an answer to the first question
//! means that nobody goes on: the diffusing computation of Chandy, Misra and Haas for threads that go on as soon as one of
//! those that they wait for does. Questions and answers take the ways that requests, answers and room take, so nothing of
//! that is still on its way when they arrive.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::server::Edge;
use super::{About, Search};
use crate::id::ProcId;

/// More than this at once are not kept: a search that is forgotten is made again.
const MOST: usize = 4096;

/// Does somebody wait, and whoever it waits for as well?
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Query {
    pub(crate) search: Search,
    /// Under which the answer is expected.
    pub(crate) task: u64,
    pub(crate) about: About,
}

/// Yes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stuck {
    pub(crate) search: Search,
    pub(crate) task: u64,
}

/// Somebody who may wait.
pub(crate) trait Waiting: Clone {
    /// Who.
    fn id(&self) -> u64;
    /// Since when: another number for each wait. None when it does not.
    fn since(&self) -> Option<u64>;
}

/// Somebody who waits, and for what: for any of these.
pub(crate) struct Waiter<W> {
    pub(crate) who: W,
    pub(crate) since: u64,
    pub(crate) edges: Vec<Edge>,
}

/// What to say to a process.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Say {
    Query(Query),
    Stuck(Stuck),
}

/// What an answer brought.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// Who started the search waits in vain.
    Cycle(Search),
    Nothing,
    Say(ProcId, Say),
}

/// The searches that have come by one process.
pub(crate) struct Cycles<W> {
    tasks: HashMap<u64, Task<W>>,
    /// Who was asked in a search, and since when it has waited.
    asked: HashMap<(Search, u64), u64>,
    next: u64,
}

struct Task<W> {
    /// Whom to answer; none where the search began.
    parent: Option<(ProcId, u64)>,
    search: Search,
    open: usize,
    waiters: Vec<(W, u64)>,
}

impl<W> Default for Cycles<W> {
    fn default() -> Self {
        Self { tasks: HashMap::new(), asked: HashMap::new(), next: 0 }
    }
}

impl<W: Waiting> Cycles<W> {
    /// Search for a cycle that somebody here is in.
    pub(crate) fn start(&mut self, search: Search, waiter: Waiter<W>) -> Vec<(ProcId, Say)> {
        self.ask_on(search, None, vec![waiter])
    }

    /// Somebody asks for what all of these do; none when one of them works.
    pub(crate) fn query(&mut self, from: ProcId, query: &Query, waiters: Option<Vec<Waiter<W>>>) -> Vec<(ProcId, Say)> {
        let Query { search, task, .. } = *query;
        let Some(mut waiters) = waiters.filter(|waiters| !waiters.is_empty()) else { return Vec::new() };
        let known = |waiter: &Waiter<W>| self.asked.get(&(search, waiter.who.id())).copied();
        if waiters.iter().any(|waiter| known(waiter).is_some_and(|since| since != waiter.since)) {
            // It went on since it was asked.
            return Vec::new();
        }
        waiters.retain(|waiter| known(waiter).is_none());
        if waiters.is_empty() {
            return vec![(from, Say::Stuck(Stuck { search, task }))];
        }
        self.ask_on(search, Some((from, task)), waiters)
    }

    fn ask_on(&mut self, search: Search, parent: Option<(ProcId, u64)>, waiters: Vec<Waiter<W>>) -> Vec<(ProcId, Say)> {
        if self.tasks.len() >= MOST || self.asked.len() >= MOST {
            self.tasks.clear();
            self.asked.clear();
        }
        let task = self.next;
        self.next += 1;
        let mut words = Vec::new();
        for waiter in &waiters {
            self.asked.insert((search, waiter.who.id()), waiter.since);
            let query = |&(proc, about): &Edge| (proc, Say::Query(Query { search, task, about }));
            words.extend(waiter.edges.iter().map(query));
        }
        let waiters = waiters.into_iter().map(|waiter| (waiter.who, waiter.since)).collect();
        self.tasks.insert(task, Task { parent, search, open: words.len(), waiters });
        words
    }

    /// Somebody who was asked waits as well.
    pub(crate) fn stuck(&mut self, stuck: &Stuck) -> Found {
        let Some(task) = self.tasks.get_mut(&stuck.task).filter(|task| task.search == stuck.search) else {
            return Found::Nothing;
        };
        task.open = task.open.saturating_sub(1);
        if task.open > 0 {
            return Found::Nothing;
        }
        let Some(task) = self.tasks.remove(&stuck.task) else { return Found::Nothing };
        if !task.waiters.iter().all(|(who, since)| who.since() == Some(*since)) {
            return Found::Nothing;
        }
        match task.parent {
            None => Found::Cycle(task.search),
            Some((proc, task)) => Found::Say(proc, Say::Stuck(Stuck { search: stuck.search, task })),
        }
    }

    /// Nobody waits for this search any more.
    pub(crate) fn forget(&mut self, search: Search) {
        self.tasks.retain(|_, task| task.search != search);
        self.asked.retain(|(other, _), _| *other != search);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::collections::{HashSet, VecDeque};
    use std::rc::Rc;

    use proptest::prelude::*;

    use super::*;
    use crate::id::{ActorId, MeshId};

    /// A thread that serves one actor.
    #[derive(Clone)]
    struct Thread {
        id: u64,
        since: Rc<Cell<Option<u64>>>,
    }

    impl Waiting for Thread {
        fn id(&self) -> u64 {
            self.id
        }

        fn since(&self) -> Option<u64> {
            self.since.get()
        }
    }

    const PROCS: usize = 3;

    fn proc(thread: usize) -> ProcId {
        ProcId::first(MeshId([1; 16]), (thread % PROCS) as u32)
    }

    /// Threads, whom each waits for, and what is under way between processes.
    struct World {
        threads: Vec<Thread>,
        waits: Vec<Vec<usize>>,
        procs: Vec<Cycles<Thread>>,
        ways: HashMap<(u32, u32), VecDeque<Say>>,
        found: HashSet<u64>,
    }

    impl World {
        fn new(waits: Vec<Vec<usize>>) -> Self {
            let since = |waits: &Vec<usize>| Rc::new(Cell::new((!waits.is_empty()).then_some(7)));
            let threads = waits.iter().enumerate().map(|(id, to)| Thread { id: id as u64, since: since(to) }).collect();
            let procs = (0..PROCS).map(|_| Cycles::default()).collect();
            Self { threads, waits, procs, ways: HashMap::new(), found: HashSet::new() }
        }

        fn waiter(&self, thread: usize) -> Option<Waiter<Thread>> {
            let since = self.threads[thread].since.get()?;
            let edge = |&to: &usize| (proc(to), About::Actor(ActorId([to as u8; 16])));
            let edges = self.waits[thread].iter().map(edge).collect();
            Some(Waiter { who: self.threads[thread].clone(), since, edges })
        }

        fn send(&mut self, from: u32, words: Vec<(ProcId, Say)>) {
            words.into_iter().for_each(|(to, say)| self.ways.entry((from, to.rank)).or_default().push_back(say));
        }

        fn search(&mut self, thread: usize) {
            let Some(waiter) = self.waiter(thread) else { return };
            let search = Search { proc: proc(thread), number: thread as u64 };
            let words = self.procs[thread % PROCS].start(search, waiter);
            self.send(proc(thread).rank, words);
        }

        /// Deliver the next word of one of the ways; false when nothing is under way.
        fn step(&mut self, choice: usize) -> bool {
            let mut ways: Vec<_> = self.ways.iter().filter(|(_, way)| !way.is_empty()).map(|(way, _)| *way).collect();
            ways.sort();
            let Some(&(from, to)) = ways.get(choice % ways.len().max(1)) else { return false };
            let Some(say) = self.ways.get_mut(&(from, to)).and_then(VecDeque::pop_front) else { return false };
            match say {
                Say::Query(query) => {
                    let About::Actor(actor) = query.about else { return true };
                    let waiters = self.waiter(usize::from(actor.0[0])).map(|waiter| vec![waiter]);
                    let from = ProcId::first(MeshId([1; 16]), from);
                    let words = self.procs[to as usize].query(from, &query, waiters);
                    self.send(to, words);
                }
                Say::Stuck(stuck) => match self.procs[to as usize].stuck(&stuck) {
                    Found::Cycle(search) => drop(self.found.insert(search.number)),
                    Found::Say(proc, say) => self.send(to, vec![(proc, say)]),
                    Found::Nothing => {}
                },
            }
            true
        }

        /// Whether everybody that a thread can reach by waits waits itself.
        fn is_in_vain(&self, thread: usize) -> bool {
            let (mut seen, mut open) = (HashSet::new(), vec![thread]);
            while let Some(next) = open.pop() {
                if self.waits[next].is_empty() {
                    return false;
                }
                if seen.insert(next) {
                    open.extend(&self.waits[next]);
                }
            }
            true
        }
    }

    const THREADS: usize = 8;

    fn waits() -> impl Strategy<Value = Vec<Vec<usize>>> {
        prop::collection::vec(prop::collection::vec(0..THREADS, 0..3), THREADS)
    }

    proptest! {
        #[test]
        fn flow_4_a_cycle_is_found_exactly_where_everybody_waits(
            waits in waits(),
            choices in prop::collection::vec(any::<usize>(), 64),
        ) {
            let mut world = World::new(waits);
            (0..THREADS).for_each(|thread| world.search(thread));
            let mut choices = choices.into_iter().cycle();
            while world.step(choices.next().unwrap()) {}
            for thread in 0..THREADS {
                prop_assert_eq!(world.found.contains(&(thread as u64)), world.is_in_vain(thread), "thread {}", thread);
            }
        }

        #[test]
        fn flow_4_whoever_went_on_during_the_search_is_in_no_cycle(
            waits in waits(),
            choices in prop::collection::vec(any::<usize>(), 64),
            (who, after) in (0..THREADS, 0usize..12),
        ) {
            let mut world = World::new(waits);
            (0..THREADS).for_each(|thread| world.search(thread));
            let mut choices = choices.into_iter().cycle();
            let mut steps = 0;
            while world.step(choices.next().unwrap()) {
                steps += 1;
                if steps == after {
                    // It goes on and waits anew, for the same.
                    let since = world.threads[who].since.get().map(|since| since + 1);
                    world.threads[who].since.set(since);
                }
            }
            for thread in &world.found {
                prop_assert!(world.is_in_vain(*thread as usize), "thread {}", thread);
            }
        }
    }

    #[test]
    fn an_answer_to_a_search_that_is_forgotten_finds_nothing() {
        let mut world = World::new(vec![vec![1], vec![0]]);
        world.search(0);
        world.procs[0].forget(Search { proc: proc(0), number: 0 });
        while world.step(0) {}
        assert!(world.found.is_empty());
    }
}
