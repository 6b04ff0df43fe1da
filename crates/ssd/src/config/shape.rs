//! The array a configuration describes: its shape, its plane groups and its times.

use block::{Span, UNIT_BYTES};
use nand::{Geometry, OOB_BYTES, Order, PageTypes, Suspend, Timing};

use super::params::*;
use super::resolve::clash;
use super::{Config, ConfigError};

/// Sizes that do not depend on the number of blocks.
pub(super) struct Shape {
    pub(super) channels: u32,
    pub(super) dies: u32,
    pub(super) planes: u32,
    pub(super) pages: u32,
    pub(super) page: u32,
    pub(super) oob: u32,
    pub(super) slot: u32,
    pub(super) pages_per_slot: u32,
    pub(super) unit_pages: u32,
}

impl Shape {
    pub(super) fn new(c: &Config, oob_mode: OobMode) -> Result<Shape, ConfigError> {
        let page = c.size("geometry.page").0;
        if page == 0 || !page.is_multiple_of(UNIT_BYTES) || page > 1 << 20 {
            return Err(clash(
                "geometry.page",
                format!("{page} B: expected a multiple of 4 KiB up to 1 MiB"),
            ));
        }
        let unit = c.size("unit").0;
        let power = unit.is_power_of_two() && (UNIT_BYTES..=64 << 10).contains(&unit);
        if !power || (!page.is_multiple_of(unit) && !unit.is_multiple_of(page)) {
            return Err(clash(
                "unit, geometry.page",
                format!(
                    "{unit} B: expected a power of two from 4 KiB to 64 KiB that divides the page of {page} B or is a multiple of it"
                ),
            ));
        }
        let slot = unit.min(page) as u32;
        let oob = match c.size("geometry.oob").0 {
            0 => page / 8,
            n => n,
        };
        let needed = OOB_BYTES as u64 * (page / u64::from(slot)) + 24;
        if oob_mode == OobMode::Full && oob < needed {
            return Err(clash(
                "geometry.oob, nand.oob",
                format!("{oob} B of spare area per page: whole records need {needed} B"),
            ));
        }
        Ok(Shape {
            channels: c.count("geometry.channels") as u32,
            dies: c.count("geometry.dies") as u32,
            planes: c.count("geometry.planes") as u32,
            pages: c.count("geometry.pages") as u32,
            page: page as u32,
            oob: oob as u32,
            slot,
            pages_per_slot: slot / UNIT_BYTES as u32,
            unit_pages: (unit / UNIT_BYTES) as u32,
        })
    }
    pub(super) fn all_planes(&self) -> u32 {
        self.channels * self.dies * self.planes
    }
    pub(super) fn slots_per_block(&self) -> u64 {
        u64::from(self.pages) * u64::from(self.page / self.slot)
    }
}

pub(super) fn geometry(s: &Shape, blocks: u32) -> Result<Geometry, ConfigError> {
    Geometry::new(s.channels, s.dies, s.planes, blocks, s.pages, s.page, s.oob, s.slot)
        .map_err(|reason| clash("geometry", reason))
}

/// Planes in stripe order for one choice of line.
pub(super) fn groups_for(
    line: LineKind,
    order: &[char],
    s: &Shape,
    together: bool,
) -> Vec<PlaneGroup> {
    // Digits of a plane, fastest first, in the order asked for; W is the die on its channel.
    let size = |letter: char| match letter {
        'C' => s.channels,
        'W' => s.dies,
        'P' => s.planes,
        _ => 1,
    };
    let mut planes: Vec<(u32, u32, u32)> = vec![(0, 0, 0)];
    for letter in order.iter().rev() {
        planes = planes
            .iter()
            .flat_map(|p| {
                (0..size(*letter)).map(move |i| match letter {
                    'C' => (i, p.1, p.2),
                    'W' => (p.0, i, p.2),
                    'P' => (p.0, p.1, i),
                    _ => *p,
                })
            })
            .collect();
    }
    let number = |(c, w, p): (u32, u32, u32)| (c * s.dies + w) * s.planes + p;
    let group_of = |(c, w, p): (u32, u32, u32)| match line {
        LineKind::Superblock => 0,
        LineKind::Channel => c,
        LineKind::Die => c * s.dies + w,
        LineKind::Plane => number((c, w, p)),
    };
    let count = line.groups(s.channels, s.dies, s.planes);
    let mut groups = vec![PlaneGroup { stripes: Vec::new() }; count as usize];
    for plane in planes {
        let stripes = &mut groups[group_of(plane) as usize].stripes;
        let number = number(plane);
        let die = number / s.planes;
        let same = stripes.iter_mut().find(|stripe| together && stripe[0] / s.planes == die);
        match same {
            Some(stripe) => stripe.push(number),
            None => stripes.push(vec![number]),
        }
    }
    for stripe in groups.iter_mut().flat_map(|group| group.stripes.iter_mut()) {
        stripe.sort_unstable();
    }
    groups
}

