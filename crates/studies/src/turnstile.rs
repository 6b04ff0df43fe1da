//! One device, several clients in virtual time, each in a thread of its own.
//!
//! Invariants, from the start on: one call is under way at a time; a call goes on only when every
//! other client has asked for something too, or is gone, and nobody asks for an earlier time (of
//! equal times the lower number goes first). So the order of calls follows from virtual time alone.
//! Times that the device sees never fall. Before the start one thread prepares the clients, one
//! after the other, and each is served at once.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use block::Time;

/// What a client is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Client {
    /// Deciding what to ask next.
    Away,
    /// Wants to go on at this time.
    Waiting(Time),
    /// It will not ask again.
    Gone,
}

struct State<D> {
    device: D,
    clients: Vec<Client>,
    /// Where each client waits for its turn.
    turns: Vec<Arc<Condvar>>,
    clock: Time,
    started: bool,
}

/// A device and its clients.
pub struct Turnstile<D> {
    state: Mutex<State<D>>,
}

impl<D> Turnstile<D> {
    /// A device without clients.
    pub fn new(device: D) -> Turnstile<D> {
        let (clients, turns) = (Vec::new(), Vec::new());
        let state = State { device, clients, turns, clock: Time::ZERO, started: false };
        Turnstile { state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State<D>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new client's number. All clients are made before the start.
    pub(crate) fn enter(&self) -> usize {
        let mut state = self.state();
        state.clients.push(Client::Away);
        state.turns.push(Arc::default());
        state.clients.len() - 1
    }

    /// A client will not ask again.
    pub(crate) fn leave(&self, client: usize) {
        let mut state = self.state();
        state.clients[client] = Client::Gone;
        state.call_next();
    }

    /// From here on clients are let in by time; `f` has the device before any of them.
    pub fn start<R>(&self, f: impl FnOnce(&mut D) -> R) -> R {
        let mut state = self.state();
        state.started = true;
        f(&mut state.device)
    }

    /// Looks at the device, whoever may be waiting.
    pub fn look<R>(&self, f: impl FnOnce(&mut D) -> R) -> R {
        f(&mut self.state().device)
    }

    /// Lets a client in at its time, and tells `f` at which time it is.
    pub(crate) fn pass<R>(&self, client: usize, at: Time, f: impl FnOnce(&mut D, Time) -> R) -> R {
        let mut state = self.state();
        // While a client is away the clock stands still: this does not depend on threads.
        let at = at.max(state.clock);
        if state.started {
            state.clients[client] = Client::Waiting(at);
            let turn = Arc::clone(&state.turns[client]);
            if state.next() != Some(client) {
                state.call_next();
                while state.next() != Some(client) {
                    state = turn.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
        state.clock = at;
        let result = f(&mut state.device, at);
        state.clients[client] = Client::Away;
        result
    }
}

impl<D> State<D> {
    /// Who goes on now: nobody as long as a client may yet ask for an earlier time.
    fn next(&self) -> Option<usize> {
        let mut first = None;
        for (number, client) in self.clients.iter().enumerate() {
            match client {
                Client::Away => return None,
                Client::Gone => {}
                Client::Waiting(at) if first.is_none_or(|(least, _)| *at < least) => {
                    first = Some((*at, number));
                }
                Client::Waiting(_) => {}
            }
        }
        first.map(|(_, number)| number)
    }

    fn call_next(&self) {
        if let Some(next) = self.next() {
            self.turns[next].notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use block::Span;

    use super::*;

    /// Two clients that ask at times of their own are let in by time, and always in the same order.
    #[test]
    fn calls_come_in_the_order_of_virtual_time() {
        let mut seen = Vec::new();
        for _ in 0..20 {
            let turnstile = Turnstile::new(Vec::new());
            let clients = [turnstile.enter(), turnstile.enter()];
            turnstile.start(|_| ());
            std::thread::scope(|scope| {
                for (client, step) in clients.into_iter().zip([7, 5]) {
                    let turnstile = &turnstile;
                    scope.spawn(move || {
                        let mut at = Time::ZERO;
                        for _ in 0..50 {
                            at = turnstile.pass(client, at, |log: &mut Vec<_>, at| {
                                log.push((at, client));
                                at + Span::from_us(step)
                            });
                        }
                        turnstile.leave(client);
                    });
                }
            });
            seen.push(turnstile.look(|log| log.clone()));
        }
        assert!(seen[0].windows(2).all(|pair| pair[0].0 <= pair[1].0));
        assert_eq!(seen[0].len(), 100);
        assert!(seen.iter().all(|one| *one == seen[0]));
    }
}
