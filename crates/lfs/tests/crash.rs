//! Power cuts: after any, the volume is the last checkpoint and a prefix of the fsyncs after it.

mod tools;

use block::{Fate, Rng};
use lfs::Options;
use tools::crash::{Plan, first_wrong, volume, work};
use tools::model::{Mix, fresh};
use tools::{Image, now};

const FSYNCS: Mix = Mix { write: 40, fsync: 25, sync: 2, blocks: 30, names: 30 };

fn small(seed: u64) -> Plan {
    let options = Options { dirty: 60, ..Options::default() };
    Plan { seed, per_seg: 4, blocks: 8_000, options, mix: FSYNCS, steps: 60 }
}

#[test]
fn no_cut_breaks_what_was_promised() {
    for seed in 0..40 {
        assert_eq!(first_wrong(small(seed), 3), None);
    }
}

#[test]
fn a_cut_in_recovery_changes_nothing() {
    let mut cuts = 0;
    for seed in 100..112 {
        let plan = small(seed);
        let (mut tree, mut clock, mut rng) = (fresh(), 1, Rng::new(seed));
        let run = work(plan, volume(&plan), &mut tree, &mut clock, &mut rng);
        for op in (0..run.device.ops()).step_by(17) {
            let cut = run.cuts(op)[1];
            let (fs, _) = run.judge(&cut).unwrap_or_else(|e| panic!("seed {seed}, {cut:?}: {e}"));
            for inner in 0..fs.device().ops() {
                for fate in [Fate::Old, Fate::Blocks(seed ^ inner)] {
                    let cut = block::DiskCut { op: inner, inside: true, torn: fate, rest: fate };
                    let (image, _) = fs.device().image_at_cut(&cut).unwrap();
                    let again = run.judge_image(image, op);
                    assert!(again.is_ok(), "seed {seed}, {op}, {cut:?}: {:?}", again.err());
                    cuts += 1;
                }
            }
        }
    }
    assert!(cuts > 500, "{cuts}");
}

#[test]
fn the_checker_is_content_after_recovery() {
    for seed in 0..3 {
        let plan = Plan { per_seg: 9, blocks: 64 << 8, steps: 80, ..small(seed) };
        let (mut tree, mut clock, mut rng) = (fresh(), 1, Rng::new(seed));
        let run = work(plan, volume(&plan), &mut tree, &mut clock, &mut rng);
        for op in (0..run.device.ops()).step_by(run.device.ops() as usize / 4) {
            let cut = run.cuts(op)[1];
            let (fs, _) = run.judge(&cut).unwrap_or_else(|e| panic!("seed {seed}, {cut:?}: {e}"));
            let mut device = fs.unmount(now(1 << 31)).unwrap();
            assert_eq!(Image::of(&mut device).complaints(), [""; 0], "seed {seed}, {cut:?}");
        }
    }
}
