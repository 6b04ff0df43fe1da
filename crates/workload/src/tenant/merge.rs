//! The one stream: by clock, or by a ratio of units.

use block::{AppId, Bytes, Time};

use super::map::{Area, lay_out};
use super::stream::Stream;
use super::{AddressMap, Tenant};
use crate::split::{UnitSize, unit_range};
use crate::{BLOCK_RECORDS, Record, Source, SourceError, TraceOp};

/// When the stream ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// With the last record of the tenant that ends first; records at that very time still count.
    Shortest,
    /// With the last record of all.
    Longest,
    /// With the last record of this tenant (its number in the order given).
    First(usize),
}

/// `leader_share : follower_share` units, for example 1 : 60.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Share {
    /// The tenant whose requests set the pace and the times.
    pub leader: usize,
    /// The tenant that owes units.
    pub follower: usize,
    /// Units of the leader, at least 1.
    pub leader_share: u64,
    /// Units the follower owes for them, at least 1.
    pub follower_share: u64,
}

/// What decides who is next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// By time, then order of the tenants, then order of the records.
    Clock,
    /// No clocks: one request of the leader, then requests of the follower until it owes no more
    /// 4 KiB units of reads and writes. They carry the time of the leader's request.
    Ratio(Share),
}

/// How tenants are merged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MergeConfig {
    /// Where their addresses lie.
    pub map: AddressMap,
    /// Who is next.
    pub order: Order,
    /// When it ends.
    pub end: End,
}

impl Default for MergeConfig {
    /// `partition`, by clock, end `shortest`: the rule of the published pairs.
    fn default() -> Self {
        MergeConfig { map: AddressMap::Partition, order: Order::Clock, end: End::Shortest }
    }
}

/// What was done to one tenant's records.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct TenantStats {
    /// Records handed out.
    pub records: u64,
    /// 4 KiB units of its reads and writes handed out.
    pub units: u64,
    /// Flushes left out.
    pub flushes_dropped: u64,
    /// Records of volumes that are not the tenant's.
    pub other_volumes: u64,
    /// Requests whose address `modulo` changed.
    pub wrapped: u64,
}

/// What was merged so far, by tenant in the order given.
pub type MergeStats = Vec<TenantStats>;

struct Lane {
    stream: Stream,
    area: Area,
    head: Option<Record>,
    /// Time of its last record, once it has none left.
    ended: Option<Time>,
    records: u64,
    units: u64,
    wrapped: u64,
}

impl Lane {
    fn new(tenant: Tenant, area: Area) -> Result<Lane, SourceError> {
        let stream = Stream::new(tenant)?;
        Ok(Lane { stream, area, head: None, ended: None, records: 0, units: 0, wrapped: 0 })
    }

    /// Makes the next record the head, or notes the end, which is at `last`.
    fn advance(&mut self, last: Time) -> Result<(), SourceError> {
        self.head = self.stream.next()?;
        if self.head.is_none() {
            self.ended = Some(last);
        }
        Ok(())
    }
}

/// Units a record moves: flushes and discards move none.
fn units(record: &Record) -> u64 {
    match record.op {
        TraceOp::Flush | TraceOp::Discard => 0,
        _ => unit_range(record, UnitSize::PAGE).map_or(0, |range| range.count()),
    }
}

/// Several tenants as one [`Source`]; [`Record::app`] is the tenant's number in the order given.
pub struct Merge {
    lanes: Vec<Lane>,
    config: MergeConfig,
    /// No record after this time, once known.
    limit: Option<Time>,
    /// Units the follower owes, times the leader's share.
    owed: i128,
    /// Time of the leader's latest request.
    leader_time: Time,
    /// Second half of a wrapped request.
    pending: Option<Record>,
    started: bool,
    done: bool,
}

impl Merge {
    /// A merge of `tenants`, which must all have records. Nothing is opened before the first
    /// record is asked for.
    ///
    /// # Errors
    /// [`SourceError::Recipe`] where the parameters do not fit together.
    pub fn new(tenants: Vec<Tenant>, config: MergeConfig) -> Result<Merge, SourceError> {
        check(tenants.len(), config)?;
        let extents: Vec<_> =
            tenants.iter().map(|t| (t.name().to_string(), t.known_extent())).collect();
        let areas = lay_out(config.map, &extents)?;
        let lanes = tenants.into_iter().zip(areas).map(|(tenant, area)| Lane::new(tenant, area));
        Ok(Merge {
            lanes: lanes.collect::<Result<_, _>>()?,
            config,
            limit: None,
            owed: 0,
            leader_time: Time::ZERO,
            pending: None,
            started: false,
            done: false,
        })
    }

    /// Where each tenant lies.
    pub fn areas(&self) -> Vec<Area> {
        self.lanes.iter().map(|lane| lane.area).collect()
    }

    /// Bytes of address space the merged stream uses at most, if that is known.
    pub fn capacity(&self) -> Option<Bytes> {
        if let AddressMap::Modulo(size) = self.config.map {
            return Some(size);
        }
        let ends = self.lanes.iter().map(|l| l.area.base.0.checked_add(l.area.size.0));
        ends.max().flatten().filter(|end| *end != u64::MAX).map(Bytes)
    }

