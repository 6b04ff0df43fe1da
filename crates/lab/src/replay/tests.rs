//! The replay loop against a device whose every latency is known, and against the real drive.

use std::sync::atomic::AtomicBool;

use block::{AppId, BlockDevice, Bytes, DeviceError, Op, Request, Sectors, Span, Time};
use ssd::{AppStats, Config, Drive, Stats};
use stack::StackError;
use workload::{BLOCK_RECORDS, Flags, Record, Source, SourceError, TraceOp};

use super::*;

/// Every request takes `service`, and `more` for each page before its own; any number at a time. Remembers what it
/// was given.
pub(super) struct Fixed {
    service: Span,
    more: Span,
    timing: bool,
    now: Time,
    stats: Stats,
    pub(super) log: Vec<(Time, Op, u64)>,
    lose: bool,
}

impl Fixed {
    pub(super) fn new(us: u64) -> Fixed {
        let (service, more) = (Span::from_us(us), Span::ZERO);
        let (stats, log) = (Stats::default(), Vec::new());
        Fixed { service, more, timing: true, now: Time::ZERO, stats, log, lose: false }
    }

    pub(super) fn by_page(us: u64) -> Fixed {
        Fixed { more: Span::from_us(us), ..Fixed::new(1) }
    }
}

impl BlockDevice for Fixed {
    fn capacity(&self) -> Sectors {
        Sectors(1 << 20)
    }
    fn submit(&mut self, at: Time, r: Request<'_>) -> Result<Time, DeviceError> {
        if at < self.now {
            return Err(DeviceError::TimeReversed { at, last: self.now });
        }
        self.now = at;
        self.log.push((at, r.op, r.lba.0));
        if !(self.lose && r.op == Op::Read) {
            self.stats.host[r.op as usize].ops += 1;
        }
        if matches!(r.op, Op::Read | Op::Write) {
            let app = r.hint.app.index();
            self.stats.apps.resize(self.stats.apps.len().max(app + 1), AppStats::default());
            self.stats.apps[app].requests += 1;
        }
        let page = r.lba.0 / 8;
        Ok(if self.timing {
            at + self.service + Span::from_ps(self.more.as_ps() * page)
        } else {
            at
        })
    }
}

impl Device for Fixed {
    fn stats(&self) -> Stats {
        self.stats.clone()
    }
    fn reset_stats(&mut self) {
        self.stats = Stats::default();
    }
    fn set_timing(&mut self, on: bool) {
        self.timing = on;
    }
    fn check(&self) -> Result<(), StackError> {
        Ok(())
    }
    fn cool_buffer(&mut self) -> Result<(), DeviceError> {
        Ok(())
    }
    fn slots_per_page(&self) -> u32 {
        1
    }
    fn now(&self) -> Time {
        self.now
    }
}

pub(super) struct List(pub Vec<Record>, pub usize);

impl Source for List {
    fn fill(&mut self, block: &mut Vec<Record>) -> Result<(), SourceError> {
        block.clear();
        let end = self.0.len().min(self.1 + BLOCK_RECORDS);
        block.extend_from_slice(&self.0[self.1..end]);
        self.1 = end;
        Ok(())
    }
}

pub(super) fn rec(us: u64, op: TraceOp, app: u16, page: u64) -> Record {
    Record {
        at: Time::from_us(us),
        offset: Bytes(page * 4096),
        len: Bytes(if op == TraceOp::Flush { 0 } else { 4096 }),
        response: Some(Span::from_us(2)),
        app: AppId(app),
        op,
        flags: Flags::default(),
        hint: 0,
    }
}

pub(super) const PLAN: ReplayPlan = ReplayPlan {
    mode: Mode::Open,
    speed: Speed::ONE,
    queue_depth: 64,
    flush_every: None,
    measure_after: None,
};

fn run<D: Device>(
    device: &mut D,
    list: Vec<Record>,
    plan: ReplayPlan,
) -> Result<Outcome, LabError> {
    let stop = AtomicBool::new(false);
    let watch = Watch { stop: &stop, progress: &|_| {} };
    replay(device, &mut List(list, 0), &plan, watch)
}

