//! How a keeper starts a worker: as a copy of a template that has loaded what the worker wants, as a copy of itself, or
//! as a program. Each stands in for the one before where that will not do.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fmt::Display;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::process::{Pid, getpid};

use super::complain;
use super::launch::{MARK_VARIABLE, Newcomer};
use super::template::{End, Template, Variable, different_variable, variables_like};
use super::variant::{State, Variant};
use crate::sys::process::{self, copy};
use crate::sys::socket;

/// Everything that workers are started with.
pub(super) struct Starter<'a> {
    template: Option<Template<'a>>,
    /// This process's own variables of those that are fixed from its start on.
    fixed: Vec<Variable>,
    variants: HashMap<String, Variant>,
    explains: bool,
}

/// What came of a start.
pub(super) enum Start {
    /// It runs.
    Runs(Pid),
    /// This process is a copy, and its life as a keeper is over.
    Copy(End),
    /// Text for a person.
    Failed(String),
    /// It waits for its template to load.
    Waits,
}

impl<'a> Starter<'a> {
    /// Copies take the place of programs where `template` does not object.
    pub(super) fn new(mut template: Option<Template<'a>>) -> Self {
        if let Some(template) = &mut template
            && template.objection.is_none()
        {
            template.objection = own_objection();
        }
        let environment: Vec<Variable> = std::env::vars_os().collect();
        let fixed = template.as_ref().map_or_else(Vec::new, |template| variables_like(&environment, &template.fixed));
        let explains = std::env::var_os(EXPLAIN_VARIABLE).is_some_and(|value| !value.is_empty() && value != "0");
        Self { template, fixed, variants: HashMap::new(), explains }
    }

    /// Start a worker in the best way there is.
    pub(super) fn start(&mut self, newcomer: Newcomer) -> Start {
        let launch = newcomer.request.launch;
        let Some(template) = &self.template else { return program(&newcomer) };
        if let Some(objection) = template.objection_to(&newcomer.request, &self.fixed) {
            self.explain(launch, "starts as a program", &objection);
            return program(&newcomer);
        }
        if newcomer.request.variant.is_empty() {
            self.explain(launch, "is a copy of the keeper", &"nothing more is wanted");
            return self.copy(newcomer);
        }
        match self.variant_objection(&newcomer) {
            None => self.start_in_variant(newcomer),
            Some(objection) => {
                self.explain(launch, "is a copy of the keeper", &objection);
                self.copy(newcomer)
            }
        }
    }

    /// Load what workers will need, where they are copies.
    pub(super) fn load(&mut self, modules: &[String]) {
        if let Some(template) = &mut self.template
            && template.objection.is_none()
        {
            (template.load)(modules);
        }
    }

    fn copy(&mut self, newcomer: Newcomer) -> Start {
        let Some(template) = &mut self.template else { return program(&newcomer) };
        match newcomer.start_copy(getpid(), &mut template.fork) {
            Ok(Some(pid)) => Start::Runs(pid),
            Ok(None) => Start::Copy(End::Worker(newcomer.birth(""))),
            Err(error) => Start::Failed(error),
        }
    }

    fn variant_objection(&self, newcomer: &Newcomer) -> Option<String> {
        let request = &newcomer.request;
        let Some(variant) = self.variants.get(&request.variant) else {
            let can = process::adopts_orphans();
            return (!can).then(|| "this system lets no process adopt others".into());
        };
        if let State::Unfit(reason) = &variant.state {
            return Some(format!("with {}: {reason}", request.variant));
        }
        let wanted = variables_like(&request.environment, &self.template.as_ref()?.fixed_in_variants);
        let name = different_variable(&wanted, &variant.fixed)?;
        Some(format!("`{}` has another value than when {} was loaded", name.display(), request.variant))
    }

    fn start_in_variant(&mut self, newcomer: Newcomer) -> Start {
        let launch = newcomer.request.launch;
        let name = newcomer.request.variant.clone();
        let Some(variant) = self.variants.get_mut(&name) else { return self.make_variant(newcomer) };
        if let State::Loading(waiting) = &mut variant.state {
            waiting.push(newcomer);
            return Start::Waits;
        }
        match variant.start(&newcomer) {
            Some(Ok(pid)) => {
                self.explain(launch, "is a copy of a template", &name);
                Start::Runs(pid)
            }
            Some(Err(error)) => Start::Failed(error),
            None => self.start(newcomer),
        }
    }

