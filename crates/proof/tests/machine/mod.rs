//! Transactions in a drive as an abstract machine, with rules that can be dropped or broken.
//!
//! Programs end out of order over four channels, in order within one. Discards are tombstone pages.

use std::collections::{BTreeMap, BTreeSet};

use block::Rng;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rule {
    Whole,
    Counted,
    LocksIgnored,
    LocksHard,
    NoSeq,
    FreshSeq,
    EndEarly,
    NoBarrier,
    NoState,
    StateLate,
    NoLosers,
    FloorNext,
    TidRestart,
    EarlyReuse,
    EraseEarly,
    CountedWeak,
    CountedAny,
    ManyEarly,
    ManyApart,
}
use Rule::*;

const CHANNELS: usize = 4;
const PAGES: usize = 4;
pub const LPNS: u32 = 20;

/// Floor, committed ones from it on, losers.
type State = (u64, BTreeSet<u64>, BTreeSet<u64>);
type Place = (usize, usize);

#[derive(Clone, Debug)]
pub struct Page {
    lpn: u32,
    /// 0 = a tombstone.
    val: u64,
    tid: u64,
    /// An end page, and the (lpn, seq) it names.
    end: Option<BTreeSet<(u32, u64)>>,
    seq: u64,
    state: Option<State>,
}

#[derive(Clone, Debug)]
enum Slot {
    Blank,
    Torn,
    Good(Page),
}

/// Why a run ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Stop {
    Cut,
    NoSpace,
    Wrong,
}

pub struct Ftl {
    rule: Rule,
    rng: Rng,
    flash: Vec<Vec<Slot>>,
    pub ops: u64,
    pub cut_at: u64,
    durable: State,
    next_seq: u64,
    next_tid: u64,
    map: BTreeMap<u32, Place>,
    own: BTreeMap<(u64, u32), Option<Place>>,
    held: BTreeMap<u64, (u32, u64, u64)>,
    inflight: Vec<(usize, Place, Page)>,
    open: BTreeSet<u64>,
    heads: [Option<(usize, usize)>; CHANNELS],
    turn: usize,
    losers: BTreeSet<u64>,
    committed: BTreeSet<u64>,
    free: Vec<usize>,
}

impl Ftl {
    pub fn new(rule: Rule, seed: u64, blocks: usize) -> Ftl {
        Ftl {
            rule,
            rng: Rng::new(seed),
            flash: vec![vec![Slot::Blank; PAGES]; blocks],
            ops: 0,
            cut_at: 0,
            durable: State::default(),
            next_seq: 1,
            next_tid: 1,
            map: BTreeMap::new(),
            own: BTreeMap::new(),
            held: BTreeMap::new(),
            inflight: Vec::new(),
            open: BTreeSet::new(),
            heads: [None; CHANNELS],
            turn: 0,
            losers: BTreeSet::new(),
            committed: BTreeSet::new(),
            free: (0..blocks).collect(),
        }
    }
    fn is_counted(&self) -> bool {
        matches!(self.rule, Counted | CountedWeak | CountedAny)
    }
    fn seq(&mut self) -> u64 {
        self.next_seq += 1;
        self.next_seq - 1
    }
    fn tick(&mut self) -> Result<(), Stop> {
        self.ops += 1;
        if self.ops == self.cut_at { Err(Stop::Cut) } else { Ok(()) }
    }
    fn has_room(&self, channel: usize) -> bool {
        self.heads[channel].is_some_and(|(_, next)| next < PAGES)
    }

    fn program(&mut self, page: Page) -> Result<Place, Stop> {
        let mut channel = self.turn % CHANNELS;
        self.turn += 1;
        if !self.has_room(channel) && self.free.len() <= 2 {
            channel = (0..CHANNELS).find(|c| self.has_room(*c)).unwrap_or(channel);
        }
        if !self.has_room(channel) {
            if self.free.is_empty() {
                return Err(Stop::NoSpace);
            }
            self.heads[channel] = Some((self.free.remove(0), 0));
        }
        let (block, next) = self.heads[channel].expect("opened");
        self.heads[channel] = Some((block, next + 1));
        self.inflight.push((channel, (block, next), page));
        Ok((block, next))
    }
    /// Whether programs are under way.
    pub fn is_busy(&self) -> bool {
        !self.inflight.is_empty()
    }

