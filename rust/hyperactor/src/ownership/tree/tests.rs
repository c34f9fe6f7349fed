use proptest::prelude::*;

use super::*;

type Forest = Tree<u8>;

fn mesh(number: u8) -> MeshId {
    MeshId([number; 16])
}

fn actors(number: u8) -> ActorId {
    ActorId([100 + number; 16])
}

fn client() -> Owner {
    Owner { proc: ProcId::first(mesh(0), 0), actor: actors(0) }
}

fn owner(number: u8, hosts: u8, rank: u32) -> Owner {
    Owner { proc: ProcId::first(mesh(hosts), rank), actor: actors(number) }
}

const WIDTH: u32 = 3;

/// The first processes of a mesh.
fn processes(number: u8) -> impl Iterator<Item = ProcId> {
    (0..WIDTH).map(move |rank| ProcId::first(mesh(number), rank))
}

/// The client owns processes 1 and 3, with actors 1 and 3 on them; one of actors 1 owns processes 2 with actors 2, and
/// actors 4 on processes 3, which are not its own; one of actors 2 owns processes 4 with actors 5.
fn family() -> Forest {
    let mut tree = Tree::default();
    let nested = owner(1, 1, 0);
    assert!(tree.spawn_procs(client(), mesh(1), 0..WIDTH));
    assert!(tree.spawn_procs(client(), mesh(3), 0..WIDTH));
    assert!(tree.spawn_actors(client(), actors(1), mesh(1), processes(1)));
    assert!(tree.spawn_actors(client(), actors(3), mesh(3), processes(3)));
    assert!(tree.spawn_procs(nested, mesh(2), 0..WIDTH));
    assert!(tree.spawn_actors(nested, actors(2), mesh(2), processes(2)));
    assert!(tree.spawn_actors(nested, actors(4), mesh(3), processes(3)));
    assert!(tree.spawn_procs(owner(2, 2, 1), mesh(4), 0..WIDTH));
    assert!(tree.spawn_actors(owner(2, 2, 1), actors(5), mesh(4), processes(4)));
    tree
}

fn all() -> Vec<Mesh> {
    let procs = (1..=4).map(|number| Mesh::Procs(mesh(number)));
    procs.chain((1..=5).map(|number| Mesh::Actors(actors(number)))).collect()
}

