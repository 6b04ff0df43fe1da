//! What can tell of every block of its flash.

use std::fmt::Debug;

use ssd::BlocksNow;

/// A drive that can be looked into while it works.
pub trait Blocks: Debug + Send + Sync {
    /// Every block; `None` if they are more than `most`, or with the power off.
    fn blocks(&self, most: u32) -> Option<BlocksNow>;
}
