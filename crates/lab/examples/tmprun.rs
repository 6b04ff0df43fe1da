extern crate varve_lab as lab;
#[allow(dead_code)]
#[path = "../../studies/src/scj/cell.rs"]
mod cell;
#[allow(dead_code)]
#[path = "../../studies/src/scj/outcome.rs"]
mod outcome;
#[allow(dead_code)]
#[path = "../../studies/src/parallel.rs"]
mod parallel;
use std::path::PathBuf;
pub struct Options {
    pub threads: usize,
    pub kept: Option<PathBuf>,
}
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scale {
    Quick,
    Default,
    Full,
}
impl Scale {
    fn blocks(self) -> u64 {
        match self {
            Scale::Quick => 1 << 18,
            Scale::Default => 1 << 20,
            Scale::Full => 1 << 22,
        }
    }
    fn factor(self) -> u64 {
        (1 << 22) / self.blocks()
    }
    fn slots(self) -> u32 {
        (64 / self.factor()) as u32
    }
}
pub const SEED: u64 = 1;
use cell::*;
use lab::fileload::FileLoad::{self, *};
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let scale = match &*a[1] {
        "quick" => Scale::Quick,
        "default" => Scale::Default,
        _ => Scale::Full,
    };
    let bench = Bench::new(&Options { threads: 1, kept: Some(a[2].clone().into()) });
    let large = System::Tuned(scale.blocks() / 128, LARGE);
    let c = |s: System, w: FileLoad| Cell::new(scale, s, w);
    let d = |w| Cell { drain: true, ..c(System::Bl, w) };
    let four = [Fileserver, Varmail, Tpcc, Ycsb];
    let mut cells = Vec::new();
    for part in &a[3..] {
        match &**part {
            "text" => {
                for w in [Fileserver, VarmailTogether, Ycsb, Tpcc, Varmail] {
                    cells.push(c(System::Bl, w));
                    cells.push(c(System::Literal, w));
                }
            }
            "phases" => cells.extend([Fileserver, Tpcc, Ycsb, VarmailTogether, Varmail].map(d)),
            "safe" => cells.extend(four.map(|w| c(System::Scj, w))),
            "area" => cells.extend(
                [Fileserver, VarmailTogether, Varmail, Tpcc, Ycsb].map(|w| c(System::Unflushed, w)),
            ),
            "a5" => {
                for w in [Fileserver] {
                    cells.extend(
                        [
                            System::Kernel,
                            System::KernelAhead,
                            System::Ahead,
                            System::KernelLate,
                            TOGETHER,
                        ]
                        .map(|s| c(s, w)),
                    );
                }
            }
            "fig6" => cells.extend(
                [4, 16, 64, 128]
                    .map(|slots| c(System::Tuned(scale.blocks() / 128, slots), Fileserver))
                    .into_iter()
                    .chain([c(large, Fileserver)]),
            ),
            other => panic!("{other}"),
        }
    }
    for cell in &cells {
        let t = std::time::Instant::now();
        let one = bench.all(&[*cell]).unwrap();
        let o = &one[0];
        println!(
            "{:?} {} MB/s {:.1} cps {} full {} meta% {} waf {} lat {:?} [{} s]",
            cell.what,
            cell.system.name(),
            (o.rate() * 4096) as f64 / 1e6,
            o.cp_calls,
            o.journal_full,
            o.metadata * 1000 / o.user,
            o.written * 100 / o.user,
            [[o.latency(0, 0), o.latency(0, 2)], [o.latency(1, 0), o.latency(1, 2)]],
            t.elapsed().as_secs()
        );
    }
}
