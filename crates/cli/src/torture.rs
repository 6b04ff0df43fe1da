//! `varve torture`: crash testing of any program.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use clap::CommandFactory;
use clap::error::ErrorKind;
use lab::LabError;
use report::json::{Json, Map, MapExt};
use serde_json::json;
use torture::below::Below;
use torture::cuts::From;
use torture::recipe::{self, Expect, Recipe, Row};
use torture::stage::{Kind, Setup};
use torture::subject::Subject;
use torture::{Report, TortureError, Wanted};

use crate::args::{self, Args, Torture};
use crate::{note, print, stop};

/// How long a program may run, and a check, if nobody says.
const LIMITS: (Duration, Duration) = (Duration::from_secs(120), Duration::from_secs(30));

/// Runs on a failing drive, or on a stack whose power goes, if nobody says.
const LIVE: u64 = 20;

/// An error of a run, with its exit code.
pub fn wrong(error: TortureError) -> LabError {
    match error {
        TortureError::Input(what) => LabError::Input(what),
        TortureError::Io { path, error } => LabError::io(path, error),
        TortureError::Log { .. } => LabError::Input(error.to_string()),
        TortureError::Interrupted => LabError::Interrupted,
        other => LabError::Failed(other.to_string()),
    }
}

/// `varve torture ..`.
pub fn torture(args: &Torture) -> Result<ExitCode, LabError> {
    if args.worker {
        // Whoever sent it work ends it: by ending the line.
        let mut input = std::io::stdin().lock();
        return match torture::worker::work(&mut input, &mut std::io::stdout()) {
            Ok(()) => Ok(ExitCode::SUCCESS),
            Err(error) => Err(wrong(error)),
        };
    }
    if args.stack.is_some() && args.mode != "live" {
        let what = "--stack: expected --mode live: states are built of a recorded drive, and a stack has to run";
        Args::command().error(ErrorKind::ArgumentConflict, what).exit();
    }
    let no_check = args.check.is_none() && args.recipe.is_none() && args.stack.is_none();
    if args.mode == "live" && (args.log.is_some() || no_check) {
        let what = "--mode live: expected a program and --check, or --recipe, and no --log";
        return Err(LabError::Input(what.to_string()));
    }
    if args.list {
        return list(args.json).map(|()| ExitCode::SUCCESS);
    }
    let wanted = wanted(args)?;
    let told = |text: &str| note(&format!("varve: {text}"));
    let report = torture::run(&wanted, stop::flag(), &told).map_err(wrong)?;
    if let Some(path) = &args.junit {
        std::fs::write(path, torture::junit::junit(&report))
            .map_err(|error| LabError::io(path, error))?;
    }
    match args.json {
        true => print(&document(&wanted, &report))?,
        false => print(&report.to_string())?,
    }
    Ok(ExitCode::from(report.verdict.exit_code()))
}

fn document(wanted: &Wanted, report: &Report) -> String {
    let mut config = wanted.subject.document();
    config["stack"] = json!(wanted.stack);
    config["name"] = json!(wanted.name);
    config["size"] = json!(wanted.size);
    let document = json!({
        "schema": "varve.torture/1",
        "version": crate::VERSION,
        "config": config,
        "seed": wanted.seed,
        "results": report.document(),
    });
    format!("{document:#}\n")
}

fn pairs(words: &[OsString]) -> Result<Vec<(String, String)>, LabError> {
    let pair = |word: &OsString| {
        let text = word.to_string_lossy();
        let pair = text.split_once('=').map(|(key, value)| (key.to_string(), value.to_string()));
        pair.ok_or_else(|| LabError::Input(format!("{text}: expected KEY=VALUE of the recipe")))
    };
    words.iter().map(pair).collect()
}

/// What is tested, and the recipe that it comes from.
struct Asked {
    name: String,
    program: Vec<OsString>,
    check: Option<String>,
    env: Vec<(String, OsString)>,
    from: Option<(Recipe, Option<Row>)>,
}

