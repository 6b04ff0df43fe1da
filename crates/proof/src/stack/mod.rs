//! Whole stacks under proof, as crate `stack` builds them: the power of what lies at the bottom is cut at
//! each of its durable operations, the layers come up from what is left, and who stands on top is
//! judged: by pages where there is no layer, as a host log where one is the highest, as a volume
//! where a file system is.

mod draw;
mod layered;
mod spec;
mod subject;

pub use draw::draw_stack;
pub use spec::{Judge, StackSpec};
pub use subject::StackSubject;
