//! Which stacks there are: everything that the grammar can say works in both worlds, or is refused here.

use crate::StackError;
use crate::description::{Base, Description, Layer};

/// Where a stack runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum World {
    /// In virtual time, for a run.
    Modelled,
    /// For real programs.
    Live,
    /// In virtual time, for a search of power cuts.
    Search,
}

/// What is asked of the top of a stack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Top {
    /// Blocks.
    Blocks,
    /// Files: the highest layer is a file system.
    Files,
}

/// Whether such a stack can be made in a world, for what is asked of its top.
///
/// # Errors
/// [`StackError::Options`]: which rule it breaks.
pub fn check(stack: &Description, world: World, top: Top) -> Result<(), StackError> {
    let rules: [Rule; 6] = [in_virtual_time, searched, drives, files, cuts, read_only];
    rules.iter().try_for_each(|rule| rule(stack, world, top))
}

type Rule = fn(&Description, World, Top) -> Result<(), StackError>;

fn wrong(what: impl Into<String>) -> Result<(), StackError> {
    Err(StackError::Options(what.into()))
}

/// What has no virtual time is for the live world only.
fn in_virtual_time(stack: &Description, world: World, _: Top) -> Result<(), StackError> {
    if world == World::Live {
        return Ok(());
    }
    let name = match &stack.base {
        Base::Ram(_) | Base::Drive { .. } => {
            let live = |layer: &&Layer| {
                matches!(layer, Layer::Cut { .. } | Layer::ReadOnly | Layer::RealTime)
            };
            stack.layers.iter().find(live).map(Layer::name)
        }
        Base::Image { .. } => Some("image"),
        Base::Device(_) => Some("device"),
        Base::DriveImage { .. } => Some("drive-image"),
    };
    match name {
        None => Ok(()),
        Some(name) => {
            wrong(format!("{name}: for what is served: a run in virtual time has no such thing"))
        }
    }
}

/// A search makes its run again and again.
fn searched(stack: &Description, world: World, _: Top) -> Result<(), StackError> {
    let record = |layer: &Layer| matches!(layer, Layer::Record(_));
    match world == World::Search && stack.layers.iter().any(record) {
        true => wrong("record: a search makes its run again and again: there is no trace of it"),
        false => Ok(()),
    }
}

/// `real-time` and the power of a modelled drive belong to the drive.
fn drives(stack: &Description, _: World, _: Top) -> Result<(), StackError> {
    let modelled = matches!(stack.base, Base::Drive { .. });
    let mut all = stack.layers.iter().enumerate();
    match all.any(|(at, layer)| *layer == Layer::RealTime && !(modelled && at == 0)) {
        false => Ok(()),
        true => wrong(
            "real-time: expected right above a modelled drive in memory, drive(PRESET) or --ssd PRESET",
        ),
    }
}

/// A file system is the highest layer, where files are asked for.
fn files(stack: &Description, _: World, top: Top) -> Result<(), StackError> {
    let lfs = stack.layers.iter().position(|layer| matches!(layer, Layer::Lfs(_)));
    match (lfs, top) {
        (None, _) => Ok(()),
        (Some(at), _) if at + 1 < stack.layers.len() => wrong(format!(
            "{}: above lfs: a file system is the highest layer",
            stack.layers[at + 1].name()
        )),
        (Some(_), Top::Files) => Ok(()),
        (Some(_), Top::Blocks) => wrong("lfs: it has files, and blocks are asked for here"),
    }
}

/// One switch for all.
fn cuts(stack: &Description, _: World, _: Top) -> Result<(), StackError> {
    let mut all =
        stack.layers.iter().enumerate().filter(|(_, layer)| matches!(layer, Layer::Cut { .. }));
    let Some((at, _)) = all.next() else { return Ok(()) };
    if all.next().is_some() {
        return wrong("cut: a stack has one switch");
    }
    match stack.layers[..at].contains(&Layer::ReadOnly) {
        true => wrong("cut: nothing can be lost of what may only be read"),
        false => Ok(()),
    }
}

/// What may only be read is not written by a layer either.
fn read_only(stack: &Description, _: World, _: Top) -> Result<(), StackError> {
    let Some(at) = stack.layers.iter().position(|layer| *layer == Layer::ReadOnly) else {
        return Ok(());
    };
    let writes = |layer: &&Layer| matches!(layer, Layer::Log(_) | Layer::PaperLog(_));
    match stack.layers[at..].iter().find(writes) {
        Some(layer) => {
            wrong(format!("{}: it writes when it opens: not above read-only", layer.name()))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str, world: World, top: Top) -> Option<String> {
        check(&text.parse().unwrap(), world, top).err().map(|e| e.to_string())
    }

    #[test]
    fn each_rule_refuses_what_it_says() {
        use {Top::*, World::*};
        let cases = [
            ("ram(1MiB)+cut(1)", Modelled, Blocks, "cut: for what is served"),
            ("image(x)", Modelled, Blocks, "image: for what is served"),
            ("ram(1MiB)+cut(1)", Search, Blocks, "cut: for what is served"),
            ("ram(1MiB)+record(f)", Search, Blocks, "record: a search makes its run again"),
            ("ram(1MiB)+real-time", Live, Blocks, "real-time: expected right above"),
            ("drive(x)+log+real-time", Live, Blocks, "real-time: expected right above"),
            ("drive(x)+real-time+real-time", Live, Blocks, "real-time: expected right above"),
            ("ram(1MiB)+lfs+log", Live, Files, "log: above lfs"),
            ("ram(1MiB)+lfs", Live, Blocks, "lfs: it has files"),
            ("ram(1MiB)+cut(1)+log+cut(2)", Live, Blocks, "cut: a stack has one switch"),
            ("image(x)+read-only+cut(1)", Live, Blocks, "cut: nothing can be lost"),
            ("image(x)+read-only+log", Live, Blocks, "log: it writes when it opens"),
        ];
        for (text, world, top, begins) in cases {
            let error = refused(text, world, top).unwrap_or_default();
            assert!(error.starts_with(begins), "{text}: `{error}`");
        }
        for text in [
            "drive(x)+real-time+cut(1)+log+record(f)",
            "image(x)+log+read-only",
            "ram(1MiB)+log+log",
        ] {
            assert_eq!(refused(text, Live, Blocks), None, "{text}");
        }
        assert_eq!(refused("ram(1MiB)+log+paper-log+record(f)+lfs", Modelled, Files), None);
    }
}
