//! Several clients of one live log, and power cuts at every operation of its disk.
//!
//! Each sector has one writer, and blocks have several: who writes a part of a block must not take back
//! what another wrote into it. After a cut each client finds what it had after some of its writes, all of
//! those before the last answered flush among them (I2, I3, I4); with the power on it reads what it wrote.
//! This shares no code with any log, nor with [`crate::remap::Ledger`], which knows one client.

use std::sync::Mutex;

use block::{
    BlockDevice, CutDevice, Data, DiskCut, Fate, Lba, Plant, Request, Rng, SECTOR_BYTES, Sectors,
    Time,
};
use nand::{Cut, Instant, Left, Torn};
use remap::live::LiveError;
use remap::{HostLog, LiveLog, LogOptions, Planted};

use crate::plan::Plan;
use crate::remap::draw::config;
use crate::remap::live::LiveStack;
use crate::remap::spec::{LogKind, RemapMode, RemapSpec};
use crate::shared::SharedDisk;
use crate::stamp::{Found, SECTOR, SECTORS, decode_sector, fill_sector};

/// Blocks of which each client has a part.
const SHARED: u32 = 6;
/// Blocks that each client has for itself.
const OWN: u32 = 4;

/// One step of a client.
#[derive(Clone, Copy, Debug)]
enum Step {
    Write { sector: u32, count: u32 },
    Discard { page: u32 },
    Read { page: u32 },
    Flush,
}

/// What a client did to its sectors: `number` counts its writes and discards from 1.
#[derive(Clone, Copy, Debug)]
struct Change {
    sector: u32,
    count: u32,
    zero: bool,
    /// Operations of the disk when it was asked for.
    since: u64,
}

/// An answered flush.
#[derive(Clone, Debug)]
struct Barrier {
    /// Operations of the disk when it was answered.
    since: u64,
    /// Changes of each client that had been answered when it was asked for.
    covers: Vec<usize>,
}

/// What all clients have done.
#[derive(Debug, Default)]
struct History {
    changes: Vec<Vec<Change>>,
    answered: Vec<usize>,
    barriers: Vec<Barrier>,
}

/// A run of several clients of a log whose options and disk are drawn.
#[derive(Clone, Debug)]
pub struct Clients {
    seed: u64,
    /// 2, 4 or 8.
    clients: u32,
    /// Of each.
    steps: u32,
    spec: RemapSpec,
    options: LogOptions,
    planted: Plant<Planted>,
}

impl Clients {
    /// The run of a seed, perhaps with a planted bug.
    pub fn draw(seed: u64, planted: Plant<Planted>) -> Clients {
        let mut rng = Rng::stream(seed, "remap/clients");
        let clients = 2 << rng.below(3);
        loop {
            let config = config(&mut rng, LogKind::Log, true);
            let Ok(spec) = RemapSpec::of(&Plan { seed, config, ..Plan::default() }) else {
                continue;
            };
            let RemapMode::Log(options, _) = spec.mode.clone() else { continue };
            let run = Clients { seed, clients, steps: 64 / clients, spec, options, planted };
            if run.pages() <= run.spec.pages() {
                return run;
            }
        }
    }

    /// Runs it, and cuts the power at each of its operations: how many cuts were made.
    ///
    /// # Errors
    /// The promise that was broken, and where.
    pub fn search(&self) -> Result<u64, String> {
        let disk = SharedDisk::new(self.spec.new_disk());
        let mut stack =
            LiveStack::start(disk.clone(), &self.options, self.seed, |medium, around| {
                LiveLog::format_with(medium, &self.options, around, self.planted)
            })
            .map_err(|e| format!("no log: {e}"))?;
        let history = self.run(&mut stack, &disk)?;
        let first = history.changes.iter().flatten().map(|c| c.since).min().unwrap_or(0);
        let (mut rng, mut cuts) = (Rng::stream(self.seed, "remap/clients/cuts"), 0);
        let ops = disk.get().ops();
        for op in first..ops {
            for rest in [Fate::Old, Fate::New, Fate::Mixed(rng.below(1 << 32))] {
                let cut = DiskCut { op, inside: rng.ratio(1, 2), torn: rest, rest };
                // What is cut is a disk: nothing is said of flash.
                let instant = if cut.inside { Instant::Inside } else { Instant::Before };
                let (torn, left) = (Torn::Nothing, Left::Old);
                let flash = Cut { op, instant, torn, pair: false, left };
                let image = disk.get().image_at_cut(&flash, &cut).map(|(image, _)| image);
                let image = image.ok_or_else(|| format!("operation {op} is forgotten"))?;
                self.judge(self.spec.disk_of(image), &history, op)
                    .map_err(|what| format!("seed {}, {cut:?}: {what}", self.seed))?;
                cuts += 1;
            }
        }
        Ok(cuts)
    }

