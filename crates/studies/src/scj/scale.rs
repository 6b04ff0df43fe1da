//! Not in the paper: what of the gain the size of the volume decides. Segments do not shrink with it.

use super::cell::{Bench, Cell, LARGE, TOGETHER};
use super::{Options, Scale, System, percent, section};
use crate::text::{micros, rate, ratio};
use lab::LabError;
use lab::fileload::FileLoad;
use report::study::{Study, Table};
use report::values;

/// Runs the experiment, up to the scale that is asked for.
pub(super) fn run(options: &Options, bench: &Bench, study: &mut Study) -> Result<(), LabError> {
    let all = [Scale::Quick, Scale::Default, Scale::Full];
    let scales = all.into_iter().filter(|scale| scale.blocks() <= options.scale.blocks());
    let mut table = Table::new([
        ("volume", "volume"),
        ("system", "system"),
        ("mb_s", "MB/s"),
        ("against_bl", "against BL"),
        ("against_kernel_6_1", "against kernel 6.1"),
        ("update_p99_us", "update p99 us"),
        ("cps", "CPs"),
        ("of_bl", "of BL's"),
        ("metadata", "metadata"),
        ("waf", "WAF"),
    ]);
    for scale in scales {
        let large = System::Tuned(scale.blocks() / 128, LARGE);
        let systems = [
            System::Bl,
            System::Kernel,
            System::Scj,
            large,
            System::Unflushed,
            TOGETHER,
            System::KernelLate,
            System::KernelAhead,
            System::Ahead,
        ];
        let cells = systems.map(|system| Cell::new(scale, system, FileLoad::Fileserver));
        let found = bench.all(&cells)?;
        let (bl, kernel) = (&found[0], &found[1]);
        for (system, one) in systems.iter().zip(&found) {
            table.row(values![
                format!("1/{}", scale.factor()),
                system.name(),
                rate(one.rate() * 4096),
                ratio((one.rate(), bl.rate())),
                ratio((one.rate(), kernel.rate())),
                micros(one.latency(1, 2)),
                one.cp_calls,
                percent((one.cp_calls, bl.cp_calls)),
                percent((one.metadata, one.user)),
                ratio((one.written, one.user))
            ]);
        }
    }
    study.sections.push(section(
        "scale", "The size of the volume (fileserver)",
        "Volumes in parts of the paper's 16 GiB. BL writes all that is dirty after every cleaning, which is more on a larger \
         volume, while a segment is as large everywhere: the gain of every other way grows with the volume.",
        table,
    ));
    Ok(())
}
