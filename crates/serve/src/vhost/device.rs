//! The device of one virtual machine: its rings, and what was agreed on with its driver.

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use stack::disk::{Disk, Done};
use vhost::vhost_user::message::VhostUserProtocolFeatures;
use vhost_user_backend::{VhostUserBackend, VringMutex, VringT};
use virtio_queue::QueueOwnedT;
use vm_memory::{GuestAddressSpace, GuestMemoryAtomic, GuestMemoryMmap};
use vmm_sys_util::epoll::EventSet;
use vmm_sys_util::event::{
    EventConsumer, EventFlag, EventNotifier, new_event_consumer_and_notifier,
};

use super::config::{CONFIG_BYTES, WRITEBACK_AT, feature, features, space};
use super::request::{Chain, Target, failed};
use super::server::Options;
use super::stats::{Counts, Stats};
use crate::stream::{Delay, REPLIES};

/// Entries of a ring at most: none of its chains waits for room among those that are late.
const RING: usize = REPLIES;
/// Chains that are taken out of a ring together.
const TOGETHER: usize = 64;

type Memory = GuestMemoryAtomic<GuestMemoryMmap>;

/// A ring of the machine.
#[derive(Clone)]
pub struct Ring(VringMutex);

impl Ring {
    /// Hands a chain back.
    pub fn hand_back(&self, head: u16, written: u32) -> io::Result<()> {
        self.0.add_used(head, written).map_err(io::Error::other)
    }

    /// Calls the driver, if it waits for that.
    pub fn call(&self) -> io::Result<()> {
        match self.0.needs_notification().map_err(io::Error::other)? {
            true => self.0.signal_used_queue(),
            false => Ok(()),
        }
    }
}

/// A chain, and the bytes written into it.
type Used = (Ring, Chain, u32);

/// What belongs to a queue.
#[derive(Default)]
struct Queue {
    buffer: Mutex<Vec<u8>>,
    /// Its chains that are handed back later, if there ever was one.
    late: Mutex<Option<Delay<Used>>>,
}

impl Queue {
    /// Hands a chain back when it is due.
    fn hand_back_at(&self, done: Done, used: Used) -> io::Result<()> {
        let mut late = self.late.lock().unwrap_or_else(PoisonError::into_inner);
        let delay = match &mut *late {
            Some(delay) => delay,
            none => none.insert(Delay::start(|(ring, chain, written): Used, stands| {
                let written = if stands { written } else { failed(chain.memory(), &chain) };
                // A ring that takes nothing back is one whose memory is gone, and its machine with it.
                let _ = ring.hand_back(chain.head_index(), written).and_then(|()| ring.call());
                Ok(())
            })?),
        };
        delay.push(done, used, 0)
    }

    /// Returns when all were handed back.
    fn drain(&self) -> io::Result<()> {
        let late = self.late.lock().unwrap_or_else(PoisonError::into_inner);
        late.as_ref().map_or(Ok(()), Delay::drain)
    }
}

/// The device.
pub struct Device {
    disk: Arc<dyn Disk>,
    options: Options,
    stats: Arc<Stats>,
    memory: Mutex<Option<Memory>>,
    queues: Vec<Queue>,
    /// Features that the driver took.
    agreed: AtomicU64,
    /// Whether the driver has the cache on. Held by who works on a ring: it changes between two batches.
    writeback: RwLock<bool>,
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Device").field("disk", &self.disk).finish_non_exhaustive()
    }
}

impl Device {
    /// The device of a machine that has just come.
    pub fn new(disk: Arc<dyn Disk>, options: Options, stats: Arc<Stats>) -> Device {
        Device {
            disk,
            options,
            stats,
            memory: Mutex::default(),
            queues: (0..options.queues).map(|_| Queue::default()).collect(),
            agreed: AtomicU64::new(0),
            writeback: RwLock::new(true),
        }
    }

    /// Whether a write is durable when it is answered: the driver knows of no FLUSH, or has turned the cache off.
    pub(super) fn forced(&self, writeback: bool) -> bool {
        self.agreed.load(Ordering::Relaxed) & feature::FLUSH == 0 || !writeback
    }

