//! `varve top`: a served device or a mounted volume, live, and the same as Prometheus metrics.

mod metrics;
pub(crate) mod sample;
pub(crate) mod screen;
pub(crate) mod source;
mod trend;

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use lab::LabError;

use crate::args::Top;
use crate::http::{Page, Served, serve};
use crate::{print, show, stop};
use sample::Sample;
use screen::Between;
use source::Source;
use trend::Trends;

/// How often it looks whether it is to stop.
const LOOK: Duration = Duration::from_millis(50);
/// Lines between two headings.
const PAGE: usize = 20;

/// From here on the screen is ours: home, draw, clear what is left.
const HOME: &str = "\x1b[H";
const CLEAR: &str = "\x1b[2J";
const TO_END_OF_LINE: &str = "\x1b[K";
const TO_END: &str = "\x1b[J";

/// What a source counts now.
pub(crate) fn take(source: &Source) -> Result<Sample, LabError> {
    Sample::new(&source.read()?).map_err(LabError::Failed)
}

/// Waits; whether it is to go on.
pub(crate) fn wait(until: Instant) -> bool {
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if stop::flag().load(Ordering::Relaxed) {
            return false;
        }
        if left.is_zero() {
            return true;
        }
        std::thread::sleep(left.min(LOOK));
    }
}

/// `varve top SOCKET|DIR`.
pub fn top(args: &Top) -> Result<(), LabError> {
    let source = Source::find(&args.source)?;
    if let Some(address) = args.listen {
        // What cannot be asked now is said now, not to who scrapes.
        take(&source)?;
        let all = move || take(&source).map(|sample| metrics::text(&sample));
        let pages = move |path: &str| {
            let page = |body| Page::Text { kind: metrics::CONTENT_TYPE, body };
            (path == "/metrics").then(|| all().map(page))
        };
        let path = "/metrics".to_string();
        return serve(address, &Served { path, expected: "/metrics", pages: Arc::new(pages) });
    }
    if args.metrics {
        return print(&metrics::text(&take(&source)?));
    }
    watch(args, &source)
}

fn watch(args: &Top, source: &Source) -> Result<(), LabError> {
    let terminal = std::io::stdout().is_terminal();
    let mut before = take(source)?;
    let mut shown = 0;
    let mut layers = usize::MAX;
    let mut trends = Trends::default();
    while wait(before.at + args.interval) {
        let now = take(source)?;
        let between = Between::new(&before, &now);
        if args.json {
            return print(&format!("{:#}\n", between.document()));
        }
        if args.once && terminal {
            return print(&between.screen());
        }
        let mut text = String::new();
        if terminal {
            let clear = if shown == 0 { CLEAR } else { "" };
            trends.add(&between);
            let screen = between.screen() + &trends.screen();
            let lines = screen.replace('\n', &format!("{TO_END_OF_LINE}\n"));
            text = format!("{clear}{HOME}{lines}{TO_END}");
        } else {
            // Layers come and go with the power.
            if shown % PAGE == 0 || layers != now.layers.len() {
                text += &between.heading();
            }
            text += &between.line();
        }
        if !show(&text)? || args.once {
            return Ok(());
        }
        layers = now.layers.len();
        shown += 1;
        before = now;
    }
    match args.once || args.json {
        true => Err(LabError::Interrupted),
        false => Ok(()),
    }
}
