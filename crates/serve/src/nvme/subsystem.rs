//! What is served: namespaces, the hosts that are connected, and the power of it all.
//!
//! Invariants: a controller's number is used once at a time; an association that is not on the list has no
//! transaction open. Hosts hear of a power cut once, and after the power is on again.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use block::Plant;
use stack::disk::Ask;
use wire::nvme::auth::Secrets;

use super::association::{Association, Host, Open};
use super::claim::Claim;
use super::namespace::Namespace;
use super::planted::Bug;
use super::stats::{Counts, Stats};

/// Whether digests are used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Digest {
    /// Never.
    Off,
    /// As the host asks.
    Allow,
    /// Always, of headers and data.
    Require,
}

/// What a server may be told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// I/O queues of a host.
    pub queues: u16,
    /// Commands of a queue.
    pub depth: u16,
    /// Bytes of data that a command may bring with it.
    pub in_capsule: u32,
    /// Bytes that a command may move: 4 KiB times a power of two.
    pub transfer: u32,
    /// Digests.
    pub digest: Digest,
    /// Hosts that may connect, by their qualified names; none: all may.
    pub hosts: Vec<String>,
    /// What hosts have to know to connect; `None`: nothing.
    pub secrets: Option<Arc<Secrets>>,
    /// Address, and perhaps port, that discovery tells: where hosts reach us if that is not what we see of it.
    pub told: Option<(IpAddr, Option<u16>)>,
    /// While the power is off nobody is answered, and who was connected no longer is.
    pub vanish: bool,
    /// Connections at a time.
    pub connections: usize,
    /// None, but in tests.
    #[doc(hidden)]
    pub bug: Plant<Bug>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            queues: 4,
            depth: 128,
            in_capsule: 132 << 10,
            transfer: 128 << 10,
            digest: Digest::Allow,
            hosts: Vec::new(),
            secrets: None,
            told: None,
            vanish: false,
            connections: 64,
            bug: Plant::default(),
        }
    }
}

/// See the module.
#[derive(Debug)]
pub struct Subsystem {
    /// Its qualified name.
    pub nqn: String,
    /// Number n is the n-th.
    pub namespaces: Vec<Namespace>,
    /// How it is served.
    pub options: Options,
    /// What is counted.
    pub stats: Stats,
    /// Of each namespace.
    pub(super) claims: Vec<Claim>,
    associations: Mutex<(u16, BTreeMap<u16, Arc<Association>>)>,
    /// Power cuts that hosts know of.
    known: AtomicU64,
    /// The last number of a challenge.
    challenges: AtomicU32,
}

impl Subsystem {
    /// Serves namespaces under a name.
    pub fn new(nqn: &str, namespaces: Vec<Namespace>, options: Options) -> Arc<Subsystem> {
        // Where they begin is nothing that a challenge rests on: where there are no random bytes there is none at all.
        let mut first = [0; 4];
        let _ = wire::random::fill(&mut first);
        Arc::new(Subsystem {
            nqn: nqn.to_string(),
            claims: namespaces.iter().map(|_| Claim::default()).collect(),
            namespaces,
            options,
            stats: Stats::default(),
            associations: Mutex::default(),
            known: AtomicU64::new(0),
            challenges: AtomicU32::new(u32::from_le_bytes(first)),
        })
    }

    fn associations(&self) -> MutexGuard<'_, (u16, BTreeMap<u16, Arc<Association>>)> {
        self.associations.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A number that no challenge has had for long, and never 0.
    pub(super) fn next_challenge(&self) -> u32 {
        loop {
            let next = self.challenges.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
            if next != 0 {
                return next;
            }
        }
    }

    /// A host connects; `None`: all numbers are taken.
    pub(super) fn begin(&self, host: Host) -> Option<Arc<Association>> {
        let born = self.power().1;
        let mut list = self.associations();
        let (last, all) = &mut *list;
        if all.len() >= self.options.connections {
            return None;
        }
        loop {
            // Numbers from FFF0h on have meanings of their own.
            *last = if *last >= 0xffef { 1 } else { *last + 1 };
            if !all.contains_key(last) {
                break;
            }
        }
        let association = Arc::new(Association::new(*last, host, born));
        all.insert(*last, Arc::clone(&association));
        Some(association)
    }

    /// The association of a controller.
    pub(super) fn association(&self, cntlid: u16) -> Option<Arc<Association>> {
        self.associations().1.get(&cntlid).map(Arc::clone)
    }

    /// What a power cut has ended is no longer open.
    fn forget_cut(&self, association: &Association, open: &mut Open) {
        for (index, namespace) in self.namespaces.iter().enumerate() {
            let state = namespace.stack.power.state();
            if state.on && association.is_new_life(index, state.cuts) {
                open.retain(|(of, _)| *of != index);
            }
        }
    }

    /// Works with the transactions that an association has open; `None`: it is over.
    pub(super) fn transactions<R>(
        &self,
        association: &Association,
        work: impl FnOnce(&mut Open) -> R,
    ) -> Option<R> {
        association.transactions(|open| {
            self.forget_cut(association, open);
            work(open)
        })
    }

    /// A host is gone: its queues end, its transactions are aborted.
    pub(super) fn end(&self, association: &Association) {
        association.end_queues();
        let open = association.end_transactions();
        self.give_up(association, open);
        self.associations().1.remove(&association.cntlid);
    }

    /// A host resets its controller: as if it were gone, and it begins anew on the admin queue that it has.
    pub(super) fn reset(&self, association: &Association) {
        association.reset_queues();
        let open = association.reset_transactions();
        self.give_up(association, open);
    }

    /// What a host had is nobody's any more.
    fn give_up(&self, association: &Association, mut open: Open) {
        self.forget_cut(association, &mut open);
        let mut counts = Counts { aborts: open.len() as u64, ..Counts::default() };
        for (index, tid) in open {
            if self.options.bug.has(Bug::KeepOpen) {
                continue;
            }
            // With the power off they are gone as well.
            let _ = self.namespaces[index].stack.disk.transact(Ask::Abort(tid));
        }
        // Whoever claims what this one had finds no page of its transactions.
        self.end_claims(association.cntlid);
        self.stats.take(&mut counts);
    }

    /// Whether all the power is on, and cuts so far.
    pub(super) fn power(&self) -> (bool, u64) {
        let states = self.namespaces.iter().map(|namespace| namespace.stack.power.state());
        states.fold((true, 0), |(on, cuts), state| (on && state.on, cuts + state.cuts))
    }

    /// Power cuts so far, for whoever is to vanish at the next one; else always the same.
    pub(super) fn cuts(&self) -> u64 {
        if self.options.vanish { self.power().1 } else { 0 }
    }

    /// Looks at the power, and tells hosts of it; whether it serves.
    pub(super) fn look(&self) -> bool {
        let (on, cuts) = self.power();
        let news = cuts != self.known.load(Ordering::Relaxed);
        let all = || self.associations().1.values().map(Arc::clone).collect::<Vec<_>>();
        if news && self.options.vanish {
            // Not those that have come since: the power may have been off and on since this looked last.
            let before = |association: &&Arc<Association>| association.born != cuts;
            all().iter().filter(before).for_each(|association| association.vanish());
        }
        if news && on {
            self.known.store(cuts, Ordering::Relaxed);
            all().iter().for_each(|association| association.namespaces_changed());
        }
        on || !self.options.vanish
    }

    /// Hosts that are connected.
    pub fn hosts(&self) -> u64 {
        self.associations().1.len() as u64
    }
}
