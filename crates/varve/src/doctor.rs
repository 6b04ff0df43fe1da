//! `varve doctor`: what works on this machine.

use lab::LabError;
use lab::json::{Json, Map, MapExt};

use crate::args::Doctor;
use crate::{print, table};

/// `varve doctor`.
pub fn doctor(args: &Doctor) -> Result<(), LabError> {
    let machine = machine();
    if args.json { print(&json(&machine).pretty()) } else { print(&shown(&machine)) }
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

fn shown(machine: &[(&'static str, String)]) -> String {
    let mut list = table::plain(&["on this machine".to_string(), String::new()]);
    for (what, found) in machine {
        list.add_row(vec![what.to_string(), found.clone()]);
    }
    table::text(&list)
}

fn json(machine: &[(&'static str, String)]) -> Json {
    let mut map = Map::new();
    map.put("schema", Json::text("varve.doctor/1"));
    map.put("version", Json::text(crate::VERSION));
    let facts = machine.iter().map(|(k, v)| (k.to_string(), Json::text(v)));
    map.put("machine", Json::Map(facts.collect()));
    Json::Map(map)
}
