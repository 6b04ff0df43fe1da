//! A naive twin of the page-mapped FTL's cleaning: which line is collected, and what that costs.
//!
//! It knows a drive of one plane whose lines are blocks and whose pages are slots, fed one page at a
//! time. Lines are vectors of page numbers, victims are found by looking at every closed line, and no
//! code is shared with what it judges; only the rules that `docs/policy.md` states are the same: when
//! cleaning starts, how many copies each page of the host owes, and who wins a tie. So both must
//! program the same number of pages for the same writes, up to the draws of policies that draw.

use block::Rng;

use super::{Placement, Rule, WIDTH};

#[derive(Clone, Debug, Default)]
struct Line {
    /// The page programmed into each slot.
    slots: Vec<usize>,
    valid: usize,
    /// Programs of the drive when it was closed.
    closed: u64,
    /// The head that filled it, and the host's writes when that opened it.
    head: usize,
    opened: u64,
    /// Number of the event that made it have as many valid pages as it has.
    since: u64,
}

/// A line being collected.
#[derive(Clone, Copy, Debug)]
struct Victim {
    line: usize,
    next: usize,
    valid: usize,
}

/// The FTL, naively.
#[derive(Debug)]
pub struct Twin {
    rule: Rule,
    placement: Placement,
    start: usize,
    /// The host's writes, and the number of the last one of every page.
    writes: u64,
    born: Vec<Option<u64>>,
    /// How long hot lines last, in host writes, times 16.
    lives: u64,
    /// Line and slot of every page.
    place: Vec<Option<(usize, usize)>>,
    lines: Vec<Line>,
    free: Vec<usize>,
    /// In the order in which they were closed.
    closed: Vec<usize>,
    /// The lines that the host's pages and copies go to, by head.
    open: Vec<Option<usize>>,
    victim: Option<Victim>,
    active: bool,
    debt: usize,
    programs: u64,
    events: u64,
    rng: Rng,
}

impl Twin {
    /// `lines` erased lines for `pages` pages; cleaning starts when fewer than `start` are free.
    pub fn new(rule: Rule, placement: Placement, lines: usize, pages: usize, start: usize) -> Twin {
        Twin {
            rule,
            placement,
            start,
            writes: 0,
            born: vec![None; pages],
            lives: 16 * (pages as u64 / 8),
            place: vec![None; pages],
            lines: vec![Line::default(); lines],
            free: (0..lines).rev().collect(),
            closed: Vec::new(),
            open: vec![None; placement.heads()],
            victim: None,
            active: false,
            debt: 0,
            programs: 0,
            events: 0,
            rng: Rng::stream(1, "proof/cleaning/victim"),
        }
    }

    /// Pages programmed so far.
    pub fn programs(&self) -> u64 {
        self.programs
    }

    /// The host writes a page.
    ///
    /// # Errors
    /// No line gains space by cleaning.
    pub fn write(&mut self, page: usize) -> Result<(), String> {
        let free = self.free.len();
        self.active = free < self.start + 1 && (self.active || free < self.start);
        while self.free.len() < self.start - 1 {
            self.collect_whole()?;
        }
        let head = self.host_head(page);
        self.writes += 1;
        self.born[page] = Some(self.writes);
        self.find_place(head)?;
        self.forget(page);
        self.program(head, page);
        if !self.active || self.victim.is_none() && !self.choose() {
            return Ok(());
        }
        // Each page of the host owes its share of the copies: after as many pages as the victim
        // gains, all that it holds is copied.
        let Some(victim) = self.victim else { return Ok(()) };
        let gain = WIDTH - victim.valid.min(WIDTH - 1);
        self.debt += victim.valid;
        while self.debt >= gain {
            if !self.copy_one()? {
                self.debt = 0;
                return Ok(());
            }
            self.debt -= gain;
        }
        if victim.valid == 0 || victim.valid == WIDTH {
            self.finish()?;
        }
        Ok(())
    }

    fn collect_whole(&mut self) -> Result<(), String> {
        if self.victim.is_none() && !self.choose() {
            return Err("no line gains space by cleaning".to_string());
        }
        self.finish()
    }

    fn finish(&mut self) -> Result<(), String> {
        while self.copy_one()? {}
        self.debt = 0;
        Ok(())
    }

    /// Copies the victim's next valid page; false, and the line is free, if there is none.
    fn copy_one(&mut self) -> Result<bool, String> {
        let Some(mut victim) = self.victim else { return Ok(false) };
        while victim.next < WIDTH {
            let page = self.lines[victim.line].slots[victim.next];
            let here = self.place[page] == Some((victim.line, victim.next));
            victim.next += 1;
            self.victim = Some(victim);
            if here {
                let head = self.copy_head(victim.line, page);
                self.find_place(head)?;
                self.forget(page);
                self.program(head, page);
                return Ok(true);
            }
        }
        self.lines[victim.line] = Line::default();
        self.free.push(victim.line);
        self.victim = None;
        Ok(false)
    }

