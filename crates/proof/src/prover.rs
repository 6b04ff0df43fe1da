//! Runs a workload once and cuts the power at every durable operation of it.
//!
//! [`Prover::hunt`] searches: after each step, each operation that the step booked is cut in
//! every way; each image is mounted, read back and judged, sometimes cut again inside its
//! recovery or in the work that follows (to depth 3). [`Prover::walk`] follows one given list of
//! cuts, which is what a plan file holds. Both go through the same few functions, so what one
//! finds the other finds again.

use block::{EventHash, Rng, Time};
use nand::{Cut, Instant};

use crate::catch;
use crate::coverage::Tally;
use crate::cuts::{PowerCut, booked, fault_index, variant, variants};
use crate::failure::Failure;
use crate::model::Point;
use crate::step::Class;
use crate::subject::{DurableKind, Oracle, Subject};

/// Cuts of one run beyond the first: recoveries cut, and cut again.
pub const DEPTH: usize = 3;

/// How densely to search.
#[derive(Clone, Copy, Debug)]
pub struct Density {
    /// One in so many operations of the workload is cut (1: all).
    pub operations: u64,
    /// After one in so many recoveries that wrote something, the recovery is cut too.
    pub nested: u64,
    /// After one in so many recoveries, the work goes on.
    pub resume: u64,
    /// Stop after so many cuts.
    pub limit: u64,
}

impl Density {
    /// Every operation of short workloads.
    pub const SHORT: Density = Density { operations: 1, nested: 2, resume: 8, limit: u64::MAX };
}

/// A broken promise, and how to get there again.
#[derive(Clone, Debug)]
pub struct Broken {
    /// What.
    pub failure: Failure,
    /// The cuts that led there.
    pub cuts: Vec<PowerCut>,
}

/// A run under proof.
pub struct Prover<'a, S: Subject, O: Oracle<S>> {
    spec: &'a S::Spec,
    work: &'a [O::Step],
    after: &'a [O::Step],
    rng: Rng,
    density: Density,
    trail: Vec<PowerCut>,
    spare: Vec<O>,
    goes_on: Option<&'a dyn Fn() -> bool>,
    /// Event hash of the run without cuts.
    pub hash: u64,
    /// Of all that was powered on again, in order: what recovery, and the work after it, did.
    pub recoveries: EventHash,
    /// What was tried.
    pub tally: Tally,
    /// A walk did not come to an operation that a cut names.
    pub missed: bool,
}

/// Everything before it happened, and everything begun was done.
const END: Point = Point { instant: Time::from_ps(u64::MAX), request: u32::MAX, complete: true };

