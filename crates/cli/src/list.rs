//! `varve list`: everything that has a name.

use lab::LabError;
use report::format::grouped;
use report::json::{Json, Map, MapExt};

use crate::args::{List, What};
use crate::{print, table};

/// Scenarios that come with the program: name and text.
const SCENARIOS: &[(&str, &str)] = &[
    ("demo.toml", include_str!("../scenarios/demo.toml")),
    ("steady-random.toml", include_str!("../scenarios/steady-random.toml")),
    ("buffer-study.toml", include_str!("../scenarios/buffer-study.toml")),
    ("neighbours.toml", include_str!("../scenarios/neighbours.toml")),
    ("remap-log-on-log.toml", include_str!("../scenarios/remap-log-on-log.toml")),
    ("compose-isolation-remap.toml", include_str!("../scenarios/compose-isolation-remap.toml")),
];

/// `varve list WHAT`.
pub fn list(args: &List) -> Result<(), LabError> {
    let (heading, rows) = rows(args.what)?;
    if args.json {
        let item = |row: &Vec<String>| {
            let pairs = heading.iter().zip(row).map(|(k, v)| (k.to_string(), Json::text(v)));
            Json::Map(pairs.collect())
        };
        let mut map = Map::new();
        map.put("schema", Json::text("varve.list/1"));
        map.put("version", Json::text(crate::VERSION));
        map.put("results", Json::List(rows.iter().map(item).collect()));
        return print(&Json::Map(map).pretty());
    }
    let mut out = table::plain(&heading.iter().map(|h| h.to_string()).collect::<Vec<_>>());
    rows.into_iter().for_each(|row| {
        out.add_row(row);
    });
    print(&table::text(&out))
}

/// The points of a preset's sheet.
fn sheet(name: &str) -> Result<Vec<Vec<String>>, LabError> {
    let sheet = ssd::sheet(name)?;
    let row = |p: &ssd::SheetPoint| {
        let unit = p.load.unit();
        let figure = |n: u64| format!("{} {unit}", grouped(n));
        let dash = || "-".to_string();
        vec![
            name.to_string(),
            p.load.name().to_string(),
            p.depth.to_string(),
            p.published.map_or_else(dash, figure),
            figure(p.here),
            p.deviation().map_or_else(dash, |d| format!("{:+.1} %", d * 100.0)),
            p.source.clone().unwrap_or_else(|| "assumed".to_string()),
            p.reason.clone().unwrap_or_default(),
        ]
    };
    Ok(sheet.points.iter().map(row).collect())
}

type Rows = (&'static [&'static str], Vec<Vec<String>>);

fn rows(what: What) -> Result<Rows, LabError> {
    Ok(match what {
        What::Policies => {
            let row = |p: &ssd::PolicyInfo| {
                let options = p.options.iter().map(|o| format!("{}={}", o.name, o.default));
                let options: Vec<String> = options.collect();
                let aliases = p.aliases.join(", ");
                vec![p.name.into(), aliases, options.join(", "), p.doc.into(), p.source.into()]
            };
            (
                &["policy", "aliases", "options", "what it does", "source"],
                ssd::policies().into_iter().map(row).collect(),
            )
        }
        What::Victims => {
            let row = |v: &ssd::VictimInfo| vec![v.name.into(), v.doc.into()];
            (&["victim", "what is cleaned first"], ssd::victims().into_iter().map(row).collect())
        }
        What::Presets => {
            let row = |name: &str| {
                let (preset, sheet) = (ssd::preset(name)?, ssd::sheet(name)?);
                Ok::<_, LabError>(vec![name.to_string(), preset.title, sheet.summary()])
            };
            let rows = ssd::presets().into_iter().map(row).collect::<Result<_, _>>()?;
            (&["preset", "drive", "against its source (`varve list sheets`)"], rows)
        }
        What::Sheets => {
            let mut rows = Vec::new();
            for name in ssd::presets() {
                rows.extend(sheet(name)?);
            }
            let heading = &["preset", "load", "QD", "published", "here", "off", "source", "reason"];
            (heading, rows)
        }
        What::Formats => {
            let row = |f: &workload::read::Format| {
                vec![f.name.to_string(), f.aliases.join(", "), f.about.to_string()]
            };
            (&["format", "aliases", "what it is"], workload::formats().iter().map(row).collect())
        }
        What::Scenarios => {
            let row = |(name, text): &(&str, &str)| {
                let scenario = lab::scenario::Scenario::from_text(name, text, Default::default())?;
                Ok::<_, LabError>(vec![name.to_string(), scenario.title])
            };
            let rows = SCENARIOS.iter().map(row).collect::<Result<_, _>>()?;
            (&["scenario", "what it shows"], rows)
        }
        What::Generators => {
            let row = |g: workload::generate::GeneratorInfo| {
                vec![g.name.to_string(), g.doc.to_string(), g.keys.to_string()]
            };
            (
                &["generator", "what it makes", "keys"],
                workload::generate::list().into_iter().map(row).collect(),
            )
        }
        What::Keys => {
            let row = |k: &ssd::Key| vec![k.name.into(), k.default.into(), k.doc.into()];
            (&["key", "default", "meaning"], ssd::SCHEMA.iter().map(row).collect())
        }
        What::Columns => {
            let row = |m: &lab::metric::Metric| vec![m.id().into(), m.unit().name().into()];
            // Before them: what is swept, `seed`, `impossible`, `scaled`.
            (&["column", "unit"], lab::metric::ALL.iter().map(row).collect())
        }
    })
}
