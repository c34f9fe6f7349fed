//! Casts over hosts that exist in this process only: the same root and gateways that real hosts run.

mod cluster;

use std::collections::BTreeSet;

use cluster::{Cluster, JOIN, RECEIPTS, SUM, arrived_or_missing, number};
use hyperactor::cast::Region;
use proptest::prelude::*;

/// One thing that happens.
#[derive(Clone, Debug)]
enum Act {
    /// A cast to the ranks at these steps, from one rank on; what answers it wants.
    Cast { first: u32, step: u32, answers: Answers },
    /// The end of a host.
    Lose(u32),
    /// So many things arrive.
    Arrive(u8),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Answers {
    None,
    Each,
    Receipt,
    Joined,
}

fn acts(deaths: u32) -> impl Strategy<Value = Vec<Act>> {
    let answers = prop_oneof![Just(Answers::None), Just(Answers::Each), Just(Answers::Receipt), Just(Answers::Joined)];
    let act = prop_oneof![
        4 => (0u32..60, 1u32..7, answers).prop_map(|(first, step, answers)| Act::Cast { first, step, answers }),
        deaths => (0u32..40).prop_map(Act::Lose),
        4 => (0u8..60).prop_map(Act::Arrive),
    ];
    prop::collection::vec(act, 1..25)
}

struct Told {
    number: u64,
    ranks: Vec<u32>,
    answers: Answers,
}

/// What happens, with things arriving in an order that `order` decides.
fn happen(cluster: &mut Cluster, ranks: u32, hosts: u32, acts: &[Act], mut order: u64) -> Vec<Told> {
    // A generator of numbers that need not be good: xorshift.
    let mut choose = |count: usize| {
        order ^= order << 13;
        order ^= order >> 7;
        order ^= order << 17;
        (order % count as u64) as usize
    };
    let mut told = Vec::new();
    for act in acts {
        match act {
            Act::Cast { first, step, answers } => {
                let ranks: Vec<u32> = (first % ranks..ranks).step_by(*step as usize).collect();
                let (wants, reducer) = match answers {
                    Answers::None => (false, None),
                    Answers::Each => (true, None),
                    Answers::Receipt => (true, RECEIPTS),
                    Answers::Joined => (true, Some(JOIN)),
                };
                let number = cluster.cast(Region::of(&ranks), wants, reducer);
                told.push(Told { number, ranks, answers: *answers });
            }
            Act::Lose(host) => cluster.lose(host % hosts),
            Act::Arrive(count) => (0..*count).for_each(|_| _ = cluster.step(&mut choose)),
        }
    }
    while cluster.step(&mut choose) {}
    told
}

fn joined(ranks: impl Iterator<Item = u32>) -> Vec<u8> {
    ranks.flat_map(|rank| u64::from(rank).to_le_bytes()).collect()
}

proptest! {
    #[test]
    fn cast_1_2_and_4_hold_whatever_arrives_when_and_whoever_is_lost(
        hosts in 1u32..40,
        per_host in 1u32..4,
        fan_out in 1u32..6,
        acts in acts(1),
        order in 1u64..,
    ) {
        let mut cluster = Cluster::new(hosts, per_host, fan_out);
        let told = happen(&mut cluster, hosts * per_host, hosts, &acts, order);
        prop_assert_eq!(cluster.unanswered(), 0);
        for rank in 0..hosts * per_host {
            prop_assert!(cluster.received(rank).is_sorted_by(|one, next| one < next), "once each, in order");
        }
        let any_lost = (0..hosts).any(|host| cluster.is_lost(host));
        for Told { number, ranks, answers } in told {
            let got = |rank: &u32| cluster.received(*rank).contains(&number);
            match answers {
                Answers::None => prop_assert!(any_lost || ranks.iter().all(got)),
                Answers::Each => {
                    let outcome = &cluster.outcomes[&number];
                    prop_assert_eq!(outcome.places.len(), ranks.len());
                    for (place, rank) in (0..).zip(&ranks) {
                        match outcome.places[&place] {
                            Some(value) => prop_assert!(value == u64::from(*rank) && got(rank)),
                            None => prop_assert!(any_lost),
                        }
                    }
                }
                Answers::Receipt => prop_assert!(arrived_or_missing(&cluster, number, &ranks)),
                Answers::Joined => {
                    prop_assert!(arrived_or_missing(&cluster, number, &ranks));
                    let (value, count, missing) = cluster.outcomes[&number].combined.clone().unwrap_or_default();
                    let value: Vec<u64> = value.unwrap_or_default().chunks(8).map(cluster::number).collect();
                    prop_assert_eq!(value.len() as u64, count);
                    prop_assert!(value.is_sorted_by(|one, next| one < next), "neighbours are combined in order");
                    prop_assert!(missing == 0 || any_lost);
                    prop_assert!(missing > 0 || value.iter().map(|rank| *rank as u32).eq(ranks.iter().copied()));
                }
            }
        }
    }

    #[test]
    fn cast_3_a_loss_is_told_for_nobody_but_those_behind_it(
        hosts in 2u32..60,
        fan_out in 1u32..9,
        lost in 0u32..60,
        before in 0usize..40,
        order in 1u64..,
    ) {
        let lost = lost % hosts;
        let mut cluster = Cluster::new(hosts, 1, fan_out);
        let ranks: Vec<u32> = (0..hosts).collect();
        let acts = [
            Act::Cast { first: 0, step: 1, answers: Answers::Each },
            Act::Arrive(before as u8),
            Act::Lose(lost),
            Act::Cast { first: 0, step: 1, answers: Answers::Each },
        ];
        happen(&mut cluster, hosts, hosts, &acts, order);
        let route = hyperactor::cast::Route {
            root: hyperactor::id::MeshId([8; 16]),
            hosts: hyperactor::cast::Span { first: 0, count: hosts },
            per_host: 1,
            fan_out,
            skipped: Vec::new(),
        };
        let behind = route.behind(lost).map_or(0..0, |span| span.ranks(1));
        for outcome in cluster.outcomes.values() {
            prop_assert!(outcome.places.iter().all(|(place, value)| value.is_some() || behind.contains(place)));
        }
        // From the news of the loss on everybody else is reached.
        cluster.outcomes.clear();
        let call = cluster.cast(Region::of(&ranks), true, None);
        cluster.run();
        let missing: BTreeSet<u32> = cluster.outcomes[&call]
            .places
            .iter()
            .filter(|(_, value)| value.is_none())
            .map(|(place, _)| *place)
            .collect();
        prop_assert_eq!(missing, BTreeSet::from([lost]));
    }
}

#[test]
fn a_cast_and_gather_over_many_hosts_reaches_each_actor_once_and_brings_every_value() {
    let (hosts, per_host) = (512, 8);
    let mut cluster = Cluster::new(hosts, per_host, 16);
    let ranks: Vec<u32> = (0..hosts * per_host).collect();
    let gather = cluster.cast(Region::of(&ranks), true, None);
    cluster.run();
    let places = &cluster.outcomes[&gather].places;
    assert!(ranks.iter().all(|rank| places.get(rank) == Some(&Some(u64::from(*rank)))));
    assert!(ranks.iter().all(|rank| cluster.received(*rank) == [gather]));
    let sum = cluster.cast(Region::of(&ranks), true, Some(SUM));
    cluster.run();
    let (value, count, missing) = cluster.outcomes[&sum].combined.clone().unwrap();
    let total: u64 = ranks.iter().map(|rank| u64::from(*rank)).sum();
    assert_eq!((number(&value.unwrap()), count, missing), (total, ranks.len() as u64, 0));
}

#[test]
fn cast_5_what_the_root_does_grows_with_its_fan_out_and_not_with_the_members() {
    let work = |hosts: u32, reducer| {
        let mut cluster = Cluster::new(hosts, 4, 8);
        let ranks: Vec<u32> = (0..hosts * 4).collect();
        cluster.cast(Region::of(&ranks), true, reducer);
        cluster.run();
        (cluster.from_root, cluster.to_root)
    };
    let (down, up) = work(512, Some(SUM));
    assert_eq!((down.frames, up.frames), (8, 8));
    let (fewer_down, fewer_up) = work(64, Some(SUM));
    assert_eq!((fewer_down.frames, fewer_up.frames), (8, 8));
    assert!(down.bytes < fewer_down.bytes + 100 && up.bytes < fewer_up.bytes + 100, "numbers are a few bytes longer");
    let (_, each) = work(512, None);
    assert!(each.frames <= 8 * 8, "{each:?}: many answers come in one frame");
}

#[test]
fn a_view_of_any_regularity_is_cast_in_the_order_of_its_places() {
    let mut cluster = Cluster::new(40, 3, 4);
    // Every other host, from the last to the first, and on each the last process before the first.
    let ranks: Vec<u32> = (0..20).rev().flat_map(|host| [host * 6 + 2, host * 6]).collect();
    let call = cluster.cast(Region::of(&ranks), true, None);
    cluster.run();
    let values: Vec<u64> = cluster.outcomes[&call].places.values().map(|value| value.unwrap()).collect();
    assert_eq!(values, ranks.iter().map(|rank| u64::from(*rank)).collect::<Vec<_>>());
}

#[test]
fn a_joined_answer_has_the_values_in_the_order_of_ranks() {
    let mut cluster = Cluster::new(30, 2, 3);
    let call = cluster.cast(Region::of(&(0..60).collect::<Vec<u32>>()), true, Some(JOIN));
    cluster.run();
    let (value, ..) = cluster.outcomes[&call].combined.clone().unwrap();
    assert_eq!(value.unwrap(), joined(0..60));
}
