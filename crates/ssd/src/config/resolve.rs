//! From texts to [`Params`]: sizes are worked out and everything that does not fit together is
//! refused, naming the keys.

use block::{Bytes, UNIT_BYTES};
use nand::Geometry;

use super::params::*;
use super::shape::{Shape, geometry, groups, timing};
use super::{Config, ConfigError, layer};
use crate::ftl::VictimSpec;

pub(super) fn clash(keys: &str, reason: impl Into<String>) -> ConfigError {
    ConfigError::Contradiction { keys: keys.to_string(), reason: reason.into() }
}

pub(super) fn resolve(c: &Config) -> Result<Params, ConfigError> {
    layer::check_keys(c)?;
    let oob = if c.text("nand.oob") == "full" { OobMode::Full } else { OobMode::Lean };
    let shape = Shape::new(c, oob)?;
    let (groups, line) = groups(c, &shape)?;
    let sizes = sizes(c, &shape, &groups)?;
    let geometry = geometry(&shape, sizes.blocks)?;
    let timing = timing(c, &shape)?;
    let checkpoint = CheckpointParams {
        interval_slots: (c.text("ckpt.mode") == "interval").then(|| {
            let slots = u64::from(geometry.slots());
            (slots * c.ppm("ckpt.interval") / 1_000_000).max(1)
        }),
    };
    let map = MapParams {
        cache: (c.text("map.mode") == "paged").then(|| c.size("map.cache")),
        lru: c.text("map.evict") == "lru",
    };
    if c.text("map.mode") == "full" && c.is_asked("map.cache") {
        return Err(clash("map.cache, map.mode", "a full map has no cache; set map.mode = paged"));
    }
    if map.cache.is_some_and(|cache| cache.0 < 2 * u64::from(shape.page)) {
        return Err(clash(
            "map.cache",
            format!("{} holds no two translation pages of {} B", c.text("map.cache"), shape.page),
        ));
    }
    let params = Params {
        multi_plane: c.flag("nand.multi_plane"),
        oob,
        logical_pages: sizes.logical_pages,
        unit_pages: shape.unit_pages,
        op_ppm: sizes.op_ppm,
        link: LinkParams { rate: c.rate("link.rate") },
        firmware: FirmwareParams {
            cores: c.count("fw.cores") as u32,
            core: command_times(c, "fw"),
            latency: command_times(c, "fw.latency"),
            complete: c.time("fw.complete"),
        },
        dram: DramParams { latency: c.time("dram.latency"), rate: c.rate("dram.rate") },
        buffer: buffer_params(c, &geometry, map_bytes(c, &shape, &sizes, &groups))?,
        ftl: if c.text("ftl") == "page" { FtlKind::Page } else { FtlKind::HybridLog },
        hybrid: HybridParams {
            log_ppm: c.ppm("hybrid.log_blocks"),
            full_assoc: c.text("hybrid.assoc") == "full",
        },
        placement: match c.text("placement") {
            "dynamic" => Placement::Dynamic,
            "static" => Placement::Static,
            _ => Placement::Stripe,
        },
        streams: streams(c),
        stream_count: c.count("streams.count") as u32,
        gc: gc(c),
        wear: WearParams {
            dynamic: c.text("wl.mode") != "none",
            static_moves: c.text("wl.mode") == "dynamic+static",
            delta: c.count("wl.delta") as u32,
            period: c.count("wl.period"),
        },
        bad: BadParams {
            factory_ppm: c.ppm("bad.factory"),
            reserve_per_plane: sizes.reserve_per_plane,
        },
        queue_depth: c.count("queue_depth") as u32,
        seed: 0,
        groups,
        line,
        map,
        checkpoint,
        tx: None,
        geometry,
        timing,
    };
    let params = Params { gc: shares(c, &params)?, ..params };
    let params = Params { tx: super::tx::params(c, &params)?, ..params };
    check_streams(c, &params)?;
    check_lines(&params)?;
    // A policy may need more entries than there are. Those of 16 GiB are enough for each, and more might be
    // more than this machine has memory for.
    let shape = params.buffer_shape();
    let entries = shape.entries.min(1 << 22);
    let made = params.buffer.policy.build(crate::BufferShape { entries, ..shape });
    made.map_err(|reason| clash("buffer.policy, buffer.size", reason))?;
    Ok(params)
}