    /// The sectors of shared block `page` that are a client's.
    fn part(&self, client: u32, page: u32) -> (u32, u32) {
        let count = SECTORS as u32 / self.clients;
        (page * SECTORS as u32 + client * count, count)
    }

    fn page_of(&self, client: u32, number: u32) -> u32 {
        SHARED + number * self.clients + client
    }

    fn pages(&self) -> u32 {
        SHARED + OWN * self.clients
    }

    /// What a client is going to do.
    fn program(&self, client: u32) -> Vec<Step> {
        let mut rng = Rng::stream(self.seed, &format!("remap/clients/{client}"));
        let page = |rng: &mut Rng| self.page_of(client, rng.below(OWN.into()) as u32);
        let step = |_| match rng.below(16) {
            0..8 => {
                let (sector, count) = self.part(client, rng.below(SHARED.into()) as u32);
                let from = rng.below(count.into()) as u32;
                let count = rng.below((count - from).into()) as u32 + 1;
                Step::Write { sector: sector + from, count }
            }
            8..11 => Step::Write { sector: page(&mut rng) * SECTORS as u32, count: SECTORS as u32 },
            11 => Step::Discard { page: page(&mut rng) },
            12 | 13 => Step::Read { page: rng.below(self.pages().into()) as u32 },
            _ => Step::Flush,
        };
        (0..self.steps).map(step).collect()
    }

    fn run(&self, stack: &mut LiveStack, disk: &SharedDisk) -> Result<History, String> {
        let all = self.clients as usize;
        let history = Mutex::new(History {
            changes: vec![Vec::new(); all],
            answered: vec![0; all],
            barriers: Vec::new(),
        });
        let programs = (0..self.clients).map(|client| {
            let history = &history;
            move |log: &LiveLog| -> Result<(), String> {
                for step in self.program(client) {
                    self.step(client, step, log, disk, history)
                        .map_err(|what| format!("client {client}, {step:?}: {what}"))?;
                }
                Ok(())
            }
        });
        let ended = stack.several(programs.collect());
        ended.into_iter().collect::<Result<(), String>>()?;
        stack.check().map_err(|e| e.to_string())?;
        history.into_inner().map_err(|_| "a client died".to_string())
    }

    fn step(
        &self,
        client: u32,
        step: Step,
        log: &LiveLog,
        disk: &SharedDisk,
        history: &Mutex<History>,
    ) -> Result<(), String> {
        let told = |error: LiveError| error.to_string();
        let me = client as usize;
        let know = || history.lock().map_err(|_| "a client died".to_string());
        match step {
            Step::Write { .. } | Step::Discard { .. } => {
                let (sector, count, zero) = match step {
                    Step::Write { sector, count } => (sector, count, false),
                    Step::Discard { page } => (page * SECTORS as u32, SECTORS as u32, true),
                    _ => unreachable!("a change"),
                };
                let since = disk.get().ops();
                let mut known = know()?;
                known.changes[me].push(Change { sector, count, zero, since });
                let number = known.changes[me].len();
                drop(known);
                let (at, bytes) = (u64::from(sector) * SECTOR_BYTES, count as usize * SECTOR);
                let answer = if zero {
                    log.trim(at, bytes as u64)
                } else {
                    let mut payload = vec![0; bytes];
                    for (place, bytes) in (sector..).zip(payload.chunks_exact_mut(SECTOR)) {
                        fill_sector(bytes, place, number as u32);
                    }
                    log.write(at, &payload)
                };
                answer.map_err(told)?;
                know()?.answered[me] = number;
            }
            Step::Read { page } => {
                // Another's part may be older or newer than what it says here.
                let mut bytes = vec![0; SECTORS * SECTOR];
                log.read(u64::from(page) * block::UNIT_BYTES, &mut bytes).map_err(told)?;
                let mine = know()?.changes[me].clone();
                for (sector, bytes) in (page * SECTORS as u32..).zip(bytes.chunks_exact(SECTOR)) {
                    let found = found(sector, bytes)?;
                    if self.owner(sector) == client {
                        let expected = last(&mine, sector);
                        if found != expected {
                            return Err(format!("sector {sector} holds {found}, not {expected}"));
                        }
                    }
                }
            }
            Step::Flush => {
                let covers = know()?.answered.clone();
                log.flush().map_err(told)?;
                let since = disk.get().ops();
                know()?.barriers.push(Barrier { since, covers });
            }
        }
        Ok(())
    }

