//! What the harness needs of a thing to cut its power, and of whoever judges it.
//!
//! A new layer joins with one [`Subject`] (how it is built, mounted and cut) and one [`Oracle`]
//! (what it is asked to do and what it owes). Block devices need only the first: the
//! [`crate::PageOracle`] judges them all.

use block::Time;
use nand::Cut;

use crate::failure::Failure;
use crate::model::Point;
use crate::step::Class;

/// What a durable operation does to the medium.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DurableKind {
    /// Writes once.
    Program,
    /// Erases.
    Erase,
    /// Marks a block bad.
    MarkBad,
    /// Makes earlier ones durable; changes nothing itself.
    Flush,
}

/// Something that survives power cuts, or should.
pub trait Subject: Sized {
    /// What it is built from, faults and planted bugs included.
    type Spec;
    /// What is left of it without power.
    type Image;

    /// A new one. Its faults are those of the specification.
    ///
    /// # Errors
    /// If the specification makes none.
    fn build(spec: &Self::Spec) -> Result<Self, Failure>;

    /// Power-on: recovery. No faults but the damage in the image.
    ///
    /// # Errors
    /// If recovery gives up.
    fn mount(spec: &Self::Spec, image: Self::Image) -> Result<Self, Failure>;

    /// From when on it takes requests.
    fn ready(&self) -> Time;

    /// Durable operations since power-on: they are numbered from 0.
    fn ops(&self) -> u64;

    /// What an operation did, if it can still be cut.
    fn op(&self, op: u64) -> Option<DurableKind>;

    /// Whether a torn program can damage another page.
    fn has_pairs(&self) -> bool;

    /// Its own energy completes what is under way: it is never cut inside an operation, only
    /// between steps, and then [`Subject::image`] is what is left.
    fn saves_itself(&self) -> bool {
        false
    }

    /// What is left if the power goes now, with everything begun done.
    ///
    /// # Errors
    /// If it cannot save itself.
    fn image(&self) -> Result<Self::Image, Failure>;

    /// What `cut` leaves, and its instant.
    fn image_at_cut(&self, cut: &Cut) -> Option<(Self::Image, Time)>;

    /// No cut before this time will be asked for.
    fn forget(&mut self, before: Time);

    /// The invariants (C7, C8).
    ///
    /// # Errors
    /// The one that does not hold.
    fn check(&self) -> Result<(), Failure>;

    /// The hash of everything done since power-on.
    fn event_hash(&self) -> u64;
}

/// Knows what a subject was asked to do, and therefore what it may say.
pub trait Oracle<S: Subject>: Sized {
    /// What workloads are made of.
    type Step: Clone;

    /// For a subject just built.
    fn new(spec: &S::Spec, subject: &S) -> Self;

    /// Has the subject perform one step, and judges its answers.
    ///
    /// # Errors
    /// The promise broken.
    fn apply(&mut self, subject: &mut S, step: &Self::Step) -> Result<Class, Failure>;

    /// A clean stop.
    ///
    /// # Errors
    /// The promise broken.
    fn shutdown(&mut self, subject: &mut S) -> Result<(), Failure>;

    /// The number of the last request; a cut inside it is a [`Point`] of this number.
    fn request(&self) -> u32;

    /// Reads everything back from a subject mounted after the cut `point`, and judges it. What
    /// was found is kept until the next call.
    ///
    /// # Errors
    /// The promise broken.
    fn recovered(&mut self, subject: &mut S, point: &Point) -> Result<(), Failure>;

    /// As [`Oracle::recovered`], of a subject whose recovery was cut after the same oracle had judged
    /// what it found.
    ///
    /// # Errors
    /// The promise broken.
    fn recovered_again(&mut self, subject: &mut S, point: &Point) -> Result<(), Failure> {
        self.recovered(subject, point)
    }

    /// A digest of what [`Oracle::recovered`] found last.
    fn digest(&self) -> u64;

    /// Becomes the oracle of a subject of which `other` has just found everything with
    /// [`Oracle::recovered`]. Reuses what it has allocated.
    fn restart(&mut self, other: &Self, subject: &S);
}