    pub(super) fn writeback(&self) -> RwLockReadGuard<'_, bool> {
        self.writeback.read().unwrap_or_else(PoisonError::into_inner)
    }
    fn set_writeback(&self) -> RwLockWriteGuard<'_, bool> {
        self.writeback.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does what is in a ring; whether there was anything.
    fn work(&self, ring: &Ring, queue: &Queue) -> io::Result<bool> {
        let memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(memory) = memory.map(|memory| memory.memory()) else { return Ok(false) };
        // Whoever stops the ring waits for it: nothing is taken out of the ring without it.
        let mut buffer = queue.buffer.lock().unwrap_or_else(PoisonError::into_inner);
        let chains: Vec<Chain> = {
            let mut state = ring.0.get_mut();
            let chains = state.get_queue_mut().iter(memory.clone()).map_err(io::Error::other)?;
            chains.take(TOGETHER).collect()
        };
        let cache = self.writeback();
        let forced = self.forced(*cache);
        let target = Target { disk: &*self.disk, block: self.options.block, forced };
        let (mut counts, mut back) = (Counts::default(), false);
        for chain in &chains {
            let (written, done) = target.serve(&memory, chain, &mut buffer, &mut counts);
            match done.due() {
                None => {
                    ring.hand_back(chain.head_index(), written)?;
                    back = true;
                }
                Some(_) => queue.hand_back_at(done, (ring.clone(), chain.clone(), written))?,
            }
        }
        self.stats.take(&mut counts);
        if back {
            ring.call()?;
        }
        Ok(!chains.is_empty())
    }
}

impl VhostUserBackend for Device {
    type Bitmap = ();
    type Vring = VringMutex;

    fn num_queues(&self) -> usize {
        usize::from(self.options.queues)
    }
    fn max_queue_size(&self) -> usize {
        RING
    }
    fn features(&self) -> u64 {
        features(&self.disk.capabilities(), self.options.queues)
    }
    fn acked_features(&self, features: u64) {
        self.agreed.store(features, Ordering::Relaxed);
    }
    fn protocol_features(&self) -> VhostUserProtocolFeatures {
        VhostUserProtocolFeatures::CONFIG
            | VhostUserProtocolFeatures::MQ
            | VhostUserProtocolFeatures::REPLY_ACK
    }
    fn reset_device(&self) {
        self.agreed.store(0, Ordering::Relaxed);
        *self.set_writeback() = true;
    }
    fn set_event_idx(&self, _: bool) {
        // The rings know.
    }

    fn get_config(&self, offset: u32, size: u32) -> Vec<u8> {
        let writeback = *self.writeback();
        let Options { block, queues, .. } = self.options;
        let all = space(&self.disk.capabilities(), block, queues, writeback);
        let (from, size) = (offset as usize, size as usize);
        if from >= CONFIG_BYTES {
            return Vec::new();
        }
        // What a later standard has behind it is not there: zeroes.
        let mut out = vec![0; size];
        let known = size.min(CONFIG_BYTES - from);
        out[..known].copy_from_slice(&all[from..from + known]);
        out
    }

    fn set_config(&self, offset: u32, bytes: &[u8]) -> io::Result<()> {
        match bytes {
            [cache] if offset as usize == WRITEBACK_AT => {
                let mut writeback = self.set_writeback();
                *writeback = *cache != 0;
                if !*writeback {
                    // What was answered from the cache before is to be durable, too.
                    self.disk.flush().and_then(Done::wait).map_err(io::Error::other)?;
                }
                Ok(())
            }
            _ => Err(io::ErrorKind::InvalidInput.into()),
        }
    }

    fn update_memory(&self, memory: Memory) -> io::Result<()> {
        *self.memory.lock().unwrap_or_else(PoisonError::into_inner) = Some(memory);
        Ok(())
    }

    fn queues_per_thread(&self) -> Vec<u64> {
        (0..self.options.queues).map(|queue| 1 << queue).collect()
    }

    fn exit_event(&self, _: usize) -> Option<(EventConsumer, EventNotifier)> {
        new_event_consumer_and_notifier(EventFlag::NONBLOCK).ok()
    }

    fn stop_vring(&self, queue: u32) -> io::Result<()> {
        if let Some(queue) = self.queues.get(queue as usize) {
            // Who has the buffer is at work on the ring.
            drop(queue.buffer.lock().unwrap_or_else(PoisonError::into_inner));
            queue.drain()?;
        }
        Ok(())
    }

    fn handle_event(
        &self,
        event: u16,
        set: EventSet,
        rings: &[VringMutex],
        thread: usize,
    ) -> io::Result<()> {
        let (Some(ring), Some(queue)) = (rings.get(usize::from(event)), self.queues.get(thread))
        else {
            return Err(io::Error::other(format!(
                "an event {event} of no ring of thread {thread}"
            )));
        };
        if set != EventSet::IN {
            return Err(io::Error::other(format!("an event {set:?} of a ring: expected a kick")));
        }
        let ring = Ring(ring.clone());
        let other = io::Error::other;
        loop {
            ring.0.disable_notification().map_err(other)?;
            while self.work(&ring, queue)? {}
            // What came while nobody was to be woken is there already.
            if !ring.0.enable_notification().map_err(other)? {
                return Ok(());
            }
        }
    }
}
