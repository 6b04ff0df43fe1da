//! Where a namespace is, `nvme-tcp://HOST[:PORT][/NQN][?nsid=N]`, and what who connects there knows, which no text says.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use super::auth::{SecretError, Secrets};
use super::initiator::{Initiator, InitiatorError, Wish, name_at};
use crate::stream::Address;

/// What such a name begins with.
pub const SCHEME: &str = "nvme-tcp://";
/// The port that is meant where none is named.
const PORT: u16 = 4420;

/// A namespace of a subsystem at an address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Place {
    /// The controller's address.
    pub address: Address,
    /// The subsystem's qualified name; `None`: the one that discovery tells of.
    pub nqn: Option<String>,
    /// The namespace.
    pub nsid: u32,
    /// What its host knows.
    pub secrets: Option<Arc<Secrets>>,
}

impl Place {
    /// The same for a host that knows secrets.
    ///
    /// # Errors
    /// [`SecretError`]: they are of several hosts.
    pub fn knowing(mut self, secrets: Secrets) -> Result<Place, SecretError> {
        secrets.own()?;
        self.secrets = Some(Arc::new(secrets));
        Ok(self)
    }

    /// A host that is connected to the subsystem that is meant; its name is there too.
    ///
    /// # Errors
    /// [`InitiatorError`].
    pub fn connect(&self, wish: Wish) -> Result<(Initiator, String), InitiatorError> {
        let wish = self.secrets.iter().fold(wish, Wish::knowing);
        let name = name_at(&self.address, self.nqn.as_deref(), &wish)?;
        Ok((Initiator::connect(&self.address, &name, &wish)?, name))
    }
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Place, String> {
        let expected = || format!("{text}: expected {SCHEME}HOST[:PORT][/NQN][?nsid=N]");
        let rest = text.strip_prefix(SCHEME).ok_or_else(expected)?;
        let (place, number) = match rest.split_once('?') {
            Some((place, query)) => (place, query.strip_prefix("nsid=").ok_or_else(expected)?),
            None => (rest, "1"),
        };
        let (host, name) = place.split_once('/').unwrap_or((place, ""));
        let nsid = number.parse().ok().filter(|nsid| (1..u32::MAX).contains(nsid));
        let nsid =
            nsid.ok_or_else(|| format!("{text}: nsid={number}: expected a number from 1"))?;
        if host.is_empty() {
            return Err(expected());
        }
        let nqn = (!name.is_empty()).then(|| name.to_string());
        Ok(Place { address: Address::resolve(host, PORT)?, nqn, nsid, secrets: None })
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.address {
            Address::Tcp(address) => write!(f, "{SCHEME}{address}")?,
            Address::Unix(path) => write!(f, "{}", path.display())?,
        }
        if let Some(nqn) = &self.nqn {
            write!(f, "/{nqn}")?;
        }
        if self.nsid == 1 { Ok(()) } else { write!(f, "?nsid={}", self.nsid) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        for text in [
            "nvme-tcp://127.0.0.1:4420",
            "nvme-tcp://127.0.0.1:5/nqn.2014-08.org.nvmexpress:uuid:1",
            "nvme-tcp://127.0.0.1:5/nqn.a:b?nsid=3",
            "nvme-tcp://[::1]:4420?nsid=2",
        ] {
            let place: Place = text.parse().expect(text);
            assert_eq!(place.to_string(), text);
        }
        let short: Place = "nvme-tcp://127.0.0.1".parse().expect("a place");
        assert_eq!(short.to_string(), "nvme-tcp://127.0.0.1:4420");
        for wrong in [
            "nbd://127.0.0.1",
            "nvme-tcp://",
            "nvme-tcp:///nqn.a",
            "nvme-tcp://127.0.0.1?nsid=0",
            "nvme-tcp://127.0.0.1?nsid=x",
            "nvme-tcp://127.0.0.1?size=1",
        ] {
            let why = wrong.parse::<Place>().expect_err(wrong);
            assert!(why.contains("expected"), "{why}");
        }
    }
}
