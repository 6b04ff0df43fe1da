//! varve lab.