/// The planes each line stripes over, and what a line is.
pub(super) fn groups(c: &Config, s: &Shape) -> Result<(Vec<PlaneGroup>, LineKind), ConfigError> {
    let order: Vec<char> = c.text("order").chars().collect();
    let line = LineKind::parse(c.text("line")).unwrap_or_else(|| auto_line(c, s));
    c.check_parallelism(line, s)?;
    Ok((groups_for(line, &order, s, c.flag("nand.multi_plane")), line))
}

/// The largest line for which open heads and the free reserve are at most 1 % of all lines.
pub(super) fn auto_line(c: &Config, s: &Shape) -> LineKind {
    let heads = 3 * u64::from(c.count("streams.count") as u32).max(1);
    let blocks = match c.count("geometry.blocks") {
        0 => {
            let per_row = u64::from(s.all_planes()) * s.slots_per_block() * u64::from(s.slot);
            c.size("capacity").0 / per_row.max(1) + 1
        }
        n => n,
    };
    let few = |line: &LineKind| {
        heads * 100 <= blocks * u64::from(line.groups(s.channels, s.dies, s.planes))
    };
    let kinds = [LineKind::Superblock, LineKind::Channel, LineKind::Die];
    kinds.into_iter().find(few).unwrap_or(LineKind::Plane)
}

pub(super) fn timing(c: &Config, s: &Shape) -> Result<Timing, ConfigError> {
    let page_time = c.time("bus.page_time");
    let rate = c.rate("bus.rate");
    if page_time > Span::ZERO && rate > 0 {
        return Err(clash("bus.page_time, bus.rate", "both say how fast the bus is; set one"));
    }
    let pieces = u64::from(s.page) / UNIT_BYTES;
    let transfer = |bytes: u64| {
        if page_time > Span::ZERO {
            Span::from_ps((page_time.as_ps() * bytes).div_ceil(u64::from(s.page)))
        } else {
            Span::transfer(bytes, rate)
        }
    };
    let bits = c.count("geometry.cell_bits") as u32;
    let page_types = match c.text("nand.page_types") {
        "uniform" => PageTypes::Uniform,
        "lsb-msb" => PageTypes::Cyclic,
        _ => PageTypes::MlcPairs,
    };
    if page_types == PageTypes::MlcPairs && (bits != 2 || !s.pages.is_multiple_of(2) || s.pages < 8)
    {
        return Err(clash(
            "nand.page_types, geometry.cell_bits, geometry.pages",
            "mlc-pairs needs 2 bits per cell and an even number of at least 8 pages",
        ));
    }
    let one_shot = c.flag("nand.one_shot");
    if one_shot && !s.pages.is_multiple_of(bits) {
        return Err(clash(
            "nand.one_shot, geometry.pages, geometry.cell_bits",
            format!("{} pages are no whole word lines of {bits}", s.pages),
        ));
    }
    if one_shot && page_types == PageTypes::MlcPairs {
        return Err(clash("nand.one_shot, nand.page_types", "a one-shot word line has no pairs"));
    }
    for key in ["nand.read", "nand.program"] {
        if c.times(key).is_empty() {
            return Err(clash(key, "at least one time is needed"));
        }
    }
    let (order, suspend) = order(c)?;
    Ok(Timing {
        cell_bits: bits,
        page_types,
        t_read: c.times("nand.read"),
        t_read_4k: c.times("nand.read_4k"),
        t_program: c.times("nand.program"),
        t_erase: c.time("nand.erase"),
        cmd: c.time("bus.cmd"),
        transfer: (0..=pieces).map(|n| transfer(n * UNIT_BYTES)).collect(),
        transfer_oob: if c.flag("bus.oob") { transfer(u64::from(s.oob)) } else { Span::ZERO },
        cache_ops: c.flag("nand.cache_ops"),
        t_rcbsy: c.time("nand.t_rcbsy"),
        t_cbsy: c.time("nand.t_cbsy"),
        independent_planes: c.flag("nand.independent_planes"),
        one_shot,
        order,
        suspend: Suspend {
            program: suspend == "program" || suspend == "both",
            erase: suspend == "erase" || suspend == "both",
            min_remaining: c.time("nand.suspend_min"),
            max_times: c.count("nand.suspend_max") as u8,
            to_suspend: c.time("nand.t_suspend"),
            to_resume: c.time("nand.t_resume"),
        },
        enabled: c.flag("timing"),
    })
}

/// The order in which dies serve, and what reads may interrupt.
fn order(c: &Config) -> Result<(Order, &str), ConfigError> {
    let suspend = c.text("nand.suspend");
    match c.text("sched") {
        "in-order" => Ok((Order::InOrder, suspend)),
        "read-first(suspend)" if suspend == "none" && c.is_asked("nand.suspend") => Err(clash(
            "sched, nand.suspend",
            "reads are to interrupt, and nothing may be interrupted: expected nand.suspend = \
             erase, program or both, or sched = read-first",
        )),
        "read-first(suspend)" if suspend == "none" => Ok((Order::ReadFirst, "both")),
        _ => Ok((Order::ReadFirst, suspend)),
    }
}
