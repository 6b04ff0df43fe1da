//! `varve view`: result documents or a timeline as a page, in a browser or in a file; or what serves now, live.

mod history;
mod live;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use lab::LabError;
use lab::compare::{Loaded, load};
use lab::explain::Drawing;
use lab::files::{keeps, write_whole};
use lab::folder;
use lab::report::{Beside, MOST_SHOWN, Shown, html_beside, timeline_html};

use crate::args::View;
use crate::http::{Page, Served, serve};
use crate::print;
use crate::random::random;

/// The media type of a page.
const HTML: &str = "text/html; charset=utf-8";
/// Hexadecimal digits of what only who was told the address knows.
const SECRET: usize = 32;

/// `varve view RUN..`.
pub fn view(args: &View) -> Result<(), LabError> {
    if let [one] = args.runs.as_slice()
        && live::is_live(one)
    {
        return live::view(one, args);
    }
    // What cannot be shown is said now, not in a browser.
    let first = page_of(&args.runs, false)?;
    if let Some(path) = &args.save {
        let read = |run: &PathBuf| {
            ("run", if run.is_dir() { run.join(folder::RESULTS) } else { run.clone() })
        };
        keeps(&args.runs.iter().map(read).collect::<Vec<_>>(), std::slice::from_ref(path))?;
        write_whole(path, first.as_bytes())?;
        return print(&format!("wrote {}\n", path.display()));
    }
    let (runs, path) = (args.runs.clone(), format!("/{}/", secret()?));
    let known = path.clone();
    let pages = move |asked: &str| {
        let rest = asked.strip_prefix(&known)?;
        let page = if rest.is_empty() { page_of(&runs, true) } else { beside(&runs, rest)? };
        Some(page.map(|body| Page::Text { kind: HTML, body }))
    };
    serve(
        args.listen,
        &Served { path, expected: "the address that was printed", pages: Arc::new(pages) },
    )
}

/// Whether it is a timeline by its name: the format has no mark of its own.
fn is_timeline(path: &Path) -> bool {
    path.extension().is_some_and(|end| end == "pftrace")
}

/// The page of runs; of one that is served, with links to the timelines that lie beside them.
fn page_of(runs: &[PathBuf], served: bool) -> Result<String, LabError> {
    if let Some(path) = runs.iter().find(|path| is_timeline(path)) {
        return match runs {
            [only] => timeline(only),
            _ => Err(LabError::Input(format!(
                "{}: a timeline beside other runs: expected one timeline, or runs alone",
                path.display()
            ))),
        };
    }
    let documents = runs.iter().map(|path| load(path)).collect::<Result<Vec<Loaded>, _>>()?;
    // What repeats a run, if the folder holds its scenario.
    let repeats =
        |(path, one): (&PathBuf, &Loaded)| folder::repeats(path, &one.document).unwrap_or_default();
    let commands: Vec<String> = runs.iter().zip(&documents).map(repeats).collect();
    let shown = documents.iter().zip(&commands).map(|(one, command)| Shown {
        // The only one needs no name.
        name: if runs.len() > 1 { &one.name } else { "" },
        value: &one.document,
        command,
    });
    let timelines = if served { timelines(runs) } else { Vec::new() };
    Ok(html_beside(&shown.collect::<Vec<_>>(), &timelines))
}

/// Timelines in the folders of runs: the address of each from the page of the runs, and its file.
fn files_beside(runs: &[PathBuf]) -> Vec<(String, PathBuf)> {
    let of = |(at, folder): (usize, &PathBuf)| {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let files = entries.map(|entry| entry.path()).filter(|path| is_timeline(path));
        let mut files: Vec<PathBuf> = files.collect();
        files.sort();
        // An address by numbers: a name may hold anything.
        files.into_iter().enumerate().map(move |(n, file)| (format!("timeline-{at}-{n}"), file))
    };
    runs.iter().enumerate().flat_map(of).collect()
}

/// Those of them that can be shown; `varve view FILE` says what is wrong with the others.
fn timelines(runs: &[PathBuf]) -> Vec<Beside> {
    let shown = |(href, file): (String, PathBuf)| {
        let span_ns = Drawing::load(&file, MOST_SHOWN).ok()?.span_ns()?;
        Some(Beside { name: file.display().to_string(), href, span_ns })
    };
    files_beside(runs).into_iter().filter_map(shown).collect()
}

/// The page of the timeline at an address.
fn beside(runs: &[PathBuf], asked: &str) -> Option<Result<String, LabError>> {
    let (_, file) = files_beside(runs).into_iter().find(|(href, _)| href == asked)?;
    Some(timeline(&file))
}

fn timeline(path: &Path) -> Result<String, LabError> {
    let drawing = Drawing::load(path, MOST_SHOWN)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    Ok(timeline_html(&name, crate::VERSION, &drawing))
}

fn secret() -> Result<String, LabError> {
    let random = random::<{ SECRET / 2 }>()?;
    Ok(random.iter().map(|byte| format!("{byte:02x}")).collect())
}
