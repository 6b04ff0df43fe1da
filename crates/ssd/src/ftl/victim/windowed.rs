//! The emptiest of the w lines closed first (windowed greedy; Hu et al., SYSTOR 2009). If all of
//! them are full, the oldest is copied and leaves the window.

use super::{Choice, Victim, VictimSpec};

#[derive(Debug)]
struct Windowed {
    window: u32,
}

pub(super) fn make(spec: &VictimSpec) -> Option<Box<dyn Victim>> {
    let window = spec.parameter.unwrap_or(64);
    (1..=1 << 20).contains(&window).then(|| Box::new(Windowed { window }) as Box<dyn Victim>)
}

impl Victim for Windowed {
    fn choose(&mut self, choice: Choice<'_>) -> Option<u32> {
        let lines = &*choice.lines;
        lines.in_order().take(self.window as usize).min_by_key(|line| lines.get(*line).valid)
    }
    fn in_turn(&self) -> bool {
        true
    }
    fn boxed(&self) -> Box<dyn Victim> {
        Box::new(Windowed { window: self.window })
    }
}
