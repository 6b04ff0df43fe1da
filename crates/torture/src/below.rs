//! A stack of ours below the file system: which there are, and one of them, new.

use block::Rng;
use stack::description::{Base, Description, Layer};
use stack::live::Stack;
use stack::rules::{Top, World, check};

use crate::error::TortureError;

/// A stack in memory whose power can be cut.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Below(Description);

fn wrong(what: String) -> TortureError {
    TortureError::Input(format!("--stack: {what}"))
}

impl Below {
    /// Of a text of the grammar of stacks.
    ///
    /// # Errors
    /// It is none; or one that is not new for each run, or has no switch.
    pub fn read(text: &str) -> Result<Below, TortureError> {
        let told = |error: stack::StackError| wrong(error.to_string());
        let mut all: Description = text.parse().map_err(told)?;
        check(&all, World::Live, Top::Blocks).map_err(told)?;
        for layer in &all.layers {
            let why = match layer {
                Layer::Record(_) => "each run would write its file anew",
                Layer::ReadOnly => "a program writes",
                _ => continue,
            };
            return Err(wrong(format!("{}: {why}", layer.name())));
        }
        let switched = all.layers.iter().any(|layer| matches!(layer, Layer::Cut { .. }));
        match &all.base {
            Base::Ram(_) if switched => {}
            Base::Ram(_) => {
                let what = "ram: nothing cuts its power: expected cut(SEED) above it";
                return Err(wrong(what.to_string()));
            }
            // It has a switch of its own.
            Base::Drive { .. } if switched => {}
            Base::Drive { .. } => {
                let at = usize::from(all.layers.first() == Some(&Layer::RealTime));
                all.layers.insert(at, Layer::Cut { seed: 1, witness: false });
            }
            base => {
                let what = "each run begins with a new one in memory: expected drive(PRESET) or \
                            ram(SIZE)+cut(SEED) at the bottom";
                return Err(wrong(format!("{base}: {what}")));
            }
        }
        Ok(Below(all))
    }

    /// A new one; what its cuts leave is drawn from `seed`.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn start(&self, seed: u64) -> Result<Stack, TortureError> {
        let mut all = self.0.clone();
        for layer in &mut all.layers {
            if let Layer::Cut { seed: own, .. } = layer {
                *own = Rng::stream(seed, &format!("torture/stack/{own}")).next_u64();
            }
        }
        Stack::start(&all).map_err(|error| wrong(error.to_string()))
    }

    /// Bytes that it has, and those that it keeps whole: 512 or 4096.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn sizes(&self) -> Result<(u64, u64), TortureError> {
        let can = self.start(1)?.disk.capabilities();
        Ok((can.size, if can.atomic < 4096 { 512 } else { 4096 }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_is_refused_with_what_was_expected() {
        for (text, said) in [
            ("ram(1MiB)", "--stack: ram: nothing cuts its power: expected cut(SEED)"),
            ("ram(1MiB)+log", "--stack: ram: nothing cuts its power: expected cut(SEED)"),
            ("image(x, size=1GiB)+cut(1)", "--stack: image(x, size=1 GiB): each run begins with"),
            ("ram(1MiB)+cut(1)+record(f.vtr)", "--stack: record: each run would write"),
            ("drive(samsung-970pro)+read-only", "--stack: read-only: a program writes"),
            ("drive(samsung-970pro)+lfs", "--stack: lfs: it has files"),
            ("drive(samsung-970pro)+logs", "--stack: stack: found the layer `logs`"),
            ("drive(", "--stack: stack `drive(`"),
        ] {
            let error = Below::read(text).unwrap_err().to_string();
            assert!(error.starts_with(said), "{text}: {error}");
        }
        let none = Below::read("drive(nonsense)").unwrap().start(1).unwrap_err().to_string();
        assert!(none.starts_with("--stack: ") && none.contains("nonsense"), "{none}");
    }

    #[test]
    fn each_seed_is_a_life_of_its_own() {
        for text in ["ram(8MiB)+cut(1)", "drive(femu-default, scale=1/64)+log"] {
            let below = Below::read(text).unwrap();
            let (size, atomic) = below.sizes().unwrap();
            assert!(size >= 4 << 20 && (atomic == 512 || atomic == 4096), "{text}");
            // What is not flushed is gone, or there: another seed, another half.
            let left = |seed: u64| {
                let stack = below.start(seed).unwrap();
                for at in 0..64 {
                    stack.disk.write(at * 65536, &[7; 4096], false).unwrap().wait().unwrap();
                }
                stack.power.cut(stack::power::When::Now).unwrap();
                stack.power.on().unwrap();
                let mut bytes = [0; 1];
                let mut there = Vec::new();
                for at in 0..64 {
                    stack.disk.read(at * 65536, &mut bytes).unwrap().wait().unwrap();
                    there.push(bytes[0]);
                }
                assert!(there.iter().all(|byte| [0, 7].contains(byte)), "{text}: {there:?}");
                there
            };
            let all: Vec<_> = (1..9).map(left).collect();
            if text.starts_with("ram") {
                assert_eq!(all[0], left(1), "{text}");
                assert!(all.iter().any(|one| *one != all[0]), "{text}");
            }
        }
    }
}