    /// Make a template of a copy of this process; the newcomer waits for it.
    fn make_variant(&mut self, newcomer: Newcomer) -> Start {
        let Some(template) = &mut self.template else { return program(&newcomer) };
        let keeper = getpid();
        let (ours, theirs) = match socket::pair() {
            Ok(pair) => pair,
            Err(error) => return Start::Failed(newcomer.failed(&error)),
        };
        match copy::fork_with(&mut template.fork) {
            Ok(Some(pid)) => {
                let fixed = variables_like(&newcomer.request.environment, &template.fixed_in_variants);
                let name = newcomer.request.variant.clone();
                self.variants.insert(name, Variant::new(pid, ours, fixed, newcomer));
                Start::Waits
            }
            Ok(None) => {
                settle_template(keeper, &theirs, &newcomer);
                let variant = newcomer.request.variant.clone();
                Start::Copy(End::Template(newcomer.birth(&variant)))
            }
            Err(error) => Start::Failed(newcomer.failed(&error)),
        }
    }

    /// What to watch: templates that load.
    pub(super) fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.variants.values().filter_map(Variant::descriptor)
    }

    /// Who has waited for a template that has loaded, or failed to, and is to be started now.
    pub(super) fn take_ready(&mut self) -> Vec<Newcomer> {
        self.variants.values_mut().flat_map(Variant::look).collect()
    }

    /// Forget a launch that waits; false if none like that does.
    pub(super) fn cancel(&mut self, launch: u64) -> bool {
        let mut waiting = self.variants.values_mut().filter_map(|variant| match &mut variant.state {
            State::Loading(waiting) => Some(waiting),
            _ => None,
        });
        waiting.any(|waiting| {
            let before = waiting.len();
            waiting.retain(|newcomer| newcomer.request.launch != launch);
            waiting.len() < before
        })
    }

    /// A child of this process has ended.
    pub(super) fn ended(&mut self, pid: Pid) {
        self.variants.values_mut().for_each(|variant| variant.ended(pid));
    }

    /// End all templates. The launches that waited for them.
    pub(super) fn end(&mut self) -> Vec<u64> {
        let mut waiting = Vec::new();
        for (_, variant) in self.variants.drain() {
            variant.kill();
            if let State::Loading(newcomers) = variant.state {
                waiting.extend(newcomers.iter().map(|newcomer| newcomer.request.launch));
            }
        }
        waiting
    }

    fn explain(&self, launch: u64, how: &str, why: &dyn Display) {
        if self.explains {
            complain(&format!("worker {launch} {how}"), why);
        }
    }
}

fn program(newcomer: &Newcomer) -> Start {
    match newcomer.start_program() {
        Ok(pid) => Start::Runs(pid),
        Err(error) => Start::Failed(error),
    }
}

/// Why no copy of this process would do, as far as the system is concerned.
fn own_objection() -> Option<String> {
    match copy::thread_count() {
        Some(1) => {}
        Some(count) => return Some(format!("the start of the interpreter has left {count} threads running")),
        None => return Some("this system does not tell how many threads run".into()),
    }
    let error = process::can_show().err()?;
    Some(format!("this system lets no process say what it runs: {error}"))
}

/// In a copy that will be a template: as for a worker, but it still shows what it is.
fn settle_template(keeper: Pid, socket: &OwnedFd, newcomer: &Newcomer) {
    let request = &newcomer.request;
    let own = std::env::args_os().chain([OsString::from(&request.variant)]).collect::<Vec<_>>();
    // With the mark of the worker whose launch it was made for, it would be taken for something that this one left.
    let mark = std::env::var_os(MARK_VARIABLE).map(|mark| (MARK_VARIABLE.into(), mark));
    let others = request.environment.iter().filter(|(name, _)| name != MARK_VARIABLE).cloned();
    let environment: Vec<Variable> = others.chain(mark).collect();
    let settled = copy::settle(keeper, socket, None).and_then(|()| process::show_as(&own, &environment));
    if let Err(error) = settled {
        complain("a copy of this process cannot become a template", &error);
        copy::end(1);
    }
}

/// When set, the keeper says on standard error how and why it starts each worker.
const EXPLAIN_VARIABLE: &str = "MONARCH_EXPLAIN_STARTS";
