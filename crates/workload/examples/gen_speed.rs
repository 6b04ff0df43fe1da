//! Requests per second of the generators, one thread: `cargo run --release -p varve-workload
//! --example gen_speed -- [RECIPE..]`. The goal is 20 million.
//! `RECIPE+RECIPE` merges two by clock.

use std::process::ExitCode;
use std::time::Instant;

use varve_workload::generate::parse_recipe;
use varve_workload::tenant::{Merge, MergeConfig};
use varve_workload::{Record, Source, SourceError};

const DEFAULT: &[&str] = &[
    "sequential,count=20M,iat=100ns",
    "uniform,count=20M,iat=100ns,read=30",
    "uniform,size=64GiB,count=20M,iat=100ns,read=30,arrival=exp",
    "hotcold,count=20M,iat=100ns,read=30",
    "zipf,size=64GiB,count=20M,iat=100ns,read=30",
    "zipf,size=64GiB,count=20M,iat=100ns,read=30,theta=0.6",
    "zipf,size=64GiB,count=20M,iat=100ns,read=30,scatter=off",
    "pareto,size=64GiB,count=20M,iat=100ns,read=30",
];

fn open(text: &str) -> Result<Box<dyn Source>, SourceError> {
    if !text.contains('+') {
        return Ok(parse_recipe(text, 1)?.open());
    }
    let tenants = text.split('+').map(|text| Ok(parse_recipe(text, 1)?.tenant(text)));
    let tenants = tenants.collect::<Result<_, SourceError>>()?;
    Ok(Box::new(Merge::new(tenants, MergeConfig::default())?))
}

fn measure(text: &str) -> Result<(u64, f64), SourceError> {
    let (mut source, mut block, mut best) = (open(text)?, Vec::<Record>::new(), f64::MAX);
    let mut total = 0;
    // The best of five: what else runs on the machine only takes time away.
    for _ in 0..5 {
        let start = Instant::now();
        let mut records = 0;
        loop {
            source.fill(&mut block)?;
            if block.is_empty() {
                break;
            }
            records += block.len() as u64;
        }
        best = best.min(start.elapsed().as_secs_f64() / records as f64);
        total += records;
        source = open(text)?;
    }
    Ok((total / 5, 1e-6 / best))
}

fn main() -> ExitCode {
    let given: Vec<String> = std::env::args().skip(1).collect();
    let texts: Vec<&str> = match given.is_empty() {
        true => DEFAULT.to_vec(),
        false => given.iter().map(String::as_str).collect(),
    };
    for text in texts {
        match measure(text) {
            Ok((records, speed)) => println!("{speed:7.1} M/s  {records:9} records  {text}"),
            Err(error) => {
                eprintln!("{error}");
                return ExitCode::from(3);
            }
        }
    }
    ExitCode::SUCCESS
}
