//! Policies from outside are as good as those within: the same definition gives the same numbers.

use varve::drive::{
    Access, Admission, Batches, Choice, Frame, List, Policy, PolicyInfo, Pool, Stream, Victim,
    VictimInfo, add_policy, add_victim, policies, replace_policy, replace_victim, victims,
};
use varve::sim::{Document, Scenario, metric, run};

/// First in, first out, once more.
#[derive(Clone, Debug, Default)]
struct Queue(List);

impl Policy for Queue {
    fn hit(&mut self, _: &mut Pool, _: Frame, _: &Access<'_>) {}
    fn admit(&mut self, pool: &mut Pool, _: &Access<'_>, out: &mut Batches) -> Admission {
        if pool.free() == 0
            && let Some(oldest) = self.0.back()
        {
            pool.unlink(&mut self.0, oldest);
            out.evict(oldest, Stream::Other);
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
        (self.0.len() == pool.resident()).then_some(()).ok_or_else(|| "lists".to_string())
    }
}

const QUEUE_INFO: PolicyInfo = PolicyInfo {
    name: "queue",
    aliases: &["first-in"],
    doc: "first in, first out",
    source: "a test",
    options: &[],
    clairvoyant: false,
    make: |setup| setup.buffer(Queue::default()),
};

/// The line closed first, in its turn, once more.
#[derive(Debug)]
struct Oldest;

impl Victim for Oldest {
    fn choose(&mut self, choice: Choice<'_>) -> Option<u32> {
        choice.closed().next().map(|line| line.line)
    }
    fn in_turn(&self) -> bool {
        true
    }
    fn boxed(&self) -> Box<dyn Victim> {
        Box::new(Oldest)
    }
}

const OLDEST_INFO: VictimInfo =
    VictimInfo { name: "oldest", doc: "closed first", make: |_| Some(Box::new(Oldest)) };

static QUEUE: PolicyInfo = QUEUE_INFO;
static OLDEST: VictimInfo = OLDEST_INFO;

fn sweep(policies: [&str; 2], victims: [&str; 2]) -> Document {
    let mut scenario = Scenario::default();
    scenario.set("drive.preset", "paper-nolog").unwrap();
    scenario.set("drive.scale", "1/64").unwrap();
    scenario.set("workload.gen", "zipf,size=240MiB,read=30,count=150k").unwrap();
    scenario.set("replay.precondition", "steady").unwrap();
    scenario.set_list("sweep.buffer.policy", policies.map(String::from).to_vec()).unwrap();
    scenario.set_list("sweep.gc.victim", victims.map(String::from).to_vec()).unwrap();
    run(&scenario).unwrap()
}

#[test]
fn what_is_added_is_used_by_its_name_and_does_the_same() {
    assert!(Scenario::default().set("drive.buffer.policy", "queue").is_err());
    add_policy(&QUEUE).unwrap();
    add_victim(&OLDEST).unwrap();
    assert!(add_policy(&QUEUE).unwrap_err().contains("called `queue` already"));
    assert!(add_victim(&OLDEST).unwrap_err().contains("called `oldest` already"));
    assert!(policies().iter().any(|info| info.name == "queue"));
    // A program in which policies are written may add one again, but not in the place of another's.
    let count = (policies().len(), victims().len());
    replace_policy(&QUEUE).unwrap();
    replace_victim(&OLDEST).unwrap();
    assert_eq!((policies().len(), victims().len()), count);
    static LRU: PolicyInfo = PolicyInfo { name: "lru", ..QUEUE_INFO };
    static GREEDY: VictimInfo = VictimInfo { name: "greedy(x)", ..OLDEST_INFO };
    assert!(replace_policy(&LRU).unwrap_err().contains("`lru`"));
    assert!(replace_victim(&GREEDY).unwrap_err().contains("`greedy(x)`"));
    assert!(victims().iter().any(|info| info.name == "oldest"));
    let document = sweep(["fifo", "queue"], ["fifo", "oldest"]);
    assert_eq!(document.runs().len(), 4);
    for of in [metric::WAF, metric::HIT, metric::ERASES, metric::GC_PAGES, metric::WRITE_P99] {
        let found: Option<Vec<f64>> = (0..4).map(|i| document.number(i, of)).collect();
        let found = found.unwrap_or_else(|| panic!("no {}", of.id()));
        assert!(found.iter().all(|value| *value == found[0] && *value > 0.0), "{of:?}: {found:?}");
    }
    assert_eq!(document.number(4, metric::WAF), None);
}
