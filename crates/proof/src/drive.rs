//! The modelled drive as a subject.

use block::{DeviceError, Forward, Plant, Span, Time};
use nand::{Cut, Fault, FaultPlan, Image, Instant, Left, OpKind, Outcome, PageTypes, Torn};
use ssd::{Bug, Config, Drive, Origin, Params, Plp};

use crate::atlas;
use crate::failure::{Contract, Failure};
use crate::model::Tolerance;
use crate::oracle::PageSubject;
use crate::plan::{Plan, PlanError};
use crate::step::Class;
use crate::subject::{DurableKind, Subject};

/// What a drive is built from.
#[derive(Clone, Debug)]
pub struct DriveSpec {
    params: Params,
    faults: FaultPlan,
    bug: Plant<Bug>,
    bytes: bool,
    tolerance: Tolerance,
    bound: Span,
    /// The power goes at this operation at the latest: a drive that has come so far is running in
    /// circles (C10), and this is how it stops.
    stop: FaultPlan,
}

/// No step of a run comes near so many operations.
const OPERATIONS_PER_STEP: u64 = 2_000;

/// What a workload must know of a drive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    /// 4 KiB pages.
    pub pages: u32,
    /// Pages of a mapping unit: what a discard takes whole.
    pub grain: u32,
    /// Dies.
    pub dies: u32,
    /// Erase blocks.
    pub blocks: u32,
}

impl DriveSpec {
    /// The drive of a plan.
    ///
    /// # Errors
    /// If its configuration makes none.
    pub fn of(plan: &Plan) -> Result<DriveSpec, PlanError> {
        let wrong = |e: ssd::ConfigError| PlanError::Config(e.to_string());
        let mut config = match &plan.preset {
            Some(name) => ssd::preset(name).map_err(wrong)?.config,
            None => Config::default(),
        };
        for (key, text) in &plan.config {
            let origin = Origin { from: "plan".to_string(), source: None, tag: None };
            config.set(key, text, origin).map_err(wrong)?;
        }
        let params = config.resolve().map_err(wrong)?;
        // Blocks bad from the factory may leave too little: such a drive is refused.
        let bad = |fault: &&Fault| matches!(fault, Fault::BadBlock { .. });
        let bad = FaultPlan { faults: plan.faults.iter().copied().filter(|f| bad(&f)).collect() };
        Drive::with_faults(&params, &bad).map_err(wrong)?;
        let bugs = Bug::ALL.iter().chain(&Bug::TX).copied();
        let bug = crate::planted::of(plan, bugs, "a drive")?;
        let geometry = &params.geometry;
        let page_units = geometry.page_bytes / 4096;
        let units = page_units.max(params.unit_pages);
        // Translation pages, checkpoints and trim records each speak of many pages.
        let discards = plan.work.iter().chain(&plan.after).any(|s| s.class() == Class::Discard);
        // Two faults may meet in one block: nothing is promised of what it holds then.
        let detected = |f: &&Fault| atlas::outcome(f) == Outcome::Detected;
        let shared = params.map.cache.is_some()
            || params.checkpoint.interval_slots.is_some()
            || discards
            || plan.faults.iter().filter(detected).count() > 1;
        let slow =
            plan.faults.iter().any(|f| atlas::worst(&[*f]) != atlas::Expect::M || is_slow(f));
        let bound = if slow || !params.timing.enabled { Span::ZERO } else { bound(&params) };
        let steps = (plan.work.len() + plan.after.len()) as u64 + 10;
        let runaway = Fault::Cut(Cut {
            op: steps * OPERATIONS_PER_STEP,
            instant: Instant::Before,
            torn: Torn::Nothing,
            pair: false,
            left: Left::Old,
        });
        let mut faults = FaultPlan { faults: plan.faults.clone() };
        faults.faults.push(runaway);
        let tolerance = atlas::tolerance(&plan.faults, units, shared);
        Ok(DriveSpec {
            params,
            faults,
            bug,
            bytes: plan.bytes,
            tolerance,
            bound,
            stop: FaultPlan { faults: vec![runaway] },
        })
    }

    /// What a workload must know of the drive.
    pub fn shape(&self) -> Shape {
        let (p, g) = (&self.params, &self.params.geometry);
        Shape { pages: p.logical_pages, grain: p.unit_pages, dies: g.dies(), blocks: g.blocks() }
    }

    /// Whether payloads are bytes.
    pub(crate) fn is_bytes(&self) -> bool {
        self.bytes
    }
    /// Its faults may make the drive read-only.
    pub(crate) fn may_stop(&self) -> bool {
        self.tolerance.read_only
    }
    /// No request may take longer; zero: not looked at.
    pub(crate) fn longest(&self) -> Span {
        self.bound
    }
    /// Its parameters.
    pub fn params(&self) -> &Params {
        &self.params
    }
}

fn is_slow(fault: &Fault) -> bool {
    matches!(fault, Fault::ReadRetry { .. } | Fault::SlowDie { .. } | Fault::StuckOp { .. })
}

