//! The rounds of a target on stable: random bytes for its draws, and how much it may allocate in a round.

use block::Rng;

/// Rounds without `VARVE_CUTS=all`, which has twenty times as many.
pub fn rounds(few: u64) -> u64 {
    let all = std::env::var("VARVE_CUTS").is_ok_and(|all| all == "all");
    if all { few * 20 } else { few }
}

/// The bytes of a round.
pub fn bytes(round: u64, of: &str) -> Vec<u8> {
    let mut rng = Rng::stream(round, of);
    (0..32).flat_map(|_| rng.next_u64().to_le_bytes()).collect()
}
