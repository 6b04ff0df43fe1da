//! Figs 2, 8, 9, 13 and 14: sequential and random writes through every stack, on every mapping.

use block::Op;

use super::cell::{Cell, Measured, run_all};
use super::drives::{MAPPINGS, Mapping, STACKS, line_kib};
use super::{Options, Scale, Size, section};
use crate::text::{change, micros, rate, ratio, share};
use lab::LabError;
use report::study::{Check, Condition, Plot, Study, Table, Value};
use report::values;

/// A generated workload: `SIZE` is the part of the drive it uses, `COUNT` its requests.
struct Load {
    name: &'static str,
    recipe: &'static str,
}

const SEQUENTIAL: Load = Load { name: "sequential", recipe: "rw=write" };
const RANDOM: Load = Load { name: "random", recipe: "rw=randwrite,norandommap=on" };
const ZIPF: Load =
    Load { name: "zipf", recipe: "rw=randwrite,norandommap=on,distribution=zipf:0.99" };

/// Blocks of the part of the drive that is used: whole MiB.
pub(super) fn blocks(mib: u64, fill: u64) -> u64 {
    (mib * fill / 100) * 256
}

/// The cell of a stack on a drive, with the host log just large enough for a fill.
pub(super) fn stacked(mapping: &Mapping, mib: u64, stack: &str, fill: u64) -> Cell {
    let cell = mapping.drive(mib).with("remap.mode", stack);
    if stack != "log" {
        return cell;
    }
    // Half a line: see the section on segments.
    let cell = cell.with("remap.segment", format!("{} KiB", line_kib(mib) / 2));
    match fill > 85 {
        true => cell.with("remap.reserve", "5"),
        false => cell,
    }
}

/// A file is written once and overwritten twice; measured are as many overwrites again as it has
/// blocks.
fn cell(mapping: &Mapping, mib: u64, stack: &str, fill: u64, load: &Load) -> Cell {
    let blocks = blocks(mib, fill);
    let (recipe, size) = (load.recipe, blocks * 4);
    let once = format!("{recipe},bs=4KiB,size={size}KiB,count={blocks}");
    stacked(mapping, mib, stack, fill)
        .after(&format!("rw=write,bs=1MiB,size={size}KiB,count={}", blocks / 256))
        .after(&format!("{recipe},bs=4KiB,size={size}KiB,count={}", 2 * blocks))
        .load(&once)
}

/// The cell of random writes.
pub(super) fn random(mapping: &Mapping, size: Size, stack: &str) -> Cell {
    cell(mapping, size.mib, stack, size.fill, &RANDOM)
}

/// The mappings of a condition: all for the study's own, else those that the paper is compared with.
fn mappings(size: Size, options: &Options) -> &'static [Mapping] {
    if size.mib == options.scale.mib() { &MAPPINGS } else { size.drives }
}

/// Fig 2: random against sequential writes, without remapping.
pub(super) fn gap(
    options: &Options,
    condition: &Condition,
    study: &mut Study,
) -> Result<(), LabError> {
    let size = Size::of(condition, options);
    let mappings = mappings(size, options);
    let cells: Vec<Cell> = mappings
        .iter()
        .flat_map(|m| [&SEQUENTIAL, &RANDOM].map(|load| cell(m, size.mib, "off", size.fill, load)))
        .collect();
    let found = run_all(&cells, options.threads)?;
    let mut table = Table::new([
        ("drive", "drive"),
        ("sequential_mb_s", "sequential MB/s"),
        ("random_mb_s", "random MB/s"),
        ("random_against_it", "random against it"),
    ]);
    for (mapping, pair) in mappings.iter().zip(found.chunks(2)) {
        let (seq, random) = (pair[0].rate(), pair[1].rate());
        table.row(values![mapping.name, rate(seq), rate(random), change(random, seq)]);
    }
    study.sections.push(section(
        "fig2", "Fig 2: random writes against sequential ones, no remapping",
        "4 KiB overwrites of a file that fills as much of the drive as the condition says. The paper: random lower \
         by up to 87.4 %.",
        table,
    )
    .plot(Plot::bars("MB/s", "drive", ["sequential_mb_s", "random_mb_s"]))?
    .under(condition));
    Ok(())
}

fn row(name: &[String], base: &Measured, here: &Measured) -> Vec<Value> {
    let mut row: Vec<Value> = name.iter().map(Value::from).collect();
    row.extend(values![
        rate(here.rate()),
        change(here.rate(), base.rate()),
        micros(here.mean(Op::Write)),
        change(here.mean(Op::Write).as_ps(), base.mean(Op::Write).as_ps()),
        micros(here.percentile(Op::Write, 9900)),
        micros(here.percentile(Op::Write, 9990)),
        ratio(here.amplification().above()),
        ratio(here.amplification().drive()),
        ratio(here.amplification().whole())
    ]);
    row
}

