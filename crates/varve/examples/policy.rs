//! A buffer policy and a victim policy of one's own, beside those that there are.
//!
//! `cargo run --release -p varve --example policy`

use varve::drive::{
    Access, Admission, Batches, Choice, Frame, List, Policy, PolicyInfo, Pool, Stream, Victim,
    VictimInfo, add_policy, add_victim,
};
use varve::sim::{Scenario, metric, run};

/// Most recently used first: what was used last leaves first. Good for loops that do not fit, bad elsewhere.
#[derive(Clone, Debug, Default)]
struct Mru(List);

impl Policy for Mru {
    fn hit(&mut self, pool: &mut Pool, frame: Frame, _: &Access<'_>) {
        pool.unlink(&mut self.0, frame);
        pool.push_front(&mut self.0, frame);
    }
    fn admit(&mut self, pool: &mut Pool, _: &Access<'_>, out: &mut Batches) -> Admission {
        if pool.free() == 0
            && let Some(newest) = self.0.front()
        {
            pool.unlink(&mut self.0, newest);
            out.evict(newest, Stream::Other);
        }
        Admission::Admit(0)
    }
    fn inserted(&mut self, pool: &mut Pool, frame: Frame, _: &Access<'_>) {
        pool.push_front(&mut self.0, frame);
    }
    fn removed(&mut self, pool: &mut Pool, frame: Frame) {
        pool.unlink(&mut self.0, frame);
    }
    fn cleaned(&mut self, _: &mut Pool, _: Frame) {}
    fn check(&self, pool: &Pool) -> Result<(), String> {
        let (here, there) = (self.0.len(), pool.resident());
        if here == there { Ok(()) } else { Err(format!("{here} in the list, {there} resident")) }
    }
}

static MRU: PolicyInfo = PolicyInfo {
    name: "mru",
    aliases: &[],
    doc: "what was used last leaves first",
    source: "an example",
    options: &[],
    clairvoyant: false,
    make: |setup| setup.buffer(Mru::default()),
};

/// Greedy among the older half of the closed lines.
#[derive(Debug)]
struct OldHalf;

impl Victim for OldHalf {
    fn choose(&mut self, choice: Choice<'_>) -> Option<u32> {
        let older = choice.closed().count().div_ceil(2);
        choice.closed().take(older).min_by_key(|line| line.valid).map(|line| line.line)
    }
    fn boxed(&self) -> Box<dyn Victim> {
        Box::new(OldHalf)
    }
}

static OLD_HALF: VictimInfo = VictimInfo {
    name: "old-half",
    doc: "greedy among the older half",
    make: |_| Some(Box::new(OldHalf)),
};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    add_policy(&MRU)?;
    add_victim(&OLD_HALF)?;
    let mut scenario = Scenario::default();
    scenario.set("drive.preset", "paper-nolog")?;
    scenario.set("drive.scale", "1/64")?;
    scenario.set("workload.gen", "zipf,size=240MiB,read=30,count=450k")?;
    scenario.set_list("sweep.buffer.policy", vec!["lru".into(), "mru".into()])?;
    scenario.set_list("sweep.gc.victim", vec!["greedy".into(), "old-half".into()])?;
    let document = run(&scenario)?;
    for (i, name) in document.runs().iter().enumerate() {
        let of = |metric| document.number(i, metric).unwrap_or(f64::NAN);
        println!("{name}: WAF {:.3}, hits {:.1} %", of(metric::WAF), 100.0 * of(metric::HIT));
    }
    Ok(())
}