/// Firmware times under a common prefix; the small read's own, or that of every read.
fn command_times(c: &Config, prefix: &str) -> CommandTimes {
    let key = |name: &str| format!("{prefix}.{name}");
    let small = if c.is_set(&key("read_4k")) { "read_4k" } else { "read" };
    CommandTimes {
        read: c.time(&key("read")),
        read_4k: c.time(&key(small)),
        write: c.time(&key("write")),
        per_unit: c.time(&key("per_unit")),
    }
}

struct Sizes {
    blocks: u32,
    reserve_per_plane: u32,
    logical_pages: u32,
    op_ppm: u64,
}

/// Blocks, capacity and over-provisioning: any two give the third.
fn sizes(c: &Config, s: &Shape, groups: &[PlaneGroup]) -> Result<Sizes, ConfigError> {
    let (capacity, blocks) = (c.size("capacity").0, c.count("geometry.blocks"));
    let planes = u64::from(s.all_planes());
    if c.ppm("bad.reserve") >= 1_000_000 {
        return Err(clash(
            "bad.reserve",
            format!("{} of all blocks as spares leave none for data", c.text("bad.reserve")),
        ));
    }
    let per_row = planes * s.slots_per_block();
    let unit = u64::from(s.unit_pages) * UNIT_BYTES;
    let unit_slots = unit / u64::from(s.slot);
    let reserve = |blocks: u64| (blocks * c.ppm("bad.reserve")).div_ceil(1_000_000);
    let data = |blocks: u64, logical: u64| -> Option<u64> {
        let rows = blocks.checked_sub(reserve(blocks))?;
        let meta = metadata_lines(c, s, groups, rows, logical) * per_row / groups.len() as u64;
        (rows * per_row).checked_sub(meta)
    };
    let op = c.ppm("op");
    let (blocks, logical) = match (blocks, capacity) {
        (0, 0) => {
            return Err(clash(
                "capacity, geometry.blocks",
                "neither is set: the drive has no size",
            ));
        }
        (0, capacity) => {
            let logical = capacity.div_ceil(unit) * unit_slots;
            let wanted = (u128::from(logical) * u128::from(1_000_000 + op)).div_ceil(1_000_000);
            // What is not spare holds it, at the least.
            let rows = wanted.div_ceil(u128::from(per_row));
            let kept = u128::from(1_000_000 - c.ppm("bad.reserve"));
            let mut blocks = (rows * 1_000_000).div_ceil(kept).min(u128::from(u64::MAX)) as u64;
            loop {
                if blocks > u64::from(u32::MAX) {
                    return Err(clash("geometry.blocks", "too many blocks"));
                }
                if data(blocks, logical).is_some_and(|have| u128::from(have) >= wanted) {
                    break;
                }
                blocks += 1;
            }
            (blocks, logical)
        }
        (blocks, 0) => {
            let mut logical = blocks * per_row;
            // The checkpoint's size depends on the logical size: two rounds settle it.
            for _ in 0..2 {
                let have = data(blocks, logical).unwrap_or(0);
                let units = u128::from(have) * 1_000_000 / u128::from(1_000_000 + op);
                logical = units as u64 / unit_slots * unit_slots;
            }
            (blocks, logical)
        }
        (blocks, capacity) => {
            if c.is_set("op") {
                return Err(clash("capacity, geometry.blocks, op", "two of them give the third"));
            }
            (blocks, capacity.div_ceil(unit) * unit_slots)
        }
    };
    let have = data(blocks, logical).unwrap_or(0);
    if logical == 0 || have <= logical {
        return Err(clash(
            "capacity, geometry.blocks, op",
            format!("{have} data slots leave no spare space above {logical} logical slots"),
        ));
    }
    let pages = logical * u64::from(s.pages_per_slot);
    let logical_pages = u32::try_from(pages)
        .ok()
        .filter(|n| *n < u32::MAX - 1)
        .ok_or_else(|| clash("capacity", "more than 2^32 - 2 pages of 4 KiB (16 TiB); addresses with gaps fit if they are compacted (`--fit compact`)"))?;
    let blocks = u32::try_from(blocks).map_err(|_| clash("geometry.blocks", "too many blocks"))?;
    Ok(Sizes {
        blocks,
        reserve_per_plane: reserve(u64::from(blocks)) as u32,
        logical_pages,
        op_ppm: (u128::from(have - logical) * 1_000_000 / u128::from(logical)) as u64,
    })
}

