//! A mark for each of many files: set behind every write, so it is looked up by number. What takes room
//! are the neighbourhoods of numbers that were set.

use crate::Nid;
use crate::disk::Mark;

/// Numbers in a neighbourhood.
const NEAR: usize = 128;

/// See above.
#[derive(Default)]
pub(super) struct Marks {
    near: Vec<Option<Box<[Option<Mark>; NEAR]>>>,
}

impl Marks {
    pub fn set(&mut self, nid: Nid, mark: Mark) {
        let at = nid.0 as usize;
        if at / NEAR >= self.near.len() {
            self.near.resize_with(at / NEAR + 1, || None);
        }
        self.near[at / NEAR].get_or_insert_with(|| Box::new([None; NEAR]))[at % NEAR] = Some(mark);
    }

    pub fn get(&self, nid: Nid) -> Option<Mark> {
        let at = nid.0 as usize;
        self.near.get(at / NEAR)?.as_ref()?[at % NEAR]
    }
}
