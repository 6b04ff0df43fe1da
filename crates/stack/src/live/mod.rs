//! A stack that serves real programs, from its description.

mod layers;
mod source;

use std::sync::Arc;

use block::{BlockDevice, Medium};
use live::ImageDrive;

use crate::StackError;
use crate::description::{Base, Description, Layer};
use crate::disk::{
    Blocks, CutDrive, Disk, Meter, Metered, ModelDisk, RamDisk, Recorder, Timing, Witness,
};
use crate::drive::drive_params;
use crate::power::Power;
use crate::rules::{Top, World, check};
use layers::Layers;
use source::{open_device, open_file, sized, unmake, whole};

/// A stack that runs.
#[derive(Clone, Debug)]
pub struct Stack {
    /// What it is, in words.
    pub name: String,
    /// What tells it from others: where it lies, or how it was made.
    pub identity: String,
    /// Whether what is in it outlives the process.
    pub lasts: bool,
    /// What is served.
    pub disk: Arc<dyn Disk>,
    /// Its switch.
    pub power: Arc<dyn Power>,
    /// What is asked of it.
    pub meter: Arc<Meter>,
    /// The modelled drive at its bottom, to be looked into.
    pub blocks: Option<Arc<dyn Blocks>>,
    /// The traces of what is asked of it, or of what is below a layer.
    pub recorders: Vec<Arc<Recorder>>,
}

impl Stack {
    /// A clean stop: what was acknowledged is durable, the next start quick and the trace whole. With
    /// the power off nothing is written to the disk any more.
    ///
    /// # Errors
    /// The disk's, or what kept the trace from being whole.
    pub fn stop(&self) -> Result<(), StackError> {
        let closed = match self.power.state().on && !self.disk.capabilities().read_only {
            true => self.disk.close(),
            false => Ok(()),
        };
        let end = |recorder: &Arc<Recorder>| {
            let path = recorder.path().to_path_buf();
            recorder.finish().map(drop).map_err(|error| StackError::Io { path, error })
        };
        // Each of them, whatever became of another.
        let traced = self.recorders.iter().map(end).fold(Ok(()), Result::and);
        // Of two errors that of the data counts more.
        closed?;
        traced
    }
}

/// What keeps the bytes, ready.
enum Ground {
    /// Bytes, where the layers can lie on them directly.
    Medium(Arc<dyn Medium>),
    /// A device that nothing needs to lie on.
    Disk(Arc<dyn Disk>),
    /// A modelled drive in memory, which has a switch of its own.
    Drive(Arc<ModelDisk<CutDrive>>),
}

/// What is served, and its switch.
type Served = (Arc<dyn Disk>, Arc<dyn Power>);

impl Stack {
    /// Starts a stack.
    ///
    /// # Errors
    /// [`StackError`].
    pub fn start(description: &Description) -> Result<Stack, StackError> {
        check(description, World::Live, Top::Blocks)?;
        let name = words(description);
        let layers = Layers::prepare(&description.layers, &name)?;
        let recorders = layers.recorders();
        let mut blocks: Option<Arc<dyn Blocks>> = None;
        let (disk, power) = match &description.base {
            Base::Ram(size) => {
                let ram = Arc::new(RamDisk::new(whole(*size)?)?);
                // Nothing lies between the client and the memory.
                match layers.need_medium() {
                    true => layers.over(Ground::Medium(ram))?,
                    false => layers.over(Ground::Disk(ram))?,
                }
            }
            Base::Image { path, size } => {
                let (medium, made) = open_file(path, *size, layers.only_read())?;
                let served = layers.over(Ground::Medium(Arc::new(medium)));
                if made && served.is_err() {
                    unmake(path);
                }
                served?
            }
            Base::Device(path) => {
                let medium = open_device(path, layers.only_read())?;
                layers.over(Ground::Medium(Arc::new(medium)))?
            }
            Base::Drive { preset, keys } => {
                let params = drive_params(preset, keys)?;
                let drive = CutDrive::new(&params, layers.seed().unwrap_or(1))?;
                let drive = Arc::new(ModelDisk::new(drive, layers.timing()));
                blocks = Some(Arc::<ModelDisk<_>>::clone(&drive));
                layers.over(Ground::Drive(drive))?
            }
            Base::DriveImage { path, size } => {
                let found = path.exists();
                if let (false, Some(size)) = (found, *size) {
                    drop(ImageDrive::create(path, size)?);
                }
                let first = description.layers.first();
                match first.is_some_and(|layer| matches!(layer, Layer::Cut { .. })) {
                    false => {
                        let drive = ImageDrive::open(path)?;
                        if let (true, Some(size)) = (found, *size) {
                            sized(path, drive.capacity().bytes(), size)?;
                        }
                        let drive = Arc::new(ModelDisk::new(drive, Timing::Off));
                        blocks = Some(Arc::<ModelDisk<_>>::clone(&drive));
                        layers.over(Ground::Disk(drive))?
                    }
                    // The file below it loses its power, and the drive comes up from what is left.
                    true => {
                        if let (true, Some(size)) = (found, *size) {
                            sized(path, ImageDrive::open_beside(path)?.capacity().bytes(), size)?;
                        }
                        let file = Arc::new(open_file(path, None, false)?.0);
                        layers.with_drive_image().over(Ground::Medium(file))?
                    }
                }
            }
        };
        let watched = |layer: &Layer| matches!(layer, Layer::Cut { witness: true, .. });
        let (disk, power): Served = match description.layers.iter().any(watched) {
            false => (disk, power),
            true => {
                let witness = Arc::new(Witness::new(disk, power));
                (Arc::<Witness>::clone(&witness), witness)
            }
        };
        let meter = Arc::new(Meter::default());
        let disk: Arc<dyn Disk> = Arc::new(Metered::new(disk, Arc::clone(&meter)));
        let place = place(&description.base);
        let (lasts, identity) = (place.is_some(), place.unwrap_or_else(|| description.to_string()));
        Ok(Stack { name, identity, lasts, disk, power, meter, blocks, recorders })
    }
}

/// Where it lies, if not in memory.
fn place(base: &Base) -> Option<String> {
    match base {
        Base::Image { path, .. } | Base::Device(path) | Base::DriveImage { path, .. } => {
            let whole = path.canonicalize().unwrap_or_else(|_| path.clone());
            Some(whole.display().to_string())
        }
        Base::Ram(_) | Base::Drive { .. } => None,
    }
}

/// A stack in words.
fn words(stack: &Description) -> String {
    let base = match &stack.base {
        Base::Ram(size) => format!("ram, {}", size.human()),
        Base::Image { path, .. } => format!("file {}", path.display()),
        Base::Device(path) => format!("device {}", path.display()),
        Base::Drive { preset, .. } => format!("modelled drive {preset} in memory"),
        Base::DriveImage { path, .. } => format!("modelled drive on {}", path.display()),
    };
    stack.layers.iter().fold(base, |below, layer| match layer {
        Layer::Log(_) => format!("host log over {below}"),
        Layer::PaperLog(_) => format!("paper 1's log over {below}"),
        _ => below,
    })
}