const COLUMNS: [(&str, &str); 9] = [
    ("mb_s", "MB/s"),
    ("against_pass_through", "against pass-through"),
    ("mean_us", "mean us"),
    ("mean_against_it", "mean against it"),
    ("p99_us", "p99 us"),
    ("p999_us", "p99.9 us"),
    ("wa_host", "WA host"),
    ("wa_drive", "WA drive"),
    ("wa_both", "WA both"),
];

/// Stacks of the matrix: the last two have the same write-back buffer in the host, as large as the drive's.
const MATRIX: [(&str, &str); 5] = [
    STACKS[0],
    STACKS[1],
    STACKS[2],
    ("pass-through, host buffer", "off"),
    ("varve, host buffer", "log"),
];

/// Blocks of the host's buffer: as much as the drive has.
const HOST_BUFFER: u32 = (8 << 20) / 4096;

/// A cell of the matrix, by the place of its stack.
fn matrix_cell(mapping: &Mapping, mib: u64, stack: usize, fill: u64, load: &Load) -> Cell {
    let cell = cell(mapping, mib, MATRIX[stack].1, fill, load);
    match stack {
        3 => cell.behind(HOST_BUFFER),
        4 => buffered(cell),
        _ => cell,
    }
}

fn buffered(cell: Cell) -> Cell {
    let size = format!("{} KiB", HOST_BUFFER * 4);
    cell.with("remap.ack", "buffer").with("remap.buffer", size)
}

/// Figs 8, 9, 13, 14 on generated loads, over mappings.
pub(super) fn generated(
    options: &Options,
    condition: &Condition,
    study: &mut Study,
) -> Result<(), LabError> {
    let size = Size::of(condition, options);
    let own = size.mib == options.scale.mib();
    let loads = if own { &[&SEQUENTIAL, &RANDOM, &ZIPF][..] } else { &[&SEQUENTIAL, &RANDOM] };
    for load in loads {
        let mut places = Vec::new();
        let mut cells = Vec::new();
        let stacks = if own { MATRIX.len() } else { STACKS.len() };
        for mapping in mappings(size, options) {
            for (stack, (name, _)) in MATRIX.iter().enumerate().take(stacks) {
                places.push([mapping.name, name].map(str::to_string));
                cells.push(matrix_cell(mapping, size.mib, stack, size.fill, load));
            }
        }
        let found = run_all(&cells, options.threads)?;
        let names = [("drive", "drive"), ("stack", "stack")];
        let mut table = Table::new(names.into_iter().chain(COLUMNS));
        for (names, of) in places.chunks(stacks).zip(found.chunks(stacks)) {
            for (name, here) in names.iter().zip(of) {
                table.row(row(name, &of[0], here));
            }
        }
        let (id, figures) = match load.name {
            "sequential" => ("fig8", "Figs 8 and 13"),
            "random" => ("fig9", "Figs 9 and 14"),
            _ => ("fig9_zipf", "Figs 9 and 14"),
        };
        let section = section(
            id,
            format!("{figures}: {} 4 KiB writes", load.name),
            "A file, as large as the condition says (80 % of the drive if none is named), is written once and \
             overwritten twice; measured are as many overwrites again as it has blocks. Host buffer: 8 MiB that \
             are written back; what it absorbs costs no time.",
            table,
        )
        .plot(Plot::bars("MB/s", "drive", ["mb_s"]).by("stack"))?
        .plot(Plot::bars("write amplification of both layers", "drive", ["wa_both"]).by("stack"))?;
        study.sections.push(section.under(condition));
        match load.name {
            "random" if own => study.checks.extend(checks(&places, &found)),
            "zipf" => study.checks.extend(skewed(&places, &found)),
            _ => {}
        }
    }
    Ok(())
}

/// Random writes over fills.
pub(super) fn fills(options: &Options, study: &mut Study) -> Result<(), LabError> {
    let mib = options.scale.mib();
    let fills: &[u64] = match options.scale {
        Scale::Default | Scale::Full => &[50, 70, 90, 95],
        Scale::Quick => &[50],
    };
    let (mut places, mut cells) = (Vec::new(), Vec::new());
    for mapping in &MAPPINGS {
        for fill in fills {
            for (name, stack) in STACKS {
                places.push([mapping.name.to_string(), format!("{fill} %"), name.to_string()]);
                cells.push(cell(mapping, mib, stack, *fill, &RANDOM));
            }
        }
    }
    let found = run_all(&cells, options.threads)?;
    let names = [("drive", "drive"), ("fill", "fill"), ("stack", "stack")];
    let mut table = Table::new(names.into_iter().chain(COLUMNS));
    for (names, three) in places.chunks(3).zip(found.chunks(3)) {
        for (name, here) in names.iter().zip(three) {
            table.row(row(name, &three[0], here));
        }
    }
    let mut section = section(
        "fills",
        "Random 4 KiB writes by fill (not in the paper)",
        "As in Figs 9 and 14, with files of other sizes.",
        table,
    );
    for drive in ["full map", "cached 1/64"] {
        let title = format!("MB/s by fill, {drive}");
        section =
            section.plot(Plot::lines(&title, "fill", ["mb_s"]).by("stack").only("drive", drive))?;
    }
    study.sections.push(section);
    Ok(())
}

