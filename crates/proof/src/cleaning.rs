//! A naive twin of the page-mapped FTL's cleaning: which line is collected, and what that costs.
//!
//! It knows a drive of one plane whose lines are blocks and whose pages are slots, fed one page at a
//! time. Lines are vectors of page numbers, victims are found by looking at every closed line, and no
//! code is shared with what it judges; only the rules that `docs/policy.md` states are the same: when
//! cleaning starts, how many copies each page of the host owes, and who wins a tie. So both must
//! program the same number of pages for the same writes, up to the draws of policies that draw.

use block::{BlockDevice, Lba, Request, Rng, Sectors, Time};
use ssd::{Config, Drive};

/// Free lines below which cleaning starts. It stops at one more; of one less, only cleaning may use
/// what is left.
pub const START: usize = 5;

/// A victim policy, written down naively.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Fewest valid pages; of several the one that has had so many for longest.
    Greedy,
    /// Closed first, full lines too.
    Fifo,
    /// Closed first, but the emptiest where that one is full: what a drive did that gave greedy's
    /// figures, or better, under the name of FIFO.
    FifoUnlessFull,
    /// Any line that is not full.
    Random,
    /// Fewest valid pages of so many drawn lines.
    Choices(usize),
    /// Fewest valid pages of so many lines closed first, full lines too.
    Windowed(usize),
    /// The most (1 - u) * age / (1 + u).
    CostBenefit,
    /// Greedy among lines older than so many lines' worth of programs, else greedy.
    AgeThreshold(u64),
}

impl Rule {
    /// The policies of the registry, with the parameters they are judged with.
    pub const ALL: [(&'static str, Rule); 7] = [
        ("greedy", Rule::Greedy),
        ("fifo", Rule::Fifo),
        ("random", Rule::Random),
        ("dchoice(10)", Rule::Choices(10)),
        ("windowed(64)", Rule::Windowed(64)),
        ("cost-benefit", Rule::CostBenefit),
        ("age-threshold(16)", Rule::AgeThreshold(16)),
    ];

    /// Whether two runs of it differ by chance: by what they drew, or because what is old enough is
    /// decided by a single program more or less.
    fn spreads(self) -> bool {
        matches!(self, Rule::Random | Rule::Choices(_) | Rule::AgeThreshold(_))
    }
}

/// Where writes go: so many of 100 to the first so many of 100 pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// What people call it.
    pub name: &'static str,
    hot: u64,
    traffic: u64,
}

impl Load {
    /// The loads that tell the policies apart.
    pub const ALL: [Load; 4] = [
        Load { name: "uniform", hot: 100, traffic: 100 },
        Load { name: "hot/cold 20/80", hot: 20, traffic: 80 },
        Load { name: "hot/cold 5/95", hot: 5, traffic: 95 },
        Load { name: "half-static", hot: 50, traffic: 100 },
    ];

    fn page(self, rng: &mut Rng, pages: u64) -> u64 {
        let split = (pages * self.hot / 100).max(1);
        if rng.ratio(self.traffic, 100) { rng.below(split) } else { rng.between(split, pages - 1) }
    }
}

/// Which pages share a line, written down naively.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// One head for the host, one for copies.
    Two,
    /// Two of the host, by the age of the version that is replaced, and four of copies.
    Lifetime,
}

impl Placement {
    /// The drive's word for it.
    fn name(self) -> &'static str {
        match self {
            Placement::Two => "user+gc",
            Placement::Lifetime => "lifetime",
        }
    }

    fn heads(self) -> usize {
        match self {
            Placement::Two => 2,
            Placement::Lifetime => 6,
        }
    }
}

/// One drive, one policy, one load.
#[derive(Clone, Copy, Debug)]
pub struct Cell {
    /// The policy's name in the registry.
    pub victim: &'static str,
    /// The twin's.
    pub rule: Rule,
    /// The load.
    pub load: Load,
    /// Which pages share a line.
    pub placement: Placement,
    /// Spare pages, in percent of the logical ones.
    pub spare: u64,
    /// Lines of the drive.
    pub lines: usize,
    /// Free lines below which cleaning starts: [`START`], or how many are kept free.
    pub start: usize,
}

/// Drive writes over which a policy is measured where chance has a part in it.
const MANY: u64 = 8;

/// Pages of a line.
const WIDTH: usize = 32;

/// Write amplification by the drive and by its twin.
#[derive(Clone, Copy, Debug)]
pub struct Compared {
    /// The drive's.
    pub drive: f64,
    /// The twin's.
    pub twin: f64,
}

impl Compared {
    /// How far the drive is off, in percent of the twin.
    pub fn off(self) -> f64 {
        100.0 * (self.drive / self.twin - 1.0)
    }

    /// Whether it is off by no more than so many percent.
    pub fn agrees(self, percent: f64) -> bool {
        self.off().abs() <= percent
    }
}

