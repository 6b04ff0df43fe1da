//! One run: a load on a volume with one way of cleaning.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use lfs::fs::{Cleaning, FsOptions as Mount, Scj};

use super::outcome::Outcome;
use super::{Options, SEED, Scale};
use crate::parallel;
use lab::LabError;
use lab::fileload::{FileLoad, Measured, Plan, Room, measure, user_blocks};
use lab::files::write_whole;
use lab::scenario::Scenario;

/// The drive is so many times as large as the volume: the paper used 16 GB of 512.
pub(super) const DRIVE: u64 = 4;

/// Slots of a journal area that is never full: as many as fit into the gap before the volume.
pub(super) const LARGE: u32 = 224;

/// Eight victims at a time.
pub(super) const TOGETHER: System = System::Together(8);

/// A way of cleaning.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum System {
    /// The paper's baseline.
    Bl,
    /// Kernel 6.1.
    Kernel,
    /// The paper's scheme with its threshold and area.
    Scj,
    /// With other blocks of the threshold, other slots of the area.
    Tuned(u64, u32),
    /// As `Scj`; victims are chosen by valid blocks alone.
    ByValid,
    /// As `Scj` with a large area; so many victims share a flush and the write of their records (not
    /// in the paper).
    Together(u32),
    /// As `Scj` with a large area, ahead of need (not in the paper).
    Ahead,
    /// Kernel 6.1's rules, ahead of need.
    KernelAhead,
    /// Kernel 6.1, whose callers clean as late as those of `KernelAhead` wait.
    KernelLate,
    /// As `Scj` with a large area, but records are written before their copies are durable: the
    /// paper says nothing of a flush. It loses data.
    Unflushed,
    /// The same with the paper's area.
    Literal,
}

impl System {
    pub(super) fn name(self) -> &'static str {
        match self {
            System::Bl => "BL",
            System::Kernel => "kernel 6.1",
            System::Scj => "SCJ",
            System::Tuned(..) => "SCJ, larger area",
            System::Together(_) => "SCJ, larger area, victims in batches",
            System::ByValid => "SCJ, victims by valid blocks",
            System::Ahead => "SCJ ahead of need",
            System::KernelAhead => "kernel 6.1 ahead of need",
            System::KernelLate => "kernel 6.1, callers clean late",
            System::Unflushed => "SCJ without flush (unsafe)",
            System::Literal => "SCJ without flush (unsafe), the paper's area",
        }
    }

    fn cleaning(self, scale: Scale) -> Cleaning {
        let scj = Scj {
            slots: scale.slots(),
            threshold: Some(scale.blocks() / 128),
            count_needed: true,
            batch: 1,
        };
        match self {
            System::Bl => Cleaning::Bl415,
            System::Kernel | System::KernelAhead | System::KernelLate => Cleaning::Bl6,
            System::Scj | System::Literal => Cleaning::Scj(scj),
            System::Tuned(threshold, slots) => {
                Cleaning::Scj(Scj { slots, threshold: Some(threshold), ..scj })
            }
            System::Together(batch) => Cleaning::Scj(Scj { slots: LARGE, batch, ..scj }),
            System::ByValid => Cleaning::Scj(Scj { count_needed: false, ..scj }),
            System::Unflushed | System::Ahead => Cleaning::Scj(Scj { slots: LARGE, ..scj }),
        }
    }

    /// Victims of cleaning ahead of need that share a flush.
    fn ahead(self) -> u32 {
        if matches!(self, System::Ahead | System::KernelAhead) { 8 } else { 0 }
    }
}

/// A run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cell {
    pub(super) scale: Scale,
    pub(super) system: System,
    pub(super) what: FileLoad,
    /// Percent of the blocks that users may have which the fill takes.
    pub(super) full: u64,
    pub(super) seed: u64,
    /// Copies are waited for before the next phase.
    pub(super) drain: bool,
    /// The drive's buffer survives a power cut: its FLUSH and FUA cost next to nothing.
    pub(super) protected: bool,
}

impl Cell {
    pub(super) fn new(scale: Scale, system: System, what: FileLoad) -> Cell {
        Cell { scale, system, what, full: 80, seed: SEED, drain: false, protected: false }
    }

    /// Its name: what is run, all of it.
    fn name(&self) -> String {
        let Cell { scale, system, what, full, seed, drain, protected } = self;
        let flags = [(*drain, "-drain"), (*protected, "-protected")];
        let flags: String = flags.iter().filter(|(on, _)| *on).map(|(_, text)| *text).collect();
        let blocks = scale.blocks();
        let name = format!("{what:?}-{system:?}-{blocks}-full{full}-seed{seed}{flags}");
        name.replace(['(', ')', ' ', ','], "_").to_lowercase()
    }

