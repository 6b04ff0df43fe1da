//! The one place with pointers from outside: streams of batches, and functions that others compiled.

pub mod capsule;
pub mod function;
