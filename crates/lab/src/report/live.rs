//! The page of what works now: it asks its own server for events, and nobody else for anything.

use ::report::format::escape;
use ::report::page::{Assets, Heading, frame};

/// Style and script of the live page: the strokes are those of the page of results.
const ASSETS: Assets = Assets {
    style: concat!(include_str!("assets/view.css"), include_str!("assets/live.css")),
    script: concat!(
        "(function(){\"use strict\";",
        include_str!("assets/data.js"),
        include_str!("assets/pen.js"),
        include_str!("assets/state.js"),
        include_str!("assets/lanes.js"),
        include_str!("assets/live.js"),
        "})();"
    ),
    live: true,
};

/// The page of a stack in words; `now` is what it counts at this moment, for who has no script.
pub fn live_html(stack: &str, version: &str, now: &str) -> String {
    let main = format!(
        "<p id=\"power\" class=\"note\" role=\"status\" hidden></p><div id=\"panels\"></div>\
         <section id=\"said\"></section>\
         <noscript><p class=\"note\">What is drawn over time needs a script. These are the counters when this page was \
         asked for; ask again for newer ones.</p></noscript>\
         <details><summary>Every counter when this page was opened</summary><pre id=\"counters\">{}</pre></details>",
        escape(now)
    );
    let lead = "What is asked of it, and what it does, as it happens.";
    frame(&Heading { title: stack, version, lead, schema: "varve.top/1" }, &main, ASSETS)
}
