//! Studies: sweeps too long for one sitting, or for one machine.
//!
//! * Each point has an id, a digest of all that its result depends on ([`identity`]): what was made
//!   once is never made again.
//! * Each result is written down as its point ends ([`store`]): who is killed loses the points under
//!   way, and no other.
//! * Results that were made in any order, in any number of places, become the bytes that one
//!   machine would have written ([`merge`]); title and paths are those of the first place.

mod finished;
mod identity;
mod index;
mod merge;
mod part;
mod store;
mod table;

use report::json::Map;

use crate::replay::Watch;
use crate::result::named;
use crate::scenario::Scenario;
use crate::{Experiment, LabError, Point};
use identity::Inputs;

pub use finished::{Finished, POINT};
pub use identity::{ENGINE, ID_DIGITS, Input};
pub use index::{Entry, Index, POINTS};
pub use merge::Merged;
pub use part::Part;
pub use store::{Found, INDEX, Store};
pub use table::{Kind, Table};

/// A study: an experiment whose points have names.
pub struct Study {
    experiment: Experiment,
    index: Index,
}

impl Study {
    /// The study of a scenario, as the program of this version runs it.
    ///
    /// # Errors
    /// Whatever is wrong with the scenario; a trace that cannot be read.
    pub fn new(scenario: &Scenario, version: &str) -> Result<Study, LabError> {
        Study::of(Experiment::new(scenario)?, version)
    }

    /// The study of an experiment.
    ///
    /// # Errors
    /// A trace that cannot be read.
    pub fn of(experiment: Experiment, version: &str) -> Result<Study, LabError> {
        let inputs = Inputs::of(&experiment)?;
        let mut entries: Vec<(usize, Entry)> = Vec::with_capacity(experiment.all());
        for point in experiment.points() {
            let id = identity::id(&experiment, point, &inputs, version);
            let head = named(&point.params, point.seed);
            entries.push((point.place, Entry::new(head, point.values(), Ok(id))));
        }
        for cell in experiment.impossible() {
            let head = named(&cell.params, cell.seed);
            entries.push((cell.place, Entry::new(head, Map::new(), Err(cell.reason.clone()))));
        }
        entries.sort_by_key(|(place, _)| *place);
        let index = Index {
            version: version.to_string(),
            engine: ENGINE.to_string(),
            heading: experiment.document_heading(version),
            scenario: experiment.scenario().to_toml()?,
            inputs: inputs.list(),
            entries: entries.into_iter().map(|(_, entry)| entry).collect(),
        };
        Ok(Study { experiment, index })
    }

    /// The experiment.
    pub fn experiment(&self) -> &Experiment {
        &self.experiment
    }

    /// The index.
    pub fn index(&self) -> &Index {
        &self.index
    }

    /// The points of a part, in order.
    pub fn points(&self, part: &Part) -> Vec<&Point> {
        let places = part.places(&self.index);
        let here = |point: &&Point| places.binary_search(&point.place).is_ok();
        self.experiment.points().iter().filter(here).collect()
    }

    /// The points of a part whose results are not in a store; `note` is told of what is damaged there.
    ///
    /// # Errors
    /// A file that is there and cannot be read.
    pub fn missing(
        &self,
        part: &Part,
        store: &Store,
        note: &dyn Fn(&str),
    ) -> Result<Vec<&Point>, LabError> {
        let mut missing = Vec::new();
        for point in self.points(part) {
            match store.find(&self.id(point))? {
                Found::Finished(_) => continue,
                Found::Nothing => {}
                Found::Damaged(what) => note(&format!("{what}: it is run again")),
            }
            missing.push(point);
        }
        Ok(missing)
    }

    fn id(&self, point: &Point) -> String {
        self.index.entries[point.place].id().unwrap_or_default().to_string()
    }

    /// Runs one point, by its id.
    ///
    /// # Errors
    /// No such point; a run that fails.
    pub fn finish(&self, id: &str, watch: Watch<'_>) -> Result<Finished, LabError> {
        let part = Part::points(&[id.to_string()], &self.index)?;
        let points = self.points(&part);
        let [point] = points.as_slice() else {
            return Err(LabError::Input(format!("point `{id}`: expected one point")));
        };
        let result = self.experiment.run_point(point, watch)?;
        Ok(Finished { id: self.id(point), result })
    }

    /// Runs points on `threads` threads, and puts each result into a store as its point ends.
    ///
    /// # Errors
    /// The error of the first run, in order, that fails; a store that takes no result.
    pub fn run(
        &self,
        points: &[&Point],
        store: &Store,
        threads: usize,
        watch: Watch<'_>,
    ) -> Result<(), LabError> {
        store.begin(&self.index)?;
        self.experiment.run_each(points, threads, watch, &|point, result| {
            store.put(&Finished { id: self.id(point), result })
        })
    }
}
