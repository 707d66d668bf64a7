//! Rings in a larger file: a disk's image, the file behind a guest's persistent memory, a core file of a kernel.
//!
//! A ring there is one piece: the location `FILE@0xOFFSET` opens it like any other, to be read.

mod scan;

use crate::args::show_size;
use crate::columns;
use crate::core_file;
use crate::failure::{Failure, note, summary};
use crate::figures::boot::{self, Boot};
use crate::output::json::line;
use crate::stop::Stop;
use perfring_consumer::{AttachError, Item, Layout, Location, Snapshot, error::BadRing};
use perfring_export::Stream;
use perfring_figures::accounts::Balance;
use perfring_figures::owner::count;
use perfring_figures::{agreed, json};
use scan::{Found, Scan};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

/// First pages without a ring that are printed.
const REFUSED: usize = 10;

/// Returns whether a location is a core file, which is an image without being called one.
pub(crate) fn is_core(location: &Location) -> bool {
    matches!(location, Location::File(path) if path.is_file())
        && File::open(location.path()).is_ok_and(|file| core_file::is_core(&file))
}

/// Finds the rings in an image. Returns the location of the only one, apart from rings inside that one, and the failure to end
/// with if other rings are cut off. Of several, prints a line each, or an object each.
pub(crate) fn only_ring(
    image: &Location,
    is_json: bool,
    stop: &Stop,
) -> Result<(Option<Location>, Result<(), Failure>), Failure> {
    let path = image.path();
    let holder = image.holder();
    if holder != path {
        let holder = holder.display();
        return Err(Failure::Usage(format!(
            "{image} is the place of one ring, and --image takes a whole file: leave out --image to see that ring, or \
             name {holder} to find all"
        )));
    }
    let file = open(image, &path)?;
    let scan =
        Scan::of(&file, || stop.check().map_err(Ended::Asked)).map_err(|error| match error {
            Ended::Asked(failure) => failure,
            Ended::Io(error) if error.kind() == io::ErrorKind::InvalidData => {
                Failure::Damaged(format!("{image}: {error}"))
            }
            Ended::Io(error) => Failure::General(format!("{image}: cannot read it: {error}")),
        })?;
    let rings: Vec<(&Found, Layout, Location)> = scan
        .found
        .iter()
        .filter_map(|found| Some((found, found.layout.ok()?, at(&path, found.offset))))
        .collect();
    refused(image, &scan);
    let cut: Vec<&Found> = scan.found.iter().filter(|found| found.is_cut()).collect();
    let (inner, outer): (Vec<_>, Vec<_>) =
        rings.iter().partition(|(found, ..)| found.inside.is_some());
    let ring = match &outer[..] {
        [] if scan.found.is_empty() => {
            return Err(Failure::NotFound(format!(
                "{image}: no ring begins at a page of it, of {} that were read: a ring in a file system that compresses or \
                 encrypts, or in memory that was left out of a dump, cannot be found",
                show_size(scan.bytes)
            )));
        }
        [(found, layout, ring)] if scan.more == 0 => {
            for (found, layout, _) in inner {
                note(&format!("{image}: {}", placed(found, layout)));
            }
            summary(&format!("{image}: {}", placed(found, layout)));
            Some(ring.clone())
        }
        _ => {
            let (mut out, width) = (Stream::stdout(), columns::width());
            for (found, layout, ring) in &rings {
                stop.check()?;
                let intact = Intact::of(ring);
                let written = match is_json {
                    true => line(&mut out, &object(found, ring, &intact)),
                    false => {
                        let sentence = format!("{}, {}", placed(found, layout), intact.sentence());
                        writeln!(out, "{}", listed(ring, &sentence, width))
                    }
                };
                written.map_err(Failure::output)?;
            }
            // In text, a note on stderr has each of them.
            for found in cut.iter().filter(|_| is_json) {
                let intact = Intact { written: None, readable: 0, damage: found.fault() };
                let object = object(found, &at(&path, found.offset), &intact);
                line(&mut out, &object).map_err(Failure::output)?;
            }
            if rings.is_empty() {
                return Err(Failure::Damaged(format!(
                    "{image}: no ring of it is whole: the notes above say what is wrong with each"
                )));
            }
            let rings = count(rings.len() as u64, "ring");
            summary(&format!("{image}: {rings}: name one to see what it holds"));
            None
        }
    };
    // One inside another ring may be a payload.
    let missing = cut.iter().filter(|found| found.inside.is_none());
    let all_whole = match missing.count() as u64 {
        0 => Ok(()),
        cut => Err(Failure::Damaged(format!(
            "{image}: {} of it cannot be read: the notes above say what is missing",
            count(cut, "further ring")
        ))),
    };
    Ok((ring, all_whole))
}

/// Why a search has ended.
enum Ended {
    Asked(Failure),
    Io(io::Error),
}

impl From<io::Error> for Ended {
    fn from(error: io::Error) -> Self {
        Ended::Io(error)
    }
}

