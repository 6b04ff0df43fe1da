//! The bundled scenarios: every run of each fits together.

use std::path::Path;

use varve_lab::Experiment;
use varve_lab::scenario::Scenario;

#[test]
fn every_bundled_scenario_can_be_run() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let mut found = 0;
    for entry in std::fs::read_dir(folder).expect("scenarios") {
        let path = entry.expect("an entry").path();
        let experiment = Scenario::load(&path).and_then(|scenario| Experiment::new(&scenario));
        match experiment {
            Ok(experiment) => assert!(experiment.points().len() > 1, "{}", path.display()),
            Err(error) => panic!("{}: {error}", path.display()),
        }
        found += 1;
    }
    assert!(found > 0, "no scenarios");
}
