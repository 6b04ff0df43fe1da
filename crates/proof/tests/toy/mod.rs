//! The smallest flash translation layer that survives every cut, and ways to break it: the
//! alarm's own test, and an example of how a layer joins the harness. One block is open at a
//! time; a write is answered at once, a flush when all programs have ended; a discard is a
//! record in the log; recovery reads every record and the highest sequence number wins.

use std::collections::BTreeMap;

use block::{BlockDevice, BlockId, Data, DeviceError, Op, Ppn, Request, Sectors, Span, Time};
use nand::{
    BlockHeader, Cause, Cut, Geometry, Image, Kind, Nand, Oob, OpKind, Order, PageProgram,
    PageTypes, Payload, ReadCause, SlotRead, SlotWrite, Suspend, Timing,
};
use varve_proof::{Contract, DurableKind, Failure, PageSubject, Subject, Tolerance};

/// What is broken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Break {
    Nothing,
    AckBeforeProgram,
    EraseBeforeCopies,
    NewestByAddress,
    TrimForgotten,
    FreshSeqOnCopy,
    WrongPlace,
}

pub struct Spec {
    pub broken: Break,
    pub pages: u32,
}

const BLOCKS: u32 = 10;
const PER_BLOCK: u32 = 4;

pub struct Toy {
    nand: Nand,
    broken: Break,
    pages: u32,
    /// Page to (place, sequence number); a discarded page keeps its record's place.
    map: BTreeMap<u32, (Ppn, u64)>,
    seq: u64,
    open: Option<BlockId>,
    free: Vec<BlockId>,
    now: Time,
    collecting: bool,
}

fn timing() -> Timing {
    Timing {
        cell_bits: 1,
        page_types: PageTypes::Uniform,
        t_read: vec![Span::from_us(50)],
        t_read_4k: vec![],
        t_program: vec![Span::from_us(500)],
        t_erase: Span::from_us(3000),
        cmd: Span::ZERO,
        transfer: vec![Span::ZERO, Span::from_us(10)],
        transfer_oob: Span::ZERO,
        cache_ops: false,
        t_rcbsy: Span::ZERO,
        t_cbsy: Span::ZERO,
        independent_planes: false,
        one_shot: false,
        order: Order::InOrder,
        suspend: Suspend::default(),
        enabled: true,
    }
}

fn geometry() -> Geometry {
    Geometry::new(2, 1, 1, BLOCKS / 2, PER_BLOCK, 4096, 128, 4096).expect("a fixed geometry")
}

impl Toy {
    fn over(spec: &Spec, mut nand: Nand) -> Toy {
        nand.keep_journal();
        Toy {
            nand,
            broken: spec.broken,
            pages: spec.pages,
            map: BTreeMap::new(),
            seq: 1,
            open: None,
            free: Vec::new(),
            now: Time::ZERO,
            collecting: false,
        }
    }

    /// The record and stamp at a place.
    fn at(&self, ppn: Ppn) -> Option<(Oob, u64)> {
        match self.nand.slot(ppn) {
            SlotRead::Good(oob, Payload::Stamp(stamp)) => Some((*oob, *stamp)),
            SlotRead::Good(oob, _) => Some((*oob, 0)),
            _ => None,
        }
    }

    fn scan(&mut self) {
        let mut newest = 0;
        for ppn in (0..geometry().slots()).map(Ppn) {
            let Some((oob, _)) = self.at(ppn) else { continue };
            newest = newest.max(oob.seq);
            let old = self.map.get(&oob.lpn).map(|(_, seq)| *seq);
            let newer = match self.broken {
                Break::NewestByAddress => true,
                Break::TrimForgotten if oob.kind == Kind::Trim => false,
                _ => old.is_none_or(|old| oob.seq > old),
            };
            if newer {
                self.map.insert(oob.lpn, (ppn, oob.seq));
            }
        }
        self.seq = newest + 1;
        // No block is trusted to be blank, one that reads so may have been touched: each is erased
        // before it is used.
        self.free.clear();
    }

    fn valid(&self, block: BlockId) -> Vec<(u32, Ppn)> {
        let here = |ppn: &Ppn| self.nand.geometry().block_of(*ppn) == block;
        self.map.iter().filter(|(_, (p, _))| here(p)).map(|(l, (p, _))| (*l, *p)).collect()
    }

    fn program(&mut self, at: Time, oob: Oob, stamp: u64) -> Result<Ppn, DeviceError> {
        if self.open.is_none_or(|b| self.nand.next_page(b) == PER_BLOCK) {
            if self.free.len() <= 2 && !self.collecting {
                self.collecting = true;
                self.collect(at)?;
                self.collecting = false;
            }
            if self.open.is_none_or(|b| self.nand.next_page(b) == PER_BLOCK) {
                let next = self.free.first().copied().ok_or(DeviceError::NoSpace("no block"))?;
                self.free.remove(0);
                self.open = Some(next);
            }
        }
        let block = self.open.ok_or(DeviceError::NoSpace("no block"))?;
        let page = self.nand.next_page(block);
        let payload = if stamp == 0 { Payload::None } else { Payload::Stamp(stamp) };
        let slots = [SlotWrite { oob, cause: Cause::Host, payload }];
        let program = [PageProgram { block, slots: &slots, header: BlockHeader::default() }];
        self.nand.program(at, &program, true).map_err(|_| DeviceError::PowerOff)?;
        Ok(self.nand.geometry().ppn(block, page))
    }

