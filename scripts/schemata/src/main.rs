//! Puts many mutants into one build, each behind a switch that the environment turns at run time.
//!
//!   schemata TREE < MUTANTS      lines of JSON: id, file, genre, replacement, span, as `cargo mutants --list` has them
//!
//! Rewrites the files in place; no line moves, so that what the compiler says of a line is of that line. Prints the
//! ids that it placed, one a line; the others need a build of their own. A mutant's code runs if `mutation::on(id)`.
//!
//! * Operands are evaluated once, in order, and as before: comparisons borrow them, `&&` and `||` become each other by
//!   De Morgan, so that the right side is skipped when it must be.
//! * What the compiler refuses (a `const`, a move, a missing arm) the caller takes out, and calls again.

mod rewrite;

use std::collections::BTreeMap;
use std::io::BufRead;
use std::path::PathBuf;

use serde::Deserialize;

/// A place in a file: lines and columns from 1, columns in characters.
#[derive(Deserialize, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Place {
    pub line: usize,
    pub column: usize,
}

#[derive(Deserialize, Clone, Copy, Debug)]
pub struct Span {
    pub start: Place,
    pub end: Place,
}

#[derive(Deserialize, Clone, Debug)]
pub struct Mutant {
    pub id: u32,
    pub file: PathBuf,
    pub genre: String,
    pub replacement: String,
    pub span: Span,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let tree =
        PathBuf::from(std::env::args_os().nth(1).ok_or("expected: schemata TREE < MUTANTS")?);
    let mut files: BTreeMap<PathBuf, Vec<Mutant>> = BTreeMap::new();
    for line in std::io::stdin().lock().lines() {
        let mutant: Mutant = serde_json::from_str(&line?)?;
        files.entry(mutant.file.clone()).or_default().push(mutant);
    }
    for (file, mutants) in files {
        let path = tree.join(&file);
        let text = std::fs::read_to_string(&path)?;
        let (text, placed) =
            rewrite::rewrite(&text, &mutants).map_err(|e| format!("{}: {e}", file.display()))?;
        std::fs::write(&path, text)?;
        for id in placed {
            println!("{id}");
        }
    }
    Ok(())
}
