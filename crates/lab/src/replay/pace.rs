//! When the next request arrives: at its time, when a place is free, or when its application's
//! previous request allows it. Where each application has a queue: whose turn it is.

use block::{Span, Time};
use workload::{BLOCK_RECORDS, Record, Source, TraceOp};

use super::flight::InFlight;
use super::lookahead::{Lookahead, QUEUED};
use super::player::{Player, on_clock};
use super::share::Turns;
use super::{Mode, ReplayPlan, Speed};
use crate::{Device, LabError};

fn too_late() -> LabError {
    LabError::Input("a request lies beyond the end of virtual time (106 days)".to_string())
}

/// At the workload's times; without time, all at once.
pub(super) fn open<D: Device>(
    player: &mut Player<'_, D>,
    source: &mut dyn Source,
    plan: &ReplayPlan,
) -> Result<(), LabError> {
    let (base, timed) = (player.base(), plan.mode != Mode::Untimed);
    let mut block = Vec::with_capacity(BLOCK_RECORDS);
    loop {
        source.fill(&mut block)?;
        if block.is_empty() {
            return Ok(());
        }
        for record in &block {
            let at = if timed { plan.speed.scale(on_clock(record)) } else { Some(Span::ZERO) };
            let at = at.and_then(|span| base.checked_add(span)).ok_or_else(too_late)?;
            player.play(at, record)?;
        }
    }
}

/// What an application's next request has to wait for, in closed mode.
struct Gate {
    /// The end of everything it submitted.
    end: Time,
    /// The end of its last flush.
    barrier: Time,
    flight: Option<InFlight>,
}

/// `depth` requests in flight, of all applications together or of each.
pub(super) fn closed<D: Device>(
    player: &mut Player<'_, D>,
    source: &mut dyn Source,
    depth: u32,
    per_app: bool,
    mut turns: Option<Turns>,
) -> Result<(), LabError> {
    let mut now = player.base();
    let mut all = InFlight::new(depth);
    let mut gates: Vec<Gate> = Vec::new();
    let mut ahead = Lookahead::new(source);
    while ahead.refill()? {
        // An application that has its turn seldom must not hide the others' requests behind its own.
        while turns.as_ref().is_some_and(|turns| ahead.lacks(turns.apps())) && ahead.read_on()? {}
        gates.resize_with(ahead.lanes(), || Gate {
            end: now,
            barrier: now,
            flight: per_app.then(|| InFlight::new(depth)),
        });
        let shared = if per_app { now } else { all.free_at(now) };
        let ready = |lane: usize, record: &Record| {
            let gate = &gates[lane];
            let wait = if record.op == TraceOp::Flush { gate.end } else { gate.barrier };
            let place = gate.flight.as_ref().map_or(shared, |f| f.free_at(now));
            wait.max(place)
        };
        let Some((lane, at)) = next(&ahead, player, &mut turns, ready) else { continue };
        let Some(record) = ahead.pop(lane) else { continue };
        now = now.max(at);
        let end = player.play(now, &record)?;
        let gate = &mut gates[lane];
        gate.end = gate.end.max(end);
        if record.op == TraceOp::Flush {
            gate.barrier = end;
        }
        gate.flight.as_mut().unwrap_or(&mut all).take(end);
    }
    Ok(())
}

/// The lane whose next request is ready first, and when; ties go to the order of the workload.
fn first(ahead: &Lookahead<'_>, ready: impl Fn(usize, &Record) -> Time) -> Option<(usize, Time)> {
    let heads = (0..ahead.lanes()).filter_map(|lane| {
        let (number, record) = ahead.head(lane)?;
        Some((ready(lane, record), number, lane))
    });
    heads.min().map(|(at, _, lane)| (lane, at))
}

/// The lane whose request the drive takes next, and when it is ready: the first to be so, or, where each application
/// has a queue, that of which it is the turn among those with a request when the drive has a place.
fn next<D: Device>(
    ahead: &Lookahead<'_>,
    player: &Player<'_, D>,
    turns: &mut Option<Turns>,
    ready: impl Fn(usize, &Record) -> Time,
) -> Option<(usize, Time)> {
    let found = first(ahead, &ready)?;
    let Some(turns) = turns else { return Some(found) };
    let taken = player.free_at(found.1);
    let when = |app: usize| {
        let lane = ahead.lane_of(app)?;
        let (_, record) = ahead.head(lane)?;
        Some((lane, ready(lane, record)))
    };
    let app = turns.next(ahead.apps(), |app| when(app).is_some_and(|(_, at)| at <= taken))?;
    when(app)
}

