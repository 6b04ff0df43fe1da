//! Reads MQSim's `ssdconfig.xml` (github.com/CMU-SAFARI/MQSim), so that both simulators can be
//! run on the same drive. Keys are those its README documents; what they do was read in its code.
//!
//! A key the file leaves out keeps MQSim's own default, which is the preset `mqsim-default` (but for
//! the order in which dies serve: there it is that of all presets).

mod keys;

use std::path::Path;

use block::parse_time;

use super::xml::{self, Element};
use super::{Config, ConfigError, Origin, preset};
use keys::{MATCHED, UNMATCHED};

/// A key of the file that has no counterpart here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unmatched {
    /// Its name.
    pub key: String,
    /// Its value.
    pub value: String,
    /// Line, from 1.
    pub line: usize,
    /// Why, or what is done instead.
    pub reason: &'static str,
}

/// A configuration read from MQSim's.
#[derive(Clone, Debug)]
pub struct Imported {
    /// The same drive here.
    pub config: Config,
    /// What could not be carried over.
    pub unmatched: Vec<Unmatched>,
}

/// Reads an MQSim device configuration.
///
/// # Errors
/// The file, the line, what was found and what was expected.
pub fn load_mqsim(path: impl AsRef<Path>) -> Result<Imported, ConfigError> {
    let name = path.as_ref().display().to_string();
    let text = std::fs::read_to_string(&path).map_err(|error| ConfigError::File {
        file: name.clone(),
        line: None,
        reason: error.to_string(),
    })?;
    load_mqsim_text(&name, &text)
}

/// Reads an MQSim device configuration from the text of a file called `name`.
///
/// # Errors
/// As [`load_mqsim`].
pub fn load_mqsim_text(name: &str, text: &str) -> Result<Imported, ConfigError> {
    let elements = xml::leaves(text).map_err(|error| ConfigError::File {
        file: name.to_string(),
        line: Some(error.line),
        reason: error.reason,
    })?;
    if !elements.iter().any(|e| e.path.starts_with("Execution_Parameter_Set/Device_Parameter_Set"))
    {
        return Err(ConfigError::File {
            file: name.to_string(),
            line: Some(1),
            reason: "expected an <Execution_Parameter_Set> with a <Device_Parameter_Set>"
                .to_string(),
        });
    }
    let mut import = Import {
        file: name,
        elements: &elements,
        config: preset("mqsim-default")?.config,
        unmatched: Vec::new(),
    };
    import.geometry()?;
    import.cells()?;
    import.controller()?;
    import.cleaning()?;
    import.rest();
    let mut unmatched = import.unmatched;
    unmatched.sort_by_key(|key| key.line);
    // The base is what the file describes, not the preset its other values come from.
    import.config.base = None;
    import.config.remember_base(name);
    Ok(Imported { config: import.config, unmatched })
}

struct Import<'a> {
    file: &'a str,
    elements: &'a [Element],
    config: Config,
    unmatched: Vec<Unmatched>,
}

