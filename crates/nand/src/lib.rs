//! varve nand.
