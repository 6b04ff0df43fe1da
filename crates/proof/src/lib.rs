//! varve proof.