impl<'a> Import<'a> {
    fn find(&self, key: &str) -> Option<&'a Element> {
        self.elements.iter().find(|e| e.name() == key)
    }

    /// The text of a key, upper case as MQSim compares it.
    fn word(&self, key: &str) -> Option<(&'a Element, String)> {
        self.find(key).map(|e| (e, e.text.to_ascii_uppercase()))
    }

    fn error(&self, element: &Element, expected: &str) -> ConfigError {
        ConfigError::BadValue {
            from: format!("{}:{}", self.file, element.line),
            key: element.name().to_string(),
            found: element.text.clone(),
            expected: expected.to_string(),
        }
    }

    fn set(&mut self, key: &str, text: &str, element: &Element) -> Result<(), ConfigError> {
        let from = format!("{}:{}", self.file, element.line);
        let source = Some(format!("MQSim key {}", element.name()));
        self.config.set(key, text, Origin { from, source, tag: None })
    }

    fn number(&self, key: &str) -> Result<Option<(&'a Element, u64)>, ConfigError> {
        let Some(element) = self.find(key) else { return Ok(None) };
        match element.text.parse::<u64>() {
            Ok(n) => Ok(Some((element, n))),
            Err(_) => Err(self.error(element, "a whole number")),
        }
    }

    /// A number of MQSim's own default where the file has none.
    fn number_or(&self, key: &str, default: u64) -> Result<u64, ConfigError> {
        Ok(self.number(key)?.map_or(default, |(_, n)| n))
    }

    /// A decimal fraction in millionths: digits only, so that no float rounds it.
    fn millionths(&self, key: &str) -> Result<Option<(&'a Element, u64)>, ConfigError> {
        let Some(element) = self.find(key) else { return Ok(None) };
        match parse_time(&format!("{} us", element.text)) {
            Ok(span) => Ok(Some((element, span.as_ps()))),
            Err(_) => Err(self.error(element, "a decimal number with at most 6 places")),
        }
    }

    fn copy(&mut self, from: &str, to: &str) -> Result<(), ConfigError> {
        match self.number(from)? {
            Some((element, n)) => self.set(to, &n.to_string(), element),
            None => Ok(()),
        }
    }

    fn geometry(&mut self) -> Result<(), ConfigError> {
        for (from, to) in [
            ("Flash_Channel_Count", "geometry.channels"),
            ("Plane_No_Per_Die", "geometry.planes"),
            ("Block_No_Per_Plane", "geometry.blocks"),
            ("Page_No_Per_Block", "geometry.pages"),
            ("Page_Capacity", "geometry.page"),
            ("Page_Metadat_Capacity", "geometry.oob"),
            ("Page_Capacity", "unit"),
        ] {
            self.copy(from, to)?;
        }
        let dies =
            self.number_or("Chip_No_Per_Channel", 4)? * self.number_or("Die_No_Per_Chip", 2)?;
        if let Some(element) = self.find("Chip_No_Per_Channel").or(self.find("Die_No_Per_Chip")) {
            self.set("geometry.dies", &dies.to_string(), element)?;
        }
        if let Some((element, order)) = self.word("Plane_Allocation_Scheme") {
            self.set("order", &order, element)?;
        }
        // A share of the physical pages there, of the logical ones here.
        if let Some((element, ratio)) = self.millionths("Overprovisioning_Ratio")? {
            if ratio >= 1_000_000 {
                return Err(self.error(element, "a share of the physical pages below 1"));
            }
            let ppm = (ratio * 1_000_000).div_ceil(1_000_000 - ratio);
            self.set("op", &percent(ppm), element)?;
        }
        Ok(())
    }

    fn cells(&mut self) -> Result<(), ConfigError> {
        let bits = match self.word("Flash_Technology") {
            None => 2,
            Some((element, word)) => {
                let bits = match word.as_str() {
                    "SLC" => 1,
                    "MLC" => 2,
                    "TLC" => 3,
                    _ => return Err(self.error(element, "SLC, MLC or TLC")),
                };
                self.set("geometry.cell_bits", &bits.to_string(), element)?;
                bits
            }
        };
        for (kind, key, default) in
            [("Read", "nand.read", 75_000), ("Program", "nand.program", 750_000)]
        {
            let time = |page: &str| self.number_or(&format!("Page_{kind}_Latency_{page}"), default);
            let times = match bits {
                1 => vec![time("LSB")?],
                2 => vec![time("LSB")?, time("MSB")?],
                _ => vec![time("LSB")?, time("CSB")?, time("MSB")?],
            };
            let alike = times.iter().all(|t| *t == times[0]);
            let Some(element) = self.find(&format!("Page_{kind}_Latency_LSB")) else { continue };
            if times.contains(&0) {
                return Err(self.error(element, "latencies above 0 for every page type in use"));
            }
            let times: Vec<String> = times.iter().map(|t| format!("{t} ns")).collect();
            let text = if alike { times[0].clone() } else { times.join(", ") };
            self.set(key, &text, element)?;
            if !alike {
                self.set("nand.page_types", "lsb-msb", element)?;
            }
        }
        if let Some((element, n)) = self.number("Block_Erase_Latency")? {
            if n == 0 {
                return Err(self.error(element, "a latency above 0"));
            }
            self.set("nand.erase", &format!("{n} ns"), element)?;
        }
        self.suspension()?;
        self.scheduling()
    }

    /// Both of its orders put reads before programs, and those before erases; the one with
    /// priorities does so within each class, and flows of different classes have no counterpart.
    fn scheduling(&mut self) -> Result<(), ConfigError> {
        let Some((element, word)) = self.word("Transaction_Scheduling_Policy") else {
            return Ok(());
        };
        match word.as_str() {
            "OUT_OF_ORDER" | "PRIORITY_OUT_OF_ORDER" => self.set("sched", "read-first", element),
            "FLIN" => {
                self.list(Some(element), "fairness between flows: reads go first here");
                Ok(())
            }
            _ => Err(self.error(element, "OUT_OF_ORDER, PRIORITY_OUT_OF_ORDER or FLIN")),
        }
    }

    /// MQSim has one time for erases and one for programs; here one serves what is switched on.
    fn suspension(&mut self) -> Result<(), ConfigError> {
        let Some((element, word)) = self.word("CMD_Suspension_Support") else { return Ok(()) };
        let kind = match word.as_str() {
            "NONE" => "none",
            "ERASE" => "erase",
            "PROGRAM" => "program",
            "PROGRAM_ERASE" => "both",
            _ => return Err(self.error(element, "NONE, ERASE, PROGRAM or PROGRAM_ERASE")),
        };
        self.set("nand.suspend", kind, element)?;
        let erase = ("Suspend_Erase_Time", "Preferred_suspend_erase_time_for_read");
        let program = ("Suspend_Program_Time", "Preferred_suspend_write_time_for_read");
        let (used, unused) = if kind == "program" { (program, erase) } else { (erase, program) };
        for (from, to) in [(used.0, "nand.t_suspend"), (used.1, "nand.suspend_min")] {
            match self.number(from)? {
                Some((element, n)) if kind != "none" => {
                    self.set(to, &format!("{n} ns"), element)?;
                }
                found => self.list(found.map(|(e, _)| e), "nothing is suspended"),
            }
        }
        for key in [unused.0, unused.1] {
            self.list(self.find(key), "one suspend time serves the kinds switched on");
        }
        Ok(())
    }

    fn controller(&mut self) -> Result<(), ConfigError> {
        if let Some((element, word)) = self.word("Memory_Type")
            && word != "FLASH"
        {
            return Err(self.error(element, "FLASH"));
        }
        if let Some((element, lane)) = self.millionths("PCIe_Lane_Bandwidth")? {
            let lanes = self.number_or("PCIe_Lane_Count", 4)?;
            self.set("link.rate", &format!("{} kB/s", lane * lanes), element)?;
        }
        if let Some((element, rate)) = self.number("Channel_Transfer_Rate")? {
            let width = self.number_or("Flash_Channel_Width", 1)?;
            self.set("bus.rate", &format!("{} MB/s", rate * width), element)?;
        }
        // Requests MQSim fetches from one queue and has in flight.
        let depth = self.number("Queue_Fetch_Size")?;
        let queue = self.number_or("IO_Queue_Depth", u64::MAX)?;
        if let Some((element, n)) = depth {
            self.set("queue_depth", &n.min(queue).to_string(), element)?;
        }
        self.copy("Data_Cache_Capacity", "buffer.size")?;
        if let Some((element, word)) = self.word("Caching_Mechanism")
            && word != "SIMPLE"
            && word != "ADVANCED"
        {
            return Err(self.error(element, "SIMPLE or ADVANCED"));
        }
        if let Some((element, rate)) = self.number("Data_Cache_DRAM_Data_Rate")? {
            // It spells the key so; a burst moves so many bytes twice in a transfer.
            let burst = self.number_or("Data_Cache_DRAM_Data_Busrt_Size", 1)?;
            self.set("dram.rate", &format!("{} MB/s", 2 * rate * burst), element)?;
        }
        if let Some((element, t)) = self.number("Data_Cache_DRAM_tRCD")? {
            let t = t + self.number_or("Data_Cache_DRAM_tCL", 13)?;
            self.set("dram.latency", &format!("{t} ns"), element)?;
        }
        let ideal = self.word("Ideal_Mapping_Table").is_some_and(|(_, word)| word == "TRUE");
        match self.number("CMT_Capacity")? {
            Some((element, n)) if !ideal => self.set("map.cache", &n.to_string(), element),
            _ if ideal => {
                // A full map has no cache: back to a configuration that never had one.
                let plain = Config::default();
                for key in ["map.cache", "map.mode"] {
                    self.config.values.insert(key, plain.values[key].clone());
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn cleaning(&mut self) -> Result<(), ConfigError> {
        if let Some((element, share)) = self.millionths("GC_Exec_Threshold")? {
            self.set("gc.start_share", &percent(share), element)?;
        }
        if let Some((element, word)) = self.word("GC_Block_Selection_Policy") {
            let blocks = self.number_or("Block_No_Per_Plane", 2048)?.max(2);
            let victim = match word.as_str() {
                "GREEDY" => "greedy".to_string(),
                "RGA" => format!("dchoice({})", blocks.ilog2().max(2)),
                "RANDOM" | "RANDOM_P" | "RANDOM_PP" => "random".to_string(),
                "FIFO" => "fifo".to_string(),
                _ => {
                    return Err(
                        self.error(element, "GREEDY, RGA, RANDOM, RANDOM_P, RANDOM_PP or FIFO")
                    );
                }
            };
            self.set("gc.victim", &victim, element)?;
        }
        let on = |key: &str| self.word(key).is_none_or(|(_, word)| word == "TRUE");
        let mode = match (on("Dynamic_Wearleveling_Enabled"), on("Static_Wearleveling_Enabled")) {
            (_, true) => "dynamic+static",
            (true, false) => "dynamic",
            (false, false) => "none",
        };
        let keys = ["Dynamic_Wearleveling_Enabled", "Static_Wearleveling_Enabled"];
        if let Some(element) = keys.iter().find_map(|key| self.find(key)) {
            self.set("wl.mode", mode, element)?;
        }
        self.copy("Static_Wearleveling_Threshold", "wl.delta")
    }

    fn list(&mut self, element: Option<&Element>, reason: &'static str) {
        if let Some(element) = element {
            self.unmatched.push(Unmatched {
                key: element.name().to_string(),
                value: element.text.clone(),
                line: element.line,
                reason,
            });
        }
    }

    /// Lists what nothing above has used.
    fn rest(&mut self) {
        let elements = self.elements;
        for element in elements {
            let name = element.name();
            let listed = self.unmatched.iter().any(|key| key.key == name);
            let burst = name == "Data_Cache_DRAM_Data_Busrt_Size";
            let latency = name.starts_with("Page_Read_Latency") || name.starts_with("Page_Program");
            let suspend = name.starts_with("Suspend_") || name.starts_with("Preferred_suspend_");
            let known = UNMATCHED.iter().find(|(key, _)| *key == name);
            match known {
                Some((_, reason)) => self.list(Some(element), reason),
                None if listed || burst || latency || suspend || MATCHED.contains(&name) => {}
                None => self.list(Some(element), "not a key of MQSim's"),
            }
        }
    }
}

/// Parts per million as a percentage.
fn percent(ppm: u64) -> String {
    format!("{}.{:04} %", ppm / 10_000, ppm % 10_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHIPPED: &str = include_str!("../../tests/mqsim-ssdconfig.xml");

    #[test]
    fn the_shipped_file_is_the_preset() {
        let imported = load_mqsim_text("ssdconfig.xml", SHIPPED).unwrap();
        let preset = preset("mqsim-default").unwrap().config;
        for ((key, ours, _), (_, theirs, origin)) in preset.entries().zip(imported.config.entries())
        {
            let same = match key {
                "geometry.page" | "geometry.oob" | "unit" | "buffer.size" | "map.cache" => {
                    block::parse_size(ours) == block::parse_size(theirs)
                }
                "nand.read" | "nand.program" | "nand.erase" | "nand.t_suspend"
                | "nand.suspend_min" => parse_time(ours) == parse_time(theirs),
                "bus.rate" | "link.rate" => block::parse_rate(ours) == block::parse_rate(theirs),
                // Results of the preset stay what they were; a file says what it wants.
                "sched" => (ours, theirs) == ("in-order", "read-first"),
                "gc.start_share" => theirs == "5.0000 %",
                "geometry.cell_bits" => theirs == "2",
                _ => ours == theirs,
            };
            assert!(same, "{key}: {ours} and {theirs} ({})", origin.from);
        }
        let (a, b) = (preset.resolve().unwrap(), imported.config.resolve().unwrap());
        assert_eq!(a.logical_pages, b.logical_pages);
        assert_eq!(a.gc.start, b.gc.start);
        assert!(imported.unmatched.iter().any(|k| k.key == "GC_Hard_Threshold" && k.line == 37));
        assert!(imported.unmatched.iter().all(|k| k.reason != "not a key of MQSim's"));
        let listed = imported.unmatched.len();
        assert_eq!(listed + imported_keys(&imported), xml::leaves(SHIPPED).unwrap().len());
    }

    /// Keys of the file that are not listed.
    fn imported_keys(imported: &Imported) -> usize {
        let leaves = xml::leaves(SHIPPED).unwrap();
        leaves.iter().filter(|e| imported.unmatched.iter().all(|k| k.key != e.name())).count()
    }

    fn with(from: &str, to: &str) -> Result<Imported, ConfigError> {
        assert!(SHIPPED.contains(from), "{from}");
        load_mqsim_text("x.xml", &SHIPPED.replace(from, to))
    }

    #[test]
    fn other_values_arrive() {
        let tlc = with("<Flash_Technology>MLC", "<Flash_Technology>TLC").unwrap().config;
        assert_eq!(tlc.text("geometry.cell_bits"), "3");
        let slow = with("LSB>75000", "LSB>60000").unwrap().config;
        assert_eq!(slow.text("nand.read"), "60000 ns, 75000 ns");
        assert_eq!(slow.text("nand.page_types"), "lsb-msb");
        let ideal = with("<Ideal_Mapping_Table>false", "<Ideal_Mapping_Table>true").unwrap().config;
        assert_eq!(ideal.text("map.mode"), "full");
        ideal.resolve().unwrap();
        let op = with("Ratio>0.07<", "Ratio>0.127<").unwrap().config;
        assert_eq!(op.text("op"), "14.5476 %");
        let greedy = with(">RGA<", ">GREEDY<").unwrap().config;
        assert_eq!(greedy.text("gc.victim"), "greedy");
        let both = with(">ERASE<", ">PROGRAM<").unwrap().config;
        assert_eq!(both.text("nand.t_suspend"), "100000 ns");
        // Levelling is what either key says of it, also where the other is missing.
        let without = |key: &str| -> String {
            SHIPPED.lines().filter(|line| !line.contains(key)).map(|l| format!("{l}\n")).collect()
        };
        let text = without("Dynamic_Wearleveling_Enabled");
        let only = "<Static_Wearleveling_Enabled>";
        let text = text.replace(&format!("{only}true"), &format!("{only}false"));
        assert!(text.contains(&format!("{only}false")));
        let config = load_mqsim_text("x.xml", &text).unwrap().config;
        assert_eq!(config.text("wl.mode"), "dynamic");
        let text = text.replace(&format!("{only}false"), &format!("{only}true"));
        let config = load_mqsim_text("x.xml", &text).unwrap().config;
        assert_eq!(config.text("wl.mode"), "dynamic+static");
        let fair = with(">PRIORITY_OUT_OF_ORDER<", ">FLIN<").unwrap();
        assert!(fair.unmatched.iter().any(|k| k.key == "Transaction_Scheduling_Policy"));
        let new = with("<Seed>321</Seed>", "<Sed>321</Sed>").unwrap();
        assert!(new.unmatched.iter().any(|k| k.key == "Sed" && k.reason.starts_with("not a key")));
    }

    #[test]
    fn errors_name_the_line() {
        let error = with("Transfer_Rate>333", "Transfer_Rate>fast").unwrap_err().to_string();
        assert_eq!(error, "x.xml:46: `Channel_Transfer_Rate` = `fast`: expected a whole number");
        let error = with(">RGA<", ">LRU<").unwrap_err().to_string();
        assert!(error.starts_with("x.xml:34: `GC_Block_Selection_Policy` = `LRU`"), "{error}");
        let error = with(">PRIORITY_OUT_OF_ORDER<", ">FIFO<").unwrap_err().to_string();
        assert!(error.starts_with("x.xml:31: `Transaction_Scheduling_Policy` = `FIFO`"), "{error}");
        let error = with("</Seed>", "</Sead>").unwrap_err().to_string();
        assert!(error.starts_with("x.xml:11: "), "{error}");
        assert!(with("LSB>75000", "LSB>0").is_err());
        assert!(load_mqsim_text("x.xml", "<a>1</a>").is_err());
        assert!(load_mqsim_text("x.xml", "").is_err());
        assert!(load_mqsim("/nonexistent/x.xml").is_err());
    }
}
