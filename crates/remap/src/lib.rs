//! The host log: address remapping over any block device (paper 1).
//!
//! Every write is laid down in sequence and remembered where. [`Engine`] decides and books: it has
//! no clock, no lock and does no I/O. Two shells do what it says: [`HostLog`] in virtual time over a
//! [`block::BlockDevice`], [`LiveLog`] for many threads over a [`block::Medium`].
//!
//! Invariants of this crate:
//! * a write has its place and its order at admission; nothing depends on the order of completion;
//! * what recovery finds is a prefix of what was admitted, and holds all that a flush covered;
//! * a segment is used again only when neither durable state nor a reader refers to it;
//! * blocks written = user + header + gc + meta + root, exactly.

mod check;
mod counters;
mod engine;
mod error;
mod geometry;
pub mod live;
mod map;
mod modelled;
mod options;
pub mod paper;
mod planted;
mod record;
mod recovery;
mod root;
mod segment;
mod store;
mod victim;

pub use check::{ImageReport, check_store, walk_segment};
pub use counters::Counters;
pub use engine::{
    Buffering, CheckpointWrite, Engine, HeadKind, KNOWN_CLASSES, Known, Occasion, Place, Sink, Work,
};
pub use error::LogError;
pub use geometry::{BLOCK, Geometry, Pba, Seg};
pub use live::{LiveLog, MediumStore};
pub use modelled::HostLog;
pub use options::{Ack, GcOrder, LogOptions, OPTIONS, OptionInfo, Placed};
#[doc(hidden)]
pub use planted::Planted;
pub use record::{Entry, Form, GC_ENTRIES, Header, Kind, USER_ENTRIES};
pub use recovery::{Recovered, Summary, checkpoint_store, format_store, recover};
pub use root::{HeadAt, HeadsAt, Root, Super};
pub use store::Store;
pub use victim::{VictimInfo, victims};