fn starts(device: &Fixed) -> Vec<u64> {
    device.log.iter().map(|(at, ..)| at.as_ns() / 1000).collect()
}

#[test]
fn open_keeps_trace_times_and_the_device_depth_holds_back() {
    let list: Vec<_> = (0..6).map(|i| rec(i, TraceOp::Write, 0, i)).collect();
    let mut device = Fixed::new(10);
    let outcome = run(&mut device, list.clone(), PLAN).unwrap();
    assert_eq!(starts(&device)[..6], [0, 1, 2, 3, 4, 5]);
    assert_eq!(outcome.tally.queue.count(), 0);
    let mut device = Fixed::new(10);
    let outcome = run(&mut device, list, ReplayPlan { queue_depth: 2, ..PLAN }).unwrap();
    assert_eq!(starts(&device)[..6], [0, 1, 10, 11, 20, 21]);
    assert_eq!(outcome.tally.queue.count(), 4);
    assert_eq!(outcome.tally.queue.max().unwrap(), Span::from_us(16));
    // From arrival: the wait is part of the latency, and known apart.
    assert_eq!(outcome.tally.latency[1].max().unwrap(), Span::from_us(26));
    let queued = Span::from_us(8 + 8 + 16 + 16).as_ps();
    assert_eq!(outcome.tally.queued, [0, u128::from(queued), 0, 0]);
}

/// At twice the device's speed the queue grows as long as requests come: the latencies are those of
/// the queue, not of the device, and the result says so.
#[test]
fn an_open_replay_beyond_the_device_is_saturated_and_its_latencies_are_from_arrival() {
    let list: Vec<_> = (0..2_000).map(|i| rec(5 * i, TraceOp::Write, 0, i)).collect();
    let plan = ReplayPlan { queue_depth: 1, ..PLAN };
    let outcome = run(&mut Fixed::new(10), list.clone(), plan).unwrap();
    let writes = &outcome.tally.latency[Op::Write as usize];
    assert_eq!(writes.max().unwrap(), Span::from_us(1_999 * 5 + 10));
    assert_eq!(writes.mean().unwrap(), Span::from_ns(1_999 * 2_500 + 10_000));
    assert!(outcome.tally.saturated());
    // One burst, and a device that keeps up, are not.
    let mut burst = list.clone();
    burst.iter_mut().skip(50).for_each(|record| record.at += Span::from_us(20_000));
    for (at, record) in burst.iter_mut().enumerate().skip(50) {
        record.at += Span::from_us(6 * at as u64);
    }
    assert!(!run(&mut Fixed::new(10), burst, plan).unwrap().tally.saturated());
    let plenty = ReplayPlan { queue_depth: 2, ..PLAN };
    assert!(!run(&mut Fixed::new(10), list, plenty).unwrap().tally.saturated());
}

/// What was offered is said by the arrivals of what is measured: of a load twice as fast as the
/// device, the first of them came long before the device had time for it.
#[test]
fn what_is_offered_is_counted_over_the_measured_arrivals() {
    let list: Vec<_> = (0..2_000).map(|i| rec(5 * i, TraceOp::Write, 0, i)).collect();
    for (after, first) in [(None, 0), (Some("1500"), 1_500), (Some("2500 us"), 500)] {
        let measure_after = after.map(|text| text.parse().unwrap());
        let plan = ReplayPlan { queue_depth: 1, measure_after, ..PLAN };
        let tally = run(&mut Fixed::new(10), list.clone(), plan).unwrap().tally;
        let expected = (2_000 - first, Span::from_us(5 * (1_999 - first)));
        assert_eq!(tally.offered(), expected, "{after:?}");
        assert!(tally.saturated(), "{after:?}");
    }
}

