//! Volumes that were damaged, half of them sealed again: see `hostile`. One test, which counts what a round
//! allocates.

mod hostile;
#[path = "../../../fuzz/src/rounds.rs"]
mod rounds;

use hostile::{Outcome, look, samples};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static HEAP: &StatsAlloc<std::alloc::System> = &INSTRUMENTED_SYSTEM;

/// Bytes that a round may allocate in all, with twenty operations on a volume of 8 MB.
const MOST: usize = 400 << 20;

#[test]
fn a_damaged_volume_is_refused_or_goes_on() {
    let samples = samples();
    let (mut refused, mut worked) = (0, 0);
    let mut pins = rounds::Pins::default();
    let rounds = rounds::rounds(1000);
    for round in 0..rounds {
        let (bytes, region) = (rounds::bytes(round, "lfs/hostile"), Region::new(HEAP));
        let tried = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            look(&samples[round as usize % samples.len()], &bytes)
        }));
        let (outcome, answers) = tried.unwrap_or_else(|_| panic!("round {round}"));
        match outcome {
            Outcome::Refused => refused += 1,
            Outcome::Worked => worked += 1,
        }
        let taken = region.change().bytes_allocated;
        assert!(taken < MOST, "round {round} allocated {taken} bytes");
        pins.add(answers.value());
    }
    println!("{refused} refused, {worked} worked");
    // A test that only ever met one of them would look at nothing.
    assert!(refused > rounds / 50 && worked > rounds / 10, "{refused} refused, {worked} worked");
    pins.compare(include_str!("hostile/pins.txt"));
}