impl Cell {
    /// Every policy under every load at 4, 7 and 28 % spare, on drives of `lines` lines.
    pub fn all(lines: usize) -> Vec<Cell> {
        let mut cells = Vec::new();
        for (victim, rule) in Rule::ALL {
            for load in Load::ALL {
                for spare in [4, 7, 28] {
                    let placement = Placement::Two;
                    cells.push(Cell { victim, rule, load, placement, spare, lines, start: START });
                }
            }
        }
        cells
    }

    /// Placement by lifetime under every load, with both ways to choose that people use it with.
    /// As many lines more are kept free as it has heads more.
    pub fn by_lifetime(lines: usize) -> Vec<Cell> {
        let mut cells = Vec::new();
        for (victim, rule) in [("greedy", Rule::Greedy), ("cost-benefit", Rule::CostBenefit)] {
            for load in Load::ALL {
                for spare in [7, 28] {
                    let (placement, start) = (Placement::Lifetime, START + 4);
                    cells.push(Cell { victim, rule, load, placement, spare, lines, start });
                }
            }
        }
        cells
    }

    /// What it is, for people.
    pub fn name(&self) -> String {
        let placement = self.placement.name();
        format!("{}, {placement}, {}, {} % spare", self.victim, self.load.name, self.spare)
    }

    /// Percent by which both may differ. A gain by chance is about as wide as it is large, and some
    /// thousand lines are collected: by more than three of its standard deviations nothing differs.
    pub fn tolerance(&self) -> f64 {
        if self.rule.spreads() { 4.0 } else { 0.1 }
    }

    /// Fills both in order, writes once as much as they hold, and measures over as much again; eight
    /// times as much if chance has a part in it.
    ///
    /// # Errors
    /// A drive that cannot be made or fails.
    pub fn compare(&self) -> Result<Compared, String> {
        self.compare_on("lean")
    }

    /// The same on a drive that keeps so much beside each page.
    ///
    /// # Errors
    /// As [`Cell::compare`].
    pub fn compare_on(&self, oob: &str) -> Result<Compared, String> {
        let mut drive = self.drive(oob)?;
        let pages = drive.capacity().0 / 8;
        let mut twin = Twin::new(self.rule, self.placement, self.lines, pages as usize, self.start);
        let mut rng = Rng::stream(self.spare, "proof/cleaning");
        let write = |page: u64, drive: &mut Drive, twin: &mut Twin| -> Result<(), String> {
            twin.write(page as usize)?;
            let request = Request::write(Lba(page * 8), Sectors(8));
            drive.submit(Time::ZERO, request).map(|_| ()).map_err(|e| e.to_string())
        };
        for page in 0..pages {
            write(page, &mut drive, &mut twin)?;
        }
        let mut before = 0;
        for measured in [false, true] {
            if measured {
                drive.reset_stats();
                before = twin.programs;
            }
            let times = if measured && self.rule.spreads() { MANY } else { 1 };
            for _ in 0..times * pages {
                write(self.load.page(&mut rng, pages), &mut drive, &mut twin)?;
            }
        }
        drive.check().map_err(|e| e.to_string())?;
        let (programmed, written) = drive.stats().waf();
        Ok(Compared {
            drive: programmed as f64 / written as f64,
            twin: (twin.programs - before) as f64 / (written / 4096) as f64,
        })
    }

    fn drive(&self, oob: &str) -> Result<Drive, String> {
        let mut config = Config::default();
        for pair in [
            "geometry.channels=1".to_string(),
            "geometry.dies=1".to_string(),
            format!("geometry.pages={WIDTH}"),
            format!("geometry.blocks={}", self.lines),
            "line=plane".to_string(),
            format!("op={} %", self.spare),
            format!("gc.victim={}", self.victim),
            format!("streams.policy={}", self.placement.name()),
            format!("nand.oob={oob}"),
            format!("gc.start={}", self.start),
            format!("gc.stop={}", self.start + 1),
            format!("gc.reserve={}", self.start - 1),
            "buffer.policy=none".to_string(),
            "timing=off".to_string(),
        ] {
            config.set_pair(&pair).map_err(|e| e.to_string())?;
        }
        let params = config.resolve().map_err(|e| e.to_string())?;
        Drive::new(&params).map_err(|e| e.to_string())
    }
}

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
        self.forget(page);
        self.writes += 1;
        self.born[page] = Some(self.writes);
        self.program(head, page)?;
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
                self.forget(page);
                self.program(head, page)?;
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

    fn program(&mut self, head: usize, page: usize) -> Result<(), String> {
        // A line is closed when its head needs the next one.
        if let Some(line) = self.open[head].filter(|line| self.lines[*line].slots.len() == WIDTH) {
            self.events += 1;
            (self.lines[line].closed, self.lines[line].since) = (self.programs, self.events);
            self.closed.push(line);
            self.open[head] = None;
        }
        let line = match self.open[head] {
            Some(line) => line,
            None => {
                let line = self.free.pop().ok_or("every line is full")?;
                (self.lines[line].head, self.lines[line].opened) = (head, self.writes);
                line
            }
        };
        self.open[head] = Some(line);
        self.programs += 1;
        self.events += 1;
        let of = &mut self.lines[line];
        self.place[page] = Some((line, of.slots.len()));
        of.slots.push(page);
        of.valid += 1;
        Ok(())
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
