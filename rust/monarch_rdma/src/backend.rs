//! The ways of moving bytes between two processes.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// A way of moving bytes one-sidedly, declared (and so ordered) from best to worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Backend {
    /// A network card that speaks verbs, found at run time.
    Ibverbs,
    /// The kernel's copy between two processes of one host, or a mapping that both share.
    SameHost,
    /// Parallel TCP streams, served without the owner's interpreter.
    Tcp,
}

impl Backend {
    /// All backends, best first.
    pub const ALL: [Self; 3] = [Self::Ibverbs, Self::SameHost, Self::Tcp];

    /// The best backend that both sides offer, in whatever order they list them; `None` if they share none.
    pub fn best_common(ours: &[Self], theirs: &[Self]) -> Option<Self> {
        ours.iter().copied().filter(|backend| theirs.contains(backend)).min()
    }

    /// The word that users see and write.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ibverbs => "ibverbs",
            Self::SameHost => "same_host",
            Self::Tcp => "tcp",
        }
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Backend {
    type Err = UnknownBackend;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|backend| backend.name() == name).ok_or_else(|| UnknownBackend(name.to_owned()))
    }
}

/// A word that names no backend.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{0}` is not an RDMA backend: use `ibverbs`, `same_host` or `tcp`")]
pub struct UnknownBackend(String);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_parses_back_to_its_backend() {
        for backend in Backend::ALL {
            assert_eq!(backend.to_string().parse(), Ok(backend));
        }
    }

    #[test]
    fn an_unknown_name_is_refused_with_the_three_that_exist() {
        let error = "infiniband".parse::<Backend>().unwrap_err();
        assert_eq!(error.to_string(), "`infiniband` is not an RDMA backend: use `ibverbs`, `same_host` or `tcp`");
    }

    #[test]
    fn the_best_common_backend_is_chosen_in_whatever_order_the_sides_list_theirs() {
        let ours = [Backend::Tcp, Backend::SameHost, Backend::Ibverbs];
        let theirs = [Backend::Tcp, Backend::SameHost];
        assert_eq!(Backend::best_common(&ours, &theirs), Some(Backend::SameHost));
        assert_eq!(Backend::best_common(&theirs, &ours), Some(Backend::SameHost));
    }

    #[test]
    fn sides_that_share_no_backend_have_no_best_one() {
        assert_eq!(Backend::best_common(&[Backend::Ibverbs], &[Backend::Tcp]), None);
        assert_eq!(Backend::best_common(&[], &Backend::ALL), None);
    }
}
