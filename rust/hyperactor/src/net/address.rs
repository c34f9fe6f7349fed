//! Addresses of hosts, as users write them.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use crate::error::Error;

/// Where a host listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A socket without a file, in the system's abstract namespace (Linux).
    Abstract(String),
    /// A descriptor that listens at TCP already, and the name of this machine for others. For listening only.
    Inherited(String, i32),
    /// A socket in the file system.
    Path(PathBuf),
    /// TCP: a name or number, and a port. The name is none for every interface.
    Tcp(Option<String>, u16),
}

/// Where a host listens and under which address others find it: the same, unless `dial@bind` says otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// What others connect to.
    pub dial: Address,
    /// What the host listens at.
    pub bind: Address,
}

impl FromStr for Address {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let (scheme, rest) = text.split_once(':').ok_or_else(|| malformed(text, "it has no scheme"))?;
        match scheme {
            "tcp" => tcp(text, rest.strip_prefix("//").ok_or_else(|| malformed(text, "`//` is missing"))?),
            "ipc" | "unix" => local(text, rest.strip_prefix("//").unwrap_or(rest)),
            "tls" | "quic" | "metatls" | "metaquic" | "inproc" => {
                Err(malformed(text, &format!("the transport `{scheme}` is not supported by this version")))
            }
            other => Err(malformed(text, &format!("`{other}` is no transport"))),
        }
    }
}

impl FromStr for Endpoint {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        // A process identity before the address means nothing here.
        let text = text.strip_prefix("service<").and_then(|rest| rest.split_once(">@")).map_or(text, |(_, rest)| rest);
        let cut = ["@tcp://", "@ipc://"].iter().find_map(|mark| text.find(mark));
        // `ipc://@name` has its @ elsewhere.
        let (dial, bind) = match cut {
            Some(at) => (text[..at].parse()?, text[at + 1..].parse()?),
            None => {
                let both: Address = text.parse()?;
                (both.clone(), both)
            }
        };
        Ok(Self { dial, bind })
    }
}

fn tcp(text: &str, rest: &str) -> Result<Address, Error> {
    let (host, port) = match rest.strip_prefix('[') {
        Some(bracketed) => {
            bracketed.split_once("]:").ok_or_else(|| malformed(text, "after `[` an IPv6 number and `]:port` follow"))?
        }
        None => rest.rsplit_once(':').ok_or_else(|| malformed(text, "the port is missing"))?,
    };
    if host.is_empty() || (host.contains(':') && !rest.starts_with('[')) {
        return Err(malformed(text, "the host is a name, an IPv4 number, an IPv6 number in brackets, or `*`"));
    }
    if let Some(number) = port.strip_prefix("fd") {
        let number = number.parse().ok().filter(|number| *number >= 0);
        let number = number.ok_or_else(|| malformed(text, "after `fd` the number of a descriptor follows"))?;
        return Ok(Address::Inherited(host.into(), number));
    }
    let port = port.parse().map_err(|_| malformed(text, "the port is a number from 0 to 65535"))?;
    Ok(Address::Tcp((host != "*").then(|| host.into()), port))
}

fn local(text: &str, rest: &str) -> Result<Address, Error> {
    match rest.strip_prefix('@') {
        Some(name) if !name.is_empty() => Ok(Address::Abstract(name.into())),
        None if rest.starts_with('/') => Ok(Address::Path(rest.into())),
        _ => Err(malformed(text, "a local socket is `ipc:///absolute/path` or `ipc://@name`")),
    }
}

fn malformed(text: &str, why: &str) -> Error {
    Error::Misuse(format!(
        "`{text}` is not an address of a host: {why}. Addresses look like tcp://node7:26600, tcp://[::1]:26600, \
         tcp://*:26600 (to listen on every interface), ipc:///path or ipc://@name"
    ))
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Abstract(name) => write!(f, "ipc://@{name}"),
            Self::Inherited(host, number) if host.contains(':') => write!(f, "tcp://[{host}]:fd{number}"),
            Self::Inherited(host, number) => write!(f, "tcp://{host}:fd{number}"),
            Self::Path(path) => write!(f, "ipc://{}", path.display()),
            Self::Tcp(None, port) => write!(f, "tcp://*:{port}"),
            Self::Tcp(Some(host), port) if host.contains(':') => write!(f, "tcp://[{host}]:{port}"),
            Self::Tcp(Some(host), port) => write!(f, "tcp://{host}:{port}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_reads_as_it_was_written() {
        for text in [
            "tcp://node7:26600",
            "tcp://127.0.0.1:1",
            "tcp://[::1]:65535",
            "tcp://*:0",
            "ipc:///a/b",
            "ipc://@x",
            "tcp://[::1]:fd3",
        ] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
        assert_eq!("unix:/a/b".parse::<Address>().unwrap(), "ipc:///a/b".parse().unwrap());
        assert_eq!("unix:@x".parse::<Address>().unwrap(), "ipc://@x".parse().unwrap());
    }

    #[test]
    fn a_malformed_address_is_named_with_examples() {
        for text in [
            "",
            "node7",
            "node7:1",
            "tcp:/x:1",
            "tcp://x",
            "tcp://:1",
            "tcp://::1:5",
            "tcp://x:99999",
            "tcp://x:fd",
            "tcp://x:fd-1",
            "ipc://x",
            "http://x:1",
            "tls://x:1",
        ] {
            let error = text.parse::<Endpoint>().unwrap_err().to_string();
            assert!(error.contains(&format!("`{text}`")) && error.contains("tcp://node7:26600"), "{error}");
        }
    }

    #[test]
    fn what_others_dial_may_differ_from_what_is_bound() {
        let endpoint: Endpoint = "tcp://node7:1@tcp://0.0.0.0:2".parse().unwrap();
        assert_eq!(endpoint.dial.to_string(), "tcp://node7:1");
        assert_eq!(endpoint.bind.to_string(), "tcp://0.0.0.0:2");
        let service: Endpoint = "service<7>@ipc://@x".parse().unwrap();
        assert_eq!(service.bind, Address::Abstract("x".into()));
    }
}
