//! `varve cite`: what a paper says of a run.

use lab::LabError;
use lab::cite::cite as of;
use lab::compare::load;
use report::json::{Json, Map, MapExt};

use crate::args::Cite;
use crate::{VERSION, print};

/// Prints a paragraph on methods, and entries of BibTeX.
pub fn cite(args: &Cite) -> Result<(), LabError> {
    let citation = of(&load(&args.run)?.document);
    if args.json {
        let mut map = Map::new();
        map.put("schema", Json::text("varve.cite/1"));
        map.put("version", Json::text(VERSION));
        map.put("methods", Json::text(&citation.methods));
        map.put("bibtex", Json::text(&citation.bibtex));
        return print(&Json::Map(map).pretty());
    }
    print(&format!("{}\n\n{}", citation.methods, citation.bibtex))
}
