//! The frame of every page: one HTML file that needs no network.
//!
//! It holds everything: styles, script and charts are inline, and a content-security policy
//! forbids it to ask for anything else. The script adds reading values off charts, showing and
//! hiding runs, and switching the colour scheme; without it every number is still in a table.

use std::fmt::Write;

use crate::format::escape;

const MARK: &str = "<svg viewBox=\"0 0 24 24\" aria-hidden=\"true\" fill=\"none\" \
    stroke=\"currentColor\" stroke-width=\"2\" stroke-linecap=\"round\"><path d=\"M3 19h18M3 14c4-2 \
    7 2 11 0s5-1 7 0M3 9c4-2 7 2 11 0s5-1 7 0M3 4h18\"/></svg>";

/// A page of another kind in the same frame; `command` is what repeats it.
pub fn page(title: &str, version: &str, command: &str, body: &str) -> String {
    let mut main = body.to_string();
    repeat(&mut main, command);
    frame(title, version, "", crate::study::SCHEMA, &main)
}

/// The frame of every page: head, styles, script. `main` is HTML, all else plain text.
pub fn frame(title: &str, version: &str, lead: &str, schema: &str, main: &str) -> String {
    format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
         style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:\">\
         <title>{0}</title><link rel=\"icon\" href=\"data:,\"><style>{1}</style></head><body>\
         <header><div><div class=\"mark-line\">{MARK}varve {2}</div><h1>{0}</h1>\
         <p class=\"lead\">{3}</p></div>\
         <button class=\"theme\" type=\"button\" hidden>Light / dark</button></header><main>{main}\
         </main><footer>Schema {4}. This file is complete: it asks for nothing over a \
         network.</footer><div id=\"tip\" role=\"status\"></div><script>{5}</script></body></html>\n",
        escape(title),
        include_str!("style.css"),
        escape(version),
        escape(lead),
        escape(schema),
        include_str!("script.js")
    )
}

/// Adds the command that repeats what the page shows.
pub fn repeat(out: &mut String, command: &str) {
    *out += "<h2>Reproduce</h2><p>The same build, configuration and seed give the same bytes.</p>";
    let _ = write!(
        out,
        "<div class=\"copy\"><pre>{}</pre><button class=\"theme\" type=\"button\" hidden>Copy\
         </button></div>",
        escape(command)
    );
}
