//! A number per page: two levels, so that only the parts of the space in use take memory.

const PART: usize = 1 << 14;

/// A number per page, 0 if none was set.
#[derive(Clone, Debug, Default)]
pub struct PageTable {
    parts: Vec<Option<Box<[u32]>>>,
    /// Pages with a number.
    pub len: usize,
}

impl PageTable {
    /// Sets a page's number (not 0; 0 takes it away) and returns the one before.
    pub fn set(&mut self, page: u32, number: u32) -> u32 {
        let (part, at) = (page as usize / PART, page as usize % PART);
        if part >= self.parts.len() {
            self.parts.resize(part + 1, None);
        }
        let part = self.parts[part].get_or_insert_with(|| vec![0; PART].into());
        let before = std::mem::replace(&mut part[at], number);
        self.len = self.len + usize::from(number != 0) - usize::from(before != 0);
        before
    }

    /// Pages with a number, ascending.
    pub fn iter(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        self.parts.iter().enumerate().flat_map(|(part, numbers)| {
            let numbers = numbers.as_deref().unwrap_or(&[]).iter().enumerate();
            numbers
                .filter(|(_, number)| **number != 0)
                .map(move |(at, number)| ((part * PART + at) as u32, *number))
        })
    }
}
