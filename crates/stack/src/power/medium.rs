//! A medium whose power can go: what was written to it and not synced is drawn from a seed.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use block::{Medium, Rng};
use live::CutMedium;

use super::{LastCut, PowerError, PowerState, Supply, When};

/// Memory for what is written and not synced below a stack whose power can be cut.
const HELD: usize = 256 << 20;

#[derive(Debug)]
struct Past {
    seeds: Rng,
    /// Operations of earlier lives.
    operations: u64,
    cuts: u64,
    last: Option<LastCut>,
    /// A life that has begun, and whose layers are being started.
    next: Option<Arc<CutMedium>>,
}

/// See the module.
#[derive(Debug)]
pub struct MediumSupply {
    below: Arc<dyn Medium>,
    life: RwLock<Arc<CutMedium>>,
    past: Mutex<Past>,
}

impl MediumSupply {
    /// Over `below`; and the medium of the first life.
    pub fn new(below: Arc<dyn Medium>, seed: u64) -> (MediumSupply, Arc<dyn Medium>) {
        let mut seeds = Rng::stream(seed, "serve/power");
        let first = Arc::new(CutMedium::bounded(Arc::clone(&below), seeds.next_u64(), HELD));
        let past = Past { seeds, operations: 0, cuts: 0, last: None, next: None };
        let life = RwLock::new(Arc::clone(&first));
        (MediumSupply { below, life, past: Mutex::new(past) }, first)
    }

    fn past(&self) -> MutexGuard<'_, Past> {
        self.past.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn life(&self) -> Arc<CutMedium> {
        Arc::clone(&self.life.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Supply for MediumSupply {
    fn cut(&self, when: When) -> Result<(), PowerError> {
        let past = self.past();
        let medium = self.life();
        if medium.left().is_some() {
            return Err(PowerError::Off);
        }
        match when {
            When::Now => medium.cut_now().map_err(|error| PowerError::Disk(error.into()))?,
            When::NextFlush => medium.cut_at_sync(),
            When::Operation(asked) => {
                let now = past.operations + medium.operations();
                if asked <= now {
                    return Err(PowerError::Passed { asked, now });
                }
                medium.cut_after(asked - now);
            }
        }
        Ok(())
    }

    fn is_on(&self) -> bool {
        self.life().left().is_none()
    }

    fn state(&self) -> PowerState {
        let past = self.past();
        let medium = self.life();
        let left = medium.left();
        let last = left.map(|left| LastCut {
            operation: past.operations + left.operation,
            pending: left.pending,
            lost: Some(left.lost),
        });
        PowerState {
            on: left.is_none(),
            operations: past.operations + medium.operations(),
            cuts: past.cuts + u64::from(left.is_some()),
            last: last.or(past.last),
        }
    }

    fn on(&self) -> Result<Arc<dyn Medium>, PowerError> {
        let mut past = self.past();
        if self.life().left().is_none() {
            return Err(PowerError::On);
        }
        let (below, seed) = (Arc::clone(&self.below), past.seeds.next_u64());
        let medium = Arc::new(CutMedium::bounded(below, seed, HELD));
        past.next = Some(Arc::clone(&medium));
        Ok(medium)
    }

    fn started(&self) {
        let mut past = self.past();
        let mut life = self.life.write().unwrap_or_else(PoisonError::into_inner);
        if let (Some(next), Some(left)) = (past.next.take(), life.left()) {
            let operation = past.operations + left.operation;
            past.operations += life.operations();
            past.cuts += 1;
            past.last = Some(LastCut { operation, pending: left.pending, lost: Some(left.lost) });
            *life = next;
        }
    }

    fn failed(&self) {
        self.past().next = None;
    }
}