    /// Runs it.
    fn run(&self) -> Result<Measured, LabError> {
        let blocks = self.scale.blocks();
        let mut scenario = Scenario::default();
        scenario.set("drive.preset", "samsung-970pro")?;
        // Blocks so small that a superblock is a 64th of the drive; erasing takes less in proportion.
        let pages = (blocks * DRIVE / 64 / 8 / 16).clamp(4, 128);
        let lines = blocks * DRIVE * 5 / 4 / (pages * 8 * 16);
        scenario.set("drive.op", "25 %")?;
        scenario.set("drive.line", "superblock")?;
        scenario.set("drive.geometry.pages", &pages.to_string())?;
        scenario.set("drive.geometry.blocks", &lines.to_string())?;
        scenario.set("drive.nand.erase", &format!("{} us", 3500 * pages / 128))?;
        if self.protected {
            scenario.set("drive.plp.mode", "full")?;
        }
        let mut params = scenario.config()?.resolve()?;
        params.seed = self.seed;
        let user = user_blocks(blocks)?;
        let options = Mount {
            cleaning: self.system.cleaning(self.scale),
            drain: self.drain,
            ahead: self.system.ahead(),
            late: self.system == System::KernelLate,
            unflushed: matches!(self.system, System::Unflushed | System::Literal),
            // Half a volume of memory, as the paper's machine had.
            cached_nodes: (blocks / 4) as usize,
            ..Mount::default()
        };
        let measured = match self.scale {
            Scale::Quick => 50,
            Scale::Default => 20,
            Scale::Full => 10,
        };
        let plan = Plan {
            params,
            stack: scenario.stack.clone(),
            blocks,
            options,
            cache: (blocks / 2, blocks / 20),
            writes: (user * (115 - self.full) / 100, user * measured / 100),
        };
        // The paper's buffer pool is 1 GB of 16.
        let room = Room { target: user * self.full / 100, pool: blocks / 16 };
        measure(&plan, &mut *self.what.make(None, room, self.seed))
    }
}

/// Runs cells, each once: what ran before is known, in this run or in a folder from an earlier one.
pub(super) struct Bench {
    threads: usize,
    kept: Option<PathBuf>,
    known: Mutex<BTreeMap<String, Outcome>>,
}

impl Bench {
    pub(super) fn new(options: &Options) -> Bench {
        Bench { threads: options.threads, kept: options.kept.clone(), known: Mutex::default() }
    }

    /// Runs all cells, results in order.
    ///
    /// # Errors
    /// A run that fails, and a folder that cannot be read or written.
    pub(super) fn all(&self, cells: &[Cell]) -> Result<Vec<Outcome>, LabError> {
        let new: BTreeMap<String, Cell> = cells
            .iter()
            .map(|cell| (cell.name(), *cell))
            .filter(|(name, _)| !self.known().contains_key(name))
            .collect();
        let new: Vec<(String, Cell)> = new.into_iter().collect();
        let found = parallel::beside(self.threads, &new, |(name, cell)| self.one(name, cell))?;
        self.known().extend(new.into_iter().map(|(name, _)| name).zip(found));
        let known = self.known();
        Ok(cells.iter().filter_map(|cell| known.get(&cell.name()).cloned()).collect())
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<String, Outcome>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From the folder, or run and put there.
    fn one(&self, name: &str, cell: &Cell) -> Result<Outcome, LabError> {
        let Some(folder) = &self.kept else { return Ok(Outcome::of(&cell.run()?)) };
        let path = folder.join(format!("{name}.cell"));
        let head = format!("varve {} reproduce scj {name}\n", env!("CARGO_PKG_VERSION"));
        match std::fs::read_to_string(&path) {
            Ok(text) => {
                let body = text.strip_prefix(&head).ok_or_else(|| {
                    let found = text.lines().next().unwrap_or_default();
                    format!("found `{found}`, expected `{}`", head.trim_end())
                });
                let read = body.and_then(Outcome::read);
                read.map_err(|what| LabError::Input(format!("{}: {what}", path.display())))
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let found = Outcome::of(&cell.run()?);
                std::fs::create_dir_all(folder).map_err(|e| LabError::io(folder, e))?;
                write_whole(&path, (head + &found.text()).as_bytes())?;
                Ok(found)
            }
            Err(error) => Err(LabError::io(&path, error)),
        }
    }
}
