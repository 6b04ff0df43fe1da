//! One cell of `varve reproduce nolog`'s table of cleaning, window by window:
//!
//! ```text
//! cargo run --release -p varve-studies --example steady -- SPARE CLEANING SYSTEM [quick]
//! ```
//!
//! with SPARE 7 or 12.5, CLEANING 0 to 7 and SYSTEM 0 (write-ahead log) or 1 (no log).

use std::error::Error;

use varve_studies::Scale;
use varve_studies::nolog::steady::{CLEANINGS, SPARES, SYSTEMS, Size};

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [spare, cleaning, system, rest @ ..] = &args[..] else {
        return Err("expected SPARE CLEANING SYSTEM [quick]".into());
    };
    let spare = SPARES.iter().find(|known| known.trim_end_matches(" %") == spare);
    let spare = spare.ok_or_else(|| format!("a spare of {SPARES:?} was expected"))?;
    let cleaning = CLEANINGS.get(cleaning.parse::<usize>()?).ok_or("a cleaning from 0 to 7")?;
    let system = SYSTEMS.get(system.parse::<usize>()?).ok_or("a system, 0 or 1")?;
    let size = Size::new(if rest.is_empty() { Scale::Default } else { Scale::Quick });
    let outcome = size.cell(&size.load()?, spare, cleaning, system)?;
    let flash = outcome.flash;
    println!("{spare}, {}, {}", cleaning.name, system.name);
    println!("hundredths of flash pages a transaction, by window: {:?}", outcome.windows);
    println!("last window: {} programs, {} because of locks", flash.programs(), flash.additional);
    println!("transactions in 1000 s: {}", outcome.rate());
    Ok(())
}