/// Skewed writes over fills of the log: a log cannot use what the drive below it has beyond its logical size, and has
/// less spare space than the drive alone.
pub(super) fn spares(options: &Options, study: &mut Study) -> Result<(), LabError> {
    let mib = options.scale.mib();
    let alone = |stack| ("", 80, matrix_cell(&MAPPINGS[0], mib, stack, 80, &ZIPF));
    let mut cells = vec![alone(0), alone(3)];
    let fills: &[u64] = match options.scale {
        Scale::Quick => &[64, 80],
        Scale::Default | Scale::Full => &[64, 68, 72, 76, 80],
    };
    for fill in fills {
        for placement in ["two", "auto"] {
            let cell = matrix_cell(&MAPPINGS[0], mib, 4, *fill, &ZIPF);
            cells.push((placement, *fill, cell.with("remap.placement", placement)));
        }
    }
    let runs: Vec<Cell> = cells.iter().map(|(_, _, cell)| cell.clone()).collect();
    let found = run_all(&runs, options.threads)?;
    let mut table = Table::new([
        ("stack", "stack"),
        ("placement", "placement"),
        ("fill", "fill"),
        ("spare", "spare of who cleans"),
        ("mb_s", "MB/s"),
        ("wa_host", "WA host"),
        ("wa_both", "WA both"),
    ]);
    let names = [MATRIX[0].0, MATRIX[3].0].into_iter().chain(std::iter::repeat(MATRIX[4].0));
    for ((name, (placement, fill, _)), here) in names.zip(&cells).zip(&found) {
        let (spare, all) = here.spare();
        table.row(values![
            name,
            *placement,
            format!("{fill} %"),
            share(spare, all),
            rate(here.rate()),
            ratio(here.amplification().above()),
            ratio(here.amplification().whole())
        ]);
    }
    study.sections.push(section(
        "spare",
        "Skewed writes by the log's spare space (not in the paper)",
        "Zipf (0.99), full map; the buffer is 8 MiB in the host. The drive alone cleans with all its flash, beyond its logical          size too; the log has what its files leave of that size. Fill: of the drive's logical size.",
        table,
    ));
    Ok(())
}

/// What a buffer absorbs when the client flushes after so many writes.
pub(super) fn flushed(options: &Options, study: &mut Study) -> Result<(), LabError> {
    let distances: &[Option<u64>] = match options.scale {
        Scale::Quick => &[Some(64), None],
        _ => &[Some(8), Some(64), Some(512), Some(4096), Some(32_768), None],
    };
    let cells: Vec<Cell> = distances
        .iter()
        .map(|every| {
            let cell = matrix_cell(&MAPPINGS[0], options.scale.mib(), 4, 80, &ZIPF);
            every.map_or(cell.clone(), |every| cell.flush_every(every))
        })
        .collect();
    let found = run_all(&cells, options.threads)?;
    let mut table = Table::new([
        ("writes_to_a_flush", "writes to a flush"),
        ("absorbed", "absorbed"),
        ("batches", "batches"),
        ("mb_s", "MB/s"),
        ("wa_host", "WA host"),
        ("wa_both", "WA both"),
    ]);
    for (every, here) in distances.iter().zip(&found) {
        let (absorbed, logged) = (here.count("absorbed"), here.count("user"));
        table.row(values![
            every.map_or(Value::from("none"), Value::from),
            share(absorbed, absorbed + logged),
            here.count("batches"),
            rate(here.rate()),
            ratio(here.amplification().above()),
            ratio(here.amplification().whole())
        ]);
    }
    study.sections.push(section(
        "absorbed",
        "What the host log's buffer absorbs, by the distance of flushes (not in the paper)",
        "Zipf (0.99), 80 % full, full map, a buffer of 8 MiB. A flush empties it; without one the log does when a \
         batch has superseded as much as a quarter of its spare space, and before each of its checkpoints.",
        table,
    ));
    Ok(())
}

