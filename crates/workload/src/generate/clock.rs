//! When requests arrive.

use block::{Rng, Span, Time};

use super::dist::Exponential;

/// The law of the time between two requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arrival {
    /// Always this long.
    Fixed(Span),
    /// Exponential with this mean (a Poisson process).
    Exponential(Span),
}

impl Arrival {
    /// The mean.
    pub fn mean(self) -> Span {
        match self {
            Arrival::Fixed(span) | Arrival::Exponential(span) => span,
        }
    }
}

/// Hands out arrival times, the first at 0.
#[derive(Clone, Debug)]
pub struct ArrivalClock {
    next: Time,
    step: Step,
}

#[derive(Clone, Debug)]
enum Step {
    Fixed(Span),
    Drawn(Exponential, Rng),
}

impl ArrivalClock {
    /// A clock of its own random stream.
    pub fn new(arrival: Arrival, rng: Rng) -> ArrivalClock {
        let step = match arrival {
            Arrival::Fixed(span) => Step::Fixed(span),
            Arrival::Exponential(span) => Step::Drawn(Exponential::new(span.as_ps() as f64), rng),
        };
        ArrivalClock { next: Time::ZERO, step }
    }

    /// The next arrival; it stays at [`Time::LIMIT`] once it gets there (recipes are refused long
    /// before).
    #[inline]
    pub fn tick(&mut self) -> Time {
        let now = self.next;
        let step = match &mut self.step {
            Step::Fixed(span) => *span,
            // Picoseconds of a float below 2^53 are exact; the cast saturates.
            Step::Drawn(law, rng) => Span::from_ps(law.draw(rng) as u64),
        };
        self.next = now.checked_add(step).map_or(Time::LIMIT, |at| at.min(Time::LIMIT));
        now
    }

    /// When the next request arrives.
    pub fn peek(&self) -> Time {
        self.next
    }
}
