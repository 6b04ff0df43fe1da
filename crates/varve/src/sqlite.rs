//! `varve sqlite`: what SQLite writes, and what it need not.

use lab::LabError;

use crate::args::{Measure, Sqlite};
use crate::{VERSION, print};

/// `varve sqlite`.
pub fn sqlite(command: &Sqlite) -> Result<(), LabError> {
    match command {
        Sqlite::Measure(args) => measure(args),
    }
}

fn measure(args: &Measure) -> Result<(), LabError> {
    let workload =
        std::fs::read_to_string(&args.workload).map_err(|e| LabError::io(&args.workload, e))?;
    if !args.database.is_file() {
        let missing = std::io::Error::from(std::io::ErrorKind::NotFound);
        return Err(LabError::io(&args.database, missing));
    }
    let report = ::sqlite::measure::measure(&args.database, &workload)?;
    if args.json {
        let (database, file) = (args.database.display(), args.workload.display());
        return print(&report.json(VERSION, &database.to_string(), &file.to_string()).pretty());
    }
    print(&report.text())
}
