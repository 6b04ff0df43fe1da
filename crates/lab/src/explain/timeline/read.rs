//! A timeline's file, read back: packets of Perfetto's format as `proto` writes them, by track.
//!
//! Invariants: a track is described before it is used; slices of a track come in order and do not
//! overlap; every name that an event calls by number is known; what a packet holds beyond that is an
//! error, because a trace of another program would be shown in parts, and look whole.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::proto::{
    COUNTER_VALUE, SLICE_BEGIN, SLICE_END, TRACE_PACKET, annotation, event, interned, name, packet,
    process, track,
};
use super::wire::{Field, Part, Wrong};

/// A track, or a group of tracks.
#[derive(Clone, Debug, Default)]
pub(super) struct Track {
    pub group: Option<u64>,
    pub name: String,
    /// Its place among those of its group.
    pub rank: u64,
    pub slices: Vec<Slice>,
    /// Of a counter: times and values.
    pub counts: Vec<(u64, u64)>,
}

/// A slice, and the byte at which its packet begins.
#[derive(Clone, Debug)]
pub(super) struct Slice {
    pub at: usize,
    pub start_ns: u64,
    pub end_ns: u64,
    pub name: Arc<str>,
    pub category: Arc<str>,
    pub notes: Vec<(Arc<str>, u64)>,
    pub flows: Vec<u64>,
}

#[derive(Debug, Default)]
struct Names {
    categories: BTreeMap<u64, Arc<str>>,
    events: BTreeMap<u64, Arc<str>>,
    annotations: BTreeMap<u64, Arc<str>>,
}

/// Tracks while they are read.
#[derive(Debug, Default)]
struct Reading {
    names: Names,
    tracks: BTreeMap<u64, Track>,
    /// Slices that have begun.
    open: BTreeMap<u64, Slice>,
    slices: usize,
    most: usize,
}

/// What the file is called in errors.
const OURS: &str = "a timeline that --timeline-out of `varve sim` wrote";

/// The tracks of a file with at most so many slices, by their numbers.
///
/// # Errors
/// What is no such file: where, what was found, what was expected.
pub(super) fn read(file: &[u8], most: usize) -> Result<BTreeMap<u64, Track>, Wrong> {
    let mut reading = Reading { most, ..Reading::default() };
    for field in Part::file(file).fields() {
        let field = field?;
        if field.number != TRACE_PACKET {
            return Err(Wrong::new(field.at, format!("field {}", field.number), OURS));
        }
        reading.packet(field.part("a packet")?)?;
    }
    if let Some(open) = reading.open.values().next() {
        let found = format!("a slice `{}` that does not end", open.name);
        return Err(Wrong::new(open.at, found, "its end in the file"));
    }
    if reading.tracks.is_empty() {
        return Err(Wrong::new(file.len(), "the end, and no track before it", OURS));
    }
    Ok(reading.tracks)
}

/// A number that a message must have.
fn needed(value: Option<u64>, at: usize, what: &str) -> Result<u64, Wrong> {
    value.ok_or_else(|| Wrong::new(at, format!("none of {what}"), what))
}

fn text_of(part: Part<'_>) -> Result<String, Wrong> {
    part.text().map(str::to_string)
}

fn known(
    names: &BTreeMap<u64, Arc<str>>,
    field: &Field<'_>,
    what: &str,
) -> Result<Arc<str>, Wrong> {
    let iid = field.value(what)?;
    let name = names.get(&iid).map(Arc::clone);
    name.ok_or_else(|| Wrong::new(field.at, format!("number {iid} of {what}"), "a name before it"))
}

impl Reading {
    fn packet(&mut self, whole: Part<'_>) -> Result<(), Wrong> {
        let (mut at_ns, mut event) = (None, None);
        for field in whole.fields() {
            let field = field?;
            match field.number {
                packet::TIMESTAMP => at_ns = Some(field.value("a time")?),
                packet::SEQUENCE | packet::SEQUENCE_FLAGS => {
                    field.value("a sequence")?;
                }
                packet::INTERNED => self.interned(field.part("names")?)?,
                packet::TRACK_DESCRIPTOR => self.track(field.part("a track")?)?,
                packet::TRACK_EVENT => event = Some(field.part("an event")?),
                other => {
                    return Err(Wrong::new(field.at, format!("a packet with field {other}"), OURS));
                }
            }
        }
        match event {
            Some(event) => {
                let at_ns = needed(at_ns, whole.at, "an event's time")?;
                self.event(whole.at, at_ns, event)
            }
            None => Ok(()),
        }
    }

    fn interned(&mut self, lists: Part<'_>) -> Result<(), Wrong> {
        for field in lists.fields() {
            let field = field?;
            let into = match field.number {
                interned::CATEGORIES => &mut self.names.categories,
                interned::EVENTS => &mut self.names.events,
                interned::ANNOTATIONS => &mut self.names.annotations,
                other => return Err(Wrong::new(field.at, format!("list {other} of names"), OURS)),
            };
            let (part, mut iid, mut text) = (field.part("a name")?, None, String::new());
            for inner in part.fields() {
                let inner = inner?;
                match inner.number {
                    name::IID => iid = Some(inner.value("a name's number")?),
                    name::TEXT => text = text_of(inner.part("a name's text")?)?,
                    _ => {}
                }
            }
            into.insert(needed(iid, part.at, "a name's number")?, text.into());
        }
        Ok(())
    }