/// Whether more had to be read, because more arrives until the drive takes the next request.
fn arrives_later<D: Device>(
    ahead: &mut Lookahead<'_>,
    player: &Player<'_, D>,
    ready: impl Fn(usize, &Record) -> Time,
    arrival: impl Fn(Time) -> Option<Time>,
) -> Result<bool, LabError> {
    let Some((_, at)) = first(ahead, ready) else { return Ok(false) };
    let taken = player.free_at(at);
    if arrival(ahead.newest()).is_none_or(|newest| newest > taken) {
        return Ok(false);
    }
    if ahead.is_full() {
        return Err(LabError::Input(format!(
            "share: {QUEUED} requests wait in the queues of the applications, and more arrive: expected a load that the \
             drive serves, or `speed` below 1"
        )));
    }
    Ok(ahead.read_on()?)
}

/// At the workload's times, with a queue for each application.
pub(super) fn shared<D: Device>(
    player: &mut Player<'_, D>,
    source: &mut dyn Source,
    speed: Speed,
    turns: Turns,
) -> Result<(), LabError> {
    let (base, mut turns) = (player.base(), Some(turns));
    let mut ahead = Lookahead::new(source);
    while ahead.refill()? {
        let at = |clock: Time| base.checked_add(speed.scale(clock.since(Time::ZERO))?);
        let ready = |_: usize, record: &Record| at(record.at).unwrap_or(Time::LIMIT);
        if arrives_later(&mut ahead, player, ready, at)? {
            continue;
        }
        let Some((lane, at)) = next(&ahead, player, &mut turns, ready) else { continue };
        let Some(record) = ahead.pop(lane) else { continue };
        if at >= Time::LIMIT {
            return Err(too_late());
        }
        player.play(at, &record)?;
    }
    Ok(())
}

/// The previous request of an application, in dependent mode.
#[derive(Clone, Copy)]
struct Previous {
    traced: Time,
    response: Span,
    start: Time,
    end: Time,
}

/// When a request may start: never before its scaled trace time. If the trace shows that the
/// previous request of the application had ended, the pause between the two is kept after the
/// previous one's end here; if the two overlapped in the trace, the distance of their starts is.
fn earliest(base: Time, speed: Speed, previous: Option<Previous>, record: &Record) -> Option<Time> {
    let traced = base.checked_add(speed.scale(on_clock(record))?)?;
    let Some(p) = previous else { return Some(traced) };
    let ended = p.traced.checked_add(p.response)?;
    let after = if record.at >= ended {
        p.end.checked_add(speed.scale(record.at.since(ended))?)?
    } else {
        p.start.checked_add(speed.scale(record.at.since(p.traced))?)?
    };
    Some(traced.max(after))
}

/// Open, but an application's request waits for its predecessor as it did in the trace.
pub(super) fn dependent<D: Device>(
    player: &mut Player<'_, D>,
    source: &mut dyn Source,
    speed: Speed,
    mut turns: Option<Turns>,
) -> Result<(), LabError> {
    let base = player.base();
    let mut now = base;
    let mut previous: Vec<Option<Previous>> = Vec::new();
    let mut ahead = Lookahead::new(source);
    let mut number = 0u64;
    while ahead.refill()? {
        previous.resize(ahead.lanes(), None);
        // Beyond the end of time sorts last and is refused when its turn comes.
        let ready = |lane: usize, record: &Record| {
            earliest(base, speed, previous[lane], record).unwrap_or(Time::LIMIT)
        };
        // No request comes before its time in the trace.
        let at = |clock: Time| base.checked_add(speed.scale(clock.since(Time::ZERO))?);
        if turns.is_some() && arrives_later(&mut ahead, player, ready, at)? {
            continue;
        }
        let Some((lane, at)) = next(&ahead, player, &mut turns, ready) else { continue };
        let Some(record) = ahead.pop(lane) else { continue };
        number += 1;
        if at >= Time::LIMIT {
            return Err(too_late());
        }
        let response = record.response.ok_or_else(|| {
            LabError::Input(format!(
                "request {number} has no response time: a dependent replay needs a trace with \
                 response times, or use open or closed"
            ))
        })?;
        // In queues of their own requests are not taken in the order in which they came.
        now = if turns.is_some() { at } else { now.max(at) };
        let end = player.play(now, &record)?;
        previous[lane] = Some(Previous { traced: record.at, response, start: now, end });
    }
    Ok(())
}
