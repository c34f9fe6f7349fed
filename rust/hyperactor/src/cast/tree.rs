//! The tree of hosts that a cast goes down. Whoever has one part of it can tell all of that part.
//!
//! A part is a run of hosts; its first one is the gateway of the others, which it splits into as many equal runs as the
//! fan-out says. So the way to a host depends on the run that the root began with alone, and what is lost elsewhere does
//! not change it.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::id::MeshId;

/// Consecutive hosts of a mesh. The first is the gateway of the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    /// The first, as an index into the mesh's hosts.
    pub first: u32,
    /// How many.
    pub count: u32,
}

/// How a cast gets on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Route {
    /// The host that it began on, whose tree this is.
    pub root: MeshId,
    /// Whom it is for from here on.
    pub hosts: Span,
    /// Processes on each host: consecutive ranks.
    pub per_host: u32,
    /// Into how many parts a gateway splits the hosts beyond it, at most.
    pub fan_out: u32,
    /// Hosts that it does not go to, in order: lost ones, and the root's own.
    pub skipped: Vec<u32>,
}

impl Span {
    /// The one after the last.
    pub fn end(self) -> u32 {
        self.first.saturating_add(self.count)
    }

    /// Whether a host is among them.
    pub fn contains(self, host: u32) -> bool {
        (self.first..self.end()).contains(&host)
    }

    /// The hosts beyond the gateway.
    pub fn beyond(self) -> Self {
        Self { first: self.first.saturating_add(1), count: self.count.saturating_sub(1) }
    }

    /// The ranks on these hosts.
    pub fn ranks(self, per_host: u32) -> Range<u32> {
        self.first.saturating_mul(per_host)..self.end().saturating_mul(per_host)
    }
}

impl Route {
    /// Whether it can be followed: one that came from elsewhere may name more than there can be.
    pub fn is_sound(&self) -> bool {
        let end = u64::from(self.hosts.first) + u64::from(self.hosts.count);
        self.per_host > 0 && self.fan_out > 0 && end * u64::from(self.per_host) <= u64::from(u32::MAX)
    }

    /// The parts that `hosts` are split into, each with a gateway that is not skipped.
    pub fn parts(&self, hosts: Span) -> impl Iterator<Item = Span> + '_ {
        let size = hosts.count.div_ceil(self.fan_out.max(1)).max(1);
        let starts = (hosts.first..hosts.end()).step_by(size as usize);
        starts.filter_map(move |first| self.led(Span { first, count: size.min(hosts.end() - first) }))
    }

    /// A part from its first host on that is not skipped.
    fn led(&self, part: Span) -> Option<Span> {
        let first = (part.first..part.end()).find(|host| self.skipped.binary_search(host).is_err())?;
        Some(Span { first, count: part.end() - first })
    }

    /// What is cut off when a host is lost: all that it is the gateway of, and itself. None where it is no part of the
    /// tree.
    pub fn behind(&self, host: u32) -> Option<Span> {
        let mut hosts = self.hosts;
        loop {
            let part = self.parts(hosts).find(|part| part.contains(host))?;
            if part.first == host {
                return Some(part);
            }
            hosts = part.beyond();
        }
    }

    /// The skipped hosts that lie in `hosts`: all that whoever is in charge of those has to know.
    pub fn skipped_in(&self, hosts: Span) -> Vec<u32> {
        self.skipped.iter().copied().filter(|host| hosts.contains(*host)).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    fn route(hosts: u32, fan_out: u32, skipped: Vec<u32>) -> Route {
        Route { root: MeshId([1; 16]), hosts: Span { first: 0, count: hosts }, per_host: 2, fan_out, skipped }
    }

    /// Every host that is reached, with its depth and its gateway.
    fn reached(route: &Route) -> Vec<(u32, u32, Option<u32>)> {
        let mut open = vec![(route.hosts, 1, None)];
        let mut hosts = Vec::new();
        while let Some((span, depth, gateway)) = open.pop() {
            for part in route.parts(span) {
                hosts.push((part.first, depth, gateway));
                open.push((part.beyond(), depth + 1, Some(part.first)));
            }
        }
        hosts.sort_unstable();
        hosts
    }

    proptest! {
        #[test]
        fn every_host_that_is_not_skipped_is_reached_once(
            hosts in 0u32..300,
            fan_out in 1u32..9,
            skipped in prop::collection::btree_set(0u32..300, 0..20),
        ) {
            let route = route(hosts, fan_out, skipped.iter().copied().collect());
            let expected: Vec<u32> = (0..hosts).filter(|host| !skipped.contains(host)).collect();
            let found: Vec<u32> = reached(&route).into_iter().map(|(host, ..)| host).collect();
            prop_assert_eq!(found, expected);
        }

        #[test]
        fn a_lost_host_changes_the_ways_of_those_behind_it_alone(
            hosts in 1u32..200,
            fan_out in 1u32..9,
            lost in 0u32..200,
        ) {
            let before = route(hosts, fan_out, Vec::new());
            let behind = before.behind(lost);
            prop_assert_eq!(behind.is_some(), lost < hosts);
            let behind = behind.unwrap_or(Span { first: 0, count: 0 });
            let after = reached(&Route { skipped: vec![lost], ..before.clone() });
            let unchanged: HashSet<_> = reached(&before).into_iter().filter(|(host, ..)| !behind.contains(*host)).collect();
            prop_assert!(unchanged.iter().all(|way| after.contains(way)));
        }
    }

    #[test]
    fn usual_clusters_have_one_level_and_large_ones_two() {
        let depth = |hosts| reached(&route(hosts, 64, Vec::new())).into_iter().map(|(_, depth, _)| depth).max();
        assert_eq!([depth(64), depth(65), depth(4096)], [Some(1), Some(2), Some(2)]);
    }
}