/// No request of a healthy drive takes longer than reading, programming and erasing all of it
/// four times over, one page after another (C10).
fn bound(params: &Params) -> Span {
    let (g, t) = (&params.geometry, &params.timing);
    let longest = |spans: &[Span]| spans.iter().copied().max().unwrap_or(Span::ZERO);
    let transfer = longest(&t.transfer) + t.transfer_oob + t.cmd;
    let page = longest(&t.t_read) + longest(&t.t_program) + transfer.times(2);
    let whole = page.times(g.pages()) + t.t_erase.times(u64::from(g.blocks()));
    whole.times(4) + Span::from_us(100_000)
}

/// A drive under proof.
pub struct DriveSubject {
    drive: Drive,
    /// A page was lost to a fault before the power went: the map may still name its place, where
    /// another page now lies. Reads of it are errors, which is all that is promised.
    maimed: bool,
}

impl DriveSubject {
    /// The drive.
    pub fn drive(&self) -> &Drive {
        &self.drive
    }
    /// The drive, to be asked for more than a block device has.
    pub(crate) fn drive_mut(&mut self) -> &mut Drive {
        &mut self.drive
    }
    /// A healthy drive, from its factory or from what a cut left.
    pub(crate) fn start(
        params: &Params,
        image: Option<Image>,
        bug: Plant<Bug>,
    ) -> Result<DriveSubject, String> {
        let mut drive = match image {
            None => Drive::new(params).map_err(|e| e.to_string())?,
            Some(image) => Drive::mount_with(params, image, bug).map_err(|e| e.to_string())?,
        };
        drive.nand_mut().keep_journal();
        drive.plant(bug);
        Ok(DriveSubject { drive, maimed: false })
    }
}

impl Forward for DriveSubject {
    type To = Drive;
    fn look<R>(&self, look: impl FnOnce(&Drive) -> R) -> R {
        look(&self.drive)
    }
    fn ask<R>(&mut self, ask: impl FnOnce(&mut Drive) -> R) -> R {
        ask(&mut self.drive)
    }
}

impl Subject for DriveSubject {
    type Spec = DriveSpec;
    type Image = Image;

    fn build(spec: &DriveSpec) -> Result<DriveSubject, Failure> {
        let mut drive = Drive::with_faults(&spec.params, &spec.faults)
            .map_err(|e| Failure::new(Contract::C10, format!("no drive: {e}")))?;
        drive.nand_mut().keep_journal();
        drive.plant(spec.bug);
        Ok(DriveSubject { drive, maimed: false })
    }

    fn mount(spec: &DriveSpec, image: Image) -> Result<DriveSubject, Failure> {
        Drive::mount_with(&spec.params, image, spec.bug)
            .map(|mut drive| {
                drive.nand_mut().set_faults(&spec.stop);
                DriveSubject { drive, maimed: spec.tolerance.older }
            })
            .map_err(|e| Failure::new(Contract::C1, format!("power-on failed: {e}")))
    }

    fn ready(&self) -> Time {
        self.drive.now()
    }
    fn ops(&self) -> u64 {
        self.drive.nand().ops()
    }

    fn op(&self, op: u64) -> Option<DurableKind> {
        let mut journal = self.drive.nand().journal();
        let first = journal.next()?;
        let record = match op.checked_sub(first.op)? {
            0 => first,
            n => journal.nth(n as usize - 1)?,
        };
        debug_assert_eq!(record.op, op);
        Some(match record.kind {
            OpKind::Program => DurableKind::Program,
            OpKind::Erase => DurableKind::Erase,
            OpKind::MarkBad => DurableKind::MarkBad,
        })
    }

    fn has_pairs(&self) -> bool {
        let timing = self.drive.nand().timing();
        timing.page_types != PageTypes::Uniform && !timing.one_shot
    }
    fn saves_itself(&self) -> bool {
        self.drive.params().buffer.plp != Plp::None
    }
    fn image(&self) -> Result<Image, Failure> {
        if !self.saves_itself() {
            return Ok(self.drive.nand().image().clone());
        }
        let saved = self.drive.clone().capacitor_save();
        saved.map_err(|e| Failure::new(Contract::C1, format!("the buffer was not saved: {e}")))
    }
    fn image_at_cut(&self, cut: &Cut) -> Option<(Image, Time)> {
        self.drive.nand().image_at_cut(cut)
    }
    fn forget(&mut self, before: Time) {
        self.drive.nand_mut().prune_journal(before);
    }
    fn check(&self) -> Result<(), Failure> {
        if self.maimed {
            return Ok(());
        }
        self.drive.check().map_err(|violation| {
            let contract = violation.contract.parse().unwrap_or(Contract::C7);
            Failure::new(contract, violation.what)
        })
    }
    fn event_hash(&self) -> u64 {
        self.drive.nand().event_hash()
    }
}

impl PageSubject for DriveSubject {
    fn discard_grain(spec: &DriveSpec) -> u32 {
        spec.params.unit_pages
    }
    fn bytes(spec: &DriveSpec) -> bool {
        spec.bytes
    }
    fn tolerance(spec: &DriveSpec) -> Tolerance {
        spec.tolerance
    }
    fn bound(spec: &DriveSpec) -> Span {
        spec.bound
    }
    fn busy(&self) -> Time {
        self.drive.nand().sched().busiest()
    }
    fn stop(&mut self, at: Time) -> Result<Time, DeviceError> {
        self.drive.shutdown(at)
    }
}
