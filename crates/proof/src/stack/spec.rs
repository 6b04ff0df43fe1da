//! What a plan of a stack says: the text of the stack, and which shell its log has.

use block::{CutDevice, Plant, SECTOR_BYTES, Sectors};
use lfs::FsOptions;
use lfs::fs::{Cleaning, Scj};
use remap::LogOptions;
use ssd::{Bug, Params};
use stack::modelled::Start;
use stack::rules::{Top, World, check};
use stack::{Base, Description, Layer};

use super::layered::Layered;
use crate::drive::DriveSubject;
use crate::plan::{Plan, PlanError};
use crate::remap::Promise;
use crate::shared::{Remains, SharedDisk};
use crate::stamp::SECTORS;

/// Who judges a stack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Judge {
    /// A block device promises its pages.
    Pages,
    /// A host log promises order.
    Order,
    /// A file system promises C12.
    Files,
}

/// What lies at the bottom.
#[derive(Clone, Debug)]
enum Ground {
    Disk(Sectors),
    Drive(Box<Params>),
}

/// A stack to be searched.
#[derive(Clone, Debug)]
pub struct StackSpec {
    ground: Ground,
    /// Of blocks, the lowest first.
    pub(super) layers: Vec<Layer>,
    files: Option<FsOptions>,
    /// The one log is live, and its threads' order is drawn from this.
    pub(super) live: Option<u64>,
    bug: Plant<Bug>,
    pub(super) promise: Promise,
    pages: u32,
}

fn wrong(what: impl std::fmt::Display) -> PlanError {
    PlanError::Config(format!("stack: {what}"))
}

/// Whether its log can be driven by its live shell: it is the only layer of blocks.
pub(super) fn may_live(layers: &[Layer]) -> bool {
    let mut blocks = layers.iter().filter(|layer| !matches!(layer, Layer::Lfs(_)));
    matches!((blocks.next(), blocks.next()), (Some(Layer::Log(_)), None))
}

impl StackSpec {
    /// The stack of a plan.
    ///
    /// # Errors
    /// The text is no stack, or none that can be searched.
    pub fn of(plan: &Plan) -> Result<StackSpec, PlanError> {
        let text = plan.config.get("stack").ok_or_else(|| wrong("expected a stack"))?;
        let description: Description = text.parse().map_err(wrong)?;
        check(&description, World::Search, Top::Files).map_err(wrong)?;
        let mut live = None;
        for (key, text) in &plan.config {
            match &**key {
                "stack" => {}
                "stack.live" => live = Some(text.parse().map_err(|_| wrong_seed(text))?),
                _ => return Err(wrong(format!("`{key}`: expected stack or stack.live"))),
            }
        }
        if live.is_some() && !may_live(&description.layers) {
            return Err(wrong("stack.live: expected one log, and no other layer of blocks"));
        }
        let mut layers = description.layers;
        let files = match layers.last() {
            Some(Layer::Lfs(keys)) => {
                // As `varve mount` does where nothing is said.
                let cleaning = Cleaning::Scj(Scj::default());
                let usual = FsOptions { cleaning, cached_nodes: 256, ..FsOptions::default() };
                let mut options = keys.lfs(usual).map_err(wrong)?;
                options.bug = crate::planted::of(plan, lfs::fs::Bug::ALL, "the file system")?;
                layers.pop();
                Some(options)
            }
            _ => None,
        };
        let bug = match files {
            Some(_) => Plant::default(),
            None => crate::planted::of(plan, Bug::ALL, "a drive")?,
        };
        let ground = match &description.base {
            Base::Ram(size) => Ground::Disk(Sectors(size.0 / SECTOR_BYTES)),
            Base::Drive { preset, keys } => {
                Ground::Drive(Box::new(stack::drive_params(preset, keys).map_err(wrong)?))
            }
            other => return Err(wrong(format!("{other}: not in virtual time"))),
        };
        let promise = promise(&layers)?;
        let mut spec = StackSpec { ground, layers, files, live, bug, promise, pages: 0 };
        spec.pages = (spec.fresh().map_err(wrong)?.capacity_now().0 / SECTORS as u64) as u32;
        Ok(spec)
    }

    /// 4 KiB pages that its layers of blocks offer.
    pub fn pages(&self) -> u32 {
        self.pages
    }

    /// Who judges it.
    pub fn judge(&self) -> Judge {
        match (&self.files, self.layers.last()) {
            (Some(_), _) => Judge::Files,
            (None, Some(_)) => Judge::Order,
            (None, None) => Judge::Pages,
        }
    }

    /// How its file system is mounted.
    pub(crate) fn files(&self) -> Option<FsOptions> {
        self.files
    }

    /// Whether the layers take whole pages only.
    pub(super) fn whole(&self) -> bool {
        self.layers.iter().any(|layer| matches!(layer, Layer::PaperLog(_)))
    }

    /// Pages that a discard takes whole.
    pub(super) fn grain(&self) -> u32 {
        match &self.ground {
            Ground::Disk(_) => 1,
            Ground::Drive(params) => params.unit_pages,
        }
    }

    /// The bottom, new or from what a cut left.
    pub(super) fn ground(&self, image: Option<Remains>) -> Result<SharedDisk, String> {
        Ok(match (&self.ground, image) {
            (Ground::Disk(sectors), None) => SharedDisk::new(CutDevice::new(*sectors)),
            (Ground::Disk(_), Some(image)) => SharedDisk::new(CutDevice::power_on(image.disk())),
            (Ground::Drive(params), image) => {
                let flash = image.map(|image| match image {
                    Remains::Flash(image) => *image,
                    Remains::Disk(_) => panic!("the remains of a disk, where a drive was"),
                });
                SharedDisk::new(DriveSubject::start(params, flash, self.bug)?)
            }
        })
    }

    /// All layers of blocks, new.
    pub(crate) fn fresh(&self) -> Result<SharedDisk, String> {
        Ok(SharedDisk::new(Layered::start(self, self.ground(None)?, Start::New)?))
    }

    /// The same from what a cut left of the bottom.
    pub(crate) fn again(&self, image: Remains) -> Result<SharedDisk, String> {
        Ok(SharedDisk::new(Layered::start(self, self.ground(Some(image))?, Start::Again)?))
    }
}

fn wrong_seed(text: &str) -> PlanError {
    wrong(format!("stack.live: found `{text}`, expected a number: the seed of its threads' order"))
}

/// What the highest log promises.
fn promise(layers: &[Layer]) -> Result<Promise, PlanError> {
    let none =
        Promise { atomic: 1, may_fail: false, damaged: false, verified: false, single: true };
    Ok(match layers.last() {
        Some(Layer::Log(keys)) => {
            let options = keys.log(LogOptions::default()).map_err(wrong)?;
            Promise { atomic: options.atomic_blocks(), verified: options.verify, ..none }
        }
        _ => none,
    })
}