/// What is still to be done when the last request ends counts in busy times and in the time they
/// are a share of.
#[test]
fn no_part_of_the_drive_is_busy_for_longer_than_there_was_time() {
    let mut drive = small_drive();
    let list = (0..400).map(|i| rec(i, TraceOp::Write, 0, i % 256)).collect();
    let outcome = run(&mut drive, list, PLAN).unwrap();
    let stats = &outcome.stats;
    let time = stats.booked_until.since(outcome.tally.start);
    let all = stats.nand.die_busy.iter().chain(&stats.nand.channel_busy).chain(&stats.busy_link);
    let most = *all.chain([&stats.busy_dram, &stats.busy_fw]).max().unwrap();
    assert!(most <= time, "{most:?} of {time:?}");
    let until_the_last_end = outcome.tally.end.since(outcome.tally.start);
    assert!(most > until_the_last_end, "the flush of this drive is longer than the run");
}

/// Cached operations and planes that read on their own overlap on a die: it is busy once.
#[test]
fn a_die_that_does_two_things_at_a_time_is_busy_once() {
    for more in [
        &[][..],
        &["nand.cache_ops=on"],
        &["geometry.planes=2", "nand.independent_planes=on"],
        &["geometry.planes=2", "nand.independent_planes=on", "nand.cache_ops=on"],
        &["nand.cache_ops=on", "nand.suspend=both"],
    ] {
        let mut drive = drive_with(more);
        let mut rng = block::Rng::new(3);
        let fill = (0..8_192).map(|i| rec(0, TraceOp::Write, 0, i)).collect();
        run(&mut drive, fill, ReplayPlan { mode: Mode::Untimed, ..PLAN }).unwrap();
        for share in [0, 3, 10] {
            let list = (0..20_000).map(|_| {
                let op = if rng.below(10) < share { TraceOp::Write } else { TraceOp::Read };
                rec(0, op, 0, rng.below(8_192))
            });
            let list = list.collect();
            let plan = ReplayPlan { mode: Mode::Closed { depth: 64, per_app: false }, ..PLAN };
            let outcome = run(&mut drive, list, plan).unwrap();
            let time = outcome.stats.booked_until.since(outcome.tally.start);
            let most = *outcome.stats.nand.die_busy.iter().max().unwrap();
            println!("{more:?}, {share} in 10 written: {most:?} of {time:?}");
            assert!(most <= time, "{more:?}, {share} in 10 written: {most:?} of {time:?}");
            assert!(most > Span::from_ps(time.as_ps() / 10), "{more:?}: {most:?} of {time:?}");
        }
    }
}

#[test]
fn speed_is_a_rational() {
    let list = vec![rec(0, TraceOp::Write, 0, 0), rec(30, TraceOp::Write, 0, 1)];
    for (speed, at) in [("1", 30), ("3", 10), ("0.5", 60), ("3/2", 20)] {
        let mut device = Fixed::new(1);
        let plan = ReplayPlan { speed: speed.parse().unwrap(), ..PLAN };
        run(&mut device, list.clone(), plan).unwrap();
        assert_eq!(starts(&device)[1], at, "{speed}");
    }
    for bad in ["0", "-1", "1/0", "x", ""] {
        assert!(bad.parse::<Speed>().is_err(), "{bad}");
    }
}

#[test]
fn closed_keeps_a_depth_and_a_flush_stops_only_its_application() {
    let closed = |depth, per_app| ReplayPlan { mode: Mode::Closed { depth, per_app }, ..PLAN };
    let list: Vec<_> = (0..6).map(|i| rec(1000 * i, TraceOp::Write, 0, i)).collect();
    let mut device = Fixed::new(10);
    run(&mut device, list, closed(2, false)).unwrap();
    assert_eq!(starts(&device)[..6], [0, 0, 10, 10, 20, 20]);
    let list = vec![
        rec(0, TraceOp::Write, 0, 0),
        rec(0, TraceOp::Flush, 0, 0),
        rec(0, TraceOp::Write, 0, 1),
        rec(0, TraceOp::Write, 1, 7),
        rec(0, TraceOp::Write, 1, 8),
    ];
    let mut device = Fixed::new(10);
    run(&mut device, list, closed(8, false)).unwrap();
    let log: Vec<_> =
        device.log.iter().map(|(at, op, lba)| (at.as_ns() / 1000, *op, lba / 8)).collect();
    assert_eq!(log[0], (0, Op::Write, 0));
    assert_eq!(log[1..3], [(0, Op::Write, 7), (0, Op::Write, 8)], "app 1 does not wait");
    assert_eq!(log[3], (10, Op::Flush, 0), "after what it flushes");
    assert_eq!(log[4], (20, Op::Write, 1), "after the flush");
    // A depth of one for each application.
    let list: Vec<_> = (0..6).map(|i| rec(0, TraceOp::Read, (i > 3) as u16, i)).collect();
    let mut device = Fixed::new(10);
    run(&mut device, list, closed(1, true)).unwrap();
    assert_eq!(starts(&device)[..6], [0, 0, 10, 10, 20, 30]);
}