    fn track(&mut self, part: Part<'_>) -> Result<(), Wrong> {
        let (mut uuid, mut track) = (None, Track::default());
        for field in part.fields() {
            let field = field?;
            match field.number {
                track::UUID => uuid = Some(field.value("a track's number")?),
                track::NAME => track.name = text_of(field.part("a track's name")?)?,
                track::PARENT => track.group = Some(field.value("a track's group")?),
                track::RANK => track.rank = field.value("a track's place")?,
                track::PROCESS => {
                    for inner in field.part("a process")?.fields() {
                        let inner = inner?;
                        if inner.number == process::NAME {
                            track.name = text_of(inner.part("a process's name")?)?;
                        }
                    }
                }
                // Whether it counts is seen from its events.
                _ => {}
            }
        }
        let uuid = needed(uuid, part.at, "a track's number")?;
        if self.tracks.insert(uuid, track).is_some() {
            let found = format!("track {uuid}, again");
            return Err(Wrong::new(part.at, found, "one description of each track"));
        }
        Ok(())
    }

    fn event(&mut self, at: usize, at_ns: u64, part: Part<'_>) -> Result<(), Wrong> {
        let nameless: Arc<str> = "".into();
        let (mut kind, mut track, mut count) = (None, None, None);
        let mut slice = Slice {
            at,
            start_ns: at_ns,
            end_ns: at_ns,
            name: Arc::clone(&nameless),
            category: nameless,
            notes: Vec::new(),
            flows: Vec::new(),
        };
        for field in part.fields() {
            let field = field?;
            match field.number {
                event::TYPE => kind = Some(field.value("an event's type")?),
                event::TRACK => track = Some(field.value("an event's track")?),
                event::NAME => slice.name = known(&self.names.events, &field, "the events")?,
                event::CATEGORIES => {
                    slice.category = known(&self.names.categories, &field, "the categories")?;
                }
                event::COUNTER => count = Some(field.value("a counter's value")?),
                event::FLOWS => slice.flows.push(field.value("a flow")?),
                event::ANNOTATIONS => slice.notes.push(self.note(field.part("an annotation")?)?),
                other => {
                    return Err(Wrong::new(field.at, format!("an event with field {other}"), OURS));
                }
            }
        }
        let uuid = needed(track, part.at, "an event's track")?;
        let Some(track) = self.tracks.get_mut(&uuid) else {
            let found = format!("an event of track {uuid}");
            return Err(Wrong::new(at, found, "a description of the track before it"));
        };
        match kind {
            Some(SLICE_BEGIN) => {
                self.slices += 1;
                if self.slices > self.most {
                    let most = format!("at most {} slices: draw a shorter window", self.most);
                    return Err(Wrong::new(at, "one slice more than a page shows", most));
                }
                let last = track.slices.last().map_or(0, |last| last.end_ns);
                if at_ns < last || self.open.contains_key(&uuid) {
                    let found = format!("a slice of `{}` at {at_ns} ns", track.name);
                    return Err(Wrong::new(at, found, "slices in order, none in another"));
                }
                self.open.insert(uuid, slice);
            }
            Some(SLICE_END) => {
                let begun = self.open.remove(&uuid).filter(|begun| begun.start_ns <= at_ns);
                let Some(begun) = begun else {
                    let found = format!("the end of a slice of `{}` at {at_ns} ns", track.name);
                    return Err(Wrong::new(at, found, "its begin before it"));
                };
                track.slices.push(Slice { end_ns: at_ns, ..begun });
            }
            Some(COUNTER_VALUE) => {
                let value = needed(count, part.at, "a counter's value")?;
                track.counts.push((at_ns, value));
            }
            kind => {
                let found = kind.map_or("no type".to_string(), |kind| format!("type {kind}"));
                return Err(Wrong::new(at, format!("an event of {found}"), OURS));
            }
        }
        Ok(())
    }

    fn note(&self, part: Part<'_>) -> Result<(Arc<str>, u64), Wrong> {
        let (mut called, mut value) = (None, None);
        for field in part.fields() {
            let field = field?;
            match field.number {
                annotation::NAME => {
                    called = Some(known(&self.names.annotations, &field, "the annotations")?);
                }
                annotation::VALUE => value = Some(field.value("an annotation")?),
                other => {
                    let found = format!("an annotation with field {other}");
                    return Err(Wrong::new(field.at, found, OURS));
                }
            }
        }
        let called =
            called.ok_or_else(|| Wrong::new(part.at, "no name", "an annotation's name"))?;
        Ok((called, needed(value, part.at, "an annotation's number")?))
    }
}
