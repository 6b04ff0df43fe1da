//! The flash array: geometry, rules, time, spare area and faults.
//!
//! Invariants (asserted in release builds too):
//! * a page is programmed at most once between two erases of its block, and the pages of a block
//!   are programmed in order;
//! * every operation passes one place ([`Nand`]), is counted there by cause, and every durable
//!   one (program, erase) gets the next operation number, so "cut the power at operation k" is
//!   one integer;
//! * bookings of one die, and of one channel, never overlap.
//!
//! The array knows nothing of logical addresses beyond the spare-area (OOB) record that its
//! caller wrote beside each slot.

mod ahead;
mod array;
mod backing;
mod busy;
mod cells;
mod cut;
mod die;
mod fault;
mod geometry;
mod image;
mod journal;
mod oob;
mod sched;
mod shift;
mod spent;
mod stats;
mod timeline;
mod timing;
mod trail;
mod trouble;
mod wear;

pub use array::{Done, Nand, NandError, PageProgram, SlotWrite};
pub use backing::Backing;
pub use cells::SlotRead;
pub use cut::{Cut, Instant, Left, Torn};
pub use fault::{Fault, FaultPlan, Outcome};
pub use geometry::Geometry;
pub use image::{BlockImage, FoundBlock, FoundSlot, Image, PageState, Payload};
pub use journal::{OpKind, OpRecord};
pub use oob::{BlockHeader, Kind, NO_LPN, OOB_BYTES, Oob, OobError};
pub use sched::{Bookings, Mark, Sched, Ticket};
pub use spent::{Breakdown, Spent, Work};
pub use stats::{Cause, NandStats, ReadCause};
pub use timeline::Timeline;
pub use timing::{Order, PageTypes, Suspend, Timing};
pub use trail::{Account, Kept, Piece, Trail, Victim};
pub use wear::WearTable;
