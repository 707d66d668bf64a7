//! `perfring types`: shows the types of a ring's records.

mod text;

use crate::args;
use crate::columns;
use crate::failure::{Failure, note};
use crate::output::json;
use crate::records::shapes::Shapes;
use perfring_consumer::{Location, Observer, Start};
use perfring_types::read::Type;
use serde::Serialize;
use std::io::{self, BufWriter, Write};

/// Show the types of a ring's records, with their fields
///
/// Offsets are in bytes, from the start of the struct that holds the field; fields of tagged
/// records have numbers instead. Changes nothing: the file of killed processes, or a copy of it,
/// can be shown as well. If the table is damaged, the intact types are shown and the exit code is
/// 4.
///
/// Example: perfring types /dev/shm/flight
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A path, or shm:NAME
    #[arg(value_parser = args::location())]
    ring: Location,
    /// One JSON object per line and type, with the keys of the type table and its number as "type"
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Line<'a> {
    r#type: u32,
    #[serde(flatten)]
    kind: &'a Type,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let observer = Observer::open(&args.ring, Start::Oldest)?;
    let shapes = Shapes::of(observer.types(), observer.anchors());
    let mut out = BufWriter::new(io::stdout().lock());
    write(&mut out, args, &shapes).map_err(Failure::output)?;
    if observer.layout().types_size == 0 {
        let how = "`perfring create --types-size` creates one with it";
        note(&format!("{} was created without a type table; {how}", args.ring));
    } else if shapes.table().is_empty() && shapes.damage().is_empty() {
        note(&format!("no type was registered in {}", args.ring));
    }
    match shapes.damage() {
        [] => Ok(()),
        damage => Err(Failure::Damaged(format!(
            "{}: {}",
            args.ring,
            damage.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
        ))),
    }
}

fn write(out: &mut impl Write, args: &Args, shapes: &Shapes) -> io::Result<()> {
    let width = columns::width();
    for (nth, kind) in shapes.table().iter().enumerate() {
        if args.json {
            json::line(out, &Line { r#type: kind.id.get(), kind })?;
        } else {
            if nth > 0 {
                writeln!(out)?;
            }
            text::write(out, kind, width)?;
        }
    }
    out.flush()
}
