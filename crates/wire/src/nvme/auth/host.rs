//! The host's part, message by message; whoever has it moves the bytes.
//!
//! Invariants: it agrees to nothing that it did not propose; where the controller is to prove itself, there is no success
//! without its proof.

use std::io;

use super::Random;
use super::group::{Group, Pair};
use super::hash::Hash;
use super::message::{Challenge, Message, Negotiate, Reply, Why};
use super::response::{Names, Round, Who};
use super::secret::Secret;

/// Why a host does not go on.
#[derive(Debug)]
pub enum HostError {
    /// The controller has said so.
    Refused(Why),
    /// The controller is to be told so.
    Refuses(Why),
    /// There are no random bytes.
    Random(io::Error),
}

/// What the controller was asked.
#[derive(Debug)]
struct Asked {
    hash: Hash,
    sequence: u32,
    challenge: Vec<u8>,
    shared: Vec<u8>,
}

/// See the module.
#[derive(Debug)]
pub struct Host<'a> {
    /// What it proposes, the best first: the first that the controller knows is taken.
    pub hashes: Vec<Hash>,
    /// What it proposes.
    pub groups: Vec<Group>,
    names: Names<'a>,
    secret: &'a Secret,
    controller: Option<&'a Secret>,
    tid: u16,
    asked: Option<Asked>,
}

impl<'a> Host<'a> {
    /// A host with a secret, and with the controller's if that is to prove itself.
    pub fn new(
        names: Names<'a>,
        secret: &'a Secret,
        controller: Option<&'a Secret>,
        tid: u16,
    ) -> Host<'a> {
        let (hashes, groups) = (Hash::ALL.to_vec(), Group::ALL.to_vec());
        Host { hashes, groups, names, secret, controller, tid, asked: None }
    }

    /// What it proposes.
    pub fn negotiate(&self) -> Vec<u8> {
        let hashes = self.hashes.iter().map(|hash| hash.id()).collect();
        let groups = self.groups.iter().map(|group| group.id()).collect();
        let message = Message::Negotiate(Negotiate { channel: 0, chap: Some((hashes, groups)) });
        message.encode(self.tid)
    }

    /// That it does not go on.
    pub fn failure(&self, why: Why) -> Vec<u8> {
        Message::Failure2(why).encode(self.tid)
    }

    fn decode(&self, bytes: &[u8]) -> Result<Message, HostError> {
        match Message::decode(bytes).map_err(HostError::Refuses)? {
            (_, Message::Failure1(why), _) => Err(HostError::Refused(why)),
            (tid, _, _) if tid != self.tid => Err(HostError::Refuses(Why::Payload)),
            // A controller may fill up what was asked for.
            (_, message, _) => Ok(message),
        }
    }

    /// Answers a challenge.
    ///
    /// # Errors
    /// [`HostError`].
    pub fn reply(&mut self, bytes: &[u8], random: Random<'_>) -> Result<Vec<u8>, HostError> {
        let Message::Challenge(challenge) = self.decode(bytes)? else {
            return Err(HostError::Refuses(Why::Message));
        };
        let Challenge { hash, group, sequence, challenge, public } = challenge;
        if !self.hashes.contains(&hash) {
            return Err(HostError::Refuses(Why::Hash));
        }
        if !self.groups.contains(&group) {
            return Err(HostError::Refuses(Why::Group));
        }
        let pair = Pair::draw(group, random).map_err(HostError::Random)?;
        let shared = pair.shared(&public).ok_or(HostError::Refuses(Why::Payload))?;
        let round = Round { hash, tid: self.tid, sequence, challenge: &challenge, shared: &shared };
        let response = round.response(Who::Host, self.names, self.secret);
        let mut asks = None;
        if self.controller.is_some() {
            let (mut sequence, mut challenge) = ([0; 4], vec![0; hash.bytes()]);
            random(&mut sequence).map_err(HostError::Random)?;
            random(&mut challenge).map_err(HostError::Random)?;
            asks = Some((u32::from_le_bytes(sequence).max(1), challenge));
        }
        self.asked =
            asks.clone().map(|(sequence, challenge)| Asked { hash, sequence, challenge, shared });
        let reply = Reply { response, challenge: asks, public: pair.public().to_vec() };
        Ok(Message::Reply(reply).encode(self.tid))
    }

    /// Takes the controller's success; what it is told in turn, if it was to prove itself.
    ///
    /// # Errors
    /// [`HostError`].
    pub fn success(&self, bytes: &[u8]) -> Result<Option<Vec<u8>>, HostError> {
        let Message::Success1(_, response) = self.decode(bytes)? else {
            return Err(HostError::Refuses(Why::Message));
        };
        let Some(secret) = self.controller else { return Ok(None) };
        let (Some(asked), Some(response)) = (&self.asked, response) else {
            return Err(HostError::Refuses(Why::Payload));
        };
        let Asked { hash, sequence, challenge, shared } = asked;
        let (hash, sequence) = (*hash, *sequence);
        let round = Round { hash, tid: self.tid, sequence, challenge, shared };
        match round.is_response(Who::Controller, self.names, secret, &response) {
            true => Ok(Some(Message::Success2.encode(self.tid))),
            false => Err(HostError::Refuses(Why::Failed)),
        }
    }
}