    pub fn complete_one(&mut self) -> Result<(), Stop> {
        let channels: BTreeSet<usize> = self.inflight.iter().map(|x| x.0).collect();
        let channels: Vec<usize> = channels.into_iter().collect();
        let channel = *self.rng.pick(&channels);
        let at = self.inflight.iter().position(|x| x.0 == channel).expect("one of them");
        self.tick()?;
        let (_, (block, page), data) = self.inflight.remove(at);
        if let Some(state) = &data.state {
            self.durable = state.clone();
        }
        self.flash[block][page] = Slot::Good(data);
        Ok(())
    }
    pub fn wait(&mut self, which: impl Fn(&Page) -> bool) -> Result<(), Stop> {
        while self.inflight.iter().any(|x| which(&x.2)) {
            self.complete_one()?;
        }
        Ok(())
    }
    fn page_at(&self, at: Place) -> Option<&Page> {
        if let Some(x) = self.inflight.iter().find(|x| x.1 == at) {
            return Some(&x.2);
        }
        match &self.flash[at.0][at.1] {
            Slot::Good(page) => Some(page),
            _ => None,
        }
    }
    fn good(&self) -> impl Iterator<Item = (Place, &Page)> {
        self.flash.iter().enumerate().flat_map(|(b, row)| {
            row.iter().enumerate().filter_map(move |(i, slot)| match slot {
                Slot::Good(page) => Some(((b, i), page)),
                _ => None,
            })
        })
    }
    fn erase(&mut self, block: usize) -> Result<(), Stop> {
        if let Err(stop) = self.tick() {
            for slot in &mut self.flash[block] {
                if self.rng.ratio(1, 2) {
                    *slot = Slot::Torn;
                }
            }
            return Err(stop);
        }
        self.flash[block] = vec![Slot::Blank; PAGES];
        self.free.push(block);
        let tags: BTreeSet<u64> =
            self.good().map(|x| x.1.tid).chain(self.inflight.iter().map(|x| x.2.tid)).collect();
        self.losers.retain(|tid| tags.contains(tid));
        Ok(())
    }

    pub fn begin(&mut self) -> u64 {
        let tid = self.next_tid;
        self.next_tid += 1;
        self.open.insert(tid);
        tid
    }
    fn data(lpn: u32, val: u64, tid: u64, seq: u64) -> Page {
        Page { lpn, val, tid, end: None, seq, state: None }
    }
    pub fn plain(&mut self, lpn: u32, val: u64) -> Result<(), Stop> {
        self.room(false)?;
        let seq = self.seq();
        let at = self.program(Ftl::data(lpn, val, 0, seq))?;
        self.map.insert(lpn, at);
        Ok(())
    }
    fn spill(&mut self, tid: u64, end: Option<BTreeSet<(u32, u64)>>) -> Result<(), Stop> {
        let Some((lpn, val, seq)) = self.held.remove(&tid) else { return Ok(()) };
        let at = self.program(Page { end, ..Ftl::data(lpn, val, tid, seq) })?;
        self.own.insert((tid, lpn), Some(at));
        Ok(())
    }
    pub fn write(&mut self, tid: u64, lpn: u32, val: u64, last: bool) -> Result<(), Stop> {
        self.room(false)?;
        if self.held.get(&tid).is_some_and(|held| held.0 != lpn) {
            self.spill(tid, None)?;
        }
        let seq = self.seq();
        self.held.insert(tid, (lpn, val, seq));
        self.own.insert((tid, lpn), None);
        if last && self.rule == EndEarly { self.spill(tid, Some(BTreeSet::new())) } else { Ok(()) }
    }
    fn entries(&self, tid: u64) -> Vec<(u32, Option<Place>)> {
        self.own.range((tid, 0)..=(tid, u32::MAX)).map(|((_, lpn), at)| (*lpn, *at)).collect()
    }
    pub fn commit(&mut self, tid: u64) -> Result<(), Stop> {
        self.room(false)?;
        if self.rule != NoBarrier && !self.is_counted() {
            self.wait(|page| page.tid == tid)?;
        }
        let finals = self
            .entries(tid)
            .into_iter()
            .filter_map(|(lpn, at)| at.and_then(|at| self.page_at(at)).map(|page| (lpn, page.seq)));
        let finals: BTreeSet<(u32, u64)> = finals.collect();
        self.spill(tid, Some(finals))?;
        if self.rule == EarlyReuse {
            self.publish(tid);
            self.room(true)?;
        }
        self.wait(|page| page.tid == tid)?;
        if self.rule != EarlyReuse {
            self.publish(tid);
        }
        Ok(())
    }
    pub fn commit_many(&mut self, tids: &[u64]) -> Result<(), Stop> {
        self.room(false)?;
        for tid in tids {
            self.spill(*tid, None)?;
        }
        if self.rule != ManyEarly {
            self.wait(|page| tids.contains(&page.tid))?;
        }
        if self.rule == ManyApart {
            self.state_record(&tids[..1])?;
        }
        self.state_record(tids)?;
        self.wait(|page| tids.contains(&page.tid) || page.state.is_some())?;
        tids.iter().for_each(|tid| self.publish(*tid));
        Ok(())
    }
    fn publish(&mut self, tid: u64) {
        for (lpn, at) in self.entries(tid) {
            if let Some(at) = at {
                self.map.insert(lpn, at);
            }
            self.own.remove(&(tid, lpn));
        }
        self.open.remove(&tid);
        self.committed.insert(tid);
    }
    pub fn abort(&mut self, tid: u64) {
        self.held.remove(&tid);
        self.own.retain(|(owner, _), _| *owner != tid);
        self.open.remove(&tid);
        self.losers.insert(tid);
    }
    pub fn read(&self, lpn: u32) -> u64 {
        self.map.get(&lpn).and_then(|at| self.page_at(*at)).map_or(0, |page| page.val)
    }

