//! What a program that meets a schedule of faults has to look like in the end, by the rules of [`hyperactor::ownership`].
//!
//! Reads a schedule on standard input and prints the end states that are right. One event a line; before each line all
//! that went before has come to rest. Events on one line, separated by `|`, happen at the same time: every order of them,
//! and of what follows from them, is tried. `#` begins a comment.
//!
//! ```text
//! client VERDICT                     the program's unhandled_fault_hook; `passes` unless given
//! procs NAME OWNER COUNT             OWNER is `client`, or one actor such as `A.0`
//! actors NAME OWNER PROCS [VERDICT]  an actor on each process of PROCS; its __supervise__, `passes` unless given
//! kill PROCS RANK [SIGNAL]           signal 9 unless given
//! exit PROCS RANK CODE               the process returns a status
//! fail ACTORS RANK                   something ends the actor: `exception`
//! stop MESH                          by its owner
//! respawn MESH [RANK ...]            by its owner; without ranks wherever a member is dead
//! end                                the program ends by itself
//! ```
//!
//! A VERDICT is `passes` (the failure is not handled: an actor fails of it, the program ends with status 1), `handles`
//! (it is), or `respawns` (it is, and what failed is made again in place: processes that its owner owns first).
//!
//! The end states are separated by a line `or`. Each has one line for the client, one for each member of each mesh in the
//! order of the schedule, and one for each owner, mesh and cause that the owner was told of, with all ranks:
//!
//! ```text
//! client lives | client ended STATUS
//! P.0 lives | P.0 dead CAUSE | P.0 stopped
//! Q absent                           its owner was dead before it could be spawned
//! heard OWNER MESH RANKS CAUSE       as in `heard client A 0,2 signal:9`
//! ```
//!
//! A CAUSE is `signal:N`, `exit:N`, `exception`, or `unhandled(MESH:CAUSE)`: an owner that failed because it did not
//! handle the failure of what it owned. A member that was made again shows its present life.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::Read;
use std::process::ExitCode;

use hyperactor::id::{ActorId, MeshId, Place, ProcId};
use hyperactor::ownership::{End, Fallout, Mesh, News, Owner, Tree};

type Result<T> = std::result::Result<T, String>;

