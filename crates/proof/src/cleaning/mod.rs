//! The page-mapped FTL's cleaning beside its naive [`Twin`]: cells of rules, loads and spares, and by how much the two
//! differ.

mod twin;

use block::{BlockDevice, Lba, Request, Rng, Sectors, Time};
use ssd::{Config, Drive};

pub use twin::Twin;

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
                before = twin.programs();
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
            twin: (twin.programs() - before) as f64 / (written / 4096) as f64,
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