    fn state_record(&mut self, also: &[u64]) -> Result<(), Stop> {
        let oldest = self.open.first().copied().unwrap_or(self.next_tid);
        let floor = if self.rule == FloorNext { self.next_tid } else { oldest };
        let committed = self.committed.iter().chain(also).copied().filter(|t| *t >= floor);
        let losers = if self.rule == NoLosers { BTreeSet::new() } else { self.losers.clone() };
        let state = Some((floor, committed.collect(), losers));
        let seq = self.seq();
        self.program(Page { state, ..Ftl::data(u32::MAX, 0, 0, seq) }).map(|_| ())
    }
    fn room(&mut self, force: bool) -> Result<(), Stop> {
        let mut n = 0;
        while self.free.len() < CHANNELS + 2 || (force && n == 0) {
            n += 1;
            if !self.collect()? || n > 3 * self.flash.len() {
                break;
            }
        }
        Ok(())
    }
    fn locked(&self, block: usize) -> bool {
        self.own.keys().any(|(_, lpn)| self.map.get(lpn).is_some_and(|at| at.0 == block))
    }
    fn collect(&mut self) -> Result<bool, Stop> {
        let mut valid: BTreeMap<Place, (u64, u32)> = BTreeMap::new();
        valid.extend(self.map.iter().map(|(lpn, at)| (*at, (0, *lpn))));
        valid.extend(self.own.iter().filter_map(|(key, at)| at.map(|at| (at, *key))));
        let count = |b: usize| valid.keys().filter(|at| at.0 == b).count();
        let busy = |b: usize| {
            self.inflight.iter().any(|x| x.1.0 == b)
                || self.heads.iter().flatten().any(|h| h.0 == b)
        };
        let blocks: Vec<usize> = (0..self.flash.len())
            .filter(|b| !busy(*b) && !self.free.contains(b) && count(*b) < PAGES)
            .collect();
        let blind = matches!(self.rule, LocksIgnored | FreshSeq);
        let mut victims: Vec<usize> =
            blocks.iter().copied().filter(|b| blind || !self.locked(*b)).collect();
        if victims.is_empty() && self.rule != LocksHard {
            victims = blocks;
        }
        let Some(block) = victims.into_iter().min_by_key(|b| (count(*b), b * 7 % 5)) else {
            return Ok(false);
        };
        let newest = self.good().filter(|x| x.1.state.is_some()).map(|x| x.1.seq).max();
        let (floor, known, _) = self.durable.clone();
        let mut need = false;
        for i in 0..PAGES {
            let Slot::Good(page) = self.flash[block][i].clone() else { continue };
            if page.state.is_some() {
                need |= Some(page.seq) == newest;
            } else if page.tid >= floor.max(1) && !known.contains(&page.tid) {
                let any = matches!(self.rule, Counted | CountedAny);
                need |= page.end.is_some() || any && self.committed.contains(&page.tid);
            }
            let Some((tid, lpn)) = valid.get(&(block, i)).copied() else { continue };
            let seq = if self.rule == FreshSeq { self.seq() } else { page.seq };
            let end = page.end.clone().filter(|_| tid != 0);
            let at = self.program(Page { tid, end, seq, ..page })?;
            match tid {
                0 => drop(self.map.insert(lpn, at)),
                _ => drop(self.own.insert((tid, lpn), Some(at))),
            }
        }
        if need && !matches!(self.rule, NoState | StateLate) {
            self.state_record(&[])?;
        }
        if self.rule != EraseEarly {
            self.wait(|_| true)?;
        }
        self.erase(block)?;
        if need && self.rule == StateLate {
            self.state_record(&[])?;
            self.wait(|_| true)?;
        }
        Ok(true)
    }

