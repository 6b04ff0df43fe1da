//! The power of a stack below a program: when it goes, and whether it has gone.

use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};
use stack::power::{LastCut, Power, PowerError, When};

use crate::touched::Touched;

/// A moment of a run.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Place {
    /// Durable operations of the stack.
    pub operations: u64,
    /// Changes and flushes that were asked of it.
    pub requests: u64,
}

impl Place {
    /// As a document.
    pub fn document(self) -> Value {
        json!({ "operations": self.operations, "requests": self.requests })
    }

    /// Of a document of ours.
    pub fn of(document: &Value) -> Option<Place> {
        let number = |name: &str| document[name].as_u64();
        Some(Place { operations: number("operations")?, requests: number("requests")? })
    }
}

/// When the power goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Goes {
    /// Not at all.
    Not,
    /// With this durable operation, from when on it may; where the drive saves what is under way, before this
    /// request.
    At(Place),
    /// When the program has ended.
    Behind,
}

impl Goes {
    /// As a document.
    pub fn document(self) -> Value {
        match self {
            Goes::Not => Value::Null,
            Goes::At(place) => place.document(),
            Goes::Behind => json!("behind"),
        }
    }

    /// Of a document of ours.
    pub fn of(document: &Value) -> Option<Goes> {
        match document {
            Value::Null => Some(Goes::Not),
            Value::String(text) => (text == "behind").then_some(Goes::Behind),
            place => Place::of(place).map(Goes::At),
        }
    }
}

/// The switch of a run.
#[derive(Debug)]
pub(crate) struct Switch {
    power: Arc<dyn Power>,
    disk: Arc<Touched>,
    goes: Goes,
    /// From the program's `ready` on, and not from its start.
    pub(crate) from_ready: bool,
    /// From when on it may go, and when the program had ended.
    from: Mutex<Place>,
    until: Mutex<Place>,
}

fn set(place: &Mutex<Place>, now: Place) {
    *place.lock().unwrap_or_else(PoisonError::into_inner) = now;
}

fn get(place: &Mutex<Place>) -> Place {
    *place.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Switch {
    pub(crate) fn new(
        power: Arc<dyn Power>,
        disk: Arc<Touched>,
        goes: Goes,
        from_ready: bool,
    ) -> Switch {
        Switch { power, disk, goes, from_ready, from: Mutex::default(), until: Mutex::default() }
    }

    pub(crate) fn power(&self) -> Arc<dyn Power> {
        Arc::clone(&self.power)
    }

    /// Whether it is on. What is said while it is was said before it went.
    pub(crate) fn is_on(&self) -> bool {
        self.power.state().on
    }

    fn now(&self) -> Place {
        Place { operations: self.power.state().operations, requests: self.disk.requests() }
    }

    /// What was done since the power might go, until the program had ended.
    pub(crate) fn spent(&self) -> Place {
        let (from, until) = (get(&self.from), get(&self.until));
        Place {
            operations: until.operations.saturating_sub(from.operations),
            requests: until.requests.saturating_sub(from.requests),
        }
    }

    /// The last cut.
    pub(crate) fn last(&self) -> Option<LastCut> {
        self.power.state().last
    }

    /// From now on the power may go.
    ///
    /// # Errors
    /// The switch does not do so.
    pub(crate) fn arm(&self) -> Result<(), PowerError> {
        let now = self.now();
        set(&self.from, now);
        let Goes::At(place) = self.goes else { return Ok(()) };
        match self.power.cut(When::Operation(now.operations + place.operations.max(1))) {
            // Its capacitor ends what is under way: an operation has no half.
            Err(PowerError::NotOffered(_)) => {
                self.disk.cut_before(now.requests + place.requests.max(1));
                Ok(())
            }
            // The drive went on meanwhile.
            Err(PowerError::Passed { .. }) => self.gone(self.power.cut(When::Now)),
            other => self.gone(other),
        }
    }

    /// The program has ended: if the power is on still it goes now, where it is to go.
    ///
    /// # Errors
    /// The switch does not do so.
    pub(crate) fn end(&self) -> Result<(), PowerError> {
        set(&self.until, self.now());
        match self.goes {
            Goes::Not => Ok(()),
            _ => self.gone(self.power.cut(When::Now)),
        }
    }

    /// It went by itself meanwhile: so it was to be.
    fn gone(&self, cut: Result<(), PowerError>) -> Result<(), PowerError> {
        match cut {
            Err(PowerError::Off) => Ok(()),
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_is_understood() {
        let place = Place { operations: 7, requests: 9 };
        for goes in [Goes::Not, Goes::Behind, Goes::At(place)] {
            assert_eq!(Goes::of(&goes.document()), Some(goes));
        }
        assert_eq!(Goes::of(&json!("before")), None);
        assert_eq!(Goes::of(&json!({ "operations": 1 })), None);
    }
}