fn asked(args: &Torture) -> Result<Asked, LabError> {
    let Some(name) = &args.recipe else {
        if args.words.is_empty() && args.log.is_none() {
            let what =
                "expected a program: varve torture --check CHECK -- PROGRAM, or --recipe NAME";
            return Err(LabError::Input(what.to_string()));
        }
        if args.words.is_empty() && args.check.is_none() {
            return Err(LabError::Input("--log: expected --check, or a program".to_string()));
        }
        let first = args
            .words
            .first()
            .or(args.log.as_ref().map(|path| path.as_os_str().to_owned()).as_ref())
            .cloned();
        let first = first.unwrap_or_default();
        let name = std::path::Path::new(&first)
            .file_name()
            .map(|name| name.to_string_lossy().into_owned());
        return Ok(Asked {
            name: name.unwrap_or_else(|| "program".to_string()),
            program: args.words.clone(),
            check: args.check.clone(),
            env: Vec::new(),
            from: None,
        });
    };
    let (recipe, row) = recipe::find(name).map_err(LabError::Input)?;
    if let Some(why) = recipe.why_not() {
        return Err(LabError::Failed(format!("recipe {name}: {why}")));
    }
    let set = recipe.settings(row.as_ref(), &pairs(&args.words)?).map_err(LabError::Input)?;
    Ok(Asked {
        name: name.clone(),
        program: ["sh", "-c", &recipe.program].map(OsString::from).to_vec(),
        check: Some(recipe.check.clone()),
        env: set.into_iter().map(|(key, value)| (key, value.into())).collect(),
        from: Some((recipe, row)),
    })
}

fn wanted(args: &Torture) -> Result<Wanted, LabError> {
    let Asked { name, program, check, env, from } = asked(args)?;
    let kind: Kind = args.fs.parse().map_err(LabError::Input)?;
    if kind == Kind::Strict && (args.recoveries > 0 || args.sector == Some(512)) {
        let what = "--fs strict: it is no drive: expected no --recoveries, no --sector 512";
        return Err(LabError::Input(what.to_string()));
    }
    let (recipe, row) = from.unzip();
    let row = row.flatten();
    let limits = recipe.as_ref().map_or((None, None), |recipe| recipe.limits);
    let seconds = |own: Option<u64>| own.map(Duration::from_secs);
    let least = kind.size().max(recipe.as_ref().and_then(|recipe| recipe.size).unwrap_or(0));
    let below = args.stack.as_deref().map(|text| below(text, (kind, least), args)).transpose()?;
    let live = (args.mode == "live").then_some(match args.cuts {
        args::Cuts::All => LIVE,
        args::Cuts::Drawn(runs) => runs,
    });
    let (worst, drawn) = match args.cuts {
        // What the power leaves of a stack is what it comes up with.
        _ if below.is_some() => (false, 0),
        args::Cuts::All => (true, args.random),
        args::Cuts::Drawn(count) => (false, count),
    };
    let from = match (args.from.as_deref(), row.as_ref().is_some_and(|row| row.init)) {
        (Some("init"), _) | (None, true) => From::Init,
        _ => From::Ready,
    };
    let workers = workers(kind, args.jobs)?;
    let log = args.log.as_ref().map(std::path::absolute).transpose();
    Ok(Wanted {
        name,
        subject: Subject {
            setup: Setup { kind, mkfs: args.mkfs.clone(), options: args.mount_options.clone() },
            atomic: match below {
                Some((_, atomic)) => atomic,
                None => args.sector.or(row.and_then(|row| row.sector)).unwrap_or(4096),
            },
            program,
            check,
            env,
            run_limit: args.run_limit.or(seconds(limits.0)).unwrap_or(LIMITS.0),
            limit: args.limit.or(seconds(limits.1)).unwrap_or(LIMITS.1),
        },
        size: match (below, args.size) {
            (Some((size, _)), _) => size,
            (None, Some(size)) => size.0,
            (None, None) => least,
        },
        from,
        worst,
        drawn,
        seed: args.seed,
        workers,
        budget: args.budget,
        keep_going: args.keep_going,
        self_check: !args.no_self_check,
        out: args.out.clone(),
        plans: args.plans.map(usize::from),
        log: log.map_err(|error| LabError::io("--log", error))?,
        recoveries: args.recoveries as usize,
        live,
        stack: args.stack.clone(),
        program: std::env::current_exe().map_err(|error| LabError::io("this program", error))?,
        version: crate::VERSION.to_string(),
    })
}

/// Bytes of a stack, and those that it keeps whole.
fn below(text: &str, (kind, least): (Kind, u64), args: &Torture) -> Result<(u64, u64), LabError> {
    let refused = |what: &str| Err(LabError::Input(format!("--stack: {what}")));
    if kind == Kind::Strict {
        return refused("--fs strict is no file system on a drive: expected another");
    }
    if args.recoveries > 0 {
        return refused("expected no --recoveries: a run is cut once");
    }
    let (size, atomic) = Below::read(text).and_then(|below| below.sizes()).map_err(wrong)?;
    if size < least {
        return refused(&format!("{size} bytes: expected {least} at least, on {kind}"));
    }
    Ok((size, atomic))
}