    /// Frees blocks until three are free.
    fn collect(&mut self, at: Time) -> Result<(), DeviceError> {
        for _ in 0..2 * BLOCKS {
            if self.free.len() > 3 {
                break;
            }
            let candidate = |b: &BlockId| Some(*b) != self.open && !self.free.contains(b);
            let victim = (0..BLOCKS).map(BlockId).filter(candidate);
            let Some(victim) = victim.min_by_key(|b| self.valid(*b).len()) else { break };
            let start = self.nand.programs_end();
            for (lpn, from) in self.valid(victim) {
                let Some((mut oob, stamp)) = self.at(from) else { continue };
                if self.broken == Break::FreshSeqOnCopy {
                    (oob.seq, self.seq) = (self.seq, self.seq + 1);
                }
                let to = self.program(at, oob, stamp)?;
                self.map.insert(lpn, (to, oob.seq));
            }
            let end = match self.broken {
                Break::EraseBeforeCopies => start,
                _ => self.nand.programs_end(),
            };
            self.nand.erase(end.max(at), victim, true).map_err(|_| DeviceError::PowerOff)?;
            self.free.push(victim);
        }
        Ok(())
    }
}

impl BlockDevice for Toy {
    fn capacity(&self) -> Sectors {
        Sectors(u64::from(self.pages) * 8)
    }

    fn submit(&mut self, at: Time, request: Request<'_>) -> Result<Time, DeviceError> {
        self.now = at;
        self.nand.set_now(at);
        let first = (request.lba.0 / 8) as u32;
        let pages = first..first + (request.sectors.0 / 8) as u32;
        let mut end = at;
        match (request.op, request.data) {
            (Op::Write, Data::WriteStamps(stamps)) => {
                for (lpn, stamp) in pages.zip(stamps) {
                    let seq = self.seq;
                    self.seq += 1;
                    let oob = Oob { kind: Kind::Data, lpn, seq, ..Oob::default() };
                    let place = self.program(at, oob, *stamp)?;
                    let misplaced = self.broken == Break::WrongPlace && seq.is_multiple_of(17);
                    let shifted = u32::from(misplaced);
                    self.map.insert((lpn + shifted) % self.pages, (place, seq));
                }
                if request.fua && self.broken != Break::AckBeforeProgram {
                    end = self.nand.programs_end();
                }
            }
            (Op::Discard, _) => {
                for lpn in pages {
                    let seq = self.seq;
                    self.seq += 1;
                    let oob = Oob { kind: Kind::Trim, lpn, seq, ..Oob::default() };
                    let place = self.program(at, oob, 0)?;
                    self.map.insert(lpn, (place, seq));
                }
            }
            (Op::Flush, _) if self.broken != Break::AckBeforeProgram => {
                end = self.nand.programs_end();
            }
            (Op::Flush, _) => {}
            (Op::Read, Data::ReadStamps(out)) => {
                for (lpn, stamp) in pages.zip(out) {
                    *stamp = 0;
                    let Some((ppn, _)) = self.map.get(&lpn) else { continue };
                    let Some((_, found)) = self.at(*ppn) else {
                        return Err(DeviceError::Unreadable(request.lba));
                    };
                    *stamp = found;
                    let (block, page, _) = self.nand.geometry().place(*ppn);
                    let read = self.nand.read(at, &[(block, page)], &[1], 1, ReadCause::Host);
                    end = end.max(read.map_err(|_| DeviceError::PowerOff)?);
                }
            }
            _ => return Err(DeviceError::Unsupported("stamps only")),
        }
        Ok(end.max(at))
    }
}

impl Subject for Toy {
    type Spec = Spec;
    type Image = Image;

    fn build(spec: &Spec) -> Result<Toy, Failure> {
        let mut toy = Toy::over(spec, Nand::new(geometry(), timing(), true));
        toy.free = (0..BLOCKS).map(BlockId).collect();
        Ok(toy)
    }
    fn mount(spec: &Spec, image: Image) -> Result<Toy, Failure> {
        let mut toy = Toy::over(spec, Nand::from_image(geometry(), timing(), image));
        toy.scan();
        toy.collecting = true;
        let result = toy.collect(Time::ZERO);
        toy.collecting = false;
        toy.now = toy.nand.programs_end();
        result.map_err(|e| Failure::new(Contract::C10, format!("mount: {e}")))?;
        Ok(toy)
    }
    fn ready(&self) -> Time {
        self.now
    }
    fn ops(&self) -> u64 {
        self.nand.ops()
    }
    fn op(&self, op: u64) -> Option<DurableKind> {
        self.nand.journal().find(|r| r.op == op).map(|r| match r.kind {
            OpKind::Program => DurableKind::Program,
            OpKind::Erase => DurableKind::Erase,
            OpKind::MarkBad => DurableKind::MarkBad,
        })
    }
    fn has_pairs(&self) -> bool {
        false
    }
    fn image(&self) -> Result<Image, Failure> {
        Ok(self.nand.image().clone())
    }
    fn image_at_cut(&self, cut: &Cut) -> Option<(Image, Time)> {
        self.nand.image_at_cut(cut)
    }
    fn forget(&mut self, before: Time) {
        self.nand.prune_journal(before);
    }
    fn check(&self) -> Result<(), Failure> {
        Ok(())
    }
    fn event_hash(&self) -> u64 {
        self.nand.event_hash()
    }
}

impl PageSubject for Toy {
    fn discard_grain(_: &Spec) -> u32 {
        1
    }
    fn bytes(_: &Spec) -> bool {
        false
    }
    fn tolerance(_: &Spec) -> Tolerance {
        Tolerance::default()
    }
    fn bound(_: &Spec) -> Span {
        Span::from_us(10_000_000)
    }
    fn busy(&self) -> Time {
        self.nand.sched().busiest()
    }
    fn stop(&mut self, at: Time) -> Result<Time, DeviceError> {
        self.submit(at, Request::flush())
    }
}