    /// Whose a sector is.
    fn owner(&self, sector: u32) -> u32 {
        let (page, within) = (sector / SECTORS as u32, sector % SECTORS as u32);
        match page < SHARED {
            true => within / (SECTORS as u32 / self.clients),
            false => (page - SHARED) % self.clients,
        }
    }

    /// What a client may find after a cut of operation `op`.
    fn judge(&self, disk: CutDevice, history: &History, op: u64) -> Result<(), String> {
        let mut log = HostLog::open(disk, Time::ZERO, &self.options)
            .map_err(|e| format!("power-on failed: {e}"))?;
        let mut versions = Vec::with_capacity((self.pages() * SECTORS as u32) as usize);
        let mut bytes = vec![0; SECTORS * SECTOR];
        for page in 0..self.pages() {
            let lba = Lba(u64::from(page) * SECTORS as u64);
            let read = Request::read(lba, Sectors(SECTORS as u64));
            let now = log.now();
            log.submit(now, read.with(Data::Read(&mut bytes)))
                .map_err(|e| format!("page {page}: {e}"))?;
            for (sector, bytes) in (page * SECTORS as u32..).zip(bytes.chunks_exact(SECTOR)) {
                versions.push(found(sector, bytes)?);
            }
        }
        for client in 0..self.clients {
            self.is_a_state(client, &versions, history, op)
                .map_err(|what| format!("client {client}: {what}"))?;
        }
        Ok(())
    }

    /// Whether a client's sectors hold what it had after some number of its changes, not fewer than a
    /// flush covered and not more than it had asked for.
    fn is_a_state(
        &self,
        client: u32,
        versions: &[u32],
        history: &History,
        op: u64,
    ) -> Result<(), String> {
        let me = client as usize;
        let asked = history.changes[me].iter().filter(|change| change.since <= op).count();
        let barriers = history.barriers.iter().filter(|barrier| barrier.since <= op);
        let floor = barriers.map(|barrier| barrier.covers[me]).max().unwrap_or(0);
        let mine = |sector: &u32| self.owner(*sector) == client;
        let sectors: Vec<u32> = (0..versions.len() as u32).filter(mine).collect();
        let differs = |n: usize| {
            let state = &history.changes[me][..n];
            sectors.iter().find(|sector| last(state, **sector) != versions[**sector as usize])
        };
        if (floor..=asked).any(|n| differs(n).is_none()) {
            return Ok(());
        }
        let sector = differs(asked).copied().unwrap_or_default();
        let held = versions[sector as usize];
        Err(format!(
            "no state of {floor} to {asked} changes: sector {sector} holds {held}, and {} after all",
            last(&history.changes[me][..asked], sector)
        ))
    }
}

/// The number of the last change of a sector, 0 if it is zeroes.
fn last(changes: &[Change], sector: u32) -> u32 {
    let of = |change: &Change| (change.sector..change.sector + change.count).contains(&sector);
    let number = changes.iter().rposition(of);
    number.filter(|at| !changes[*at].zero).map_or(0, |at| at as u32 + 1)
}

/// The number of the change that wrote a sector.
fn found(sector: u32, bytes: &[u8]) -> Result<u32, String> {
    match decode_sector(bytes) {
        Found::Zero => Ok(0),
        Found::Of { place, version } if place == sector => Ok(version),
        Found::Of { place, .. } => Err(format!("sector {sector} holds sector {place}")),
        Found::Garbage => Err(format!("sector {sector} holds what nobody wrote")),
    }
}
