//! How the buffer is divided while a run goes on.

use super::first::First;
use super::mixes::AOI;
use super::pairs::Pair;
use super::{Options, find, rows};
use lab::LabError;
use report::study::{Section, Table, Value};

/// Points of a run at which is looked.
const POINTS: u64 = 10;
const MIB: u64 = 32;

/// The lists of isolation and the chunks it knows, after each tenth of a pair.
pub fn section(options: &Options, pair: &Pair) -> Result<Section, LabError> {
    let open = || pair.open(&options.data);
    let whole = rows(options, &[AOI], &[MIB], true, &open)?;
    let units = find(&whole, AOI, MIB).map_or(0, |row| row.accesses(None).0);
    let mut table = None;
    for point in 1..=POINTS {
        let left = units * point / POINTS;
        let part = rows(options, &[AOI], &[MIB], true, &|| {
            Ok(Box::new(First::new(pair.open(&options.data)?, left)))
        })?;
        let Some(row) = find(&part, AOI, MIB) else { continue };
        let names = row.occupancy.iter().map(|(name, _)| (*name, *name));
        let table = table.get_or_insert_with(|| {
            Table::new(std::iter::once(("accesses", "accesses")).chain(names))
        });
        let counts = row.occupancy.iter().map(|(_, count)| Value::from(*count));
        table.row(std::iter::once(Value::from(row.accesses(None).0)).chain(counts));
    }
    Ok(Section::new(
        format!("occupancy_{}", pair.name.to_lowercase()),
        format!("Beyond the paper: how the buffer is divided, {}", pair.name),
        format!(
            "{AOI} at {MIB} MiB: entries in each list, and chunks by what the look-up table says of them."
        ),
        table.unwrap_or_else(|| Table::new([("accesses", "accesses")])),
    ))
}
