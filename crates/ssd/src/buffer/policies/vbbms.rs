//! VBBMS: a region for small requests and one for large, each evicting whole virtual blocks.
//!
//! A page asked for by a request of at most 4 KiB enters the random region, LRU over blocks; of a
//! larger one, the sequential region, FIFO over blocks. A page hit in the sequential region moves
//! to the random one, which may push a block out of it there and then.
//!
//! Invariants: class 0 = random, 1 = sequential; neither region exceeds its share; `moving` is only
//! set between a hit and the `shed` that follows.

use super::common::check_held;
use crate::buffer::blocks::{Blocks, Queue};
use crate::buffer::policy::PolicyInfo;
use crate::buffer::{Access, Admission, Batches, Frame, Policy, PolicyOption, Pool, Stream};
use crate::config::KeyKind;

const RANDOM: u8 = 0;
const SEQUENTIAL: u8 = 1;
/// The longest request that counts as random.
const SMALL: u64 = 4096;

pub(super) const INFO: PolicyInfo = PolicyInfo {
    name: "vbbms",
    aliases: &[],
    doc: "regions for small and for large requests that evict virtual blocks",
    source: "Du et al., IEEE TCE 2019: its abstract and the prose of Jeong et al., IEEE Access \
             2021; the split of the regions and the order of steps are our reading",
    options: &[
        PolicyOption {
            name: "random",
            kind: KeyKind::Share,
            default: "60 %",
            doc: "share of the random region, rounded down",
        },
        PolicyOption {
            name: "random_block",
            kind: KeyKind::Count(1, 4096),
            default: "8",
            doc: "pages of a virtual block of the random region",
        },
        PolicyOption {
            name: "sequential_block",
            kind: KeyKind::Count(1, 4096),
            default: "6",
            doc: "pages of a virtual block of the sequential region",
        },
    ],
    clairvoyant: false,
    make: |setup| {
        let (entries, pages) = (setup.shape.entries, setup.shape.pages);
        let random = setup.share_of_entries("random");
        if random == 0 || random >= entries {
            return Err(format!("{random} of {entries} entries leave a region without any"));
        }
        let region = |cap: usize, block: &str| Region {
            cap,
            held: 0,
            queue: Queue::default(),
            blocks: Blocks::new(setup.count(block) as u32, cap, entries, pages),
        };
        let random = region(random, "random_block");
        let sequential = region(entries - random.cap, "sequential_block");
        setup.buffer(Vbbms { random, sequential, moving: None })
    },
};

/// One region: its blocks in order of arrival or of use.
#[derive(Clone, Debug)]
struct Region {
    cap: usize,
    held: usize,
    queue: Queue,
    blocks: Blocks,
}

impl Region {
    /// Gives up blocks until a page fits.
    #[inline]
    fn make_room(&mut self, pool: &mut Pool, class: u8, out: &mut Batches) {
        while self.held >= self.cap
            && let Some(victim) = self.queue.back()
        {
            while let Some(frame) = self.blocks.pop(pool, victim) {
                out.evict(frame, Stream::Region(class));
                self.held -= 1;
            }
            self.blocks.unlink(&mut self.queue, victim);
            self.blocks.release(victim);
        }
    }
    /// An entry in no list enters its block.
    #[inline]
    fn enter(&mut self, pool: &mut Pool, frame: Frame, class: u8) {
        let page = pool.page(frame);
        let block = match self.blocks.find(page) {
            Some(block) => {
                if class == RANDOM {
                    self.blocks.promote(&mut self.queue, block);
                }
                block
            }
            None => {
                let block = self.blocks.create(page, 0);
                self.blocks.push_front(&mut self.queue, block);
                block
            }
        };
        self.blocks.add(pool, block, frame);
        pool.set_class(frame, class);
        self.held += 1;
    }
    /// An entry leaves, and its block if it was the last.
    #[inline]
    fn leave(&mut self, pool: &mut Pool, frame: Frame) {
        let block = self.blocks.take(pool, frame);
        self.held -= 1;
        if self.blocks.len(block) == 0 {
            self.blocks.unlink(&mut self.queue, block);
            self.blocks.release(block);
        }
    }
    fn check(&self, pool: &Pool, class: u8) -> Result<(), String> {
        let walked = self.blocks.check(pool, &self.queue, class)?;
        if walked == self.held && self.held <= self.cap {
            Ok(())
        } else {
            Err(format!("{walked} linked, {} counted, at most {}", self.held, self.cap))
        }
    }
}

/// See the module.
#[derive(Clone, Debug)]
struct Vbbms {
    random: Region,
    sequential: Region,
    /// An entry on its way from the sequential to the random region.
    moving: Option<Frame>,
}

impl Vbbms {
    #[inline]
    fn region(&mut self, class: u8) -> &mut Region {
        if class == RANDOM { &mut self.random } else { &mut self.sequential }
    }
}

/// The region for a request.
#[inline]
fn class_of(a: &Access<'_>) -> u8 {
    if a.req.len.0 <= SMALL { RANDOM } else { SEQUENTIAL }
}

impl Policy for Vbbms {
    const SHEDS: bool = true;

    #[inline]
    fn hit(&mut self, pool: &mut Pool, frame: Frame, _: &Access<'_>) {
        if pool.class(frame) == RANDOM {
            let block = self.random.blocks.of(frame);
            self.random.blocks.promote(&mut self.random.queue, block);
        } else {
            self.sequential.leave(pool, frame);
            self.moving = Some(frame);
        }
    }
    #[inline]
    fn shed(&mut self, pool: &mut Pool, out: &mut Batches) {
        if let Some(frame) = self.moving.take() {
            self.random.make_room(pool, RANDOM, out);
            self.random.enter(pool, frame, RANDOM);
        }
    }
    #[inline]
    fn admit(&mut self, pool: &mut Pool, a: &Access<'_>, out: &mut Batches) -> Admission {
        let class = class_of(a);
        self.region(class).make_room(pool, class, out);
        Admission::Admit(class)
    }
    #[inline]
    fn inserted(&mut self, pool: &mut Pool, frame: Frame, a: &Access<'_>) {
        let class = class_of(a);
        self.region(class).enter(pool, frame, class);
    }
    fn removed(&mut self, pool: &mut Pool, frame: Frame) {
        self.region(pool.class(frame)).leave(pool, frame);
    }
    fn stream(&self, pool: &Pool, frame: Frame) -> Stream {
        Stream::Region(pool.class(frame))
    }
    fn cleaned(&mut self, _: &mut Pool, _: Frame) {}
    fn occupancy(&self, each: &mut dyn FnMut(&'static str, usize)) {
        each("random", self.random.held);
        each("sequential", self.sequential.held);
    }
    fn check(&self, pool: &Pool) -> Result<(), String> {
        if self.moving.is_some() {
            return Err("a page that was hit is in no region".to_string());
        }
        self.random.check(pool, RANDOM)?;
        self.sequential.check(pool, SEQUENTIAL)?;
        check_held(pool, self.random.held + self.sequential.held)
    }
}
