//! A device that a store works on while an experiment looks at it.
//!
//! Invariant: one call is under way at a time; nobody keeps the lock between two.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use block::Forward;

/// One device, held by two; clones are the same one.
#[derive(Debug)]
pub struct Handle<D>(Arc<Mutex<D>>);

impl<D> Clone for Handle<D> {
    fn clone(&self) -> Self {
        Handle(Arc::clone(&self.0))
    }
}

impl<D> Handle<D> {
    /// Shares a device.
    pub fn new(device: D) -> Handle<D> {
        Handle(Arc::new(Mutex::new(device)))
    }

    /// The device, while the store does nothing.
    pub fn get(&self) -> MutexGuard<'_, D> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<D> Forward for Handle<D> {
    type To = D;
    fn look<R>(&self, look: impl FnOnce(&D) -> R) -> R {
        look(&self.get())
    }
    fn ask<R>(&mut self, ask: impl FnOnce(&mut D) -> R) -> R {
        ask(&mut self.get())
    }
}
