//! The bundled trace: real requests of a real program, small enough to carry along.

/// The name on the command line.
pub const DEMO_NAME: &str = "@demo";

/// The bundled trace, `data/demo.vtr`: TPC-C on MariaDB (InnoDB, 16 connections) on ext4, recorded by
/// the project. How it was cut is in its header (`varve trace info @demo`).
pub fn demo_trace() -> &'static [u8] {
    include_bytes!("../../demo.vtr")
}
