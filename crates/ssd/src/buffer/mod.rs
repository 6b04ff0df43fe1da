//! The drive's DRAM buffer: a shared pool of 4 KiB entries, and policies that own only order.
//!
//! Timing never changes a policy's decision: an entry is free for the policy the moment it is
//! evicted; if the controller still holds too much unwritten data, the *request* waits. So hit
//! ratios are equal with timing on and off.

mod front;
mod hitsim;
mod index;
mod policies;
mod policy;
mod pool;

pub(crate) use front::{Front, Host, front};
pub use hitsim::{HitAccess, HitSim};
pub use policy::{Access, Admission, Batches, Policy, PolicyInfo, ReqInfo, Stream};
pub use pool::{Frame, List, Pool};

/// The buffer policies there are.
pub fn policies() -> &'static [PolicyInfo] {
    policies::REGISTRY
}

/// Whether a name or alias is one of the registry's.
pub(crate) fn is_policy(name: &str) -> bool {
    find(name).is_some()
}

pub(crate) fn find(name: &str) -> Option<&'static PolicyInfo> {
    policies::REGISTRY.iter().find(|info| info.name == name || info.aliases.contains(&name))
}

/// All names, for messages.
pub(crate) fn policy_names() -> String {
    let names: Vec<&str> = policies::REGISTRY.iter().map(|info| info.name).collect();
    format!("one of {}", names.join(", "))
}
