//! A mark for each of many files: set behind every write, so it is looked up by number.
//!
//! Invariant: marks of before the last [`forget`](Marks::forget) are not seen. What takes room are the
//! neighbourhoods of numbers that were ever set: they are used again, for all marks are forgotten at
//! each checkpoint and many of the same files written behind it.

use crate::Nid;
use crate::disk::Mark;

/// Numbers in a neighbourhood.
const NEAR: usize = 128;

struct Near {
    /// How often all had been forgotten when a mark was set here last.
    age: u64,
    marks: [Option<Mark>; NEAR],
}

/// See above.
#[derive(Default)]
pub(super) struct Marks {
    near: Vec<Option<Box<Near>>>,
    age: u64,
}

impl Marks {
    pub fn set(&mut self, nid: Nid, mark: Mark) {
        let (at, age) = (nid.0 as usize, self.age);
        if at / NEAR >= self.near.len() {
            self.near.resize_with(at / NEAR + 1, || None);
        }
        let near =
            self.near[at / NEAR].get_or_insert_with(|| Box::new(Near { age, marks: [None; NEAR] }));
        if near.age != age {
            *near.as_mut() = Near { age, marks: [None; NEAR] };
        }
        near.marks[at % NEAR] = Some(mark);
    }

    pub fn get(&self, nid: Nid) -> Option<Mark> {
        let at = nid.0 as usize;
        let near = self.near.get(at / NEAR)?.as_ref()?;
        if near.age == self.age { near.marks[at % NEAR] } else { None }
    }

    /// No file has a mark any more.
    pub fn forget(&mut self) {
        self.age += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_forgotten_together_and_set_one_by_one() {
        let (mut marks, first, second) = (Marks::default(), Mark::behind(1), Mark::behind(2));
        marks.set(Nid(7), first);
        marks.set(Nid(8), first);
        marks.set(Nid(1000), second);
        assert_eq!(
            [7, 8, 9, 1000].map(|n| marks.get(Nid(n))),
            [Some(first), Some(first), None, Some(second)]
        );
        marks.forget();
        assert_eq!([7, 8, 9, 1000, 4000].map(|n| marks.get(Nid(n))), [None; 5]);
        marks.set(Nid(8), second);
        assert_eq!([7, 8, 1000].map(|n| marks.get(Nid(n))), [None, Some(second), None]);
    }
}
