//! The frame of every page: one HTML file that needs no network.
//!
//! It holds everything: styles, script and charts are inline, and a content-security policy
//! forbids it to ask for anything else. The script adds texts under the pointer, unfolding what a
//! link leads to, and switching the colour scheme; without it every number is still in a table.

use std::fmt::Write;

use crate::format::escape;

const MARK: &str = "<svg viewBox=\"0 0 24 24\" aria-hidden=\"true\" fill=\"none\" \
    stroke=\"currentColor\" stroke-width=\"2\" stroke-linecap=\"round\"><path d=\"M3 19h18M3 14c4-2 \
    7 2 11 0s5-1 7 0M3 9c4-2 7 2 11 0s5-1 7 0M3 4h18\"/></svg>";

/// A page of another kind in the same frame; `command` is what repeats it.
pub fn page(title: &str, version: &str, command: &str, body: &str) -> String {
    let mut main = body.to_string();
    repeat(&mut main, command);
    frame(
        &Heading { title, version, lead: "", schema: crate::study::SCHEMA },
        &main,
        Assets::default(),
    )
}

/// What stands above and below a page's content, as plain text.
#[derive(Clone, Copy, Debug)]
pub struct Heading<'a> {
    /// The title.
    pub title: &'a str,
    /// Of the program.
    pub version: &'a str,
    /// A sentence below the title.
    pub lead: &'a str,
    /// Of the document that is shown.
    pub schema: &'a str,
}

/// What a kind of page has beside what all have.
#[derive(Clone, Copy, Debug, Default)]
pub struct Assets {
    /// Style sheet.
    pub style: &'static str,
    /// Script, which runs after that of all pages.
    pub script: &'static str,
    /// It asks the server that it came from for more.
    pub live: bool,
}

/// The frame of every page: head, styles, script. `main` is HTML.
pub fn frame(heading: &Heading<'_>, main: &str, more: Assets) -> String {
    format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
         style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:{connect}\">\
         <title>{title}</title><link rel=\"icon\" href=\"data:,\"><style>{style}{more_style}</style></head>\
         <body><header><div><div class=\"mark-line\">{MARK}varve {version}</div><h1>{title}</h1>\
         <p class=\"lead\">{lead}</p></div>\
         <button class=\"theme\" type=\"button\" hidden>Light / dark</button></header><main>{main}\
         </main><footer>Schema {schema}. {complete}</footer><div id=\"tip\" role=\"status\"></div>\
         <script>{script}{more_script}</script></body></html>\n",
        connect = if more.live { "; connect-src 'self'" } else { "" },
        complete = match more.live {
            true =>
                "This page asks the program that it came from, on this machine, and nobody else.",
            false => "This file is complete: it asks for nothing over a network.",
        },
        title = escape(heading.title),
        version = escape(heading.version),
        lead = escape(heading.lead),
        schema = escape(heading.schema),
        style = include_str!("style.css"),
        script = bare(include_str!("script.js")),
        more_style = more.style,
        more_script = bare(more.script),
    )
}

/// A script without what only its readers need: indentation, and lines that are comments. Ours has no text of
/// several lines.
fn bare(script: &str) -> String {
    let lines = script.lines().map(str::trim_start);
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with("//"));
    lines.collect::<Vec<_>>().join("\n")
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
