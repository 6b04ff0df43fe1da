//! The drive's FTL: one of two, told apart once a request.

use block::{DeviceError, Plant, Time};
use nand::{Image, Nand, Payload};

use crate::backend::Backend;
use crate::ftl::{PageFtl, Writer};
use crate::hybrid::HybridFtl;
use crate::stats::{GcStats, MapStats, MergeStats, RecoveryStats};
use crate::{Bug, Violation};

/// A flash translation layer.
#[derive(Clone, Debug)]
pub(crate) enum Ftl {
    /// Page-mapped.
    Page(Box<PageFtl>),
    /// Block map with a pool of log blocks.
    Hybrid(Box<HybridFtl>),
}

/// What both have, by one name.
macro_rules! either {
    ($self:expr, $ftl:ident => $do:expr) => {
        match $self {
            Ftl::Page($ftl) => $do,
            Ftl::Hybrid($ftl) => $do,
        }
    };
}

impl Ftl {
    pub fn nand(&self) -> &Nand {
        either!(self, ftl => &ftl.nand)
    }
    pub fn nand_mut(&mut self) -> &mut Nand {
        either!(self, ftl => &mut ftl.nand)
    }
    pub fn read_only(&self) -> Option<&'static str> {
        either!(self, ftl => ftl.read_only)
    }
    pub fn power_off(self) -> (Image, Option<Time>) {
        either!(self, ftl => ftl.nand.power_off())
    }
    pub fn plant(&mut self, bug: Plant<Bug>) {
        either!(self, ftl => ftl.bug = bug);
    }
    pub fn set_now(&mut self, now: Time) -> Result<(), DeviceError> {
        either!(self, ftl => ftl.set_now(now))
    }
    /// The FTL that can have transactions.
    pub fn page(&self) -> Option<&PageFtl> {
        match self {
            Ftl::Page(ftl) => Some(ftl),
            Ftl::Hybrid(_) => None,
        }
    }
    /// The FTL that can have transactions.
    pub fn page_mut(&mut self) -> Option<&mut PageFtl> {
        match self {
            Ftl::Page(ftl) => Some(ftl),
            Ftl::Hybrid(_) => None,
        }
    }
    /// Writes one 4 KiB page of a mapping unit.
    pub fn save(
        &mut self,
        at: Time,
        unit: u32,
        mask: u32,
        payload: Payload,
    ) -> Result<(), DeviceError> {
        either!(self, ftl => Backend::write(&mut **ftl, at, unit, mask, &[payload], Writer::default()))
    }
    pub fn sync(&mut self) -> Result<Time, DeviceError> {
        either!(self, ftl => Backend::sync(&mut **ftl))
    }
    /// Background work until the next request.
    pub fn clean_idle(&mut self, until: Time) -> Result<(), DeviceError> {
        match self {
            Ftl::Page(ftl) => ftl.clean_idle(until),
            Ftl::Hybrid(_) => Ok(()),
        }
    }
    pub fn checkpoint_if_due(&mut self) -> Result<(), DeviceError> {
        match self {
            Ftl::Page(ftl) => ftl.checkpoint_if_due(),
            Ftl::Hybrid(_) => Ok(()),
        }
    }
    /// Writes a checkpoint where they are kept.
    pub fn write_checkpoint(&mut self) -> Result<Time, DeviceError> {
        match self {
            Ftl::Page(ftl) => ftl.write_checkpoint(),
            Ftl::Hybrid(_) => Ok(Time::ZERO),
        }
    }
    pub fn check(&self) -> Result<(), Violation> {
        either!(self, ftl => ftl.check())
    }
    pub fn copies_ordered(&self) -> u64 {
        either!(self, ftl => ftl.copies_ordered())
    }
    pub fn copies_assembled(&self) -> u64 {
        either!(self, ftl => ftl.copies_assembled())
    }
    pub fn reset_stats(&mut self) {
        either!(self, ftl => ftl.reset_stats());
    }
    pub fn gc_stats(&self) -> GcStats {
        either!(self, ftl => ftl.gc_stats())
    }
    pub fn map_stats(&self) -> MapStats {
        match self {
            Ftl::Page(ftl) => ftl.map_stats,
            Ftl::Hybrid(_) => MapStats::default(),
        }
    }
    pub fn merge_stats(&self) -> MergeStats {
        match self {
            Ftl::Page(_) => MergeStats::default(),
            Ftl::Hybrid(ftl) => ftl.merge_stats,
        }
    }
    pub fn recovery(&self) -> Option<RecoveryStats> {
        either!(self, ftl => ftl.recovery)
    }
    pub fn bad_blocks(&self) -> u64 {
        either!(self, ftl => ftl.bad_blocks())
    }
    pub fn free_blocks(&self) -> u64 {
        either!(self, ftl => ftl.free_blocks())
    }
    pub fn valid_slots(&self) -> u64 {
        either!(self, ftl => ftl.valid_slots())
    }
    pub fn slots(&self) -> u32 {
        either!(self, ftl => ftl.slots())
    }
    pub fn data_slots(&self) -> u64 {
        either!(self, ftl => ftl.data_slots())
    }
    pub fn effective_slots(&self) -> u64 {
        either!(self, ftl => ftl.effective_slots())
    }
}
