//! Flash as it would be without cleaning: dies that program one page at a time, around a device
//! that keeps the promises.
//!
//! The model of time behind page counts: every page costs a program on the die that is free first,
//! no bus time, no cleaning. What real cleaning adds is the FTL drive's to say.

use std::collections::BTreeMap;

use block::{
    BlockDevice, Data, DeviceError, Lpn, Op, Remap, Request, Sectors, Span, Time, Transactional,
    TxError, TxId, TxLimits, UNIT_BYTES,
};

use super::{Below, Flash};

/// How the last page of a transaction is programmed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Commit {
    /// When all others have been: one serial program.
    Barrier,
    /// Beside them.
    Counted,
}

/// Pairs of one remap record.
const PAIRS: usize = 200;

/// Dies without cleaning.
#[derive(Debug)]
pub struct Ideal<D> {
    below: D,
    /// When each die is free.
    dies: Vec<Time>,
    read: Span,
    program: Span,
    commit: Commit,
    /// The end of the last program of plain writes.
    plain: Time,
    /// Of open transactions: the end of their programs, and whether a page is held back.
    open: BTreeMap<TxId, (Time, Option<Lpn>)>,
    flash: Flash,
}

impl<D: Transactional + Remap> Ideal<D> {
    /// `dies` dies of paper 4's flash: 50 us to read, 500 us to program a page.
    pub fn new(below: D, dies: usize, commit: Commit) -> Ideal<D> {
        assert!(dies > 0, "no dies");
        Ideal {
            below,
            dies: vec![Time::ZERO; dies],
            read: Span::from_us(50),
            program: Span::from_us(500),
            commit,
            plain: Time::ZERO,
            open: BTreeMap::new(),
            flash: Flash::default(),
        }
    }

    /// Books the die that is free first; when it is done.
    fn book(&mut self, at: Time, span: Span) -> Time {
        let die = self.dies.iter_mut().min().expect("there is a die");
        *die = (*die).max(at) + span;
        *die
    }

    fn program(&mut self, at: Time) -> Time {
        self.book(at, self.program)
    }
}

fn pages(sectors: Sectors) -> u64 {
    sectors.bytes().get().div_ceil(UNIT_BYTES)
}

impl<D: Transactional + Remap> BlockDevice for Ideal<D> {
    fn capacity(&self) -> Sectors {
        self.below.capacity()
    }
    fn atomic_unit(&self) -> block::Bytes {
        self.below.atomic_unit()
    }
    fn flush_covers_submitted(&self) -> bool {
        self.below.flush_covers_submitted()
    }

    fn submit(&mut self, at: Time, request: Request<'_>) -> Result<Time, DeviceError> {
        let (op, count) = (request.op, pages(request.sectors));
        let mut end = self.below.submit(at, request)?;
        match op {
            Op::Read => (0..count).for_each(|_| end = end.max(self.book(at, self.read))),
            Op::Write => {
                for _ in 0..count {
                    end = end.max(self.program(at));
                }
                self.flash.host += count;
                self.plain = self.plain.max(end);
            }
            Op::Flush => end = end.max(self.plain),
            Op::Discard => {}
        }
        Ok(end)
    }
}

impl<D: Transactional + Remap> Transactional for Ideal<D> {
    fn tx_limits(&self) -> TxLimits {
        self.below.tx_limits()
    }

    fn tx_begin(&mut self) -> Result<TxId, TxError> {
        self.below.tx_begin()
    }

    fn tx_write(
        &mut self,
        at: Time,
        tid: TxId,
        page: Lpn,
        data: Data<'_>,
    ) -> Result<Time, TxError> {
        let end = self.below.tx_write(at, tid, page, data)?;
        let (mut done, held) = self.open.remove(&tid).unwrap_or_default();
        // The newest page is held back; the one before it goes to flash unless it is the same.
        if held.is_some_and(|held| held != page) {
            done = done.max(self.program(at));
            self.flash.host += 1;
        }
        self.open.insert(tid, (done, Some(page)));
        Ok(end)
    }

