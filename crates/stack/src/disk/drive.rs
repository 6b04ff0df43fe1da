//! The drives a [`ModelDisk`] serves: the model in memory, whose power can be cut, and the one on
//! an image.

use block::{BlockDevice, DeviceError, Op, Request, Rng, Sectors, Time};
use live::ImageDrive;
use nand::{Cut, Fault, FaultPlan, Image, Instant, Left, Torn};
use ssd::{BlocksNow, ConfigError, Drive, Params, Plp, Stats};

use super::{ModelDisk, Modelled, Transactor};
use crate::power::{LastCut, Power, PowerError, PowerState, When};

/// Slots programmed, in the order of [`nand::Cause`].
const PROGRAMS: [&str; 6] = [
    "nand_programs_host",
    "nand_programs_gc",
    "nand_programs_tx",
    "nand_programs_map",
    "nand_programs_metadata",
    "nand_programs_padding",
];

/// What only grows.
fn sums(stats: &Stats) -> Vec<(&'static str, u64)> {
    let host = |op| stats.of(op);
    let mut all = vec![
        ("host_reads", host(Op::Read).ops),
        ("host_read_bytes", host(Op::Read).bytes),
        ("host_writes", host(Op::Write).ops),
        ("host_write_bytes", host(Op::Write).bytes),
        ("host_flushes", host(Op::Flush).ops),
        ("host_discards", host(Op::Discard).ops),
        ("write_slots", stats.write_slots),
        ("nand_programs", stats.nand.programs_total()),
        ("nand_reads", stats.nand.reads_total()),
        ("nand_erases", stats.nand.erases),
        ("gc_victims", stats.gc.victims),
        ("gc_copies", stats.gc.pages),
    ];
    all.extend(PROGRAMS.into_iter().zip(stats.nand.programs));
    all
}

