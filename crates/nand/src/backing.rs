//! Where the cells are kept beside memory: a live drive's image file.
//!
//! The array calls it at the one place where cells change, in the order of the operations, so
//! what it holds is always what the array held some operations ago. It never fails halfway: after
//! an error the array is switched off, and what is in the backing is what the next power-on finds.

use std::fmt::Debug;
use std::sync::Arc;

use block::{BlockId, Ppn};

use crate::PageProgram;

/// A place that outlives the process. Errors are texts for people: nobody can go on after one.
///
/// A program or an erase need not be durable when the call returns; what the caller relies on is
/// up to whoever owns both, with three exceptions that the backing owes the array:
/// * an erase is all or nothing;
/// * an erase takes effect only after every program before it is durable;
/// * a page is programmed only after the erase of its block is durable.
pub trait Backing: Debug + Send + Sync {
    /// A page is programmed. Payloads are bytes, none, or [`crate::Payload::Stored`]: then they
    /// are copied from where they lie.
    ///
    /// # Errors
    /// What the system said.
    fn program(&self, program: &PageProgram<'_>, page: u32, erases: u32) -> Result<(), String>;

    /// A block is erased, for the `erases`-th time.
    ///
    /// # Errors
    /// What the system said.
    fn erase(&self, block: BlockId, erases: u32) -> Result<(), String>;

    /// A block is marked bad.
    ///
    /// # Errors
    /// What the system said.
    fn mark_bad(&self, block: BlockId, erases: u32) -> Result<(), String>;

    /// The payload programmed at a place; `None` if it cannot be read or fails its check.
    fn read(&self, at: Ppn) -> Option<Arc<[u8]>>;
}
