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

/// Rounds that are one line.
const A_LINE: u64 = 50;

/// What rounds answered, line by line. What is refused of a damaged image, and with which words, no other test holds at
/// each edge. Who changes that on purpose changes the file of these lines.
#[derive(Default)]
pub struct Pins {
    rounds: u64,
    so_far: block::EventHash,
    lines: Vec<String>,
}

impl Pins {
    /// One more round.
    pub fn add(&mut self, answers: u64) {
        self.so_far.add(answers);
        self.rounds += 1;
        if self.rounds.is_multiple_of(A_LINE) {
            self.lines.push(format!("to {}: {:016x}", self.rounds, self.so_far.value()));
            self.so_far = block::EventHash::default();
        }
    }

    /// Whether the first rounds answered what the lines of the file say.
    ///
    /// # Panics
    /// If not, with the lines as they are now.
    pub fn compare(&self, wanted: &str) {
        let wanted: Vec<&str> = wanted.lines().collect();
        let now = &self.lines[..self.lines.len().min(wanted.len().max(40))];
        assert!(
            !wanted.is_empty() && now.iter().zip(&wanted).all(|(now, wanted)| now == wanted),
            "now:\n{}",
            now.join("\n")
        );
    }
}