    /// What was merged so far.
    pub fn stats(&self) -> MergeStats {
        let of = |lane: &Lane| TenantStats {
            records: lane.records,
            units: lane.units,
            flushes_dropped: lane.stream.flushes_dropped,
            other_volumes: lane.stream.other_volumes,
            wrapped: lane.wrapped,
        };
        self.lanes.iter().map(of).collect()
    }

    fn start(&mut self) -> Result<(), SourceError> {
        self.started = true;
        for lane in &mut self.lanes {
            lane.advance(Time::ZERO)?;
            if lane.head.is_none() {
                return Err(lane.stream.no_records());
            }
        }
        Ok(())
    }

    fn next(&mut self) -> Result<Option<Record>, SourceError> {
        if let Some(record) = self.pending.take() {
            return Ok(Some(record));
        }
        if !self.started {
            self.start()?;
        }
        match self.config.order {
            Order::Clock => self.next_by_clock(),
            Order::Ratio(share) => self.next_by_ratio(share),
        }
    }

    fn next_by_clock(&mut self) -> Result<Option<Record>, SourceError> {
        let mut first: Option<(Time, usize)> = None;
        for (index, lane) in self.lanes.iter().enumerate() {
            if let Some(record) = &lane.head
                && first.is_none_or(|(at, _)| record.at < at)
            {
                first = Some((record.at, index));
            }
        }
        let Some((at, index)) = first else { return Ok(None) };
        if self.limit.is_some_and(|limit| at > limit) {
            return Ok(None);
        }
        let record = self.take(index)?;
        if self.lanes[index].ended.is_some() {
            // Times do not fall, so the first lane to run dry also has the earliest last record.
            let ends = match self.config.end {
                End::Shortest => true,
                End::Longest => false,
                End::First(tenant) => tenant == index,
            };
            if ends && self.limit.is_none() {
                self.limit = Some(at);
            }
        }
        Ok(record)
    }

    fn next_by_ratio(&mut self, share: Share) -> Result<Option<Record>, SourceError> {
        let Share { leader, follower, .. } = share;
        let (a, b) = (self.lanes[leader].head.is_some(), self.lanes[follower].head.is_some());
        let owes = self.owed > 0;
        // A tenant ends with its last record; what is owed for a leader's last request is still paid.
        let ended = |tenant| if tenant == leader { !(a || owes && b) } else { !b };
        let follow = match self.config.end {
            End::Shortest if ended(leader) || ended(follower) => return Ok(None),
            End::First(tenant) if ended(tenant) => return Ok(None),
            _ if !a && !b => return Ok(None),
            // Where one has none left, the other goes on alone.
            _ => (owes && b) || !a,
        };
        if follow {
            let units = self.lanes[follower].head.as_ref().map_or(0, units);
            let paid = i128::from(units) * i128::from(share.leader_share);
            self.owed = if a || owes { self.owed - paid } else { 0 };
            if let Some(head) = &mut self.lanes[follower].head {
                head.at = self.leader_time;
            }
            return self.take(follower);
        }
        let units = self.lanes[leader].head.as_ref().map_or(0, units);
        self.leader_time = self.lanes[leader].head.map_or(self.leader_time, |record| record.at);
        if b {
            self.owed += i128::from(units) * i128::from(share.follower_share);
        }
        self.take(leader)
    }

    /// Hands out lane `index`'s head, mapped, and advances the lane.
    fn take(&mut self, index: usize) -> Result<Option<Record>, SourceError> {
        let lane = &mut self.lanes[index];
        let Some(mut record) = lane.head.take() else { return Ok(None) };
        let at = record.at;
        record.app = AppId(index as u16);
        lane.records += 1;
        lane.units += units(&record);
        let mapped = self.config.map.apply(lane.area, record, &lane.stream)?;
        lane.wrapped += u64::from(mapped.wrapped);
        lane.advance(at)?;
        self.pending = mapped.second;
        Ok(Some(mapped.first))
    }
}

fn check(tenants: usize, config: MergeConfig) -> Result<(), SourceError> {
    let fail = |what: String| Err(SourceError::Recipe(what));
    if tenants == 0 || tenants > usize::from(u16::MAX) {
        return fail(format!("{tenants} apps to merge: expected 1 to 65535"));
    }
    if let AddressMap::Modulo(size) = config.map
        && (size.0 == 0 || !size.0.is_multiple_of(UnitSize::PAGE.bytes()))
    {
        return fail(format!("modulo {size}: expected a multiple of 4096 bytes"));
    }
    if let End::First(tenant) = config.end
        && tenant >= tenants
    {
        return fail(format!("end with app number {tenant}: there are {tenants} apps"));
    }
    if let Order::Ratio(share) = config.order {
        let Share { leader, follower, .. } = share;
        if tenants != 2 || leader == follower || leader.max(follower) > 1 {
            return fail("a ratio is between the two apps of a merge of two".to_string());
        }
        if share.leader_share == 0 || share.follower_share == 0 {
            return fail("a ratio with a zero: expected two numbers of at least 1".to_string());
        }
    }
    Ok(())
}

impl Source for Merge {
    fn fill(&mut self, block: &mut Vec<Record>) -> Result<(), SourceError> {
        block.clear();
        while !self.done && block.len() < BLOCK_RECORDS {
            match self.next() {
                Ok(Some(record)) => block.push(record),
                Ok(None) => self.done = true,
                Err(error) => {
                    self.done = true;
                    return Err(error);
                }
            }
        }
        Ok(())
    }
}
