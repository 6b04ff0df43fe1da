//! Spare space against write amplification: a sweep, and its numbers.
//!
//! `cargo run --release -p varve --example sweep`

use varve::sim::{Scenario, metric, run};

const SCENARIO: &str = r#"
[drive]
capacity = "256 MiB"
geometry.channels = 4
geometry.dies = 2
geometry.pages = 64
buffer.policy = "none"
buffer.size = "0"

[workload]
gen = "uniform,size=256MiB,bs=4KiB,count=300k"

[replay]
mode = "untimed"
precondition = "steady"

[sweep]
op = ["12.5 %", "28 %", "50 %"]
"#;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let scenario = Scenario::from_text("sweep", SCENARIO, std::env::current_dir()?)?;
    let document = run(&scenario)?;
    for (i, name) in document.runs().iter().enumerate() {
        let waf = document.number(i, metric::WAF).ok_or("no write amplification")?;
        println!("{name}: WAF {waf:.2}");
    }
    Ok(())
}
