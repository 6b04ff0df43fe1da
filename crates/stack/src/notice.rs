//! What an operator must know at once: one line on standard error.

use std::io::Write;

/// Says it. Nothing depends on whether anybody can read it: a server in the background may have nobody
/// left.
pub fn say(what: &str) {
    let _ = writeln!(std::io::stderr(), "varve: {what}");
}
