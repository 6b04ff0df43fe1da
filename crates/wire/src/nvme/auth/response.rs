//! What only who knows the secret can answer to a challenge.

use super::hash::Hash;
use super::secret::Secret;

/// Who answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Who {
    /// The host.
    Host,
    /// The controller.
    Controller,
}

/// The qualified names of both sides.
#[derive(Clone, Copy, Debug)]
pub struct Names<'a> {
    /// The host's.
    pub host: &'a str,
    /// The subsystem's.
    pub subsystem: &'a str,
}

impl<'a> Names<'a> {
    /// Whose it is, and whom it is told.
    fn from(self, who: Who) -> (&'a str, &'a str) {
        match who {
            Who::Host => (self.host, self.subsystem),
            Who::Controller => (self.subsystem, self.host),
        }
    }
}

/// A challenge, and what was agreed on before it.
#[derive(Clone, Copy, Debug)]
pub struct Round<'a> {
    /// The hash function.
    pub hash: Hash,
    /// The number of the conversation.
    pub tid: u16,
    /// The number of the challenge.
    pub sequence: u32,
    /// The challenge.
    pub challenge: &'a [u8],
    /// What Diffie and Hellman give both; empty without a group.
    pub shared: &'a [u8],
}

/// No secure channel follows.
const CHANNEL: u8 = 0;

impl Round<'_> {
    fn with<R>(
        &self,
        who: Who,
        names: Names<'_>,
        secret: &Secret,
        work: impl FnOnce(Hash, &[u8], &[&[u8]]) -> R,
    ) -> R {
        let (own, other) = names.from(who);
        let key = secret.of(own);
        let challenge = match self.shared.is_empty() {
            true => self.challenge.to_vec(),
            false => self.hash.hmac(&self.hash.digest(self.shared), &[self.challenge]),
        };
        let role: &[u8] = match who {
            Who::Host => b"HostHost",
            Who::Controller => b"Controller",
        };
        let (sequence, tid) = (self.sequence.to_le_bytes(), self.tid.to_le_bytes());
        let parts: [&[u8]; 8] =
            [&challenge, &sequence, &tid, &[CHANNEL], role, own.as_bytes(), &[0], other.as_bytes()];
        work(self.hash, &key, &parts)
    }

    /// The answer of who knows the secret.
    pub fn response(&self, who: Who, names: Names<'_>, secret: &Secret) -> Vec<u8> {
        self.with(who, names, secret, Hash::hmac)
    }

    /// Whether an answer is that, in a time that does not depend on where it differs.
    pub fn is_response(&self, who: Who, names: Names<'_>, secret: &Secret, found: &[u8]) -> bool {
        self.with(who, names, secret, |hash, key, parts| hash.is_hmac(key, parts, found))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    const NAMES: Names<'_> = Names { host: "nqn.a:host", subsystem: "nqn.b:drive" };

    /// What `hmac` and `hashlib` of Python compute by the specification's formula (`vectors/responses`).
    #[test]
    fn responses_are_those_of_the_formula() {
        let (mut lines, mut count) = (include_str!("vectors/responses.txt").lines(), 0);
        for line in lines.by_ref().filter(|line| !line.starts_with('#')) {
            let words: Vec<&str> = line.split(' ').collect();
            let [hash, who, shared, secret, expected] = words[..] else { panic!("{line}") };
            let hash = Hash::of_id(hash.parse().expect("a number")).expect("a hash");
            let who = if who == "host" { Who::Host } else { Who::Controller };
            let challenge: Vec<u8> = (0..hash.bytes() as u8).map(|i| i ^ 0x5a).collect();
            let all: Vec<u8> = (0..=255).collect();
            let shared = if shared == "none" { &[][..] } else { &all };
            let round =
                Round { hash, tid: 0x1234, sequence: 0x89ab_cdef, challenge: &challenge, shared };
            let secret: Secret = secret.parse().expect("a secret");
            let found = round.response(who, NAMES, &secret);
            assert_eq!(hex(&found), expected, "{line}");
            assert!(round.is_response(who, NAMES, &secret, &found));
            let other = Round { sequence: 1, ..round };
            assert!(!other.is_response(who, NAMES, &secret, &found), "another challenge");
            count += 1;
        }
        assert_eq!(count, 48);
    }
}
