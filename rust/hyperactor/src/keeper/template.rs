//! Workers as copies: what makes a keeper a template, and when that will not do.

use std::ffi::{OsStr, OsString};

use super::launch::Fork;
use super::protocol::Launch;

/// What lets a keeper start a worker as a copy of its own process, which has loaded what every worker needs, instead of
/// as a program that loads it again.
///
/// Only what a process can still become after its start can differ from worker to worker. A launch that asks for
/// something else gets a program.
pub struct Template<'a> {
    /// The program that a copy can stand for.
    pub program: OsString,
    /// With these arguments.
    pub arguments: Vec<OsString>,
    /// How the names begin of variables that are read once, at the start of the program.
    pub fixed: Vec<String>,
    /// The same for variables that are read when a variant's modules are loaded.
    pub fixed_in_variants: Vec<String>,
    /// Why no copy of this process would do, if so.
    pub objection: Option<String>,
    /// How this process is forked.
    pub fork: Box<Fork<'a>>,
    /// How it loads modules that workers will need, for the copies that are made afterwards. A failure is the workers'.
    pub load: Box<Load<'a>>,
}

/// Load modules by their names.
pub type Load<'a> = dyn FnMut(&[String]) + Send + 'a;

/// What a copy has to become.
#[derive(Debug)]
pub struct Birth {
    /// What is loaded in it, or, in a template, what it has to load.
    pub variant: String,
    /// Its whole environment.
    pub environment: Vec<(OsString, OsString)>,
}

/// How the life of a keeper or of a template ends.
#[derive(Debug)]
pub enum End {
    /// With this exit status.
    Exit(i32),
    /// This process is a copy that has to load a variant, and then to be a template:
    /// [`serve_variant`](super::serve_variant)`(3)`.
    Template(Birth),
    /// This process is a copy that has to be a worker, whose control socket is descriptor 3.
    Worker(Birth),
}

impl Template<'_> {
    /// Why a copy of this process would not do for a launch; `own` is [`fixed_variables`] of this process.
    pub(super) fn objection_to(&self, launch: &Launch, own: &[Variable]) -> Option<String> {
        if let Some(objection) = &self.objection {
            return Some(objection.clone());
        }
        if launch.program != self.program || launch.arguments != self.arguments {
            return Some("its command is another one".into());
        }
        different_variable(&variables_like(&launch.environment, &self.fixed), own)
            .map(|name| format!("`{}` is read only at the start of a program, and has another value", name.display()))
    }
}

pub(super) type Variable = (OsString, OsString);

/// The variables of an environment whose names begin with one of `beginnings`, by name.
pub(super) fn variables_like(environment: &[Variable], beginnings: &[String]) -> Vec<Variable> {
    let is_like =
        |name: &OsStr| beginnings.iter().any(|beginning| name.as_encoded_bytes().starts_with(beginning.as_bytes()));
    let mut found: Vec<Variable> = environment.iter().filter(|(name, _)| is_like(name)).cloned().collect();
    found.sort_unstable();
    found
}

/// The name of a variable that only one of two has, or that has two values.
pub(super) fn different_variable(these: &[Variable], those: &[Variable]) -> Option<OsString> {
    let lacks = |others: &[Variable], one: &Variable| !others.contains(one);
    let here = these.iter().find(|one| lacks(those, one));
    here.or_else(|| those.iter().find(|one| lacks(these, one))).map(|(name, _)| name.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variable(name: &str, value: &str) -> Variable {
        (name.into(), value.into())
    }

    fn template() -> Template<'static> {
        Template {
            program: "/bin/python".into(),
            arguments: vec!["-m".into(), "worker".into()],
            fixed: vec!["PYTHON".into(), "LD_".into()],
            fixed_in_variants: vec![],
            objection: None,
            fork: Box::new(|| Err(std::io::ErrorKind::Unsupported.into())),
            load: Box::new(|_| {}),
        }
    }

    fn launch(program: &str, environment: &[Variable]) -> Launch {
        Launch {
            launch: 1,
            program: program.into(),
            arguments: vec!["-m".into(), "worker".into()],
            environment: environment.to_vec(),
            directory: "/".into(),
            variant: String::new(),
        }
    }

    #[test]
    fn what_is_read_at_the_start_of_a_program_has_to_be_the_same() {
        let own = [variable("PYTHONHASHSEED", "1")];
        let objection = |environment: &[Variable]| template().objection_to(&launch("/bin/python", environment), &own);
        assert_eq!(objection(&[variable("PYTHONHASHSEED", "1"), variable("HOME", "/x")]), None);
        for other in [&[variable("PYTHONHASHSEED", "2")][..], &[], &[own[0].clone(), variable("LD_PRELOAD", "x.so")]] {
            assert!(objection(other).is_some(), "{other:?}");
        }
    }

    #[test]
    fn another_command_is_no_copy() {
        assert_eq!(template().objection_to(&launch("/bin/python", &[]), &[]), None);
        assert!(template().objection_to(&launch("/opt/python", &[]), &[]).is_some());
    }

    #[test]
    fn a_template_that_objects_to_itself_is_not_copied() {
        let unfit = Template { objection: Some("it has threads".into()), ..template() };
        assert_eq!(unfit.objection_to(&launch("/bin/python", &[]), &[]), Some("it has threads".into()));
    }
}
