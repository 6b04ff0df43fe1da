//! The tables of commits as records of `varve reproduce nolog` and of `varve reproduce compose`, alone:
//!
//! ```text
//! cargo run --release -p varve-studies --example records -- nolog|compose [quick]
//! ```

use std::error::Error;

use report::study::Study;
use varve_studies::nolog::delta;
use varve_studies::{Options, Scale, compose};

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let scale = if words.get(1) == Some(&"quick") { Scale::Quick } else { Scale::Default };
    let study = match words.first() {
        Some(&"nolog") => {
            let mut study = Study::default();
            delta::run(scale, 1, &mut study)?;
            study
        }
        Some(&"compose") => {
            compose::run_records(&Options { threads: 1, ..Options::new(scale, "records") })?
        }
        _ => return Err("expected nolog or compose".into()),
    };
    print!("{}", study.text());
    Ok(())
}
