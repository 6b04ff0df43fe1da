//! A stack of blocks as a subject.

use block::{BlockDevice, DeviceError, Fate, Request, Sectors, Span, Time};
use nand::Cut;
use stack::modelled::Start;

use super::layered::Layered;
use super::spec::{Judge, StackSpec};
use crate::failure::{Contract, Failure};
use crate::model::Tolerance;
use crate::oracle::PageSubject;
use crate::remap::{LogSubject, Promise};
use crate::shared::{Cuttable, Remains, SharedDisk, whole_cut};
use crate::subject::{DurableKind, Subject};

/// A stack under proof, or what is left of one.
pub struct StackSubject {
    /// None after a clean stop, and where power-on failed.
    layers: Option<Layered>,
    refused: Option<String>,
    /// It outlives layers that could not be started, or were stopped.
    ground: SharedDisk,
    capacity: Sectors,
}

impl StackSubject {
    fn new(spec: &StackSpec, layers: Result<Layered, String>, ground: SharedDisk) -> StackSubject {
        let capacity = Sectors(u64::from(spec.pages()) * 8);
        let (layers, refused) = match layers {
            Ok(layers) => (Some(layers), None),
            Err(why) => (None, Some(why)),
        };
        StackSubject { layers, refused, ground, capacity }
    }

    fn end(&mut self, at: Time) -> Result<Time, DeviceError> {
        let layers = self.layers.as_mut().ok_or(DeviceError::ReadOnly("the stack is stopped"))?;
        let done = layers.end(at)?;
        self.layers = None;
        Ok(done)
    }
}

impl Subject for StackSubject {
    type Spec = StackSpec;
    type Image = Remains;

    fn build(spec: &StackSpec) -> Result<StackSubject, Failure> {
        let broken = |e: String| Failure::new(Contract::C10, format!("no stack: {e}"));
        let ground = spec.ground(None).map_err(broken)?;
        let layers = Layered::start(spec, ground.clone(), Start::New).map_err(broken)?;
        Ok(StackSubject::new(spec, Ok(layers), ground))
    }

    fn mount(spec: &StackSpec, image: Remains) -> Result<StackSubject, Failure> {
        let broken = |e: String| Failure::new(Contract::C1, format!("power-on failed: {e}"));
        let ground = spec.ground(Some(image)).map_err(broken)?;
        let layers = Layered::start(spec, ground.clone(), Start::Again);
        match layers {
            Err(why) if spec.judge() != Judge::Order => Err(broken(why)),
            layers => Ok(StackSubject::new(spec, layers, ground)),
        }
    }

    fn ready(&self) -> Time {
        self.layers.as_ref().map_or_else(|| self.ground.get().answered(), Layered::ready)
    }
    fn ops(&self) -> u64 {
        self.ground.get().ops()
    }
    fn op(&self, op: u64) -> Option<DurableKind> {
        self.ground.get().op(op)
    }
    fn has_pairs(&self) -> bool {
        self.ground.get().has_pairs()
    }
    fn saves_itself(&self) -> bool {
        self.ground.get().saves_itself()
    }
    fn image(&self) -> Result<Remains, Failure> {
        self.ground.get().image()
    }
    fn image_at_cut(&self, cut: &Cut) -> Option<(Remains, Time)> {
        // A disk alone keeps its blocks whole; below a log it may tear them.
        let whole = whole_cut(cut, Fate::Blocks);
        match &self.layers {
            Some(layers) => layers.image_at_cut(cut, &whole),
            None => self.ground.get().image_at_cut(cut, &whole),
        }
    }
    fn forget(&mut self, before: Time) {
        self.ground.get().forget(before);
    }
    fn check(&self) -> Result<(), Failure> {
        self.layers.as_ref().map_or(Ok(()), Cuttable::check)
    }
    fn event_hash(&self) -> u64 {
        self.ground.get().event_hash()
    }
}

impl BlockDevice for StackSubject {
    fn capacity(&self) -> Sectors {
        self.capacity
    }
    fn submit(&mut self, at: Time, request: Request<'_>) -> Result<Time, DeviceError> {
        let layers = self.layers.as_mut().ok_or(DeviceError::ReadOnly("the stack is not up"))?;
        layers.submit(at, request)
    }
}

impl LogSubject for StackSubject {
    fn promise(spec: &StackSpec) -> Promise {
        spec.promise
    }
    fn refused(&self) -> Option<&str> {
        self.refused.as_deref()
    }
    fn stop(&mut self, at: Time) -> Result<Time, DeviceError> {
        self.end(at)
    }
}

impl PageSubject for StackSubject {
    fn discard_grain(spec: &StackSpec) -> u32 {
        spec.grain()
    }
    fn bytes(_: &StackSpec) -> bool {
        true
    }
    fn tolerance(_: &StackSpec) -> Tolerance {
        Tolerance::default()
    }
    fn bound(_: &StackSpec) -> Span {
        Span::ZERO
    }
    fn busy(&self) -> Time {
        self.ready()
    }
    fn stop(&mut self, at: Time) -> Result<Time, DeviceError> {
        self.end(at)
    }
}