#[test]
fn dependent_keeps_the_pauses_of_the_trace() {
    // 0 and 1 are apart in the trace (response 2 us, gap 3 us); 6 overlaps with the one at 5.
    let list = vec![
        rec(0, TraceOp::Read, 0, 0),
        rec(5, TraceOp::Read, 0, 1),
        rec(6, TraceOp::Read, 0, 2),
        rec(1, TraceOp::Read, 1, 3),
    ];
    let mut device = Fixed::new(100);
    run(&mut device, list.clone(), ReplayPlan { mode: Mode::Dependent, ..PLAN }).unwrap();
    assert_eq!(starts(&device)[..4], [0, 1, 103, 104]);
    let mut list = list;
    list[1].response = None;
    let error = run(&mut Fixed::new(1), list, ReplayPlan { mode: Mode::Dependent, ..PLAN });
    assert_eq!(error.err().map(|e| e.exit_code()), Some(3));
}

#[test]
fn what_was_submitted_and_not_served_is_no_result() {
    let mut device = Fixed::new(1);
    device.lose = true;
    let error = run(&mut device, vec![rec(0, TraceOp::Read, 0, 0)], PLAN).err().unwrap();
    assert_eq!(error.exit_code(), 4);
    assert!(error.to_string().contains("read: 1 submitted, 0 served"), "{error}");
}

#[test]
fn the_measured_part_starts_where_it_should() {
    let list: Vec<_> = (0..10).map(|i| rec(10 * i, TraceOp::Write, 0, i)).collect();
    for after in ["4", "35 us"] {
        let plan = ReplayPlan { measure_after: Some(after.parse().unwrap()), ..PLAN };
        let outcome = run(&mut Fixed::new(1), list.clone(), plan).unwrap();
        assert_eq!(outcome.tally.latency[1].count(), 6, "{after}");
        assert_eq!(outcome.requests, 10);
        assert_eq!(outcome.tally.start, Time::from_us(40));
    }
    let plan = ReplayPlan { measure_after: Some(MeasureAfter::Requests(11)), ..PLAN };
    assert_eq!(run(&mut Fixed::new(1), list.clone(), plan).err().unwrap().exit_code(), 3);
    let plan = ReplayPlan { flush_every: Some(4), ..PLAN };
    let outcome = run(&mut Fixed::new(1), list, plan).unwrap();
    assert_eq!(outcome.tally.added_flushes, 3, "two of flush-every and the last");
}

#[test]
fn an_interruption_stops_a_run() {
    let stop = AtomicBool::new(true);
    let watch = Watch { stop: &stop, progress: &|_| {} };
    let list = (0..20_000).map(|i| rec(i, TraceOp::Write, 0, i % 100)).collect();
    let error = replay(&mut Fixed::new(1), &mut List(list, 0), &PLAN, watch);
    assert_eq!(error.err().map(|e| e.exit_code()), Some(130));
}

fn small_drive() -> Drive {
    drive_with(&[])
}

fn drive_with(more: &[&str]) -> Drive {
    let mut config = Config::default();
    for pair in [
        "capacity=32 MiB",
        "op=12.5 %",
        "geometry.channels=2",
        "geometry.dies=2",
        "geometry.pages=64",
        "buffer.size=1 MiB",
    ]
    .iter()
    .chain(more)
    {
        config.set_pair(pair).unwrap();
    }
    Drive::new(&config.resolve().unwrap()).unwrap()
}