fn word(expect: Expect) -> &'static str {
    match expect {
        Expect::Lost => "lost",
        Expect::Kept => "kept",
    }
}

fn list(as_json: bool) -> Result<(), LabError> {
    let all = recipe::all().map_err(LabError::Failed)?;
    if as_json {
        let keys = |pairs: &[(String, String)]| pairs.iter().cloned().collect::<BTreeMap<_, _>>();
        let rows = |recipe: &Recipe| {
            let row = |row: &Row| {
                let (expect, strict) = (word(row.expect), word(row.strict));
                json!({
                    "name": row.name,
                    "promise": row.promise,
                    "expect": expect,
                    "strict": strict,
                    "set": keys(&row.set),
                })
            };
            recipe.rows.iter().map(row).collect::<Vec<_>>()
        };
        let recipes: Vec<_> = all
            .iter()
            .map(|recipe| {
                json!({
                    "recipe": recipe.name,
                    "about": recipe.about,
                    "why_not": recipe.why_not(),
                    "packages": recipe.packages,
                    "keys": keys(&recipe.keys),
                    "rows": rows(recipe),
                })
            })
            .collect();
        let document = json!({
            "schema": "varve.torture.recipes/1",
            "version": crate::VERSION,
            "results": recipes,
        });
        return print(&format!("{document:#}\n"));
    }
    let mut text = String::new();
    for recipe in &all {
        let keys: Vec<String> =
            recipe.keys.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let _ = writeln!(text, "{}: {}\n  keys: {}", recipe.name, recipe.about, keys.join(" "));
        for row in &recipe.rows {
            let _ = writeln!(
                text,
                "  {:<22} {:<5} promised: {}",
                row.name,
                word(row.expect),
                row.promise
            );
        }
        if let Some(why) = recipe.why_not() {
            let _ = writeln!(text, "  not here: {why}");
        }
    }
    print(&text)
}

/// Follows a plan of a crash test: exit 0 if the promises are kept, 4 if not.
pub fn replay(args: &args::Replay) -> Result<(), LabError> {
    let how =
        torture::replay::How { shell: args.shell, image: args.image.clone(), times: args.times };
    let program = std::env::current_exe().map_err(|error| LabError::io("this program", error))?;
    let again = torture::replay::replay(&args.plan, &how, &program).map_err(wrong)?;
    if args.json {
        let mut map = Map::new();
        map.put("schema", Json::text("varve.replay/1"));
        map.put("version", Json::text(crate::VERSION));
        map.put("plan", Json::text(args.plan.to_string_lossy()));
        let mut result = Map::new();
        result.put("holds", Json::Bool(again.fate == "kept"));
        result.put("as_written", Json::Bool(again.as_written));
        result.int("times", u64::from(args.times));
        result.int("times_as_written", u64::from(again.times));
        result.put("fate", Json::text(again.fate.clone()));
        result.put("state", Json::text(again.state.clone()));
        result.put("failure", Json::text(again.reason.clone()));
        map.put("results", Json::Map(result));
        print(&Json::Map(map).pretty())?;
    } else if !args.shell {
        let same = if again.as_written { "as written" } else { "not as the plan says" };
        let often = match args.times {
            1 => String::new(),
            times => format!(" {} of {times} times", again.times),
        };
        print(&format!(
            "{}: {} ({same}{often}; state {})\n",
            again.fate, again.reason, again.state
        ))?;
    }
    match again.fate.as_str() {
        "kept" => Ok(()),
        "lost" | "unmountable" => {
            Err(LabError::Check { contract: "promise".to_string(), what: again.reason })
        }
        _ => Err(LabError::Failed(again.reason)),
    }
}

/// How many processes check.
fn workers(kind: Kind, asked: Option<u16>) -> Result<usize, LabError> {
    let processors = || std::thread::available_parallelism().map_or(1, usize::from);
    match (asked.map(usize::from), kind.why_alone()) {
        (Some(many), Some(why)) if many > 1 => {
            Err(LabError::Input(format!("--jobs {many}: {why}; expected --jobs 1")))
        }
        (Some(asked), _) => Ok(asked.max(1)),
        (None, Some(_)) => Ok(1),
        (None, None) => Ok(processors()),
    }
}