    fn tx_trim(&mut self, at: Time, tid: TxId, first: Lpn, count: u32) -> Result<Time, TxError> {
        self.below.tx_trim(at, tid, first, count)
    }

    fn tx_read(&mut self, at: Time, tid: TxId, page: Lpn, data: Data<'_>) -> Result<Time, TxError> {
        let end = self.below.tx_read(at, tid, page, data)?;
        Ok(end.max(self.book(at, self.read)))
    }

    fn tx_commit(&mut self, at: Time, tids: &[TxId]) -> Result<Time, TxError> {
        let mut end = self.below.tx_commit(at, tids)?;
        let open: Vec<_> = tids.iter().filter_map(|tid| self.open.remove(tid)).collect();
        let others = open.iter().map(|(done, _)| *done).fold(at, Time::max);
        for _ in open.iter().filter(|(_, held)| held.is_some()) {
            let from = if self.commit == Commit::Barrier && tids.len() == 1 { others } else { at };
            end = end.max(self.program(from));
            self.flash.host += 1;
        }
        end = end.max(others);
        if tids.len() > 1 && !open.is_empty() {
            end = self.program(end);
            self.flash.tx += 1;
        }
        Ok(end)
    }

    fn tx_abort(&mut self, at: Time, tid: TxId) -> Result<Time, TxError> {
        self.open.remove(&tid);
        self.below.tx_abort(at, tid)
    }
}

impl<D: Transactional + Remap> Remap for Ideal<D> {
    fn remap(&mut self, at: Time, pairs: &[(Lpn, Lpn)]) -> Result<Time, TxError> {
        let mut end = self.below.remap(at, pairs)?.max(self.plain);
        for _ in pairs.chunks(PAIRS) {
            end = end.max(self.program(at));
            self.flash.tx += 1;
        }
        Ok(end)
    }

    fn remap_most(&self) -> usize {
        self.below.remap_most()
    }
}

impl<D: Transactional + Remap> Below for Ideal<D> {
    fn flash(&self) -> Option<Flash> {
        Some(self.flash)
    }
    fn reset(&mut self) {
        self.flash = Flash::default();
    }
}

#[cfg(test)]
mod tests {
    use block::{Lba, RamDevice};

    use super::*;

    fn device(dies: usize, commit: Commit) -> Ideal<RamDevice> {
        Ideal::new(RamDevice::new(Sectors(8 * 1000)), dies, commit)
    }

    #[test]
    fn a_transaction_of_three_pages_costs_one_program_or_two() {
        for (commit, us) in [(Commit::Counted, 500), (Commit::Barrier, 1000)] {
            let mut drive = device(4, commit);
            let tid = drive.tx_begin().unwrap();
            for page in [5, 6, 5, 7, 7] {
                drive.tx_write(Time::ZERO, tid, Lpn(page), Data::None).unwrap();
            }
            let end = drive.tx_commit(Time::ZERO, &[tid]).unwrap();
            // Page 5 was programmed twice; the second 7 replaced the one held back.
            assert_eq!((end, drive.flash.host), (Time::from_us(us), 4), "{commit:?}");
        }
    }

    #[test]
    fn plain_writes_share_the_dies_and_a_flush_waits_for_them() {
        let mut drive = device(2, Commit::Counted);
        for page in 0..5 {
            drive.submit(Time::ZERO, Request::write(Lba(8 * page), Sectors(8))).unwrap();
        }
        let end = drive.submit(Time::ZERO, Request::flush()).unwrap();
        assert_eq!((end, drive.flash.host), (Time::from_us(1500), 5));
        let pairs: Vec<_> = (0..201).map(|n| (Lpn(n), Lpn(500 + n))).collect();
        drive.remap(end, &pairs).unwrap();
        assert_eq!(drive.flash().unwrap().tx, 2);
        drive.reset();
        assert_eq!(drive.flash(), Some(Flash::default()));
    }
}
