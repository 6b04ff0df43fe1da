//! Makes a failing plan small: fewer faults, fewer steps, a plainer and smaller drive, smaller
//! numbers, in that order. What is left still breaks the same line of the contract.

use crate::drive::DriveSpec;
use crate::failure::{Contract, Failure};
use crate::lfs::{FsAction, FsSpec};
use crate::plan::Plan;
use crate::prover::Density;
use crate::remap::RemapSpec;
use crate::replay::{hunt, replay};
use crate::step::{Action, Step};

/// Cuts one attempt may take.
const PATIENCE: u64 = 40_000;

/// A shrink under way.
struct Shrink {
    best: Plan,
    failure: Failure,
    density: Density,
    attempts: u32,
}

/// Shrinks a plan that ends in `failure`, in at most so many attempts. Each attempt searches the
/// smaller run anew, because removing a step renumbers the operations after it. A plan that no
/// search breaks again is returned as it is.
pub fn shrink(plan: &Plan, failure: &Failure, attempts: u32) -> Plan {
    let plain = Density { nested: u64::MAX, resume: u64::MAX, limit: PATIENCE, operations: 1 };
    let deep = Density { nested: 1, resume: 2, limit: PATIENCE, operations: 1 };
    for density in [plain, deep] {
        let mut shrink = Shrink { best: plan.clone(), failure: failure.clone(), density, attempts };
        if shrink.attempt(plan.clone()) {
            shrink.run();
            return shrink.best;
        }
    }
    plan.clone()
}

impl Shrink {
    fn run(&mut self) {
        loop {
            let before = self.best.clone();
            self.faults();
            self.steps(|plan| &mut plan.work);
            self.steps(|plan| &mut plan.after);
            self.config();
            self.geometry();
            self.values();
            if self.attempts == 0 || self.best == before {
                return;
            }
        }
    }

    /// Keeps a smaller plan if it still breaks the same line.
    fn attempt(&mut self, mut plan: Plan) -> bool {
        if self.attempts == 0 {
            return false;
        }
        self.attempts -= 1;
        let Some(pages) = pages(&plan) else { return false };
        fit(&mut plan, pages);
        let Ok(outcome) = hunt(&plan, self.density) else { return false };
        let Some(broken) = outcome.broken else { return false };
        if broken.failure.contract != self.failure.contract
            || (self.failure.contract == Contract::Panic
                && broken.failure.signature() != self.failure.signature())
        {
            return false;
        }
        plan.cuts = broken.cuts;
        plan.contract = Some(self.failure.contract);
        plan.what = broken.failure.what;
        // A plan is only worth keeping if following it shows the failure.
        let Ok(outcome) = replay(&plan) else { return false };
        if outcome.failure.is_none_or(|f| f.contract != self.failure.contract) {
            return false;
        }
        plan.hash = Some(outcome.hash);
        self.best = plan;
        true
    }

    fn faults(&mut self) {
        let mut i = 0;
        while i < self.best.faults.len() {
            let mut plan = self.best.clone();
            plan.faults.remove(i);
            if !self.attempt(plan) {
                i += 1;
            }
        }
    }

    /// Removes runs of steps, long ones first.
    fn steps(&mut self, list: fn(&mut Plan) -> &mut Vec<Step>) {
        let mut length = list(&mut self.best).len().next_power_of_two();
        while length > 0 {
            let mut from = 0;
            while from < list(&mut self.best).len() {
                let mut plan = self.best.clone();
                let steps = list(&mut plan);
                let to = (from + length).min(steps.len());
                steps.drain(from..to);
                if !self.attempt(plan) {
                    from += length;
                }
            }
            length /= 2;
        }
    }

    /// Puts keys back to their defaults.
    fn config(&mut self) {
        let keys: Vec<String> = self.best.config.keys().cloned().collect();
        for key in keys {
            let kept = [
                "nand.oob",
                "tx.mode",
                "remap.mode",
                "disk.blocks",
                "lfs.cleaning",
                "lfs.blocks",
                "stack",
            ];
            if !kept.contains(&key.as_str()) && !key.starts_with("geometry.") {
                let mut plan = self.best.clone();
                plan.config.remove(&key);
                self.attempt(plan);
            }
        }
    }