fn open(image: &Location, path: &Path) -> Result<File, Failure> {
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => Failure::NotFound(format!("{image}: there is no such file")),
        _ => Failure::General(format!("{image}: cannot open it: {error}")),
    };
    let meta = std::fs::metadata(path).map_err(failed)?;
    if !meta.is_file() {
        let why = match meta.is_dir() {
            true => "it is a directory: name a file in it",
            false => {
                "it is no regular file: copy the device's content to a file first, as with `dd`"
            }
        };
        return Err(Failure::General(format!("{image}: {why}")));
    }
    File::open(path).map_err(failed)
}

/// Returns the location of a ring in an image.
fn at(image: &Path, offset: u64) -> Location {
    let mut path = OsString::from(image);
    path.push(format!("@{offset:#x}"));
    Location::File(path.into())
}

/// Says where a ring is, and which.
fn placed(found: &Found, layout: &Layout) -> String {
    let physical = match found.physical.filter(|address| *address != found.offset) {
        Some(address) => format!(" (physical address {address:#x})"),
        None => String::new(),
    };
    let inside = match found.inside {
        Some(other) => format!(" inside the ring at {other:#x}, whose payload it may be"),
        None => String::new(),
    };
    let (size, policy) = (show_size(layout.data_size), layout.policy.name());
    let uuid = uuid::Uuid::from_bytes(layout.uuid);
    let boot = match boot::of(layout) {
        Boot::This => "of this boot",
        Boot::Other => boot::OTHER,
        Boot::Unknown => "of an unknown boot",
    };
    format!("a ring at {:#x}{physical}{inside}: {size}, {policy}, {uuid}, {boot}", found.offset)
}

/// Formats a ring and its sentence: on one line, or wrapped below its location.
fn listed(ring: &Location, sentence: &str, width: Option<usize>) -> String {
    match width {
        Some(_) => format!("{ring}:\n{}", columns::paragraph("  ", sentence, width)),
        None => format!("{ring}: {sentence}"),
    }
}

/// Returns the figures of a ring, and its place in the image.
fn object(found: &Found, ring: &Location, intact: &Intact) -> Value {
    let mut object = match agreed::with_types(ring) {
        Ok((stat, types)) => json::object(ring, &stat, Some(&types)),
        Err(_) => json!({ "ring": ring.to_string(), "damaged": true }),
    };
    object["image"] = json!({
        "offset": found.offset,
        "physical_address": found.physical,
        "inside": found.inside,
        "readable": intact.readable,
        "damage": intact.damage,
    });
    object
}

/// What can be read of a ring.
struct Intact {
    /// Its own count, if its positions are valid.
    written: Option<u64>,
    readable: u64,
    /// Why there is not more of it.
    damage: Option<String>,
}

impl Intact {
    fn of(ring: &Location) -> Self {
        let snapshot = match Snapshot::take(ring) {
            Ok(snapshot) => snapshot,
            Err(error) => {
                let damage = Some(match error {
                    AttachError::Corrupt { .. } => "its positions are damaged".to_owned(),
                    error => format!("it cannot be read: {error}"),
                });
                return Intact { written: None, readable: 0, damage };
            }
        };
        let (mut readable, mut damage) = (0u64, None);
        for item in &snapshot {
            match item {
                Ok(item) => readable += u64::from(matches!(item, Item::Record(_))),
                Err(error) => damage = Some(error.to_string()),
            }
        }
        let adds_up = || Balance::of(snapshot.layout().policy, snapshot.totals()).holds();
        if damage.is_none() && !adds_up() {
            damage = Some("its figures do not add up".to_owned());
        }
        Intact { written: Some(snapshot.totals().producer.written.records), readable, damage }
    }

    fn sentence(&self) -> String {
        let readable = count(self.readable, "record");
        let written =
            self.written.map(|written| format!("written {written}, {readable} can be read"));
        let scattered = "its pages do not follow each other here";
        match (written, &self.damage) {
            (Some(written), None) => written,
            (Some(written), Some(damage)) => format!("{written}: {damage}: {scattered}"),
            (None, damage) => damage.clone().unwrap_or_default(),
        }
    }
}

/// Reports first pages at which no ring can begin.
fn refused(image: &Location, scan: &Scan) {
    let bad = scan.found.iter().filter_map(|found| Some((found, found.layout.err()?)));
    let (shown, all) = (bad.clone().take(REFUSED), bad.count());
    for (found, error) in shown {
        let advice = match error {
            BadRing::Truncated { needed, .. } if needed <= found.room => format!(
                "; lengthen a copy of the image to see what is there: `truncate -s {} COPY`",
                found.offset.saturating_add(needed)
            ),
            BadRing::Truncated { .. } => "; the memory after it was not dumped".to_owned(),
            _ => String::new(),
        };
        note(&format!(
            "{image}: a ring's first page at {:#x}, and no ring: {error}{advice}",
            found.offset
        ));
    }
    let more = all.saturating_sub(REFUSED) as u64 + scan.more_bad;
    if more > 0 {
        note(&format!("{image}: {more} further pages begin like a ring's, and are left out"));
    }
    if scan.more > 0 {
        note(&format!("{image}: {} further rings are left out", scan.more));
    }
    if scan.missing > 0 {
        note(&format!(
            "{image}: the core file is cut off: {} bytes of memory are missing",
            scan.missing
        ));
    }
}
