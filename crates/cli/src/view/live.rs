//! A served stack or a mounted volume in a browser while it works: what `varve top` shows, over time.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use lab::LabError;
use lab::report::live_html;
use serde_json::{Value, json};

use super::history::{History, Place};
use super::{HTML, secret};
use crate::args::View;
use crate::ctl::result;
use crate::http::{Page, Served, serve};
use crate::stop;
use crate::top::sample::Sample;
use crate::top::screen::Between;
use crate::top::source::Source;
use crate::top::{take, wait};

/// For something new to be told.
const LOOK: Duration = Duration::from_millis(200);
/// Intervals between two maps of all blocks, which cost more than counters.
const BLOCKS_EVERY: u32 = 5;

/// Whether something counts there, instead of a document lying there.
pub fn is_live(path: &Path) -> bool {
    let folder_of_results = path.join("results.json").is_file();
    !path.is_file()
        && !folder_of_results
        && Source::find(path).is_ok_and(|of| match &of {
            // Any folder could be a mounted volume: it is one if it counts.
            Source::Volume(_) => take(&of).is_ok(),
            Source::Socket(_) | Source::File(_) => true,
        })
}

/// `varve view SOCKET|DIR`.
pub fn view(path: &Path, args: &View) -> Result<(), LabError> {
    if args.save.is_some() {
        let what = format!("--save: {} is live, and a page of it is not complete", path.display());
        return Err(LabError::Input(what));
    }
    let source = Source::find(path)?;
    // Who does not answer is told now, not in a browser.
    let first = take(&source)?;
    let (stack, history) = (first.stack.clone(), Arc::new(History::default()));
    let (watched, told) = (path.to_path_buf(), Arc::clone(&history));
    let every = args.interval;
    let follow = move || sample(&source, first, &told, every);
    let failed = |error| LabError::Failed(format!("a thread: {error}"));
    let thread =
        thread::Builder::new().name("samples".to_string()).spawn(follow).map_err(failed)?;
    let path = format!("/{}/", secret()?);
    let (page, events) = (path.clone(), format!("{path}events"));
    let pages = move |asked: &str| {
        if asked == page {
            // Without a script it shows the counters at this moment.
            let now = Source::find(&watched).and_then(|source| source.read());
            let now = now.map_or_else(|error| error.to_string(), |now| format!("{now:#}"));
            let body = live_html(&stack, crate::VERSION, &now);
            return Some(Ok(Page::Text { kind: HTML, body }));
        }
        let (history, mut place) = (Arc::clone(&history), Place::default());
        let next = move || history.since(&mut place, LOOK);
        (asked == events).then(|| Ok(Page::Events(Box::new(next))))
    };
    let expected = "the address that was printed";
    let served = serve(args.listen, &Served { path, expected, pages: Arc::new(pages) });
    stop::flag().store(true, Ordering::Relaxed);
    thread.join().map_err(|_| LabError::Failed("the thread that samples broke".to_string()))?;
    served
}

#[expect(clippy::disallowed_methods, reason = "what happens now is told with the time of day")]
fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}

/// Samples until the program is to stop. A source that does not answer is asked again: it may come back.
fn sample(source: &Source, first: Sample, history: &History, every: Duration) {
    let (mut before, mut next, mut round) = (Some(first), Instant::now(), 0);
    loop {
        next = (next + every).max(Instant::now());
        if !wait(next) {
            return;
        }
        let now = match take(source) {
            Ok(now) => now,
            Err(error) => {
                before = None;
                history.add(json!({ "at": now_ms(), "gone": error.to_string() }).to_string());
                continue;
            }
        };
        // After an absence there is nothing to take a difference from.
        if let Some(before) = &before {
            let document = Between::new(before, &now).document();
            history.add(json!({ "at": now_ms(), "is": document["results"] }).to_string());
        }
        if round % BLOCKS_EVERY == 0
            && now.on
            && let Some(blocks) = blocks(source)
        {
            history.set_blocks(json!({ "blocks": blocks }).to_string());
        }
        (before, round) = (Some(now), round + 1);
    }
}

/// The blocks of a drive, where there is one that tells.
fn blocks(source: &Source) -> Option<Value> {
    match source {
        Source::Socket(path) => result(path, r#"{"command":"blocks"}"#).ok(),
        Source::Volume(_) | Source::File(_) => None,
    }
}
