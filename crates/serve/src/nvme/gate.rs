//! The controller's part of an authentication, message by message: a queue does nothing else before it is through.
//!
//! Invariants: each challenge is asked once, and nobody can guess it; a message that is not the next one, or not whole to
//! the byte, ends it for good; who has not answered a challenge is told nothing that depends on the controller's secret.

use std::sync::Arc;

use wire::nvme::auth::{
    Challenge, Group, Hash, Message, Names, Negotiate, Pair, Random, Reply, Round, Secrets, Who,
    Why,
};

/// What is expected, or is to be said, next.
#[derive(Debug)]
enum Stage {
    Negotiate,
    Challenge(Hash, Group),
    Reply { hash: Hash, sequence: u32, challenge: Vec<u8>, pair: Pair },
    Success1(Hash, Option<Vec<u8>>),
    Success2,
    Failure1(Why),
    Over,
}

/// What has become of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    /// It goes on.
    Open,
    /// It is through.
    Through,
    /// It has failed, and nothing more is said.
    Failed,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Gate {
    secrets: Arc<Secrets>,
    host: String,
    subsystem: String,
    tid: u16,
    stage: Stage,
}

impl Gate {
    /// Of a queue of a host.
    pub fn new(secrets: &Arc<Secrets>, host: &str, subsystem: &str) -> Gate {
        let (secrets, host, subsystem) =
            (Arc::clone(secrets), host.to_string(), subsystem.to_string());
        Gate { secrets, host, subsystem, tid: 0, stage: Stage::Negotiate }
    }

    fn names(&self) -> Names<'_> {
        Names { host: &self.host, subsystem: &self.subsystem }
    }

    /// Whether the host has answered its challenge.
    pub fn is_proven(&self) -> bool {
        matches!(self.stage, Stage::Success1(..) | Stage::Success2)
    }

    /// It fails, whatever comes next.
    pub fn fail(&mut self, why: Why) {
        self.stage = Stage::Failure1(why);
    }

    /// Takes a message of the host. What is wrong with one is told when it asks for the next.
    pub fn hear(&mut self, bytes: &[u8]) -> State {
        let (state, stage) = match self.heard(bytes) {
            Ok(next) => next,
            Err(why) => (State::Open, Stage::Failure1(why)),
        };
        self.stage = stage;
        state
    }

    fn heard(&mut self, bytes: &[u8]) -> Result<(State, Stage), Why> {
        let stage = std::mem::replace(&mut self.stage, Stage::Over);
        if let Stage::Failure1(why) = stage {
            return Err(why);
        }
        let (tid, message, used) = Message::decode(bytes)?;
        if matches!(stage, Stage::Negotiate) {
            self.tid = tid;
        }
        let fits = used == bytes.len() && tid == self.tid;
        match (stage, message) {
            (_, _) if !fits => Err(Why::Payload),
            (Stage::Negotiate, Message::Negotiate(proposed)) => {
                let (hash, group) = chosen(&proposed)?;
                Ok((State::Open, Stage::Challenge(hash, group)))
            }
            (Stage::Reply { hash, sequence, challenge, pair }, Message::Reply(reply)) => {
                let next = self.judge(hash, sequence, &challenge, &pair, &reply)?;
                Ok((State::Open, next))
            }
            (Stage::Success2, Message::Success2) => Ok((State::Through, Stage::Over)),
            // The host does not believe us.
            (Stage::Success2, Message::Failure2(_)) => Ok((State::Failed, Stage::Over)),
            (_, _) => Err(Why::Message),
        }
    }

    fn judge(
        &self,
        hash: Hash,
        sequence: u32,
        challenge: &[u8],
        pair: &Pair,
        reply: &Reply,
    ) -> Result<Stage, Why> {
        if reply.response.len() != hash.bytes() {
            return Err(Why::Payload);
        }
        let shared = pair.shared(&reply.public).ok_or(Why::Payload)?;
        let round = Round { hash, tid: self.tid, sequence, challenge, shared: &shared };
        let secret = self.secrets.of_host(&self.host).ok_or(Why::Failed)?;
        if !round.is_response(Who::Host, self.names(), secret, &reply.response) {
            return Err(Why::Failed);
        }
        let Some((sequence, asked)) = &reply.challenge else {
            return Ok(Stage::Success1(hash, None));
        };
        // A host that asks what we have no secret for is not to think that we are the one that it means.
        let own = self.secrets.controller().ok_or(Why::Failed)?;
        let round = Round { sequence: *sequence, challenge: asked, ..round };
        Ok(Stage::Success1(hash, Some(round.response(Who::Controller, self.names(), own))))
    }

    /// The next message to the host, and what has become of it once that is there. `sequence`: the number of the next
    /// challenge.
    pub fn say(&mut self, sequence: u32, random: Random<'_>) -> (Vec<u8>, State) {
        let stage = std::mem::replace(&mut self.stage, Stage::Over);
        let (message, state) = match stage {
            Stage::Challenge(hash, group) => match asked(hash, group, sequence, random) {
                Some((challenge, pair)) => {
                    let Challenge { challenge: bytes, .. } = challenge.clone();
                    self.stage = Stage::Reply { hash, sequence, challenge: bytes, pair };
                    (Message::Challenge(challenge), State::Open)
                }
                None => (Message::Failure1(Why::Failed), State::Failed),
            },
            Stage::Success1(hash, response) => {
                let proves = response.is_some();
                let state = if proves { State::Open } else { State::Through };
                if proves {
                    self.stage = Stage::Success2;
                }
                (Message::Success1(hash.bytes(), response), state)
            }
            Stage::Failure1(why) => (Message::Failure1(why), State::Failed),
            // There is nothing to be said now.
            _ => (Message::Failure1(Why::Message), State::Failed),
        };
        (message.encode(self.tid), state)
    }
}

/// The first hash function that is known here, and the strongest group.
fn chosen(proposed: &Negotiate) -> Result<(Hash, Group), Why> {
    if proposed.channel != 0 {
        return Err(Why::Channel);
    }
    let (hashes, groups) = proposed.chap.as_ref().ok_or(Why::Protocol)?;
    let hash = hashes.iter().find_map(|id| Hash::of_id(*id)).ok_or(Why::Hash)?;
    let group = Group::ALL.into_iter().rev().find(|group| groups.contains(&group.id()));
    Ok((hash, group.ok_or(Why::Group)?))
}

/// A challenge; `None`: there are no random bytes.
fn asked(hash: Hash, group: Group, sequence: u32, random: Random<'_>) -> Option<(Challenge, Pair)> {
    let mut challenge = vec![0; hash.bytes()];
    random(&mut challenge).ok()?;
    let pair = Pair::draw(group, random).ok()?;
    let public = pair.public().to_vec();
    Some((Challenge { hash, group, sequence, challenge, public }, pair))
}