    pub fn power_cut(&mut self) {
        let mut begun = BTreeSet::new();
        for (channel, (block, page), _) in std::mem::take(&mut self.inflight) {
            if begun.insert(channel) && self.rng.ratio(1, 2) {
                self.flash[block][page] = Slot::Torn;
            }
        }
        let pages: Vec<(Place, Page)> = self.good().map(|(at, page)| (at, page.clone())).collect();
        let newest = pages.iter().filter(|x| x.1.state.is_some()).max_by_key(|x| x.1.seq);
        self.durable = newest.and_then(|x| x.1.state.clone()).unwrap_or_default();
        let (floor, known, dead) = self.durable.clone();
        let tagged: BTreeSet<(u64, u32, u64)> =
            pages.iter().map(|(_, p)| (p.tid, p.lpn, p.seq)).collect();
        let ended: BTreeSet<u64> = pages
            .iter()
            .filter(|(_, p)| match &p.end {
                None => false,
                Some(_) if !self.is_counted() => true,
                Some(body) if self.rule == CountedAny => {
                    let lpns: BTreeSet<u32> =
                        tagged.iter().filter(|x| x.0 == p.tid).map(|x| x.1).collect();
                    lpns.len() > body.len()
                }
                Some(body) => body.iter().all(|(l, q)| tagged.contains(&(p.tid, *l, *q))),
            })
            .map(|(_, p)| p.tid)
            .collect();
        let committed = |t: u64| {
            t == 0 || ended.contains(&t) || known.contains(&t) || t < floor && !dead.contains(&t)
        };
        let mut best: BTreeMap<u32, ((u64, bool), Place)> = BTreeMap::new();
        for (at, page) in pages.iter().filter(|x| x.1.state.is_none() && committed(x.1.tid)) {
            let seq = if self.rule == NoSeq { 0 } else { page.seq };
            let rank = (seq, page.tid == 0);
            if best.get(&page.lpn).is_none_or(|old| rank >= old.0) {
                best.insert(page.lpn, (rank, *at));
            }
        }
        self.map = best.into_iter().map(|(lpn, (_, at))| (lpn, at)).collect();
        let tids = pages.iter().map(|x| x.1.tid).chain(known.iter().chain(&dead).copied());
        let seen: BTreeSet<u64> = tids.chain([floor.saturating_sub(1), 0]).collect();
        self.next_seq = pages.iter().map(|x| x.1.seq).max().unwrap_or(0) + 1;
        self.next_tid =
            if self.rule == TidRestart { 1 } else { seen.last().copied().unwrap_or(0) + 1 };
        self.losers = pages.iter().map(|x| x.1.tid).filter(|t| !committed(*t)).collect();
        self.committed = seen.into_iter().filter(|t| *t != 0 && committed(*t)).collect();
        self.own.clear();
        self.held.clear();
        self.open.clear();
        self.heads = [None; CHANNELS];
        self.turn = 0;
        let blank = |b: &usize| self.flash[*b].iter().all(|s| matches!(s, Slot::Blank));
        self.free = (0..self.flash.len()).filter(blank).collect();
        self.cut_at = 0;
    }
}