#[test]
fn a_steady_state_is_reached_and_costs_no_virtual_time() {
    let stop = AtomicBool::new(false);
    let watch = Watch { stop: &stop, progress: &|_| {} };
    let mut drive = small_drive();
    let none = |_| Err(LabError::Interrupted);
    let done = precondition(&mut drive, Precondition::Steady, 1, 7, &none, watch).unwrap();
    assert!((2..=20).contains(&done.windows) && done.settled == Some(true), "{done:?}");
    assert_eq!(done.written, (32 << 20) + done.windows * (16 << 20));
    assert_eq!(Device::now(&drive), Time::ZERO);
    let before = Device::stats(&drive);
    assert_eq!(before.valid_units, before.logical_units, "the drive is full");
    // 12.5 % spare, less heads and reserve: between the closed form and twice it.
    let list = (0..20_000).map(|i| rec(20 * i, TraceOp::Write, 0, i * 7919 % 8192)).collect();
    let outcome = run(&mut drive, list, PLAN).unwrap();
    let (programs, slots) = outcome.stats.waf();
    assert!(programs > 2 * slots, "{programs} {slots}: cleaning runs from the first request on");
}

/// A load on one half of the drive leaves the other half alone: after uniform random overwrites of
/// all of it, it begins in a state that is not its own.
#[test]
fn the_steady_state_of_a_half_static_load_is_that_of_the_load() {
    let stop = AtomicBool::new(false);
    let watch = Watch { stop: &stop, progress: &|_| {} };
    let load = |pass| -> Vec<Record> {
        let mut rng = block::Rng::new(pass);
        (0..8_192).map(|_| rec(0, TraceOp::Write, 0, rng.below(4_096))).collect()
    };
    let open = |pass| Ok(Box::new(List(load(pass), 0)) as Box<dyn Source>);
    let prepared = |how| {
        let mut drive = small_drive();
        let done = precondition(&mut drive, how, 1, 7, &open, watch).unwrap();
        let plan = ReplayPlan { mode: Mode::Untimed, ..PLAN };
        let (programmed, written) = run(&mut drive, load(0), plan).unwrap().stats.waf();
        (done, programmed as f64 / written as f64)
    };
    let (of_all, before) = prepared(Precondition::Steady);
    let (own, after) = prepared(Precondition::Workload);
    assert_eq!((of_all.settled, own.settled), (Some(true), Some(true)));
    let last = own.last.0 as f64 / own.last.1 as f64;
    assert!((after / last - 1.0).abs() < 0.02, "{after} goes on where {last} ended");
    assert!(before > 1.3 * after, "{before} {after}");
    // Reads alone settle nothing.
    let reads = |_| Ok(Box::new(List(vec![rec(0, TraceOp::Read, 0, 1)], 0)) as Box<dyn Source>);
    let how = Precondition::Workload;
    let error = precondition(&mut small_drive(), how, 1, 7, &reads, watch).unwrap_err();
    assert!(error.to_string().contains("writes nothing"), "{error}");
}

#[test]
fn preloading_writes_what_is_read_first() {
    let stop = AtomicBool::new(false);
    let watch = Watch { stop: &stop, progress: &|_| {} };
    let list = vec![
        rec(0, TraceOp::Read, 0, 5),
        rec(1, TraceOp::Write, 0, 9),
        rec(2, TraceOp::Read, 0, 9),
        rec(3, TraceOp::Read, 0, 6),
    ];
    let mut drive = small_drive();
    let count = preload(&mut drive, &mut List(list.clone(), 0), watch).unwrap();
    assert_eq!(count, 2);
    let outcome = run(&mut drive, list.clone(), PLAN).unwrap();
    assert_eq!(outcome.stats.read_unwritten, 0);
    let outcome = run(&mut small_drive(), list, PLAN).unwrap();
    assert_eq!(outcome.stats.read_unwritten, 2);
}
