//! `perfring types`: what a ring's records are.

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

/// Show what a ring's records are: its types, with their fields
///
/// Offsets are in bytes, and count from the struct that the field stands in; fields of tagged
/// records have numbers instead. Changes nothing: the file of processes that were killed, or a
/// copy of it, will do. Ends with 4 if the table is damaged, after the types that are whole.
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
        let how = "`perfring create --types-size` makes one with it";
        note(&format!("{} was made without a type table; {how}", args.ring));
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
