//! What is published of a preset's drive, beside what the preset gives: `presets/NAME.sheet.toml`.
//!
//! Every point has the committed figure of this model, which `tests/sheets.rs` measures again, so
//! that a table of deviations needs no run. A published figure more than a tenth off has its
//! reason beside it. A preset of which nobody measured anything says that it is assumed.

use super::ConfigError;

/// Where a sheet's published figures come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SheetKind {
    /// The maker's data sheet.
    DataSheet,
    /// Somebody's published measurement of the drive.
    Measurement,
    /// There are none.
    Assumed,
}

/// What is measured at a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SheetLoad {
    /// 4 KiB at random, requests a second.
    RandomRead,
    /// The 99th percentile of that, in nanoseconds.
    RandomReadP99,
    /// 4 KiB at random on a drive with free lines, beyond what its buffer holds; requests a second.
    RandomWrite,
    /// The same when cleaning is in its steady state under such writes over the whole drive.
    SteadyRandomWrite,
    /// 128 KiB in order, megabytes a second.
    SequentialRead,
    /// 128 KiB in order, megabytes a second.
    SequentialWrite,
}

impl SheetLoad {
    const ALL: [SheetLoad; 6] = [
        SheetLoad::RandomRead,
        SheetLoad::RandomReadP99,
        SheetLoad::RandomWrite,
        SheetLoad::SteadyRandomWrite,
        SheetLoad::SequentialRead,
        SheetLoad::SequentialWrite,
    ];

    /// As in the file.
    pub fn name(self) -> &'static str {
        match self {
            SheetLoad::RandomRead => "random read",
            SheetLoad::RandomReadP99 => "random read p99",
            SheetLoad::RandomWrite => "random write",
            SheetLoad::SteadyRandomWrite => "steady random write",
            SheetLoad::SequentialRead => "sequential read",
            SheetLoad::SequentialWrite => "sequential write",
        }
    }

    /// Of the figures.
    pub fn unit(self) -> &'static str {
        match self {
            SheetLoad::RandomReadP99 => "ns",
            SheetLoad::SequentialRead | SheetLoad::SequentialWrite => "MB/s",
            _ => "IOPS",
        }
    }
}

/// One point of a sheet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SheetPoint {
    /// What is measured.
    pub load: SheetLoad,
    /// Requests in flight.
    pub depth: u32,
    /// The published figure.
    pub published: Option<u64>,
    /// What the preset gives.
    pub here: u64,
    /// Where the published figure stands.
    pub source: Option<String>,
    /// Why the two differ by more than a tenth.
    pub reason: Option<String>,
}

impl SheetPoint {
    /// How far this model is from the published figure: 0.1 is a tenth above it.
    pub fn deviation(&self) -> Option<f64> {
        self.published.map(|published| self.here as f64 / published as f64 - 1.0)
    }

    /// Whether the two differ by at most a tenth.
    pub fn is_near(&self) -> bool {
        self.deviation().is_none_or(|d| d.abs() <= 0.1)
    }

    /// `random read at 128`.
    pub fn name(&self) -> String {
        format!("{} at QD {}", self.load.name(), self.depth)
    }
}

/// The sheet of a preset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sheet {
    /// What kind of figures it has.
    pub kind: SheetKind,
    /// Whose they are, or why there are none.
    pub about: String,
    /// The preset is measured as a drive scaled by this.
    pub scale: String,
    /// Its points.
    pub points: Vec<SheetPoint>,
}

impl Sheet {
    /// One line: how many points are near their source, and the one that is farthest.
    pub fn summary(&self) -> String {
        let kind = match self.kind {
            SheetKind::DataSheet => "data sheet",
            SheetKind::Measurement => "measurement",
            SheetKind::Assumed => return "assumed".to_string(),
        };
        let compared: Vec<_> = self.points.iter().filter(|p| p.published.is_some()).collect();
        let near = compared.iter().filter(|p| p.is_near()).count();
        let far = |p: &&&SheetPoint| p.deviation().unwrap_or(0.0).abs();
        let worst = compared.iter().max_by(|a, b| far(a).total_cmp(&far(b)));
        let worst = worst.map_or(String::new(), |p| {
            format!(", farthest {:+.0} % ({})", p.deviation().unwrap_or(0.0) * 100.0, p.name())
        });
        format!("{kind}: {near} of {} points within 10 %{worst}", compared.len())
    }

    /// Reads a sheet from the text of a file called `file`.
    ///
    /// # Errors
    /// What was found and what was expected.
    pub(super) fn parse(file: &str, text: &str) -> Result<Sheet, ConfigError> {
        let wrong =
            |reason: String| ConfigError::File { file: file.to_string(), line: None, reason };
        let table: toml::Table = text.parse().map_err(|e: toml::de::Error| wrong(e.to_string()))?;
        let mut sheet = Sheet {
            kind: SheetKind::Assumed,
            about: String::new(),
            scale: "1/1".to_string(),
            points: Vec::new(),
        };
        for (key, value) in &table {
            match (key.as_str(), value) {
                ("kind", toml::Value::String(kind)) => {
                    sheet.kind = match kind.as_str() {
                        "data sheet" => SheetKind::DataSheet,
                        "measurement" => SheetKind::Measurement,
                        "assumed" => SheetKind::Assumed,
                        other => {
                            let expected = "expected data sheet, measurement or assumed";
                            return Err(wrong(format!("kind `{other}`: {expected}")));
                        }
                    }
                }
                ("about", toml::Value::String(text)) => sheet.about = text.clone(),
                ("scale", toml::Value::String(text)) => sheet.scale = text.clone(),
                ("point", toml::Value::Array(points)) => {
                    for point in points {
                        sheet.points.push(parse_point(point).map_err(wrong)?);
                    }
                }
                (key, value) => {
                    let expected = "expected kind, about and scale as texts, and [[point]] tables";
                    return Err(wrong(format!("`{key} = {value}`: {expected}")));
                }
            }
        }
        Ok(sheet)
    }
}

fn parse_point(point: &toml::Value) -> Result<SheetPoint, String> {
    let table = point.as_table().ok_or("a point is a table")?;
    let known = ["load", "depth", "published", "here", "source", "reason"];
    if let Some(other) = table.keys().find(|key| !known.contains(&key.as_str())) {
        return Err(format!("unknown field `{other}`; expected one of {}", known.join(", ")));
    }
    let text = |key: &str| table.get(key).and_then(|v| v.as_str()).map(str::to_string);
    let count = |key: &str| {
        let n = table.get(key).and_then(|v| v.as_integer());
        n.and_then(|n| u64::try_from(n).ok()).filter(|n| *n > 0)
    };
    let name = text("load").unwrap_or_default();
    let load = SheetLoad::ALL.into_iter().find(|load| load.name() == name).ok_or_else(|| {
        let all: Vec<_> = SheetLoad::ALL.iter().map(|load| load.name()).collect();
        format!("load `{name}`: expected one of {}", all.join(", "))
    })?;
    let depth = count("depth").and_then(|n| u32::try_from(n).ok());
    Ok(SheetPoint {
        load,
        depth: depth.ok_or_else(|| format!("{name}: expected a depth of at least 1"))?,
        published: count("published"),
        here: count("here").ok_or_else(|| format!("{name}: expected `here`, above 0"))?,
        source: text("source"),
        reason: text("reason"),
    })
}
