//! The drive's DRAM buffer: a shared pool of 4 KiB entries, and policies that own only order.
//!
//! Timing never changes a policy's decision: an entry is free for the policy the moment it is
//! evicted; if the controller still holds too much unwritten data, the *request* waits. So hit
//! ratios are equal with timing on and off.

mod blocks;
mod clean_first;
mod front;
mod ghosts;
mod hitsim;
mod index;
mod inner;
mod lat;
mod own;
mod policies;
mod policy;
mod pool;
mod reading;
mod spec;
mod touch;
mod writeback;
mod writing;

pub(crate) use front::{Front, Host};
pub use hitsim::{HitAccess, HitSim};
pub use policies::{add_policy, policies, replace_policy};
pub use policy::{Access, Admission, Batches, Policy, PolicyInfo, ReqInfo, Stream};
pub use pool::{Frame, List, Pool};
pub use spec::{Buffer, BufferShape, PolicyOption, PolicySpec, Setup, split_policies};