/// Lines set apart for two checkpoint areas.
fn metadata_lines(c: &Config, s: &Shape, groups: &[PlaneGroup], rows: u64, logical: u64) -> u64 {
    if c.text("ckpt.mode") == "none" {
        return 0;
    }
    let lines = rows * groups.len() as u64;
    let blocks = rows * u64::from(s.all_planes());
    let line_slots = s.slots_per_block() * u64::from(s.all_planes()) / groups.len() as u64;
    crate::ftl::checkpoint_area_lines(
        c.text("map.mode") == "paged",
        logical,
        lines,
        blocks,
        u64::from(s.page),
        u64::from(s.slot),
        line_slots,
    ) * 2
}

/// DRAM that the map takes.
fn map_bytes(c: &Config, s: &Shape, sizes: &Sizes, groups: &[PlaneGroup]) -> u64 {
    let slots = u64::from(sizes.logical_pages / s.pages_per_slot);
    let rows = u64::from(sizes.blocks - sizes.reserve_per_plane);
    let line = s.slots_per_block() * u64::from(s.all_planes()) / groups.len() as u64;
    layer::map_bytes(c, slots, rows, groups, line)
}

/// Bytes of DRAM for the buffer: its own key, or what one budget leaves.
fn buffer_size(c: &Config, policy: &str, map_bytes: u64) -> Result<u64, ConfigError> {
    let (dram, asked) = (c.size("dram.size").0, c.is_asked("buffer.size"));
    if dram > 0 && asked {
        return Err(clash(
            "dram.size, buffer.size",
            "the buffer is what dram.size leaves; set one",
        ));
    }
    if policy == "none" {
        if asked && c.size("buffer.size").0 > 0 {
            return Err(clash(
                "buffer.policy, buffer.size",
                "policy `none` has no buffer to give a size: set a policy too (`--policy lru`)",
            ));
        }
        return Ok(0);
    }
    let size = if dram > 0 {
        dram.checked_sub(map_bytes).ok_or_else(|| {
            clash("dram.size", format!("{dram} B do not hold the map of {map_bytes} B"))
        })?
    } else {
        c.size("buffer.size").0
    };
    if size < UNIT_BYTES {
        return Err(clash(
            "buffer.policy, buffer.size",
            format!(
                "{size} B hold no 4 KiB entry for policy `{policy}`; give a size, or set buffer.policy = none"
            ),
        ));
    }
    Ok(size)
}

fn buffer_params(c: &Config, g: &Geometry, map_bytes: u64) -> Result<BufferParams, ConfigError> {
    let policy = c.policy("buffer.policy");
    if policy.info.clairvoyant {
        return Err(clash(
            "buffer.policy",
            format!("`{policy}` must know the future: it runs where only hits are counted"),
        ));
    }
    let size = buffer_size(c, c.text("buffer.policy"), map_bytes)?;
    if policy.info.name == "none" && c.text("buffer.subunit") == "mask" {
        return Err(clash(
            "buffer.policy, buffer.subunit",
            "policy `none` has no entries that could hold parts of a page: set a policy too (`--policy lru`)",
        ));
    }
    let staging = match c.count("buffer.staging") {
        0 => 2 * g.planes(),
        n => n as u32,
    };
    let pages = c.count("plp.pages") as u32;
    if c.text("plp.mode") == "capacitor" && pages == 0 {
        return Err(clash(
            "plp.mode, plp.pages",
            "a capacitor that saves 0 entries protects nothing: say how many with plp.pages, or set plp.mode = none",
        ));
    }
    Ok(BufferParams {
        policy,
        size: Bytes(size),
        write_through: c.text("buffer.write") == "through",
        mask: c.text("buffer.subunit") == "mask",
        staging,
        plp: match c.text("plp.mode") {
            "none" => Plp::None,
            "full" => Plp::Full,
            _ => Plp::Capacitor(pages),
        },
    })
}

/// With transactions, data that will not be rewritten lies beside logs and journals that will be at
/// once: greedy takes the latter too early, and copies them. Uniform traffic is cleaned best by greed.
fn victim(c: &Config) -> VictimSpec {
    c.victim("gc.victim").unwrap_or_else(|| {
        let name = if c.text("tx.mode") == "off" { "greedy" } else { "cost-benefit" };
        name.parse().expect("a policy of the registry")
    })
}