/// Skewed writes with a buffer, against the drive alone.
fn skewed(places: &[[String; 2]], found: &[Measured]) -> Vec<Check> {
    let at = |drive: &str, stack: &str| {
        let mut same = places.iter().zip(found).filter(|(p, _)| p[0] == drive && p[1] == stack);
        same.next().map_or(0, |(_, m)| m.rate())
    };
    let one = |drive: &str, least: u64| {
        let (here, alone) = (at(drive, MATRIX[4].0), at(drive, MATRIX[0].0));
        Check {
            what: format!(
                "Zipf, 80 % full, {drive}: the host log with a buffer at {least} % of the drive alone or more"
            ),
            found: format!("{} against {} MB/s, {}", rate(here), rate(alone), change(here, alone)),
            holds: here * 100 >= alone * least,
        }
    };
    vec![
        one("full map", 90),
        one("cached 1/4", 120),
        one("cached 1/16", 120),
        one("cached 1/64", 120),
    ]
}

/// The expectations that were stated before: won where the map is demand-paged, coarse or hybrid,
/// lost or drawn on a full page map.
fn checks(places: &[[String; 2]], found: &[Measured]) -> Vec<Check> {
    let gain = |drive: &str| {
        let at = |stack: &str| {
            let found = places.iter().zip(found);
            let mut same = found.filter(|(p, _)| p[0] == drive && p[1] == stack);
            same.next().map_or(0, |(_, m)| m.rate())
        };
        (at("varve"), at("pass-through"))
    };
    let one = |what: &str, drive: &str, wins: bool| {
        let (varve, pass) = gain(drive);
        Check {
            what: format!("random writes, 80 % full, {drive}: {what}"),
            found: format!("{} against {} MB/s, {}", rate(varve), rate(pass), change(varve, pass)),
            holds: (varve > pass) == wins,
        }
    };
    vec![
        one("the host log loses or draws, log on log", "full map", false),
        one("the host log wins", "cached 1/64", true),
        one("the host log wins", "16 KiB units", true),
        one("the host log wins", "hybrid", true),
    ]
}

/// The drive that the captured traces are replayed on, in MiB, where no condition has its own.
const TRACED_MIB: u64 = 1024;

/// The captured runs of fio's random writes on real file systems.
const TRACES: [(&str, &str); 4] = [
    ("ext4", "fio_randwrite_ext4.csv.zst"),
    ("XFS", "fio_randwrite_xfs.csv.zst"),
    ("Btrfs", "fio_randwrite_btrfs.csv.zst"),
    ("F2FS", "fio_randwrite_f2fs.vtr"),
];

/// Fig 9 on what real file systems made of fio's random writes.
pub(super) fn captured(
    options: &Options,
    condition: &Condition,
    study: &mut Study,
) -> Result<(), LabError> {
    let size = Size::of(condition, options);
    // Each touches 470 to 770 MB: twice as much as the condition's own files.
    let mib = if size.mib == options.scale.mib() { TRACED_MIB } else { 2 * size.mib };
    let mappings = mappings(size, options);
    let names = [("file_system", "file system"), ("drive", "drive"), ("stack", "stack")];
    let mut table = Table::new(names.into_iter().chain(COLUMNS));
    let mut places = Vec::new();
    let mut cells = Vec::new();
    let traces = match options.scale {
        Scale::Quick => &TRACES[..1],
        Scale::Default | Scale::Full => &TRACES[..],
    };
    for (name, file) in traces {
        let path = options.data.join(file);
        if !path.is_file() {
            return Err(LabError::Input(format!(
                "{}: no such file; the captured traces lie in the project's folder `data`: run from \
                 there, or give --data DIR",
                path.display()
            )));
        }
        for mapping in mappings {
            for (stack_name, stack) in STACKS {
                places.push([
                    (*name).to_string(),
                    mapping.name.to_string(),
                    stack_name.to_string(),
                ]);
                cells.push(stacked(mapping, mib, stack, 80).trace(path.clone()));
            }
        }
    }
    let found = run_all(&cells, options.threads)?;
    for (names, three) in places.chunks(3).zip(found.chunks(3)) {
        for (name, here) in names.iter().zip(three) {
            table.row(row(name, &three[0], here));
        }
    }
    let found = section(
        "fig9_traces",
        "Fig 9: what file systems made of fio's random writes",
        format!(
            "Captured traces of 8 jobs writing 4 KiB at random with fdatasync after each 32 (buffered, as \
             the paper's runs), on a drive of {} GiB, replayed as fast as it goes: device time for equal \
             work. Addresses never touched are left out.",
            mib >> 10
        ),
        table,
    );
    let drawn = traces.iter().try_fold(found, |found, (name, _)| {
        let plot = Plot::bars(&format!("{name}, MB/s"), "drive", ["mb_s"]);
        found.plot(plot.by("stack").only("file_system", *name))
    })?;
    study.sections.push(drawn.under(condition));
    Ok(())
}