fn main() -> ExitCode {
    let mut schedule = String::new();
    let states = std::io::stdin()
        .read_to_string(&mut schedule)
        .map_err(|error| format!("cannot read the schedule: {error}"))
        .and_then(|_| end_states(&schedule));
    match states {
        Ok(states) => {
            print!("{}", states.into_iter().collect::<Vec<_>>().join("or\n"));
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Every end state that some order of events leads to.
fn end_states(schedule: &str) -> Result<BTreeSet<String>> {
    let mut names = Names::default();
    let mut states = States::from([Program::default()]);
    for (number, line) in (1..).zip(schedule.lines()) {
        let line = line.split('#').next().unwrap_or_default();
        let words = line.split('|').map(|event| event.split_whitespace().collect::<Vec<_>>());
        let events = words
            .filter(|words| !words.is_empty())
            .map(|words| Event::parse(&words, &mut names))
            .collect::<Result<Vec<_>>>()
            .map_err(|error| format!("line {number}: {error}"))?;
        let starts = std::mem::take(&mut states).into_values();
        states = at_rest(starts.map(|program| (program, events.clone())).collect());
    }
    Ok(states.values().map(|program| program.describe(&names)).collect())
}

/// All that these programs can be like when the events that are about to happen to them, and all that follows, are over.
fn at_rest(mut unexplored: Vec<(Program, Vec<Event>)>) -> States {
    let (mut seen, mut rested) = (BTreeSet::new(), States::default());
    while let Some((program, events)) = unexplored.pop() {
        if !seen.insert(format!("{program:?} {events:?}")) {
            continue;
        }
        let owners = program.owners_at_work();
        if events.is_empty() && owners.is_empty() {
            rested.add(program);
            continue;
        }
        for at in 0..events.len() {
            let (mut next, mut left) = (program.clone(), events.clone());
            next.happen(left.remove(at));
            unexplored.push((next, left));
        }
        for owner in owners {
            let mut next = program.clone();
            next.go_on(owner);
            unexplored.push((next, events.clone()));
        }
    }
    rested
}

/// Programs, each once.
#[derive(Default)]
struct States(BTreeMap<String, Program>);

impl States {
    fn add(&mut self, program: Program) {
        self.0.insert(format!("{program:?}"), program);
    }

    fn values(&self) -> impl Iterator<Item = &Program> {
        self.0.values()
    }

    fn into_values(self) -> impl Iterator<Item = Program> {
        self.0.into_values()
    }
}

impl From<[Program; 1]> for States {
    fn from([program]: [Program; 1]) -> Self {
        let mut states = Self::default();
        states.add(program);
        states
    }
}

/// A program as it is at some moment.
#[derive(Clone, Debug, Default)]
struct Program {
    tree: Tree<Cause>,
    news: BTreeMap<Owner, News<Mesh, Cause>>,
    verdicts: BTreeMap<ActorId, Verdict>,
    /// Who has taken news and has no verdict yet.
    deciding: BTreeMap<Owner, (Mesh, Cause, Vec<u32>)>,
    heard: BTreeMap<(Owner, Mesh, Cause), BTreeSet<u32>>,
    ended: Option<u8>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Verdict {
    Handles,
    #[default]
    Passes,
    Respawns,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Cause {
    Exception,
    Exit(i32),
    Signal(i32),
    Unhandled(String, Box<Cause>),
}

/// Something that happens to a program.
#[derive(Clone, Debug)]
enum Event {
    Actors { owner: Owner, mesh: ActorId, procs: MeshId, verdict: Verdict },
    Client(Verdict),
    End,
    Fail { mesh: ActorId, rank: u32 },
    Kill { place: Place, cause: Cause },
    Procs { owner: Owner, mesh: MeshId, count: u32 },
    Respawn { mesh: Mesh, ranks: Vec<u32> },
    Stop(Mesh),
}

impl Program {
    fn happen(&mut self, event: Event) {
        if self.ended.is_some() {
            return;
        }
        match event {
            Event::Actors { owner, mesh, procs, verdict, .. } if self.tree.knows(Mesh::Procs(procs)) => {
                let hosts = self.processes(procs, self.tree.ranks(Mesh::Procs(procs)));
                if self.tree.spawn_actors(self.present(owner), mesh, procs, hosts) {
                    self.verdicts.insert(mesh, verdict);
                }
            }
            Event::Actors { .. } => {}
            Event::Client(verdict) => drop(self.verdicts.insert(client().actor, verdict)),
            Event::End => self.end(0),
            Event::Fail { mesh, rank } => self.actor_ended(mesh, rank, End::Failed(Cause::Exception)),
            Event::Kill { place, cause } => self.process_ended(place, End::Failed(cause)),
            Event::Procs { owner, mesh, count } => drop(self.tree.spawn_procs(self.present(owner), mesh, 0..count)),
            Event::Respawn { mesh, ranks } => self.respawn(mesh, ranks),
            Event::Stop(mesh) => {
                self.forget_news_of(mesh);
                self.stop(mesh);
            }
        }
    }

    fn processes(&self, mesh: MeshId, ranks: Vec<u32>) -> Vec<ProcId> {
        ranks.into_iter().map(|rank| self.tree.process_at(Place { mesh, rank })).collect()
    }

    /// The owner that is in this place now.
    fn present(&self, owner: Owner) -> Owner {
        Owner { proc: self.tree.process_at(owner.proc.place()), ..owner }
    }

    fn owners_at_work(&self) -> BTreeSet<Owner> {
        let told = self.news.iter().filter(|(_, news)| !news.is_empty()).map(|(owner, _)| *owner);
        told.chain(self.deciding.keys().copied()).collect()
    }

    /// An owner gives its verdict, or takes its oldest news.
    fn go_on(&mut self, owner: Owner) {
        if let Some((mesh, cause, ranks)) = self.deciding.remove(&owner) {
            self.decide(owner, mesh, cause, ranks);
        } else if let Some((mesh, cause, ranks)) = self.news.get_mut(&owner).and_then(News::take) {
            self.heard.entry((owner, mesh, cause.clone())).or_default().extend(&ranks);
            self.deciding.insert(owner, (mesh, cause, ranks.into_iter().collect()));
        }
    }

    fn decide(&mut self, owner: Owner, mesh: Mesh, cause: Cause, ranks: Vec<u32>) {
        match self.verdicts.get(&owner.actor).copied().unwrap_or_default() {
            Verdict::Handles => {}
            Verdict::Passes if owner == client() => self.end(1),
            Verdict::Passes => {
                let failure = Cause::Unhandled(name_of(mesh), Box::new(cause));
                self.actor_ended(owner.actor, owner.proc.rank, End::Failed(failure));
            }
            Verdict::Respawns => self.make_again(owner, mesh, ranks),
        }
    }

    fn make_again(&mut self, owner: Owner, mesh: Mesh, ranks: Vec<u32>) {
        let procs = match mesh {
            Mesh::Actors(actors) => self.tree.hosts(actors).map(Mesh::Procs),
            Mesh::Procs(_) => Some(mesh),
        };
        if let Some(procs) = procs.filter(|procs| self.tree.owner(*procs) == Some(owner)) {
            self.respawn(procs, Vec::new());
        }
        if let Mesh::Actors(_) = mesh {
            self.respawn(mesh, ranks);
        }
    }

    fn respawn(&mut self, mesh: Mesh, ranks: Vec<u32>) {
        let living = self.tree.living(mesh);
        let dead = self.tree.ranks(mesh).into_iter().filter(|rank| !living.contains(rank));
        let ranks: Vec<u32> = if ranks.is_empty() { dead.collect() } else { ranks };
        match mesh {
            Mesh::Procs(mesh) => ranks.into_iter().for_each(|rank| {
                let place = Place { mesh, rank };
                if self.tree.make_room(place) {
                    self.process_ended(place, End::Stopped(String::new()));
                }
                self.tree.respawn_process(place);
            }),
            Mesh::Actors(actors) => {
                let Some(procs) = self.tree.hosts(actors) else { return };
                let living = self.tree.living(Mesh::Procs(procs));
                let ranks: Vec<u32> = ranks.into_iter().filter(|rank| living.contains(rank)).collect();
                for &rank in &ranks {
                    self.actor_ended(actors, rank, End::Stopped(String::new()));
                }
                self.tree.respawn_actors(actors, self.processes(procs, ranks));
            }
        }
    }

    fn stop(&mut self, mesh: Mesh) {
        self.tree.stop(mesh, "stopped");
        for rank in self.tree.living(mesh) {
            let end = End::Stopped("stopped".into());
            match mesh {
                Mesh::Actors(actors) => self.actor_ended(actors, rank, end),
                Mesh::Procs(mesh) => self.process_ended(Place { mesh, rank }, end),
            }
        }
    }

    /// Whoever stops a mesh is not told any more what is on the way to it: its failures, and those of actors of its on it.
    fn forget_news_of(&mut self, stopped: Mesh) {
        let Some(owner) = self.tree.owner(stopped) else { return };
        let Some(mut news) = self.news.remove(&owner) else { return };
        let mut kept = News::default();
        while let Some((mesh, cause, ranks)) = news.take() {
            let hosts = if let Mesh::Actors(actors) = mesh { self.tree.hosts(actors) } else { None };
            if mesh != stopped && hosts.map(Mesh::Procs) != Some(stopped) {
                for rank in ranks {
                    kept.add(mesh, rank, cause.clone());
                }
            }
        }
        self.news.insert(owner, kept);
    }

    fn process_ended(&mut self, place: Place, end: End<Cause>) {
        let proc = self.tree.process_at(place);
        if let Some(fallout) = self.tree.process_ended(proc, end) {
            self.forget_work(|owner| owner.proc == proc);
            self.follow(place.rank, fallout);
        }
    }

    fn actor_ended(&mut self, mesh: ActorId, rank: u32, end: End<Cause>) {
        let life = self.tree.life_of(Mesh::Actors(mesh), rank);
        if let Some(fallout) = self.tree.actor_ended(mesh, rank, life, end) {
            self.forget_work(|owner| (owner.actor, owner.proc.rank) == (mesh, rank));
            self.follow(rank, fallout);
        }
    }

    /// Owners that have ended decide nothing any more.
    fn forget_work(&mut self, has_ended: impl Fn(&Owner) -> bool) {
        self.news.retain(|owner, _| !has_ended(owner));
        self.deciding.retain(|owner, _| !has_ended(owner));
    }

    fn follow(&mut self, rank: u32, fallout: Fallout<Cause>) {
        if let End::Failed(cause) = fallout.end {
            for told in fallout.told {
                self.news.entry(told.owner).or_default().add(told.mesh, rank, cause.clone());
            }
        }
        fallout.orphans.into_iter().for_each(|mesh| self.stop(mesh));
    }

    fn end(&mut self, status: u8) {
        self.ended = Some(status);
        let meshes: Vec<Mesh> = self.tree.meshes().collect();
        meshes.into_iter().for_each(|mesh| self.stop(mesh));
        self.forget_work(|_| true);
    }

    fn describe(&self, names: &Names) -> String {
        let mut lines = vec![match self.ended {
            None => "client lives".to_string(),
            Some(status) => format!("client ended {status}"),
        }];
        for &mesh in &names.order {
            let name = name_of(mesh);
            if !self.tree.knows(mesh) {
                lines.push(format!("{name} absent"));
            }
            lines.extend(self.tree.ranks(mesh).into_iter().map(|rank| {
                let state = match self.tree.end_of(mesh, rank) {
                    None => "lives".into(),
                    Some(End::Failed(cause)) => format!("dead {cause}"),
                    Some(End::Stopped(_)) => "stopped".into(),
                };
                format!("{name}.{rank} {state}")
            }));
        }
        let mut heard = BTreeMap::<String, BTreeSet<u32>>::new();
        for ((owner, mesh, cause), ranks) in &self.heard {
            heard.entry(format!("{} {} {cause}", owner_name(*owner), name_of(*mesh))).or_default().extend(ranks);
        }
        for (who, ranks) in heard {
            let ranks = ranks.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
            let (who, cause) = who.rsplit_once(' ').unwrap_or_default();
            lines.push(format!("heard {who} {ranks} {cause}"));
        }
        lines.push(String::new());
        lines.join("\n")
    }
}

/// The meshes of a schedule.
#[derive(Default)]
struct Names {
    order: Vec<Mesh>,
    sizes: BTreeMap<Mesh, u32>,
    hosts: BTreeMap<ActorId, MeshId>,
}

impl Names {
    fn new_procs(&mut self, name: &str, count: u32) -> Result<MeshId> {
        let mesh = MeshId(id(name)?);
        self.add(name, Mesh::Procs(mesh), count)?;
        Ok(mesh)
    }

    fn new_actors(&mut self, name: &str, procs: MeshId) -> Result<ActorId> {
        let mesh = ActorId(id(name)?);
        let count = self.sizes.get(&Mesh::Procs(procs)).copied().unwrap_or_default();
        self.add(name, Mesh::Actors(mesh), count)?;
        self.hosts.insert(mesh, procs);
        Ok(mesh)
    }

    fn add(&mut self, name: &str, mesh: Mesh, size: u32) -> Result<()> {
        if self.mesh(name).is_ok() || name == "client" {
            return Err(format!("the name `{name}` is taken"));
        }
        self.sizes.insert(mesh, size);
        self.order.push(mesh);
        Ok(())
    }

    fn procs(&self, name: &str) -> Result<MeshId> {
        let mesh = MeshId(id(name)?);
        self.sizes.get(&Mesh::Procs(mesh)).map(|_| mesh).ok_or_else(|| format!("`{name}` names no processes"))
    }

    fn actors(&self, name: &str) -> Result<ActorId> {
        let mesh = ActorId(id(name)?);
        self.sizes.get(&Mesh::Actors(mesh)).map(|_| mesh).ok_or_else(|| format!("`{name}` names no actors"))
    }

    fn mesh(&self, name: &str) -> Result<Mesh> {
        let procs = self.procs(name).map(Mesh::Procs);
        procs.or_else(|_| self.actors(name).map(Mesh::Actors)).map_err(|_| format!("`{name}` names no mesh"))
    }

    fn rank(&self, mesh: Mesh, text: &str) -> Result<u32> {
        let rank = number(text)?;
        let size = self.sizes.get(&mesh).copied().unwrap_or_default();
        if rank < size { Ok(rank) } else { Err(format!("`{}` has no rank {rank}", name_of(mesh))) }
    }

    fn owner(&self, text: &str) -> Result<Owner> {
        if text == "client" {
            return Ok(client());
        }
        let (name, rank) =
            text.split_once('.').ok_or_else(|| format!("`{text}` is no owner, as `client` and `A.0` are"))?;
        let actor = self.actors(name)?;
        let rank = self.rank(Mesh::Actors(actor), rank)?;
        let mesh = self.hosts.get(&actor).copied().ok_or_else(|| format!("`{name}` has no processes"))?;
        Ok(Owner { proc: ProcId::first(mesh, rank), actor })
    }
}

impl Event {
    fn parse(words: &[&str], names: &mut Names) -> Result<Self> {
        let place = |names: &Names, name, rank| {
            let mesh = names.procs(name)?;
            Ok::<_, String>(Place { mesh, rank: names.rank(Mesh::Procs(mesh), rank)? })
        };
        Ok(match *words {
            ["client", verdict] => Self::Client(verdict.parse()?),
            ["procs", name, owner, count] => {
                let (owner, count) = (names.owner(owner)?, number(count)?);
                Self::Procs { owner, mesh: names.new_procs(name, count)?, count }
            }
            ["actors", name, owner, procs, ref verdict @ ..] if verdict.len() < 2 => {
                let (owner, procs) = (names.owner(owner)?, names.procs(procs)?);
                let verdict = verdict.first().map_or(Ok(Verdict::default()), |verdict| verdict.parse())?;
                Self::Actors { owner, mesh: names.new_actors(name, procs)?, procs, verdict }
            }
            ["kill", name, rank] => Self::Kill { place: place(names, name, rank)?, cause: Cause::Signal(9) },
            ["kill", name, rank, signal] => {
                Self::Kill { place: place(names, name, rank)?, cause: Cause::Signal(number(signal)?) }
            }
            ["exit", name, rank, code] => {
                Self::Kill { place: place(names, name, rank)?, cause: Cause::Exit(number(code)?) }
            }
            ["fail", name, rank] => {
                let mesh = names.actors(name)?;
                Self::Fail { mesh, rank: names.rank(Mesh::Actors(mesh), rank)? }
            }
            ["stop", name] => Self::Stop(names.mesh(name)?),
            ["respawn", name, ref ranks @ ..] => {
                let mesh = names.mesh(name)?;
                let ranks = ranks.iter().map(|rank| names.rank(mesh, rank)).collect::<Result<_>>()?;
                Self::Respawn { mesh, ranks }
            }
            ["end"] => Self::End,
            _ => return Err(format!("`{}` is no event; the source of this program lists them", words.join(" "))),
        })
    }
}

impl std::str::FromStr for Verdict {
    type Err = String;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "handles" => Ok(Self::Handles),
            "passes" => Ok(Self::Passes),
            "respawns" => Ok(Self::Respawns),
            _ => Err(format!("`{text}` is no verdict: `passes`, `handles` or `respawns`")),
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exception => write!(f, "exception"),
            Self::Exit(code) => write!(f, "exit:{code}"),
            Self::Signal(signal) => write!(f, "signal:{signal}"),
            Self::Unhandled(mesh, cause) => write!(f, "unhandled({mesh}:{cause})"),
        }
    }
}

/// The program itself, as an owner.
fn client() -> Owner {
    Owner { proc: ProcId::first(MeshId([0; 16]), 0), actor: ActorId([0; 16]) }
}

/// A name as an identity.
fn id(name: &str) -> Result<[u8; 16]> {
    let mut id = [0; 16];
    match name.len() {
        1..=16 => id[..name.len()].copy_from_slice(name.as_bytes()),
        _ => return Err(format!("`{name}` is no name: those have 1 to 16 bytes")),
    }
    Ok(id)
}

fn name_of(mesh: Mesh) -> String {
    let (Mesh::Actors(ActorId(id)) | Mesh::Procs(MeshId(id))) = mesh;
    String::from_utf8_lossy(&id).trim_end_matches('\0').into()
}

fn owner_name(owner: Owner) -> String {
    if owner == client() {
        return "client".into();
    }
    format!("{}.{}", name_of(Mesh::Actors(owner.actor)), owner.proc.rank)
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T> {
    text.parse().map_err(|_| format!("`{text}` is no number that fits here"))
}
