//! The commands by which a host shows who it is.

use stack::disk::Done;
use wire::nvme::auth::{MOST, Why};

use super::codec::Sqe;
use super::connection::End;
use super::gate::{Gate, State};
use super::status::Status;
use super::work::{Outcome, Reply, Work};
use crate::stream::Transport;

/// NVMe's security protocol, and the only one of it: word 10 of both commands.
const PROTOCOL: u32 = 0xe9_01_01_00;
/// Bytes of the smallest message.
const LEAST: usize = 8;

impl<T: Transport> Work<'_, T> {
    /// The gate of a queue that is not through, if a command of authentication fits it.
    fn gate(&mut self, sqe: &Sqe) -> Result<&mut Gate, Status> {
        let gate = self.queue.as_mut().and_then(|queue| queue.gate.as_mut());
        // Who is through, or was not asked, has nothing more to show.
        let gate = gate.ok_or(Status::SEQUENCE)?;
        let (bytes, _) = sqe.data()?;
        let fits = sqe.dword(10) == PROTOCOL && sqe.dword(11) == bytes && bytes as usize <= MOST;
        if fits { Ok(gate) } else { Err(Status::INVALID_FIELD) }
    }

    /// A message comes.
    pub(super) fn auth_send(&mut self, sqe: &Sqe, data: &[u8]) -> Outcome {
        let gate = self.gate(sqe)?;
        let before = gate.is_proven();
        let state = gate.hear(data);
        if !before && gate.is_proven() && self.seat().is_err() {
            // Another connection has become this queue since.
            self.gate(sqe)?.fail(Why::Message);
        }
        let told = self.complete(sqe.cid(), Status::OK, 0, Done::NOW);
        Ok(self.answered(told, state))
    }

    /// One is asked for.
    pub(super) fn auth_receive(&mut self, sqe: &Sqe) -> Outcome {
        let sequence = self.shared.next_challenge();
        let room = sqe.dword(11) as usize;
        let gate = self.gate(sqe)?;
        let (mut message, mut state) = gate.say(sequence, &mut wire::random::fill);
        if message.len() > room {
            gate.fail(Why::Payload);
            (message, state) = gate.say(sequence, &mut wire::random::fill);
        }
        if message.len() > room || room < LEAST {
            let told = self.fail(sqe, Status::INVALID_FIELD.into());
            return Ok(self.answered(told, State::Failed));
        }
        let told = self.answer_data(sqe, message.len(), |into| {
            into.copy_from_slice(&message);
            Ok(Done::NOW)
        });
        Ok(self.answered(told, state))
    }

    /// A command was answered, if that could be, and this has become of the authentication.
    fn answered(&mut self, told: Result<(), End>, state: State) -> Reply {
        self.ended = told.err();
        match state {
            State::Open => {}
            State::Through => {
                self.counts.authenticated += 1;
                if let Some(queue) = &mut self.queue {
                    queue.gate = None;
                    queue.association.hear();
                }
            }
            State::Failed => {
                self.counts.unauthenticated += 1;
                self.ended.get_or_insert(End::Unknown);
            }
        }
        Reply::Answered
    }
}
