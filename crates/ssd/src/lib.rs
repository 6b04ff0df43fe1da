//! The modelled drive: DRAM buffer, page-mapped or hybrid FTL, garbage collection, power-on recovery.
//!
//! A [`Drive`] is a [`block::BlockDevice`] in virtual time. It is built from checked [`Params`],
//! which come from a [`Config`] (keys, presets, files). What it did is in its [`Stats`].

mod backend;
mod buffer;
mod bug;
mod config;
mod drive;
mod either;
mod explain;
mod ftl;
mod host;
mod hybrid;
mod stats;
mod steps;
mod tx;

pub use buffer::{
    Access, Admission, Batches, Buffer, BufferShape, Frame, HitAccess, HitSim, List, Policy,
    PolicyInfo, PolicyOption, PolicySpec, Pool, ReqInfo, Setup, Stream, add_policy, policies,
    replace_policy, split_policies,
};
pub use bug::Bug;
pub use config::*;
pub use drive::{BlockNow, BlocksNow, Drive, Violation};
pub use ftl::{
    Choice, ClosedLine, Known, Victim, VictimInfo, VictimSpec, add_victim, replace_victim, victims,
};
pub use stats::{
    AppStats, BufferStats, GcStats, MapStats, MergeStats, OpStats, RecoveryStats, Stats, TxStats,
    Wear,
};
