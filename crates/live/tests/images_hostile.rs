//! Image files of the live drive that were damaged: see `hostile`. One test, which counts what a round allocates.

mod hostile;
#[path = "../../../fuzz/src/rounds.rs"]
mod rounds;

use hostile::{Outcome, look, samples};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static HEAP: &StatsAlloc<std::alloc::System> = &INSTRUMENTED_SYSTEM;

/// Bytes that a round may allocate in all: the image has some 6 MB.
const MOST: usize = 200 << 20;

#[test]
fn a_damaged_image_is_refused_or_serves_what_was_written() {
    let samples = samples();
    let mut count = [0u64; 3];
    let mut pins = rounds::Pins::default();
    let rounds = rounds::rounds(1500);
    for round in 0..rounds {
        let (bytes, region) = (rounds::bytes(round, "live/hostile"), Region::new(HEAP));
        let tried = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            look(&samples[round as usize % samples.len()], &bytes)
        }));
        let (outcome, answers) = tried.unwrap_or_else(|_| panic!("round {round}"));
        let taken = region.change().bytes_allocated;
        assert!(taken < MOST, "round {round} allocated {taken} bytes");
        count[outcome as usize] += 1;
        pins.add(answers.value());
    }
    let [refused, errors, worked] = count;
    println!("{refused} refused, {errors} with errors, {worked} worked");
    assert_eq!(Outcome::Worked as usize, 2);
    // A test that only ever met one of them would look at nothing.
    assert!(count.iter().all(|count| *count > rounds / 50), "{count:?}");
    pins.compare(include_str!("hostile/pins.txt"));
}
