//! varve ssd.
