//! How long operations take. All values are exact spans fixed at construction.

use block::Span;

/// Which sense and program time a page has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PageTypes {
    /// All pages alike.
    Uniform,
    /// Type = page index modulo bits per cell (lower, middle, upper ..).
    Cyclic,
    /// The interleaved lower/upper order of planar MLC: 0-3 lower, then two upper and two lower
    /// in turn, the last two upper.
    MlcPairs,
}

/// Whether and how a read may interrupt a program or an erase.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Suspend {
    /// Programs may be interrupted.
    pub program: bool,
    /// Erases may be interrupted.
    pub erase: bool,
    /// At least this much must remain of the operation.
    pub min_remaining: Span,
    /// At most this many interruptions of one operation.
    pub max_times: u8,
    /// From the read's arrival to its start.
    pub to_suspend: Span,
    /// From the read's end to the operation going on.
    pub to_resume: Span,
}

/// In which order a die serves what is booked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Order {
    /// As it was submitted.
    #[default]
    InOrder,
    /// A read goes ahead of programs and erases that have not begun and whose end nobody was told.
    ReadFirst,
}

/// Times and options of the array.
#[derive(Clone, Debug)]
pub struct Timing {
    /// Bits per cell: the number of page types and of pages on a word line.
    pub cell_bits: u32,
    /// Page types along a block.
    pub page_types: PageTypes,
    /// Sense time per page type (the last is used for higher types).
    pub t_read: Vec<Span>,
    /// Sense time per page type of a read of at most 4 KiB; empty = as `t_read`.
    pub t_read_4k: Vec<Span>,
    /// Program time per page type.
    pub t_program: Vec<Span>,
    /// Erase time.
    pub t_erase: Span,
    /// Command and address cycles on the bus, per operation.
    pub cmd: Span,
    /// `transfer[n]` = bus time of n pieces of 4 KiB (the last entry is a page).
    pub transfer: Vec<Span>,
    /// A program moves this much more than its data (spare area).
    pub transfer_oob: Span,
    /// The array may work while the register moves data.
    pub cache_ops: bool,
    /// Busy time between cached reads.
    pub t_rcbsy: Span,
    /// Busy time between cached programs.
    pub t_cbsy: Span,
    /// Planes of a die may read independently of one another.
    pub independent_planes: bool,
    /// All pages of a word line are programmed at once.
    pub one_shot: bool,
    /// In which order dies serve.
    pub order: Order,
    /// Suspension of programs and erases by reads.
    pub suspend: Suspend,
    /// False: nothing is booked, every operation ends when it is submitted (hit ratios and write
    /// amplification only).
    pub enabled: bool,
}

impl Timing {
    /// Whether a read may move what is booked.
    #[inline(always)]
    pub fn moves(&self) -> bool {
        self.order == Order::ReadFirst || self.suspend.program || self.suspend.erase
    }

    /// The type (0 = lower) of a page of a block with `pages` pages.
    #[inline]
    pub fn page_type(&self, page: u32, pages: u32) -> usize {
        match self.page_types {
            PageTypes::Uniform => 0,
            PageTypes::Cyclic => (page % self.cell_bits) as usize,
            PageTypes::MlcPairs => mlc_upper(page, pages) as usize,
        }
    }

    /// The lower page that shares cells with `page`, if programming `page` can damage it.
    pub fn paired_lower(&self, page: u32, pages: u32) -> Option<u32> {
        match self.page_types {
            PageTypes::Uniform => None,
            PageTypes::Cyclic => (!page.is_multiple_of(self.cell_bits)).then(|| page - 1),
            PageTypes::MlcPairs if mlc_upper(page, pages) => {
                Some(if page < 6 || page + 2 >= pages { page - 4 } else { page - 6 })
            }
            PageTypes::MlcPairs => None,
        }
    }

    /// The last page that must be programmed so that no later program can damage page `page` or
    /// an earlier one: the end of its word line.
    pub fn word_line_end(&self, page: u32, pages: u32) -> u32 {
        match self.page_types {
            PageTypes::Uniform => page,
            PageTypes::Cyclic => ((page / self.cell_bits + 1) * self.cell_bits - 1).min(pages - 1),
            PageTypes::MlcPairs => (page + 1..(page + 7).min(pages))
                .filter(|later| self.paired_lower(*later, pages).is_some_and(|low| low <= page))
                .max()
                .unwrap_or(page),
        }
    }

    /// Sense time of a page for a read of `pieces` pieces of 4 KiB.
    #[inline]
    pub fn read_span(&self, page_type: usize, pieces: u32) -> Span {
        let table =
            if pieces <= 1 && !self.t_read_4k.is_empty() { &self.t_read_4k } else { &self.t_read };
        table[page_type.min(table.len() - 1)]
    }
    /// Program time of a page.
    #[inline]
    pub fn program_span(&self, page_type: usize) -> Span {
        self.t_program[page_type.min(self.t_program.len() - 1)]
    }
}

fn mlc_upper(page: u32, pages: u32) -> bool {
    page >= 4 && (page % 4 < 2 || page + 2 >= pages)
}

#[cfg(test)]
pub(crate) fn test_timing() -> Timing {
    Timing {
        cell_bits: 1,
        page_types: PageTypes::Uniform,
        t_read: vec![Span::from_us(50)],
        t_read_4k: vec![],
        t_program: vec![Span::from_us(500)],
        t_erase: Span::from_us(5000),
        cmd: Span::ZERO,
        transfer: vec![Span::ZERO, Span::from_us(10)],
        transfer_oob: Span::ZERO,
        cache_ops: false,
        t_rcbsy: Span::ZERO,
        t_cbsy: Span::ZERO,
        independent_planes: false,
        one_shot: false,
        order: Order::InOrder,
        suspend: Suspend::default(),
        enabled: true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_lower_page_of_an_mlc_block_has_one_upper() {
        let mut timing = test_timing();
        timing.cell_bits = 2;
        for types in [PageTypes::Cyclic, PageTypes::MlcPairs] {
            timing.page_types = types;
            let mut lowers: Vec<u32> =
                (0..256).filter_map(|p| timing.paired_lower(p, 256)).collect();
            lowers.sort_unstable();
            let expected: Vec<u32> = (0..256).filter(|p| timing.page_type(*p, 256) == 0).collect();
            assert_eq!(lowers, expected, "{types:?}");
        }
    }
}