#[derive(Clone, Debug)]
enum Step {
    EndActor { mesh: u8, rank: u32, late: bool },
    EndProcess { mesh: u8, rank: u32, late: bool },
    MakeRoom { mesh: u8, rank: u32 },
    RespawnActors { mesh: u8, rank: u32 },
    RespawnProcess { mesh: u8, rank: u32 },
    Stop(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let place = || (1u8..=4, 0..WIDTH);
    prop_oneof![
        4 => (place(), prop::bool::weighted(0.1))
            .prop_map(|((mesh, rank), late)| Step::EndProcess { mesh, rank, late }),
        4 => ((1u8..=5, 0..WIDTH), prop::bool::weighted(0.1))
            .prop_map(|((mesh, rank), late)| Step::EndActor { mesh, rank, late }),
        1 => place().prop_map(|(mesh, rank)| Step::MakeRoom { mesh, rank }),
        1 => (1u8..=5, 0..WIDTH).prop_map(|(mesh, rank)| Step::RespawnActors { mesh, rank }),
        2 => place().prop_map(|(mesh, rank)| Step::RespawnProcess { mesh, rank }),
        1 => (0usize..9).prop_map(Step::Stop),
    ]
}

/// Everything that has ended, as one who only counts ends would know it.
fn ends(tree: &Forest) -> Vec<(Mesh, u32, u32)> {
    let members = all().into_iter().flat_map(|mesh| tree.ranks(mesh).into_iter().map(move |rank| (mesh, rank)));
    let dead = members.filter(|(mesh, rank)| tree.end_of(*mesh, *rank).is_some());
    dead.map(|(mesh, rank)| (mesh, rank, tree.life_of(mesh, rank))).collect()
}

fn owner_lives(tree: &Forest, owner: Owner) -> bool {
    owner == client()
        || (tree.process_at(owner.proc.place()) == owner.proc
            && tree.end_of(Mesh::Procs(owner.proc.mesh), owner.proc.rank).is_none()
            && tree.end_of(Mesh::Actors(owner.actor), owner.proc.rank).is_none())
}

/// Who has to be told of the end of a process, said another way than the tree does it: owner by owner.
fn expected(before: &Forest, proc: ProcId) -> BTreeSet<Told> {
    let mut told = BTreeSet::new();
    let owners: BTreeSet<Owner> = all().into_iter().filter_map(|mesh| before.owner(mesh)).collect();
    for owner in owners.into_iter().filter(|owner| owner.proc != proc) {
        let wanted = |mesh: &Mesh| before.owner(*mesh) == Some(owner) && before.stopped(*mesh).is_none();
        let there: Vec<Mesh> = all()
            .into_iter()
            .filter(|mesh| matches!(mesh, Mesh::Actors(actors) if before.hosts(*actors) == Some(proc.mesh)))
            .filter(wanted)
            .collect();
        let own = Mesh::Procs(proc.mesh);
        let meshes = if there.is_empty() && wanted(&own) { vec![own] } else { there };
        told.extend(meshes.into_iter().map(|mesh| Told { owner, mesh }));
    }
    told
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn own_1_to_5_hold_in_every_order_of_ends_stops_and_new_lives(steps in prop::collection::vec(step(), 0..50)) {
        let mut tree = family();
        for (number, step) in steps.into_iter().enumerate() {
            let before = tree.clone();
            let cause = number as u8;
            let fallout = match step {
                Step::EndProcess { mesh: number, rank, late } => {
                    let proc = tree.process_at(Place { mesh: mesh(number), rank });
                    let generation = proc.generation.saturating_sub(u32::from(late));
                    let told_of = ProcId { generation, ..proc };
                    let is_news = generation == proc.generation && before.end_of(Mesh::Procs(mesh(number)), rank).is_none();
                    let fallout = tree.process_ended(told_of, End::Failed(cause));
                    prop_assert_eq!(fallout.is_some(), is_news, "OWN-1: each life ends once");
                    if let Some(Fallout { end: End::Failed(_), told, .. }) = &fallout {
                        prop_assert_eq!(told.len(), told.iter().collect::<BTreeSet<_>>().len(), "OWN-3: once");
                        let told: BTreeSet<Told> = told.iter().copied().collect();
                        prop_assert_eq!(told, expected(&before, proc), "OWN-3");
                    }
                    fallout
                }
                Step::EndActor { mesh: number, rank, late } => {
                    let id = Mesh::Actors(actors(number));
                    let present = tree.life_of(id, rank);
                    let life = present.saturating_sub(u32::from(late));
                    let is_news = life == present && before.end_of(id, rank).is_none();
                    let fallout = tree.actor_ended(actors(number), rank, life, End::Failed(cause));
                    prop_assert_eq!(fallout.is_some(), is_news, "OWN-1: each life ends once");
                    if let Some(Fallout { end: End::Failed(_), told, .. }) = &fallout {
                        let owner = before.owner(id).unwrap();
                        prop_assert_eq!(told, &vec![Told { owner, mesh: id }], "OWN-3: the owner and nobody else");
                    }
                    fallout
                }
                Step::MakeRoom { mesh: number, rank } => {
                    let place = Place { mesh: mesh(number), rank };
                    let id = Mesh::Procs(mesh(number));
                    let can = before.stopped(id).is_none() && before.end_of(id, rank).is_none();
                    prop_assert_eq!(tree.make_room(place), can);
                    if !can {
                        continue;
                    }
                    tree.process_ended(before.process_at(place), End::Failed(cause))
                }
                Step::RespawnProcess { mesh: number, rank } => {
                    let id = Mesh::Procs(mesh(number));
                    let place = Place { mesh: mesh(number), rank };
                    let can = before.stopped(id).is_none() && before.end_of(id, rank).is_some();
                    let successor = tree.respawn_process(place);
                    prop_assert_eq!(successor, can.then(|| before.process_at(place).next()), "OWN-5");
                    None
                }
                Step::RespawnActors { mesh: number, rank } => {
                    let id = Mesh::Actors(actors(number));
                    let hosts = before.hosts(actors(number)).unwrap();
                    let life = tree.respawn_actors(actors(number), [before.process_at(Place { mesh: hosts, rank })]);
                    prop_assert_eq!(life.is_some(), before.stopped(id).is_none(), "OWN-5");
                    if let Some(life) = life {
                        prop_assert!(life > before.life_of(id, rank), "OWN-1: a new life is another one");
                    }
                    None
                }
                Step::Stop(at) => {
                    tree.stop(all()[at], "test");
                    None
                }
            };
            for (mesh, rank, life) in ends(&before) {
                let same = tree.life_of(mesh, rank) != life || tree.end_of(mesh, rank) == before.end_of(mesh, rank);
                prop_assert!(same, "OWN-1: the first cause is kept");
            }
            for mesh in all().into_iter().filter(|mesh| before.stopped(*mesh).is_some()) {
                prop_assert_eq!(tree.stopped(mesh), before.stopped(mesh), "OWN-5: stopped for ever, for one reason");
            }
            for mesh in all() {
                let owner = tree.owner(mesh).unwrap();
                let has_owner = owner_lives(&tree, owner) || !owner_lives(&before, owner);
                prop_assert!(has_owner || tree.stopped(mesh).is_some(), "OWN-4: what lost its owner is stopped");
            }
            let Some(fallout) = fallout else { continue };
            if let End::Stopped(_) = fallout.end {
                prop_assert!(fallout.told.is_empty(), "OWN-2");
            }
            for told in &fallout.told {
                prop_assert!(owner_lives(&tree, told.owner), "OWN-4: an owner that ended is told nothing");
                prop_assert!(tree.stopped(told.mesh).is_none(), "OWN-2");
            }
            for orphan in &fallout.orphans {
                prop_assert!(!owner_lives(&tree, tree.owner(*orphan).unwrap()), "OWN-4: only what lost its owner");
                prop_assert!(before.stopped(*orphan).is_none(), "OWN-4: once");
            }
        }
    }
}

#[test]
fn own_2_what_ends_after_its_mesh_was_stopped_is_no_failure() {
    let mut tree = family();
    tree.stop(Mesh::Procs(mesh(3)), "enough");
    let fallout = tree.process_ended(ProcId::first(mesh(3), 0), End::Failed(9)).unwrap();
    assert_eq!(fallout, Fallout { end: End::Stopped("enough".into()), told: vec![], orphans: vec![] });
    let late = tree.actor_ended(actors(3), 1, 0, End::Failed(9)).unwrap();
    assert_eq!(late.told, []);
}

#[test]
fn own_3_the_end_of_a_process_is_told_to_each_owner_that_has_something_there() {
    let mut tree = family();
    let fallout = tree.process_ended(ProcId::first(mesh(3), 2), End::Failed(9)).unwrap();
    let program = Told { owner: client(), mesh: Mesh::Actors(actors(3)) };
    let nested = Told { owner: owner(1, 1, 0), mesh: Mesh::Actors(actors(4)) };
    assert_eq!(fallout.told, [program, nested]);
    tree.stop(Mesh::Actors(actors(3)), "enough");
    let fallout = tree.process_ended(ProcId::first(mesh(3), 1), End::Failed(9)).unwrap();
    assert_eq!(fallout.told, [nested, Told { owner: client(), mesh: Mesh::Procs(mesh(3)) }]);
}

#[test]
fn own_4_of_an_owner_and_an_owned_that_die_together_the_ancestor_is_told_once() {
    for owned_first in [true, false] {
        let mut tree = family();
        let (owner_dies, owned_dies) = (ProcId::first(mesh(1), 0), ProcId::first(mesh(2), 2));
        let mut told = Vec::new();
        for proc in if owned_first { [owned_dies, owner_dies] } else { [owner_dies, owned_dies] } {
            told.extend(tree.process_ended(proc, End::Failed(9)).unwrap().told);
        }
        told.retain(|told| told.owner == client());
        assert_eq!(told, [Told { owner: client(), mesh: Mesh::Actors(actors(1)) }]);
    }
}

#[test]
fn what_is_below_a_mesh_is_what_falls_with_it() {
    let tree = family();
    let fell = tree.below(&[Mesh::Procs(mesh(1))]);
    let expected = [Mesh::Procs(mesh(2)), Mesh::Procs(mesh(4)), Mesh::Actors(actors(2)), Mesh::Actors(actors(4))];
    assert_eq!(fell, expected.into_iter().chain([Mesh::Actors(actors(5))]).collect());
}

#[test]
fn own_5_one_that_ended_owns_nothing_new() {
    let mut tree = family();
    tree.process_ended(ProcId::first(mesh(1), 0), End::Failed(9));
    assert!(!tree.spawn_procs(owner(1, 1, 0), mesh(9), 0..1));
    assert!(!tree.knows(Mesh::Procs(mesh(9))));
    assert_eq!(tree.respawn_process(Place { mesh: mesh(1), rank: 0 }), Some(ProcId::first(mesh(1), 0).next()));
    assert!(!tree.spawn_procs(owner(1, 1, 0), mesh(9), 0..1), "its successor is another owner");
}

#[test]
fn a_part_of_the_tree_follows_the_same_rules() {
    let mut part = Forest::default();
    assert!(part.spawn_actors(owner(1, 1, 0), actors(4), mesh(3), processes(3)));
    let told = part.process_ended(ProcId::first(mesh(3), 1), End::Failed(9)).unwrap().told;
    assert_eq!(told, [Told { owner: owner(1, 1, 0), mesh: Mesh::Actors(actors(4)) }]);
    assert_eq!(part.owner_ended(owner(1, 1, 0)), [Mesh::Actors(actors(4))]);
    assert_eq!(part.process_ended(ProcId::first(mesh(3), 2), End::Failed(9)).unwrap().told, []);
}

#[test]
fn own_3_a_process_killed_for_a_stop_is_news_only_to_those_that_had_others_there() {
    let mut tree = family();
    tree.forget(Mesh::Actors(actors(3)));
    let fallout = tree.process_killed_for_stop(ProcId::first(mesh(3), 2), 9).unwrap();
    assert_eq!(fallout.told, [Told { owner: owner(1, 1, 0), mesh: Mesh::Actors(actors(4)) }]);
    tree.stop(Mesh::Actors(actors(4)), "enough");
    assert_eq!(tree.process_killed_for_stop(ProcId::first(mesh(3), 1), 9).unwrap().told, []);
}

#[test]
fn own_1_the_end_of_a_process_is_no_news_to_actors_of_its_successor() {
    let mut part = Forest::default();
    let dead = ProcId::first(mesh(3), 1);
    assert!(part.spawn_actors(client(), actors(3), mesh(3), [dead.next()]));
    assert_eq!(part.process_ended(dead, End::Failed(9)).unwrap().told, []);
    assert_eq!(part.process_ended(dead.next(), End::Failed(9)).unwrap().told.len(), 1);
}

#[test]
fn own_3_owners_are_told_in_the_order_of_their_spawns_whatever_the_identities() {
    let mut tree = Forest::default();
    assert!(tree.spawn_procs(client(), mesh(1), 0..WIDTH));
    for number in [5, 2, 9] {
        assert!(tree.spawn_actors(client(), actors(number), mesh(1), processes(1)));
    }
    let fallout = tree.process_ended(ProcId::first(mesh(1), 0), End::Failed(7)).unwrap();
    let told: Vec<Mesh> = fallout.told.iter().map(|told| told.mesh).collect();
    assert_eq!(told, [5, 2, 9].map(|number| Mesh::Actors(actors(number))));
}
