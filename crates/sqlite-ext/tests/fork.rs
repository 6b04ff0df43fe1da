//! fork while a store is open: what is acknowledged is there, or it is refused as busy. Before stores
//! knew whose they are, a child wrote into a copy of its parent's state: of 60 rows that were
//! acknowledged 20 were there.
//!
//! `VARVE_FORK_ROUNDS=100` for more rounds than the few of every day.

mod python;

#[test]
fn what_is_acknowledged_around_a_fork_is_there_or_was_refused_as_busy() {
    let rounds = std::env::var("VARVE_FORK_ROUNDS").map_or(4, |text| text.parse().unwrap());
    let folder = std::env::temp_dir().join(format!("varve-fork-{}", std::process::id()));
    let (mut acknowledged, mut busy) = (0, 0);
    for round in 0..rounds {
        std::fs::create_dir_all(&folder).unwrap();
        let image = folder.join("home.varve");
        let output = python::script("fork")
            .args([image.as_os_str(), format!("{round}").as_ref()])
            .output()
            .expect("this test needs python3");
        let said = String::from_utf8_lossy(&output.stdout);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "round {round}: {said}{error}");
        let mut counts = said.split_whitespace().map(|word| word.parse::<u64>().unwrap());
        acknowledged += counts.next().unwrap();
        busy += counts.next().unwrap();
        sqlite::image::check(&image).unwrap_or_else(|e| panic!("round {round}: {e}"));
        std::fs::remove_dir_all(&folder).unwrap();
    }
    println!("{rounds} rounds: {acknowledged} rows acknowledged and found, {busy} times busy");
}
