//! `perfring types`: shows the types of a ring's records.

mod text;

use crate::args;
use crate::columns;
use crate::events::input::rings_of;
use crate::failure::{Failure, detail, note};
use crate::figures::opened::opened;
use crate::output::figures_format::FiguresFormat;
use crate::output::json;
use crate::records::shapes::Shapes;
use perfring_consumer::{AttachError, Location, Observer, Start};
use perfring_export::Stream;
use perfring_figures::owner::{count, printable};
use perfring_types::read::Type;
use serde::Serialize;
use std::io::{self, BufWriter, Write};

/// Show the types of a ring's records, with their fields
///
/// Offsets are in bytes, from the start of the struct that holds the field; fields of tagged
/// records have numbers instead. Changes nothing: the file of killed processes, or a copy of it,
/// can be shown as well. If the table is damaged, the intact types are shown and the exit code is
/// 4. JSON has the keys of the type table, and the type's number as "type".
///
/// Of a directory it shows the types of all rings: a type that several of them have once, with the
/// rings that have it unless all do. JSON has an object per ring and type, with "ring".
///
/// Example: perfring types /dev/shm/flight
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A path, shm:NAME, a directory of rings, or FILE@0xOFFSET for a ring inside a larger file
    #[arg(value_parser = args::location())]
    ring: Location,
    #[command(flatten)]
    format: FiguresFormat,
}

#[derive(Serialize)]
struct Line<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    ring: Option<&'a str>,
    r#type: u32,
    #[serde(flatten)]
    kind: &'a Type,
}

/// A ring's name and its types.
/// A ring's name in its directory, its location and its types.
type Ring = (String, Location, Shapes);

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let several = matches!(&args.ring, Location::File(path) if path.is_dir());
    let mut rings = Vec::new();
    let (mut without_table, mut without_types) = (Vec::new(), Vec::new());
    for ring in rings_of(&args.ring)? {
        let observer = match Observer::attach(&ring, Start::Oldest) {
            Err(AttachError::NotFound { .. }) if several => continue, // removed meanwhile
            opened => opened?,
        };
        detail(|| opened(&ring, observer.layout()));
        let shapes = Shapes::of(observer.types(), observer.anchors());
        if observer.layout().types_size == 0 {
            without_table.push(ring.to_string());
        } else if shapes.table().is_empty() && shapes.damage().is_empty() {
            without_types.push(ring.to_string());
        }
        rings.push((printable(&ring.name(observer.layout())), ring, shapes));
    }
    let name_or_count = |rings: &[String]| match rings {
        [ring] => Some(ring.clone()),
        rings => (!rings.is_empty()).then(|| count(rings.len() as u64, "ring")),
    };
    if let Some(rings) = name_or_count(&without_table) {
        let were = if without_table.len() == 1 { "was" } else { "were" };
        let how = "`perfring create --types-size` creates one with it";
        note(&format!("{rings} {were} created without a type table; {how}"));
    }
    if let Some(rings) = name_or_count(&without_types) {
        note(&format!("no type was registered in {rings}"));
    }
    let mut out = BufWriter::new(Stream::stdout());
    let written = if args.format.is_json() {
        write_json(&mut out, &rings, several)
    } else {
        write_text(&mut out, &rings)
    };
    written.and_then(|()| out.flush()).map_err(Failure::output)?;
    let damage: Vec<String> = rings.iter().filter_map(damage).collect();
    match &damage[..] {
        [] => Ok(()),
        damage => Err(Failure::Damaged(damage.join("; "))),
    }
}

/// Returns what of a ring's table cannot be read.
fn damage((_, ring, shapes): &Ring) -> Option<String> {
    let damage: Vec<String> = shapes.damage().iter().map(ToString::to_string).collect();
    (!damage.is_empty()).then(|| format!("{ring}: {}", damage.join("; ")))
}

fn write_json(out: &mut impl Write, rings: &[Ring], several: bool) -> io::Result<()> {
    for (name, _, shapes) in rings {
        for kind in shapes.table().iter() {
            let ring = several.then_some(&**name);
            json::line(out, &Line { ring, r#type: kind.id.get(), kind })?;
        }
    }
    Ok(())
}

fn write_text(out: &mut impl Write, rings: &[Ring]) -> io::Result<()> {
    let width = columns::width();
    let mut kinds: Vec<(&Type, Vec<String>)> = Vec::new();
    for (name, _, shapes) in rings {
        for kind in shapes.table().iter() {
            match kinds.iter_mut().find(|(known, _)| *known == kind) {
                Some((_, having)) => having.push(name.clone()),
                None => kinds.push((kind, vec![name.clone()])),
            }
        }
    }
    for (nth, (kind, having)) in kinds.iter().enumerate() {
        if nth > 0 {
            writeln!(out)?;
        }
        let some = (having.len() < rings.len()).then_some(&having[..]);
        text::write(out, kind, some, width)?;
    }
    Ok(())
}
