//! Bugs that a harness plants on purpose, to know that its alarm works.
//!
//! Invariant: without the feature `planted` a [`Plant`] is nothing, and nobody can make another: the
//! compiler drops every branch that asks for it. Only tests and searches switch the feature on;
//! what is shipped is built without.

use std::fmt;

/// A planted bug, or none. In a build with the feature `planted` it is made of a bug: `bug.into()`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Plant<B> {
    #[cfg(feature = "planted")]
    bug: Option<B>,
    #[cfg(not(feature = "planted"))]
    bug: std::marker::PhantomData<B>,
}

impl<B> Default for Plant<B> {
    /// No bug.
    fn default() -> Plant<B> {
        Plant { bug: Default::default() }
    }
}

/// Whether this build can have planted bugs.
pub const PLANTED: bool = cfg!(feature = "planted");

impl<B: Copy + PartialEq> Plant<B> {
    /// Whether this bug is planted.
    #[inline]
    pub fn has(self, bug: B) -> bool {
        #[cfg(feature = "planted")]
        return self.bug == Some(bug);
        #[cfg(not(feature = "planted"))]
        {
            let _ = bug;
            false
        }
    }
}

impl<B: fmt::Debug> Plant<B> {
    /// The bug of a name, if this build can have it.
    pub fn named(name: &str, all: impl IntoIterator<Item = B>) -> Option<Plant<B>> {
        #[cfg(feature = "planted")]
        return all.into_iter().find(|bug| format!("{bug:?}") == name).map(Plant::from);
        #[cfg(not(feature = "planted"))]
        {
            let _ = (name, all);
            None
        }
    }
}

#[cfg(feature = "planted")]
impl<B> From<B> for Plant<B> {
    fn from(bug: B) -> Plant<B> {
        Plant { bug: Some(bug) }
    }
}

#[cfg(feature = "planted")]
impl<B> From<Option<B>> for Plant<B> {
    fn from(bug: Option<B>) -> Plant<B> {
        Plant { bug }
    }
}
