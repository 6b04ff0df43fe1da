//! A scenario of any text is understood or refused.
#![no_main]

use varve_lab::Experiment;
use varve_lab::scenario::Scenario;

libfuzzer_sys::fuzz_target!(|text: &str| {
    if let Ok(scenario) = Scenario::from_text("fuzz", text, std::path::PathBuf::new()) {
        let _ = Experiment::new(&scenario);
    }
});