impl<'a, S: Subject, O: Oracle<S>> Prover<'a, S, O> {
    /// Of one subject, a workload, and the work after each recovery.
    pub fn new(
        spec: &'a S::Spec,
        work: &'a [O::Step],
        after: &'a [O::Step],
        seed: u64,
        density: Density,
    ) -> Prover<'a, S, O> {
        Prover {
            spec,
            work,
            after,
            rng: Rng::stream(seed, "prover"),
            density,
            trail: Vec::new(),
            spare: Vec::new(),
            goes_on: None,
            hash: 0,
            recoveries: EventHash::default(),
            tally: Tally::default(),
            missed: false,
        }
    }

    /// Asks at each cut of a search whether it goes on: who asks sees that it is not stuck, and can end it.
    pub fn while_asked(&mut self, goes_on: &'a dyn Fn() -> bool) {
        self.goes_on = Some(goes_on);
    }

    fn is_over(&self) -> bool {
        self.tally.cuts >= self.density.limit || self.goes_on.is_some_and(|goes_on| !goes_on())
    }

    /// Searches for a broken promise.
    ///
    /// # Errors
    /// The first one.
    pub fn hunt(&mut self) -> Result<(), Broken> {
        let result = catch::panics(|| self.search());
        result.map_err(|failure| Broken { failure, cuts: std::mem::take(&mut self.trail) })
    }

    /// Follows a list of cuts.
    ///
    /// # Errors
    /// The promise broken on the way.
    pub fn walk(&mut self, cuts: &[PowerCut]) -> Result<(), Broken> {
        let result = catch::panics(|| self.follow(cuts));
        result.map_err(|failure| Broken { failure, cuts: cuts.to_vec() })
    }

    /// Runs the workload without a cut, powers on once more, and digests everything done and
    /// found: the same for two runs of one plan (C9). A failure on the way is part of it.
    pub fn digest(&mut self) -> (u64, u64, String) {
        let (mut hashes, mut found) = (0, 0);
        let result = catch::panics(|| {
            let mut subject = S::build(self.spec)?;
            let mut oracle = O::new(self.spec, &subject);
            for step in self.work {
                oracle.apply(&mut subject, step)?;
            }
            hashes = subject.event_hash();
            let mut after = S::mount(self.spec, subject.image()?)?;
            oracle.recovered(&mut after, &END)?;
            hashes ^= after.event_hash().rotate_left(1);
            found = oracle.digest();
            Ok(())
        });
        (hashes, found, result.err().map(|failure| failure.what).unwrap_or_default())
    }

    fn search(&mut self) -> Result<(), Failure> {
        self.tally.seeds += 1;
        let mut subject = S::build(self.spec)?;
        let mut oracle = O::new(self.spec, &subject);
        let mut done = 0;
        for step in self.work {
            let first = subject.ops();
            let class = oracle.apply(&mut subject, step)?;
            self.tally.steps += 1;
            done += 1;
            if subject.saves_itself() {
                self.cut_after(&subject, &mut oracle, class, done, 0)?;
            } else {
                self.cut_all(&subject, &mut oracle, class, first)?;
            }
            if self.is_over() {
                break;
            }
        }
        subject.check()?;
        self.hash = subject.event_hash();
        self.cut_after(&subject, &mut oracle, Class::Idle, done, 0)
    }

    /// Cuts between two steps, with everything begun done.
    fn cut_after(
        &mut self,
        subject: &S,
        oracle: &mut O,
        class: Class,
        steps: u64,
        depth: usize,
    ) -> Result<(), Failure> {
        self.trail.push(PowerCut::After(steps));
        self.probe(subject.image()?, &END, oracle, (class, None, depth > 0), depth)?;
        self.trail.pop();
        Ok(())
    }

    /// Cuts every operation booked since `first`, in every way.
    fn cut_all(
        &mut self,
        subject: &S,
        oracle: &mut O,
        class: Class,
        first: u64,
    ) -> Result<(), Failure> {
        let last = subject.ops();
        for op in first..last {
            if self.density.operations > 1 && !self.rng.ratio(1, self.density.operations) {
                continue;
            }
            let Some(kind) = subject.op(op) else { continue };
            if self.goes_on.is_some_and(|goes_on| !goes_on()) {
                break;
            }
            let pairs = subject.has_pairs();
            for n in 0..variants(kind, pairs) {
                let cut = variant(kind, op, n, pairs, &mut self.rng);
                self.cut(subject, oracle, (class, Some(kind), false), &cut, 0)?;
            }
            if op == first {
                let cut = booked(op, pairs, &mut self.rng);
                self.cut(subject, oracle, (class, Some(kind), false), &cut, 0)?;
            }
        }
        Ok(())
    }

    /// Makes one cut of a running subject and proves what is left.
    fn cut(
        &mut self,
        subject: &S,
        oracle: &mut O,
        what: (Class, Option<DurableKind>, bool),
        cut: &Cut,
        depth: usize,
    ) -> Result<(), Failure> {
        let Some((image, instant)) = subject.image_at_cut(cut) else { return Ok(()) };
        let point = point(oracle.request(), subject.ops(), cut, instant);
        self.trail.push(PowerCut::At(*cut));
        self.probe(image, &point, oracle, what, depth)?;
        self.trail.pop();
        Ok(())
    }

    /// Mounts an image, judges it, and sometimes goes on: cuts the recovery, or works.
    fn probe(
        &mut self,
        image: S::Image,
        point: &Point,
        oracle: &mut O,
        what: (Class, Option<DurableKind>, bool),
        depth: usize,
    ) -> Result<(), Failure> {
        if let Some(cut) = self.trail.last() {
            self.tally.cut(what.0, fault_index(what.1, cut), depth, what.2);
        }
        let mut subject = S::mount(self.spec, image)?;
        let booked = subject.ops();
        match what.0 {
            Class::Mount => oracle.recovered_again(&mut subject, point)?,
            _ => oracle.recovered(&mut subject, point)?,
        }
        subject.check()?;
        self.recoveries.add(subject.event_hash());
        if booked > 0
            && depth < DEPTH
            && !subject.saves_itself()
            && self.rng.ratio(1, self.density.nested)
        {
            self.cut_recovery(&subject, oracle, point, booked, depth + 1)?;
        }
        if depth <= DEPTH && self.rng.ratio(1, self.density.resume) {
            self.resume(subject, oracle, depth)?;
        }
        Ok(())
    }

    /// Cuts one operation of a recovery.
    fn cut_recovery(
        &mut self,
        subject: &S,
        oracle: &mut O,
        point: &Point,
        booked: u64,
        depth: usize,
    ) -> Result<(), Failure> {
        let op = self.rng.below(booked);
        let Some(kind) = subject.op(op) else { return Ok(()) };
        let cut = self.any_cut(subject, kind, op);
        let Some((image, _)) = subject.image_at_cut(&cut) else { return Ok(()) };
        self.trail.push(PowerCut::At(cut));
        self.probe(image, point, oracle, (Class::Mount, Some(kind), false), depth)?;
        self.trail.pop();
        Ok(())
    }

    fn any_cut(&mut self, subject: &S, kind: DurableKind, op: u64) -> Cut {
        let pairs = subject.has_pairs();
        let n = self.rng.below(variants(kind, pairs) as u64 + 1) as usize;
        if n == variants(kind, pairs) {
            booked(op, pairs, &mut self.rng)
        } else {
            variant(kind, op, n, pairs, &mut self.rng)
        }
    }

    /// The work goes on after a recovery, with at most one more cut on the way; then a clean stop
    /// and a last power-on, which must find everything.
    fn resume(&mut self, mut subject: S, before: &O, depth: usize) -> Result<(), Failure> {
        self.tally.resumed += 1;
        let mut oracle = self.spare.pop().unwrap_or_else(|| O::new(self.spec, &subject));
        oracle.restart(before, &subject);
        // From this step on, the first operation booked is cut once more.
        let mut cut_at =
            (depth < DEPTH).then(|| self.rng.below(self.after.len() as u64 + 1) as usize);
        for (i, step) in self.after.iter().enumerate() {
            let first = subject.ops();
            let class = oracle.apply(&mut subject, step)?;
            self.tally.steps += 1;
            let last = subject.ops();
            if cut_at.is_none_or(|from| i < from) || last == first {
                continue;
            }
            cut_at = None;
            if subject.saves_itself() {
                self.cut_after(&subject, &mut oracle, class, i as u64 + 1, depth + 1)?;
                continue;
            }
            let op = first + self.rng.below(last - first);
            if let Some(kind) = subject.op(op) {
                let cut = self.any_cut(&subject, kind, op);
                self.cut(&subject, &mut oracle, (class, Some(kind), true), &cut, depth + 1)?;
            }
        }
        self.finish(&mut subject, &mut oracle)?;
        self.spare.push(oracle);
        Ok(())
    }

    /// A clean stop and a last power-on.
    fn finish(&mut self, subject: &mut S, oracle: &mut O) -> Result<(), Failure> {
        oracle.shutdown(subject)?;
        subject.check()?;
        self.recoveries.add(subject.event_hash());
        let mut last = S::mount(self.spec, subject.image()?)?;
        oracle.recovered(&mut last, &END)?;
        last.check()
    }

    fn follow(&mut self, cuts: &[PowerCut]) -> Result<(), Failure> {
        self.tally.seeds += 1;
        let mut subject = S::build(self.spec)?;
        let mut oracle = O::new(self.spec, &subject);
        let mut point = self.follow_work(&mut subject, &mut oracle, self.work, cuts.first())?;
        self.hash = subject.event_hash();
        subject.check()?;
        let mut again = false;
        for n in 0..cuts.len().max(1) {
            let cut = cuts.get(n).unwrap_or(&PowerCut::After(u64::MAX));
            let image = match cut {
                PowerCut::After(_) => subject.image()?,
                PowerCut::At(cut) => match subject.image_at_cut(cut) {
                    Some((image, _)) => image,
                    None => {
                        self.missed = true;
                        return Ok(());
                    }
                },
            };
            self.tally.cut(Class::Mount, fault_index(None, cut), n.min(DEPTH), false);
            subject = S::mount(self.spec, image)?;
            let booked = subject.ops();
            match again {
                true => oracle.recovered_again(&mut subject, &point)?,
                false => oracle.recovered(&mut subject, &point)?,
            }
            subject.check()?;
            again = matches!(cuts.get(n + 1), Some(PowerCut::At(cut)) if cut.op < booked);
            match cuts.get(n + 1) {
                _ if again => {}
                next => {
                    let mut resumed = O::new(self.spec, &subject);
                    resumed.restart(&oracle, &subject);
                    oracle = resumed;
                    point = self.follow_work(&mut subject, &mut oracle, self.after, next)?;
                }
            }
        }
        self.finish(&mut subject, &mut oracle)
    }

    /// Performs steps until the operation of the next cut is booked, or all of them.
    fn follow_work(
        &mut self,
        subject: &mut S,
        oracle: &mut O,
        steps: &[O::Step],
        next: Option<&PowerCut>,
    ) -> Result<Point, Failure> {
        let limit = match next {
            Some(PowerCut::After(steps)) => usize::try_from(*steps).unwrap_or(usize::MAX),
            _ => usize::MAX,
        };
        for step in steps.iter().take(limit) {
            oracle.apply(subject, step)?;
            self.tally.steps += 1;
            if let Some(PowerCut::At(cut)) = next
                && subject.ops() > cut.op
            {
                let Some((_, instant)) = subject.image_at_cut(cut) else { break };
                return Ok(point(oracle.request(), subject.ops(), cut, instant));
            }
        }
        Ok(END)
    }
}

/// The cut as the host sees it. The request that booked the operation counts as answered only if
/// nothing of it was still to be booked.
fn point(request: u32, ops: u64, cut: &Cut, instant: Time) -> Point {
    let complete = cut.instant != Instant::Booked && cut.op + 1 == ops;
    Point { instant, request, complete }
}