/// What is so now.
fn levels(stats: &Stats) -> [(&'static str, u64); 8] {
    [
        ("buffer_dirty", stats.buffer.dirty),
        ("bad_blocks", stats.bad_blocks),
        ("free_blocks", stats.free_blocks),
        ("valid_slots", stats.valid_units),
        ("slot_bytes", stats.slot_bytes),
        ("good_blocks", stats.wear.blocks),
        ("erases_least", u64::from(stats.wear.min)),
        ("erases_most", u64::from(stats.wear.max)),
    ]
}

fn unit(params: &Params) -> u32 {
    params.unit_pages * 4096
}

#[derive(Debug)]
pub(super) enum State {
    On(Box<Drive>),
    Off(Image),
}

/// A modelled drive in memory. When its power goes the flash is left as at that moment: what was
/// under way is torn, what was in the buffer is gone, or saved if the drive can.
#[derive(Debug)]
pub struct CutDrive {
    params: Params,
    capacity: Sectors,
    pub(super) state: State,
    /// The power goes at the next flush, or commit.
    pub(super) at_flush: bool,
    rng: Rng,
    /// Operations before the last power-on.
    before: u64,
    /// What was counted before it, in the order of [`sums`]: a drive counts from 0 when it comes up, and what
    /// its host counts goes on.
    counted: Vec<u64>,
    cuts: u64,
    last: Option<LastCut>,
    pub(super) now: Time,
}

impl CutDrive {
    /// A factory-fresh drive; what a cut leaves is drawn from `seed`.
    ///
    /// # Errors
    /// Keys that make an impossible drive.
    pub fn new(params: &Params, seed: u64) -> Result<CutDrive, ConfigError> {
        let mut drive = Drive::new(params)?;
        drive.nand_mut().keep_journal();
        Ok(CutDrive {
            params: params.clone(),
            capacity: drive.capacity(),
            state: State::On(Box::new(drive)),
            at_flush: false,
            rng: Rng::stream(seed, "serve/drive"),
            before: 0,
            counted: Vec::new(),
            cuts: 0,
            last: None,
            now: Time::ZERO,
        })
    }

    fn torn(&mut self) -> Cut {
        let seed = self.rng.next_u64();
        Cut {
            op: 0,
            instant: Instant::Inside,
            torn: Torn::Mixed(seed),
            pair: true,
            left: Left::Mixed(seed),
        }
    }

    fn operations(&self) -> u64 {
        self.before + if let State::On(drive) = &self.state { drive.nand().ops() } else { 0 }
    }

    /// What only grows, from the first power-on; nothing while the power is off.
    fn sums(&self) -> Vec<(&'static str, u64)> {
        let State::On(drive) = &self.state else { return Vec::new() };
        let mut all = sums(&drive.stats());
        for ((_, now), before) in all.iter_mut().zip(&self.counted) {
            *now += before;
        }
        all
    }

    /// The power goes at this moment of virtual time.
    fn cut_at(&mut self, instant: Time) -> Result<(), DeviceError> {
        let cut = self.torn();
        let State::On(drive) = &self.state else { return Err(DeviceError::PowerOff) };
        let pending = drive.nand().journal().filter(|record| record.end > instant).count() as u64;
        let image = match self.params.buffer.plp {
            Plp::None => drive.nand().image_at(instant, &cut),
            _ => (**drive).clone().capacitor_save()?,
        };
        self.off(image, pending);
        Ok(())
    }

    fn off(&mut self, image: Image, pending: u64) {
        self.before = self.operations();
        self.counted = self.sums().into_iter().map(|(_, count)| count).collect();
        self.cuts += 1;
        self.last = Some(LastCut { operation: self.before, pending, lost: None });
        self.at_flush = false;
        self.state = State::Off(image);
    }

    /// A cut of the fault plan has struck: the drive only says that it stands still.
    pub(super) fn struck(&mut self) {
        let State::On(drive) = &self.state else { return };
        let pending = drive.nand().journal().count() as u64;
        let image = (**drive).clone().power_cut().0;
        self.off(image, pending);
    }

    fn flush_cut(&mut self, at: Time) -> Result<Time, DeviceError> {
        let State::On(drive) = &mut self.state else { return Err(DeviceError::PowerOff) };
        let done = drive.submit(at, Request::flush())?;
        Err(self.cut_between(at, done))
    }

    /// The power goes at some moment of what was asked at `at` and would be done at `done`.
    pub(super) fn cut_between(&mut self, at: Time, done: Time) -> DeviceError {
        let instant = self.rng.between(at.as_ps(), done.as_ps());
        self.cut_at(Time::from_ps(instant)).err().unwrap_or(DeviceError::PowerOff)
    }
}

impl BlockDevice for CutDrive {
    fn capacity(&self) -> Sectors {
        self.capacity
    }
    fn atomic_unit(&self) -> block::Bytes {
        block::Bytes(block::UNIT_BYTES)
    }
    fn submit(&mut self, at: Time, request: Request<'_>) -> Result<Time, DeviceError> {
        if self.at_flush && request.op == Op::Flush {
            return self.flush_cut(at);
        }
        let State::On(drive) = &mut self.state else { return Err(DeviceError::PowerOff) };
        drive.nand_mut().prune_journal(at);
        match drive.submit(at, request) {
            Err(DeviceError::PowerOff) => {
                self.struck();
                Err(DeviceError::PowerOff)
            }
            result => {
                self.now = drive.now();
                result
            }
        }
    }
}

impl Modelled for CutDrive {
    fn unit(&self) -> u32 {
        unit(&self.params)
    }
    fn now(&self) -> Time {
        self.now
    }
    fn stop(&mut self) -> Result<(), DeviceError> {
        match &mut self.state {
            State::On(drive) => drive.shutdown(self.now).map(drop),
            State::Off(_) => Err(DeviceError::PowerOff),
        }
    }
    fn counters(&self) -> Vec<(&'static str, u64)> {
        let mut all = self.sums();
        if let State::On(drive) = &self.state {
            all.extend(levels(&drive.stats()));
        }
        all
    }
    fn blocks(&self, most: u32) -> Option<BlocksNow> {
        match &self.state {
            State::On(drive) => drive.blocks(most),
            State::Off(_) => None,
        }
    }
    fn cuts(&self) -> Option<u64> {
        Some(self.cuts)
    }
    fn transactor(&mut self) -> Option<&mut dyn Transactor> {
        Some(self)
    }
}

impl Power for ModelDisk<CutDrive> {
    fn cut(&self, when: When) -> Result<(), PowerError> {
        self.with(|cut, now| {
            let operations = cut.operations();
            let torn = cut.torn();
            let saves = cut.params.buffer.plp != Plp::None;
            let State::On(drive) = &mut cut.state else { return Err(PowerError::Off) };
            match when {
                When::Now => return cut.cut_at(now).map_err(|e| PowerError::Disk(e.into())),
                When::NextFlush => cut.at_flush = true,
                When::Operation(_) if saves => {
                    return Err(PowerError::NotOffered("its capacitor ends what is under way"));
                }
                When::Operation(asked) if asked <= operations => {
                    return Err(PowerError::Passed { asked, now: operations });
                }
                // An array counts its operations from 0, at each power-on.
                When::Operation(asked) => {
                    let hit = Cut { op: asked - 1 - cut.before, ..torn };
                    drive.nand_mut().set_faults(&FaultPlan { faults: vec![Fault::Cut(hit)] });
                }
            }
            Ok(())
        })
    }

    fn on(&self) -> Result<(), PowerError> {
        self.with(|cut, _| {
            let State::Off(image) = &cut.state else { return Err(PowerError::On) };
            let drive = Drive::mount(&cut.params, image.clone())
                .map_err(|error| PowerError::Disk(error.into()))?;
            cut.now = drive.now();
            cut.state = State::On(Box::new(drive));
            Ok(())
        })
    }

    fn state(&self) -> PowerState {
        self.with(|cut, _| PowerState {
            on: matches!(cut.state, State::On(_)),
            operations: cut.operations(),
            cuts: cut.cuts,
            last: cut.last,
        })
    }
}

impl Modelled for ImageDrive {
    fn unit(&self) -> u32 {
        unit(self.drive().params())
    }
    fn now(&self) -> Time {
        self.drive().now()
    }
    /// The file is let go of when the drive is dropped.
    fn stop(&mut self) -> Result<(), DeviceError> {
        self.submit(self.drive().now(), Request::flush()).map(drop)
    }
    fn counters(&self) -> Vec<(&'static str, u64)> {
        let file = self.file_stats();
        let stats = self.drive().stats();
        let mut all = sums(&stats);
        all.extend(levels(&stats));
        all.extend([
            ("file_writes", file.writes),
            ("file_bytes", file.bytes),
            ("file_syncs", file.syncs),
        ]);
        all
    }
    fn blocks(&self, most: u32) -> Option<BlocksNow> {
        self.drive().blocks(most)
    }
    fn transactor(&mut self) -> Option<&mut dyn Transactor> {
        Some(self)
    }
}
