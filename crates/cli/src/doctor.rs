//! `varve doctor`: what works on this machine, and whether the model agrees with closed forms and
//! with a naive twin of cleaning.

use std::sync::Mutex;

use lab::LabError;
use lab::selfcheck::{Check, run};
use proof::cleaning::Cell;
use report::json::{Json, Map, MapExt};

use serve::doctor::{Finding, findings};

use crate::args::Doctor;
use crate::{note, print, stop, table};

/// `varve doctor [--self-check [--quick]]`.
pub fn doctor(args: &Doctor) -> Result<(), LabError> {
    let machine = machine();
    let doors = findings();
    let checks = match args.self_check {
        true => {
            let threads = std::thread::available_parallelism().map_or(1, usize::from);
            let heard = |part: &str| note(&format!("checked: {part}"));
            stop::at_once(|| {
                let mut checks = run(args.quick, threads, &mut |part| heard(part));
                checks.extend(cleaning(args.quick, threads, &heard));
                checks
            })
        }
        false => Vec::new(),
    };
    if args.json {
        print(&json(&machine, &doors, args.self_check.then_some(&checks[..])).pretty())?;
    } else {
        print(&shown(&machine, &doors, &checks))?;
    }
    let failed = checks.iter().filter(|c| !c.pass).count();
    if failed == 0 {
        return Ok(());
    }
    let what = format!("{failed} of {} self-checks disagree with what must come out", checks.len());
    Err(LabError::Check { contract: "self-check".to_string(), what })
}

/// Every victim policy beside its naive twin.
fn cleaning(quick: bool, threads: usize, heard: &(dyn Fn(&str) + Sync)) -> Vec<Check> {
    let mut cells = Cell::all(if quick { 256 } else { 512 });
    cells.retain(|cell| !quick || cell.spare == 7);
    let next = Mutex::new(cells.iter().enumerate());
    let found = Mutex::new(vec![None; cells.len()]);
    std::thread::scope(|scope| {
        for _ in 0..threads.clamp(1, cells.len()) {
            scope.spawn(|| {
                loop {
                    let cell = next.lock().expect("no thread panics with it").next();
                    let Some((at, cell)) = cell else { return };
                    let check = beside_twin(cell);
                    heard(&check.name);
                    found.lock().expect("nor with this one")[at] = Some(check);
                }
            });
        }
    });
    found.into_inner().expect("as above").into_iter().flatten().collect()
}

fn beside_twin(cell: &Cell) -> Check {
    let compared = cell.compare();
    let text = |f: &dyn Fn(&proof::cleaning::Compared) -> String| match &compared {
        Ok(compared) => f(compared),
        Err(trouble) => trouble.clone(),
    };
    Check {
        section: "write amplification",
        name: format!("beside a naive twin: {}", cell.name()),
        expected: text(&|c| format!("{:.4}", c.twin)),
        measured: text(&|c| format!("{:.4} ({:+.2} %)", c.drive, c.off())),
        tolerance: format!("{} %", cell.tolerance()),
        pass: compared.as_ref().is_ok_and(|c| c.agrees(cell.tolerance())),
    }
}

/// What was looked for and what was found.
fn machine() -> Vec<(&'static str, String)> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let memory = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| {
        let line = text.lines().find_map(|l| l.strip_prefix("MemAvailable:"))?;
        line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()
    });
    vec![
        ("version", crate::VERSION.to_string()),
        ("threads", threads.to_string()),
        ("free memory", memory.map_or("unknown".to_string(), |kb| format!("{} MiB", kb / 1024))),
        ("simulation", "yes: needs neither root nor a network".to_string()),
    ]
}

fn shown(machine: &[(&'static str, String)], doors: &[Finding], checks: &[Check]) -> String {
    let mut list = table::plain(&["on this machine".to_string(), String::new()]);
    for (what, found) in machine {
        list.add_row(vec![what.to_string(), found.clone()]);
    }
    let mut out = table::text(&list);
    let heading = ["", "to serve and to test a device", ""];
    let mut list = table::plain(&heading.map(str::to_string));
    for door in doors {
        let verdict = if door.usable { "yes" } else { "no" };
        list.add_row(vec![verdict.to_string(), door.what.clone(), door.why.clone()]);
    }
    out.push('\n');
    out.push_str(&table::text(&list));
    if checks.is_empty() {
        return out;
    }
    let heading = ["", "self-check", "expected", "measured", "tolerance"];
    let mut list = table::plain(&heading.map(str::to_string));
    for c in checks {
        let verdict = if c.pass { "ok" } else { "FAIL" };
        list.add_row(vec![
            verdict.to_string(),
            format!("{}: {}", c.section, c.name),
            c.expected.clone(),
            c.measured.clone(),
            c.tolerance.clone(),
        ]);
    }
    out.push('\n');
    out.push_str(&table::text(&list));
    let passed = checks.iter().filter(|c| c.pass).count();
    out + &format!("{passed} of {} agree\n", checks.len())
}

fn json(machine: &[(&'static str, String)], doors: &[Finding], checks: Option<&[Check]>) -> Json {
    let mut map = Map::new();
    map.put("schema", Json::text("varve.doctor/1"));
    map.put("version", Json::text(crate::VERSION));
    let facts = machine.iter().map(|(k, v)| (k.to_string(), Json::text(v)));
    map.put("machine", Json::Map(facts.collect()));
    let door = |door: &Finding| {
        let mut one = Map::new();
        one.put("what", Json::text(&door.what));
        one.put("usable", Json::Bool(door.usable));
        one.put("why", Json::text(&door.why));
        Json::Map(one)
    };
    map.put("front_ends", Json::List(doors.iter().map(door).collect()));
    let check = |c: &Check| {
        let mut one = Map::new();
        one.put("section", Json::text(c.section));
        one.put("name", Json::text(&c.name));
        one.put("expected", Json::text(&c.expected));
        one.put("measured", Json::text(&c.measured));
        one.put("tolerance", Json::text(&c.tolerance));
        one.put("pass", Json::Bool(c.pass));
        Json::Map(one)
    };
    map.maybe("results", checks.map(|list| Json::List(list.iter().map(check).collect())));
    Json::Map(map)
}
