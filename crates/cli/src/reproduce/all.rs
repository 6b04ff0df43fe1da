//! `varve reproduce all`: every study, one after the other, and one report. Each finished study is a
//! file in the folder of results; the same program with the same options goes on after the last one.

use std::path::{Path, PathBuf};

use lab::LabError;
use lab::files::write_whole;
use report::json::{Json, Map, MapExt};
use report::study::{Study, book, counts};

use super::{STUDIES, command, name, study};
use crate::args::{Paper, Reproduce};
use crate::cost::Watch;
use crate::{VERSION, note, print, stop};

/// Where results go unless `--out` names another folder.
const FOLDER: &str = "varve-reproduce";
/// Names what made the results of a folder.
const STAMP: &str = "made-by";

/// Seconds that a study takes on two cores, quick and whole: only to say how long the rest will be.
fn expected(paper: Paper, quick: bool) -> u64 {
    let (short, long) = match paper {
        Paper::Remap => (15, 300),
        Paper::Scj => (20, 400),
        Paper::Isolation => (40, 1000),
        Paper::Nolog => (25, 300),
        Paper::Compose => (20, 300),
        Paper::All => (0, 0),
    };
    if quick { short } else { long }
}

/// `varve reproduce all`.
pub(super) fn reproduce(args: &Reproduce) -> Result<(), LabError> {
    let folder = args.out.clone().unwrap_or_else(|| PathBuf::from(FOLDER));
    std::fs::create_dir_all(&folder).map_err(|e| LabError::io(&folder, e))?;
    begin(&folder, &stamp(args)?)?;
    let watch = Watch::start();
    let mut left: u64 = STUDIES.iter().map(|paper| expected(*paper, args.quick)).sum();
    let (mut run, mut found) = (0, Vec::new());
    for (at, paper) in STUDIES.into_iter().enumerate() {
        let place = format!("[{}/{}] {}", at + 1, STUDIES.len(), name(paper));
        let file = folder.join(format!("{}.json", name(paper)));
        let share = expected(paper, args.quick);
        let known = known(&file)?;
        if known.is_some() {
            note(&format!("{place}: already there"));
        } else {
            let seconds = watch.cost().wall_ms / 1000;
            // As fast as the studies that were run, once there are any.
            let rest = (left * seconds.max(1)).checked_div(run).unwrap_or(left);
            note(&format!("{place}: {} left", span(rest)));
        }
        let study = match known {
            Some(study) => study,
            None => {
                let study = stop::at_once(|| study(args, paper))?;
                write_whole(&file, study.json(VERSION).pretty().as_bytes())?;
                run += share;
                study
            }
        };
        left -= share;
        found.push((name(paper).to_string(), study));
    }
    finish(args, &folder, &found)
}

/// About how long.
fn span(seconds: u64) -> String {
    match seconds {
        0..120 => format!("about {} s", seconds.max(1)),
        _ => format!("about {} min", seconds.div_ceil(60)),
    }
}

/// What made a result: this very program with these options.
fn stamp(args: &Reproduce) -> Result<String, LabError> {
    let program = std::env::current_exe().map_err(|e| LabError::io("this program", e))?;
    let bytes = std::fs::read(&program).map_err(|e| LabError::io(&program, e))?;
    let crc = block::crc32c(0, &bytes);
    let folders = [Some(&args.data), args.msr.as_ref()].into_iter().flatten();
    let read: String = folders.map(|folder| there(folder)).collect();
    Ok(format!("{VERSION} {crc:08x} {}\n{read}", command(args, Paper::All)))
}

/// Where a folder of traces is, and how long each file in it: the same words may mean another one.
fn there(folder: &Path) -> String {
    let path = folder.canonicalize().unwrap_or_else(|_| folder.to_path_buf());
    let entries = std::fs::read_dir(&path).into_iter().flatten().flatten();
    let mut files: Vec<String> = entries
        .filter_map(|entry| {
            let length = std::fs::metadata(entry.path()).ok()?.len();
            Some(format!("{:?} {length}", entry.file_name()))
        })
        .collect();
    files.sort();
    format!("{} {:08x}\n", path.display(), block::crc32c(0, files.join("\n").as_bytes()))
}

/// Makes the folder ready: results that something else made are removed.
fn begin(folder: &Path, stamp: &str) -> Result<(), LabError> {
    let file = folder.join(STAMP);
    if std::fs::read_to_string(&file).is_ok_and(|there| there == stamp) {
        return Ok(());
    }
    for paper in STUDIES {
        let old = folder.join(format!("{}.json", name(paper)));
        match std::fs::remove_file(&old) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                return Err(LabError::io(&old, e));
            }
            _ => {}
        }
    }
    write_whole(&file, stamp.as_bytes())
}

/// The study that was finished before, if it was.
fn known(file: &Path) -> Result<Option<Study>, LabError> {
    match std::fs::read_to_string(file) {
        Ok(document) => Ok(Some(Study::read(&document)?)),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(LabError::io(file, e)),
    }
}

fn finish(args: &Reproduce, folder: &Path, found: &[(String, Study)]) -> Result<(), LabError> {
    let scale = match args.quick {
        true => "Quick scale: smaller drives, fewer sizes and loads than the studies' own default.",
        false => "The studies' own scale, smaller than the papers'; each says by how much.",
    };
    let title = "Four papers about writes that need not happen";
    let page = folder.join("index.html");
    let html = book(title, scale, found, VERSION, &command(args, Paper::All));
    write_whole(&page, html.as_bytes())?;
    let studies = found.iter().map(|(_, study)| study.json(VERSION)).collect();
    let mut map = Map::new();
    map.put("schema", Json::text("varve.studies/3"));
    map.put("studies", Json::List(studies));
    let document = Json::Map(map).pretty();
    write_whole(&folder.join("results.json"), document.as_bytes())?;
    if args.json {
        return print(&document);
    }
    print(&format!(
        "{title}\n{scale}\n\n{}\nwrote {}\nreproduce: {}\n",
        counts(found).text(),
        page.display(),
        command(args, Paper::All)
    ))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Asked {
        #[command(flatten)]
        args: Reproduce,
    }

    /// They were taken for those of the folder that is asked for.
    #[test]
    fn results_of_other_traces_are_those_of_another_program() {
        let folder = std::env::temp_dir().join(format!("varve-stamp-{}", std::process::id()));
        for name in ["a", "b"] {
            std::fs::create_dir_all(folder.join(name)).unwrap();
            std::fs::write(folder.join(name).join("t.csv"), "1").unwrap();
        }
        let of = |name: &str| {
            let path = folder.join(name).display().to_string();
            let asked = Asked::try_parse_from(["reproduce", "all", "--data", &path]).ok().unwrap();
            stamp(&asked.args).unwrap()
        };
        let first = of("a");
        assert_eq!(of("a"), first);
        assert_ne!(of("b"), first);
        std::fs::write(folder.join("a").join("t.csv"), "12").unwrap();
        assert_ne!(of("a"), first);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