fn gc(c: &Config) -> GcParams {
    GcParams {
        victim: victim(c),
        credit: c.text("gc.pace") == "credit",
        start: c.count("gc.start") as u32,
        stop: c.count("gc.stop") as u32,
        reserve: c.count("gc.reserve") as u32,
        background: c.flag("gc.background"),
        bg_start_ppm: c.ppm("gc.bg_start"),
        idle: c.time("gc.idle"),
        per_stream: c.flag("gc.per_stream"),
        exact: match c.text("gc.exact") {
            "auto" => None,
            text => Some(text == "on"),
        },
    }
}

/// Thresholds given as a share of all lines.
fn shares(c: &Config, p: &Params) -> Result<GcParams, ConfigError> {
    let share = c.ppm("gc.start_share");
    if share == 0 {
        return Ok(p.gc.clone());
    }
    if p.gc.start > 0 {
        return Err(clash("gc.start, gc.start_share", "both say when cleaning starts; set one"));
    }
    let lines = u64::from(p.geometry.blocks_per_plane) * p.groups.len() as u64;
    let start = (lines * share).div_ceil(1_000_000) as u32;
    Ok(GcParams { start, ..p.gc.clone() })
}

fn streams(c: &Config) -> Streams {
    match c.text("streams.policy") {
        "single" => Streams::Single,
        "hotcold" => Streams::HotCold,
        "app" => Streams::App,
        "hint" => Streams::Hint,
        "buffer" => Streams::Buffer,
        "lifetime" => Streams::Lifetime,
        _ => Streams::UserGc,
    }
}

fn check_streams(c: &Config, p: &Params) -> Result<(), ConfigError> {
    if p.streams == Streams::Lifetime && (p.stream_count > 1 || p.gc.per_stream) {
        return Err(clash(
            "streams.count, gc.per_stream, streams.policy",
            "policy lifetime has two host heads and four of cleaning; leave both at their defaults",
        ));
    }
    let many = !matches!(p.streams, Streams::Single | Streams::UserGc | Streams::Lifetime);
    if !many && p.stream_count > 1 {
        return Err(clash(
            "streams.count, streams.policy",
            format!("policy {} has one host stream", c.text("streams.policy")),
        ));
    }
    Ok(())
}

/// The drive must have room for its heads, its reserve and one line to clean.
fn check_lines(p: &Params) -> Result<(), ConfigError> {
    let lines = p.lines();
    let heads = crate::ftl::head_count(p);
    if heads > (lines / 4).max(1) {
        return Err(clash(
            "streams.count, geometry",
            format!("{heads} open lines of {lines}: at most a quarter of all lines may be open"),
        ));
    }
    let slots_per_line = p.geometry.slots() / p.geometry.blocks_per_plane / p.groups.len() as u32;
    if p.ftl == FtlKind::HybridLog {
        return layer::check_hybrid_lines(p, lines);
    }
    // Every erase may complete the program group, and the word lines, of every head: that much of
    // a line is never gained.
    let padded = heads * crate::ftl::erase_padding(p);
    if padded >= slots_per_line {
        return Err(clash(
            "geometry, nand.page_types, streams.count",
            format!(
                "lines of {slots_per_line} slots: completing what {heads} heads are programming pads {padded} slots for each erase"
            ),
        ));
    }
    let budget = crate::ftl::line_budget(p);
    if budget.needed() > budget.usable() {
        return Err(clash("op, geometry, gc.reserve", lines_short(p, &budget, slots_per_line)));
    }
    Ok(())
}

/// What the lines are needed for, each part by its name.
fn lines_short(p: &Params, b: &LineBudget, slots_per_line: u32) -> String {
    let slots = p.logical_pages / (p.geometry.slot_bytes / UNIT_BYTES as u32);
    let lost = match crate::ftl::erase_cost(p) {
        0 => String::new(),
        lost => format!(" (each erase may cost {lost} of a line's)"),
    };
    let set_apart = match b.metadata {
        0 => String::new(),
        n => format!(", {n} of {} set apart for checkpoints", b.lines),
    };
    format!(
        "{} lines of {slots_per_line} slots{set_apart}; {} are needed: {} for {slots} logical slots{lost}, {} open heads, and a reserve of {} ({}); give more over-provisioning, or smaller lines (fewer geometry.pages with a scale of 1/n, or another `line`)",
        b.usable(),
        b.needed(),
        b.logical,
        b.heads,
        b.reserve,
        crate::ftl::reserve_parts(p).join(", "),
    )
}
