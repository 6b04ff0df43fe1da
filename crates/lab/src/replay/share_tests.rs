//! Queues by application, against a simulation of its own that shares no code with them.

use std::collections::VecDeque;

use block::Rng;
use workload::{Record, TraceOp};

use super::tests::{Fixed, List, PLAN, rec};
use super::*;

/// What arrives, by application: when, and which page.
type Queues = Vec<VecDeque<(u64, u64)>>;

/// Which page is taken when, in microseconds: on a tape on which each application stands as often as its weight says, the
/// next one that has a request.
fn naive(
    mut queues: Queues,
    weights: &[u32],
    depth: usize,
    takes: impl Fn(u64) -> u64,
) -> Vec<(u64, u64)> {
    let mut tape = Vec::new();
    for (app, weight) in weights.iter().enumerate() {
        tape.extend(vec![app; *weight as usize]);
    }
    let (mut at, mut now, mut ends, mut taken) = (0, 0, Vec::<u64>::new(), Vec::new());
    while let Some(first) = queues.iter().filter_map(|queue| Some(queue.front()?.0)).min() {
        now = now.max(first);
        ends.retain(|end| *end > now);
        if ends.len() == depth {
            ends.sort_unstable();
            now = ends.remove(0);
            ends.retain(|end| *end > now);
        }
        let waits = |app: usize| queues[app].front().is_some_and(|(arrival, _)| *arrival <= now);
        while !waits(tape[at % tape.len()]) {
            at += 1;
        }
        let (_, page) = queues[tape[at % tape.len()]].pop_front().unwrap();
        at += 1;
        ends.push(now + takes(page));
        taken.push((now, page));
    }
    taken
}

fn replayed(
    device: &mut Fixed,
    list: Vec<Record>,
    plan: ReplayPlan,
    shares: Option<&Shares>,
) -> Outcome {
    let beside = Beside { shares, probe: None };
    replay_with(device, &mut List(list, 0), &plan, Watch::nobody(), beside).unwrap()
}

/// Pages and times of what the device was given, without the last flush.
fn taken(device: &Fixed) -> Vec<(u64, u64)> {
    let all = device.log.iter().map(|(at, _, lba)| (at.as_ps() / 1_000_000, lba / 8));
    let mut all: Vec<_> = all.collect();
    all.pop();
    all
}

fn shares(weights: &[u32]) -> Shares {
    let names: Vec<String> = (0..weights.len()).map(|app| app.to_string()).collect();
    let of: Vec<String> = weights.iter().map(u32::to_string).collect();
    Shares::parse(&format!("{}={}", names.join(":"), of.join(":")), &names).unwrap().unwrap()
}

#[test]
fn a_simulation_of_its_own_takes_the_same_requests_at_the_same_times() {
    let mut waited = 0;
    for seed in 1..200 {
        let mut rng = Rng::stream(seed, "replay/share");
        let apps = 2 + rng.below(3) as usize;
        let weights: Vec<u32> = (0..apps).map(|_| 1 + rng.below(5) as u32).collect();
        let depth = 1 + rng.below(6) as u32;
        let (mut list, mut queues, mut at) = (Vec::new(), vec![VecDeque::new(); apps], 0);
        for _ in 0..300 {
            // Bursts, and pauses in which the drive runs dry.
            at += if rng.ratio(1, 20) { rng.below(400) } else { rng.below(6) };
            let (app, page) = (rng.below(apps as u64) as u16, rng.below(16));
            list.push(rec(at, TraceOp::Read, app, page));
            queues[usize::from(app)].push_back((at, page));
        }
        let mut device = Fixed::by_page(3);
        let plan = ReplayPlan { queue_depth: depth, ..PLAN };
        let outcome = replayed(&mut device, list, plan, Some(&shares(&weights)));
        let expected = naive(queues, &weights, depth as usize, |page| 1 + 3 * page);
        assert_eq!(taken(&device), expected, "seed {seed}: {weights:?}, {depth} deep");
        waited += outcome.tally.queue.count();
    }
    assert!(waited > 10_000, "{waited} requests waited");
}

