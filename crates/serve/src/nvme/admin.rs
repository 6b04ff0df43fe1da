//! Commands of the admin queue that change or ask for something small.

use std::time::Duration;

use stack::disk::Done;

use super::codec::{Sqe, admin};
use super::status::{Failure, Status};
use super::work::{EVENTS, Outcome, Reply, Work};
use crate::stream::Transport;

/// Features, by number.
mod feature {
    pub const ARBITRATION: u8 = 0x01;
    pub const POWER: u8 = 0x02;
    pub const TEMPERATURE: u8 = 0x04;
    pub const ERROR_RECOVERY: u8 = 0x05;
    pub const WRITE_CACHE: u8 = 0x06;
    pub const QUEUES: u8 = 0x07;
    pub const WRITE_ATOMICITY: u8 = 0x0a;
    pub const EVENTS: u8 = 0x0b;
    pub const KEEP_ALIVE: u8 = 0x0f;
}

impl<T: Transport> Work<'_, T> {
    /// A command of the admin queue.
    pub(super) fn admin(&mut self, sqe: &Sqe, data: &[u8]) -> Outcome {
        let discovery = self.queue.as_ref().is_some_and(|queue| queue.association.host.discovery);
        // None of them brings data.
        if !data.is_empty() {
            return Err(Status::INVALID_FIELD.into());
        }
        match sqe.opcode() {
            admin::IDENTIFY => self.identify(sqe),
            admin::GET_LOG => self.log(sqe),
            admin::SET_FEATURES => self.set_feature(sqe, discovery),
            admin::GET_FEATURES => self.get_feature(sqe, discovery),
            admin::KEEP_ALIVE => Ok(Reply::OK),
            admin::ASYNC_EVENT if self.held.len() >= EVENTS => Err(Status::EVENT_LIMIT.into()),
            admin::ASYNC_EVENT => Ok(Reply::Held),
            // Nothing is ended early: what has come is done before the next command is looked at.
            admin::ABORT => Ok(Reply::Done(1, Done::NOW)),
            _ => Err(Status::INVALID_OPCODE.into()),
        }
    }

    /// Queues of each kind, less one, as the feature says it.
    fn queues(&self) -> u64 {
        let count = u64::from(self.shared.options.queues - 1);
        count << 16 | count
    }

    fn get_feature(&mut self, sqe: &Sqe, discovery: bool) -> Outcome {
        let Some(queue) = &self.queue else { return Err(Status::SEQUENCE.into()) };
        let features = *queue.association.features();
        let value = match sqe.0[40] {
            feature::EVENTS => u64::from(features.events),
            feature::KEEP_ALIVE => queue.association.alive().as_millis() as u64,
            _ if discovery => return Err(Status::INVALID_FIELD.into()),
            feature::ARBITRATION | feature::POWER | feature::ERROR_RECOVERY => 0,
            feature::WRITE_ATOMICITY => 0,
            // From above (0) and of the whole drive (0): any other threshold is out of reach.
            feature::TEMPERATURE if sqe.dword(11) >> 16 & 0x3f == 0 => u64::from(features.warm),
            feature::TEMPERATURE => 0,
            feature::WRITE_CACHE => u64::from(self.has_cache()),
            feature::QUEUES => self.queues(),
            _ => return Err(Status::INVALID_FIELD.into()),
        };
        Ok(Reply::Done(value, Done::NOW))
    }

    fn has_cache(&self) -> bool {
        self.shared.namespaces.iter().any(|namespace| namespace.capabilities.volatile)
    }

    fn set_feature(&mut self, sqe: &Sqe, discovery: bool) -> Outcome {
        let Some(queue) = &self.queue else { return Err(Status::SEQUENCE.into()) };
        // Nothing outlives the association.
        if sqe.dword(10) >> 31 != 0 {
            return Err(Status::INVALID_FIELD.into());
        }
        let value = sqe.dword(11);
        match sqe.0[40] {
            feature::EVENTS => {
                queue.association.features().events = value;
                return Ok(Reply::Done(u64::from(value), Done::NOW));
            }
            feature::KEEP_ALIVE => {
                *queue.association.alive() = Duration::from_millis(u64::from(value));
            }
            _ if discovery => return Err(Failure::from(Status::INVALID_FIELD)),
            feature::TEMPERATURE if value >> 16 & 0x3f == 0 => {
                queue.association.features().warm = value & 0xffff;
            }
            feature::TEMPERATURE => {}
            // FFFFh queues are no number of queues.
            feature::QUEUES if value & 0xffff == 0xffff || value >> 16 == 0xffff => {
                return Err(Status::INVALID_FIELD.into());
            }
            feature::QUEUES => return Ok(Reply::Done(self.queues(), Done::NOW)),
            feature::WRITE_CACHE if (value & 1 != 0) == self.has_cache() => {}
            feature::WRITE_CACHE | feature::ARBITRATION | feature::POWER => {
                return Err(Status::NOT_CHANGEABLE.into());
            }
            _ => return Err(Status::INVALID_FIELD.into()),
        }
        Ok(Reply::OK)
    }
}
