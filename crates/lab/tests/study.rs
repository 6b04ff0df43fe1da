//! Points of a sweep as a program of one's own has them: run one by one, and put together.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use ssd::{Choice, Victim, VictimInfo, add_victim};
use varve_lab::Experiment;
use varve_lab::cite::cite;
use varve_lab::replay::Watch;
use varve_lab::scenario::Scenario;
use varve_lab::study::{Finished, Found, Index, Merged, Part, Store, Study, Table};

const SCENARIO: &str = "
seed = [1, 2]
[drive]
capacity = '32 MiB'
op = '12.5 %'
geometry.channels = 2
geometry.dies = 2
geometry.pages = 64
buffer.size = '1 MiB'
[replay]
mode = 'untimed'
precondition = 'seq'
[sweep]
workload.trace = ['gen:uniform,size=16MiB,count=4k', 'gen:zipf,size=32MiB,count=4k,read=40']
buffer.policy = ['lru', 'sieve']
";

fn scenario(text: &str) -> Scenario {
    Scenario::from_text("s.toml", text, PathBuf::new()).unwrap()
}

fn watched<R>(f: impl FnOnce(Watch<'_>) -> R) -> R {
    let (stop, nobody) = (AtomicBool::new(false), |_| ());
    f(Watch { stop: &stop, progress: &nobody })
}

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let name = format!("varve-lab-study-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = std::fs::remove_dir_all(&path);
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn results_that_were_made_anywhere_are_one_document() {
    let scenario = scenario(SCENARIO);
    let whole = watched(|watch| Experiment::new(&scenario).unwrap().run(2, "v", watch)).unwrap();
    // Each result is made by a study of its own, and travels as text; so does the index.
    let index = Study::new(&scenario, "v").unwrap().index().to_json().pretty();
    let index = Index::read(&index).unwrap();
    let folder = Folder::new("results");
    let store = Store::new(&folder.0);
    store.begin(&index).unwrap();
    let ids: Vec<String> = index.ids().map(|(_, id)| id.to_string()).collect();
    assert_eq!(ids.len(), 8);
    for id in ids.iter().rev() {
        let study = Study::new(&scenario, "v").unwrap();
        let result = watched(|watch| study.finish(id, watch)).unwrap();
        assert_eq!(result.id, *id);
        assert!(matches!(store.find(id), Ok(Found::Nothing)));
        store.put(&Finished::read(&result.text()).unwrap()).unwrap();
    }
    let merged = Merged::of(&index, std::slice::from_ref(&store)).unwrap();
    merged.whole().unwrap();
    assert_eq!(merged.document().text(), whole.text());
    let study = Study::new(&scenario, "v").unwrap();
    let missing = study.missing(&Part::All, &store, &|_| panic!("nothing is damaged")).unwrap();
    assert!(missing.is_empty());
    // Another version of the program has other results.
    let other = Study::new(&scenario, "w").unwrap();
    assert!(other.index().ids().all(|(_, id)| !ids.contains(&id.to_string())));
    let error = index.same(other.index(), ("a", "b")).unwrap_err();
    assert!(error.to_string().contains("versions v and w"), "{error}");
    let unknown = watched(|watch| other.finish(&ids[0], watch)).unwrap_err();
    assert_eq!(unknown.exit_code(), 3, "{unknown}");
}

/// What was damaged on the way is seen, whatever it is.
#[test]
fn a_damaged_unit_is_no_unit() {
    let study = Study::new(&scenario(SCENARIO), "v").unwrap();
    let id = study.index().ids().next().unwrap().1.to_string();
    let text = watched(|watch| study.finish(&id, watch)).unwrap().text();
    let folder = Folder::new("damaged");
    let store = Store::new(&folder.0);
    store.begin(study.index()).unwrap();
    let (mut rejected, mut same) = (0, 0);
    for at in (0..text.len()).step_by(7) {
        let mut bytes = text.clone().into_bytes();
        bytes[at] ^= 1 << (at % 7);
        std::fs::write(store.path(&id), &bytes).unwrap();
        match store.find(&id).unwrap() {
            Found::Damaged(_) => rejected += 1,
            // A blank that became another blank says the same.
            Found::Finished(result) => {
                assert_eq!(result.text(), text, "byte {at}");
                same += 1;
            }
            Found::Nothing => panic!("byte {at}"),
        }
    }
    assert!(rejected > 50 && same < rejected / 10, "{rejected} rejected, {same} the same");
    let note = std::cell::Cell::new(0);
    std::fs::write(store.path(&id), &text[..text.len() / 2]).unwrap();
    let missing = study.missing(&Part::All, &store, &|_| note.set(note.get() + 1)).unwrap();
    assert_eq!((missing.len(), note.get()), (8, 1), "it is run again, and that is said");
}

/// Collects nothing, ever.
#[derive(Clone, Debug)]
struct Idle;

impl Victim for Idle {
    fn choose(&mut self, _: Choice<'_>) -> Option<u32> {
        None
    }
    fn boxed(&self) -> Box<dyn Victim> {
        Box::new(self.clone())
    }
}

static IDLE: VictimInfo = VictimInfo {
    name: "idle",
    doc: "nothing",
    make: |spec| spec.parameter.is_none().then(|| Box::new(Idle) as Box<dyn Victim>),
};

/// A drive that runs out of room is a finding of a study, and an error of a single run.
#[test]
fn a_drive_that_has_no_room_is_one_cell() {
    add_victim(&IDLE).unwrap();
    let text =
        SCENARIO.replace("buffer.policy = [", "gc.victim = ['idle', 'greedy']\nbuffer.policy = [");
    let study = Study::new(&scenario(&text), "v").unwrap();
    let folder = Folder::new("full");
    let store = Store::new(&folder.0);
    let points = study.points(&Part::All);
    watched(|watch| study.run(&points, &store, 2, watch)).unwrap();
    let merged = Merged::of(study.index(), std::slice::from_ref(&store)).unwrap();
    let value = merged.document().value();
    let results = value["results"].as_array().unwrap();
    assert_eq!(results.len(), 16);
    for result in results {
        let idle = result["params"]["gc.victim"] == "idle";
        let reason = result["impossible"].as_str();
        assert_eq!(reason.is_some(), idle, "{}", result["name"]);
        assert!(reason.is_none_or(|reason| reason.contains("no space")), "{reason:?}");
        assert_eq!(result["waf"].is_number(), !idle);
    }
    let rows = Table::of(&merged.document(), &merged.values());
    assert_eq!(rows.csv().matches("no space").count(), 8);
    let cited = cite(&value);
    assert!(cited.methods.contains("8 of them cannot be"), "{}", cited.methods);
    let mut single = scenario(&text);
    for pair in
        ["gc.victim=idle", "buffer.policy=lru", "workload.trace=gen:uniform,size=16MiB,count=4k"]
    {
        single.sweeps.clear();
        single.set_pair(pair).unwrap();
    }
    single.set_pair("seed=1").unwrap();
    let error = watched(|watch| Experiment::new(&single).unwrap().run(1, "v", watch));
    assert_eq!(error.err().map(|error| error.exit_code()), Some(1));
}
