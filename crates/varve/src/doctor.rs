//! `varve doctor`: what works on this machine, and whether the model agrees with closed forms.

use lab::LabError;
use lab::json::{Json, Map, MapExt};
use lab::selfcheck::{Check, run};

use crate::args::Doctor;
use crate::{note, print, table};

/// `varve doctor [--self-check [--quick]]`.
pub fn doctor(args: &Doctor) -> Result<(), LabError> {
    let machine = machine();
    let checks = match args.self_check {
        true => {
            let threads = std::thread::available_parallelism().map_or(1, usize::from);
            run(args.quick, threads, &mut |part| note(&format!("checked: {part}")))
        }
        false => Vec::new(),
    };
    if args.json {
        print(&json(&machine, args.self_check.then_some(&checks[..])).pretty())?;
    } else {
        print(&shown(&machine, &checks))?;
    }
    let failed = checks.iter().filter(|c| !c.pass).count();
    if failed == 0 {
        return Ok(());
    }
    let what = format!("{failed} of {} self-checks disagree with the closed form", checks.len());
    Err(LabError::Check { contract: "self-check".to_string(), what })
}

/// What was looked for and what was found.
fn machine() -> Vec<(&'static str, String)> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let memory = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| {
        let line = text.lines().find_map(|l| l.strip_prefix("MemAvailable:"))?;
        line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()
    });
    let there = |path: &str| {
        let yes = std::fs::OpenOptions::new().read(true).write(true).open(path).is_ok();
        let exists = std::path::Path::new(path).exists();
        match (yes, exists) {
            (true, _) => "yes",
            (false, true) => "there, but not for this user",
            (false, false) => "no",
        }
        .to_string()
    };
    vec![
        ("version", crate::VERSION.to_string()),
        ("threads", threads.to_string()),
        ("free memory", memory.map_or("unknown".to_string(), |kb| format!("{} MiB", kb / 1024))),
        ("simulation", "yes: needs neither root nor a network".to_string()),
        ("FUSE (/dev/fuse)", there("/dev/fuse")),
        ("loop devices (/dev/loop-control)", there("/dev/loop-control")),
    ]
}

fn shown(machine: &[(&'static str, String)], checks: &[Check]) -> String {
    let mut list = table::plain(&["on this machine".to_string(), String::new()]);
    for (what, found) in machine {
        list.add_row(vec![what.to_string(), found.clone()]);
    }
    let mut out = table::text(&list);
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

fn json(machine: &[(&'static str, String)], checks: Option<&[Check]>) -> Json {
    let mut map = Map::new();
    map.put("schema", Json::text("varve.doctor/1"));
    map.put("version", Json::text(crate::VERSION));
    let facts = machine.iter().map(|(k, v)| (k.to_string(), Json::text(v)));
    map.put("machine", Json::Map(facts.collect()));
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