    fn geometry(&mut self) {
        for (key, least) in [
            ("geometry.channels", 1),
            ("geometry.dies", 1),
            ("geometry.planes", 1),
            ("geometry.cell_bits", 1),
            ("geometry.blocks", 4),
            ("geometry.pages", 1),
            ("disk.blocks", 16),
            ("lfs.blocks", 300),
            ("lfs.fill", 0),
        ] {
            while let Some(n) = self.best.config.get(key).and_then(|text| text.parse::<u64>().ok())
            {
                let smaller = [least, n / 2, n.saturating_sub(1)];
                let tried = smaller.into_iter().filter(|m| *m >= least && *m < n).any(|m| {
                    let mut plan = self.best.clone();
                    plan.config.insert(key.to_string(), m.to_string());
                    self.attempt(plan)
                });
                if !tried {
                    break;
                }
            }
        }
        for (key, plain) in [("geometry.page", "4 KiB"), ("unit", "4 KiB")] {
            if self.best.config.get(key).is_some_and(|text| text != plain) {
                let mut plan = self.best.clone();
                plan.config.insert(key.to_string(), plain.to_string());
                self.attempt(plan);
            }
        }
    }

    fn values(&mut self) {
        for i in 0..self.best.work.len() {
            for plainer in plainer(&self.best.work[i]) {
                let mut plan = self.best.clone();
                plan.work[i] = plainer;
                self.attempt(plan);
            }
        }
    }
}

/// Pages of what a plan is of, if its configuration makes one.
fn pages(plan: &Plan) -> Option<u32> {
    if plan.has_files() {
        return FsSpec::of(plan).ok().map(|_| 1);
    }
    match plan.has_log() {
        true => RemapSpec::of(plan).ok().map(|spec| spec.pages()),
        false => DriveSpec::of(plan).ok().map(|spec| spec.shape().pages),
    }
}

/// Simpler forms of a step.
fn plainer(step: &Step) -> Vec<Step> {
    let mut forms = Vec::new();
    if step.overlap {
        forms.push(Step { overlap: false, ..*step });
    }
    if step.app > 0 {
        forms.push(Step { app: 0, ..*step });
    }
    if let Action::Write { page, count, fua } = step.action {
        if count > 1 {
            forms.push(Step { action: Action::Write { page, count: 1, fua }, ..*step });
        }
        if fua {
            forms.push(Step { action: Action::Write { page, count, fua: false }, ..*step });
        }
    }
    if let Action::File(FsAction::Write(path, at, len)) = step.action {
        let smaller = [(0, 4096), (0, len), (at, 4096), (at & !4095, len.next_multiple_of(4096))];
        let smaller = smaller.into_iter().filter(|(a, n)| (*a, *n) != (at, len) && *n <= len);
        forms.extend(smaller.map(|(at, len)| Step {
            action: Action::File(FsAction::Write(path, at, len)),
            ..*step
        }));
    }
    if let Action::TxWrite { tx, page, count } = step.action
        && count > 1
    {
        forms.push(Step { action: Action::TxWrite { tx, page, count: 1 }, ..*step });
    }
    forms
}

/// Brings steps into a drive that has become smaller.
fn fit(plan: &mut Plan, pages: u32) {
    let into = |start: &mut u32, count: &mut u32, all: u32| {
        *start %= all;
        *count = (*count).min(all - *start);
    };
    for step in plan.work.iter_mut().chain(&mut plan.after) {
        match &mut step.action {
            Action::Write { page, count, .. }
            | Action::Read { page, count }
            | Action::Discard { page, count } => into(page, count, pages),
            Action::WriteBytes { sector, count, .. } => into(sector, count, pages * 8),
            Action::TxWrite { page, count, .. }
            | Action::TxTrim { page, count, .. }
            | Action::TxRead { page, count, .. } => into(page, count, pages),
            Action::Remap { to, from, count } => {
                into(to, count, pages);
                into(from, count, pages);
            }
            Action::Flush
            | Action::Idle(_)
            | Action::Shutdown
            | Action::Begin { .. }
            | Action::Commit { .. }
            | Action::Abort { .. }
            | Action::File(_) => {}
        }
    }
}