/// All is there at once, and one at a time is served: what is taken is as the weights say, in each mode.
#[test]
fn under_saturation_the_drive_serves_by_weight() {
    let list: Vec<_> =
        (0..400).map(|n| rec(n / 200, TraceOp::Read, (n % 2) as u16, n % 2)).collect();
    let deep = Mode::Closed { depth: 4, per_app: true };
    for mode in [Mode::Open, Mode::Closed { depth: 1, per_app: false }, deep] {
        let mut device = Fixed::new(10);
        let plan = ReplayPlan { queue_depth: 1, mode, ..PLAN };
        replayed(&mut device, list.clone(), plan, Some(&shares(&[3, 1])));
        // While both have some.
        let first = &taken(&device)[..264];
        let of_one = first.iter().filter(|(_, page)| *page == 1).count();
        assert!((65..=67).contains(&of_one), "{mode:?}: {of_one} of 264");
        for window in first.windows(12) {
            let of_one = window.iter().filter(|(_, page)| *page == 1).count();
            assert!((2..=4).contains(&of_one), "{mode:?}: {of_one} of 12");
        }
    }
}

/// An application's next request waits for the one before it, whoever else is served first.
#[test]
fn a_dependent_application_waits_for_itself() {
    let list: Vec<_> = (0..60).map(|n| rec(n, TraceOp::Read, (n % 3) as u16, n % 3)).collect();
    let mut device = Fixed::new(10);
    let plan = ReplayPlan { queue_depth: 2, mode: Mode::Dependent, ..PLAN };
    replayed(&mut device, list, plan, Some(&shares(&[1, 1, 4])));
    for app in 0..3 {
        let own: Vec<u64> =
            taken(&device).iter().filter(|(_, page)| *page == app).map(|(at, _)| *at).collect();
        assert_eq!(own.len(), 20);
        // 2 us each in the trace, and 1 us until the next one.
        assert!(own.windows(2).all(|pair| pair[1] >= pair[0] + 11), "{app}: {own:?}");
    }
}

#[test]
fn one_application_has_the_drive_as_without_queues() {
    let list: Vec<_> = (0..50).map(|n| rec(n / 7, TraceOp::Read, 0, n % 5)).collect();
    let closed = Mode::Closed { depth: 3, per_app: false };
    for mode in [Mode::Open, closed, Mode::Dependent] {
        let plan = ReplayPlan { queue_depth: 2, mode, ..PLAN };
        let (mut one, mut other) = (Fixed::by_page(2), Fixed::by_page(2));
        replayed(&mut one, list.clone(), plan, None);
        replayed(&mut other, list.clone(), plan, Some(&shares(&[5, 1])));
        assert_eq!(one.log, other.log, "{mode:?}");
    }
}

/// More requests than are looked ahead without queues wait before those of another application, which are taken in
/// their turn all the same.
#[test]
fn a_long_queue_hides_nobody() {
    let (mut list, mut queues) = (Vec::new(), vec![VecDeque::new(); 2]);
    for n in 0..40_000 {
        let (at, app) = (n / 100, u16::from(n % 100 != 0));
        list.push(rec(at, TraceOp::Read, app, u64::from(app)));
        queues[usize::from(app)].push_back((at, u64::from(app)));
    }
    let mut device = Fixed::by_page(1);
    let plan = ReplayPlan { queue_depth: 1, ..PLAN };
    replayed(&mut device, list.clone(), plan, Some(&shares(&[1, 1])));
    assert_eq!(taken(&device), naive(queues, &[1, 1], 1, |page| 1 + page));
    // All of the first application's are served among the first of the other one's.
    let mut device = Fixed::new(10);
    let mode = Mode::Closed { depth: 1, per_app: false };
    let list: Vec<_> = (0..40_000).map(|n| rec(0, TraceOp::Read, (n % 2) as u16, n % 2)).collect();
    replayed(&mut device, list, ReplayPlan { mode, ..plan }, Some(&shares(&[8, 1])));
    let first = &taken(&device)[..22_500];
    assert_eq!(first.iter().filter(|(_, page)| *page == 1).count(), 2_500);
}

#[test]
fn queues_that_grow_without_end_are_an_error() {
    let many = lookahead::QUEUED as u64 + 2 * workload::BLOCK_RECORDS as u64;
    let list: Vec<_> = (0..many).map(|n| rec(0, TraceOp::Read, (n % 2) as u16, 0)).collect();
    let mut device = Fixed::new(10);
    let (of_two, plan) = (shares(&[1, 1]), ReplayPlan { queue_depth: 1, ..PLAN });
    let beside = Beside { shares: Some(&of_two), probe: None };
    let error = replay_with(&mut device, &mut List(list, 0), &plan, Watch::nobody(), beside);
    let error = error.err().expect("an error").to_string();
    assert!(error.contains("1048576 requests wait"), "{error}");
}