    fn forget(&mut self, page: usize) {
        if let Some((line, _)) = self.place[page].take() {
            self.events += 1;
            self.lines[line].valid -= 1;
            self.lines[line].since = self.events;
        }
    }

    /// A page that is written again as soon as hot lines die goes to the first head.
    fn host_head(&self, page: usize) -> usize {
        let hot = |born| self.writes - born < self.lives / 16;
        match self.placement {
            Placement::Two => 0,
            Placement::Lifetime => usize::from(!self.born[page].is_some_and(hot)),
        }
    }

    fn copy_head(&self, line: usize, page: usize) -> usize {
        if self.placement == Placement::Two {
            return 1;
        }
        let (age, life) = (self.writes - self.born[page].unwrap_or(0), self.lives / 16);
        if self.lines[line].head == 0 {
            2
        } else if age < 4 * life {
            3
        } else if age < 16 * life {
            4
        } else {
            5
        }
    }

    /// What is written has a place before its old one is given up: there may be none.
    fn find_place(&mut self, head: usize) -> Result<(), String> {
        // A line is closed when its head needs the next one.
        if let Some(line) = self.open[head].filter(|line| self.lines[*line].slots.len() == WIDTH) {
            self.events += 1;
            (self.lines[line].closed, self.lines[line].since) = (self.programs, self.events);
            self.closed.push(line);
            self.open[head] = None;
        }
        if self.open[head].is_none() {
            let line = self.free.pop().ok_or("every line is full")?;
            (self.lines[line].head, self.lines[line].opened) = (head, self.writes);
            self.open[head] = Some(line);
        }
        Ok(())
    }

    /// Writes to the place that was found.
    fn program(&mut self, head: usize, page: usize) {
        let line = self.open[head].expect("it has a place");
        self.programs += 1;
        self.events += 1;
        let of = &mut self.lines[line];
        self.place[page] = Some((line, of.slots.len()));
        of.slots.push(page);
        of.valid += 1;
    }

    fn valid(&self, line: usize) -> usize {
        self.lines[line].valid
    }

    fn emptiest(&self, of: impl Iterator<Item = usize>) -> Option<usize> {
        of.min_by_key(|line| (self.valid(*line), self.lines[*line].since))
    }

    /// Takes a victim out of the closed lines; false if no line gains.
    fn choose(&mut self) -> bool {
        if self.closed.iter().all(|line| self.valid(*line) == WIDTH) {
            return false;
        }
        let age = |line: usize| self.programs - self.lines[line].closed;
        let all = || self.closed.iter().copied();
        let line = match self.rule {
            Rule::Greedy => self.emptiest(all()),
            Rule::Fifo => all().next(),
            Rule::FifoUnlessFull => {
                all().next().filter(|line| self.valid(*line) < WIDTH).or(self.emptiest(all()))
            }
            Rule::Windowed(window) => all().take(window).min_by_key(|line| self.valid(*line)),
            // The last of equals: from the youngest on, that is the oldest.
            Rule::CostBenefit => all().rev().max_by(|a, b| {
                let benefit = |line: usize| {
                    let u = self.valid(line) as f64 / WIDTH as f64;
                    (1.0 - u) * (age(line) + 1) as f64 / (1.0 + u)
                };
                benefit(*a).total_cmp(&benefit(*b))
            }),
            Rule::AgeThreshold(lines) => all()
                .filter(|line| age(*line) >= lines * WIDTH as u64)
                .min_by_key(|line| self.valid(*line))
                .or(self.emptiest(all())),
            Rule::Random | Rule::Choices(_) => self.drawn(),
        };
        let Some(line) = line else { return false };
        if self.placement == Placement::Lifetime && self.lines[line].head == 0 {
            self.lives = self.lives - self.lives / 16 + self.writes - self.lines[line].opened;
        }
        self.closed.retain(|other| *other != line);
        self.victim = Some(Victim { line, next: 0, valid: self.valid(line) });
        true
    }

    /// The emptiest of some drawn lines, drawn again until it is not full.
    fn drawn(&mut self) -> Option<usize> {
        let draws = if let Rule::Choices(draws) = self.rule { draws } else { 1 };
        loop {
            let closed = self.closed.len() as u64;
            let drawn: Vec<usize> =
                (0..draws).map(|_| self.closed[self.rng.below(closed) as usize]).collect();
            let found = drawn.into_iter().min_by_key(|line| (self.valid(*line), *line))?;
            if self.valid(found) < WIDTH {
                return Some(found);
            }
        }
    }
}
