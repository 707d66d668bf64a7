//! The producers of a shared ring, as a table; or as paragraphs, where there is no room for one.

use crate::columns::paragraph;
use perfring_consumer::{
    Location,
    stat::{ProducerFigures, Seat},
};
use perfring_figures::owner::name;
use perfring_figures::process::State;
use perfring_producer::Producers;
use std::io::{self, Write};

/// Figures that have a column if any producer has a value for them.
const FIGURES: [&str; 7] =
    ["open", "full", "too_large", "contended", "pending", "discarded", "reclaimed"];

fn figures(member: &Seat<ProducerFigures>) -> [u64; FIGURES.len()] {
    let figures = &member.figures;
    let refused = &figures.refused;
    [
        figures.open,
        refused.full,
        refused.too_large,
        refused.contended,
        refused.pending,
        figures.discarded,
        figures.reclaimed,
    ]
    .map(|count| count.records)
}

/// Writes all producers that have a slot, each with its records since it attached. In a ring per CPU nobody
/// counts whose the records are that were published in sequences: then only the others, under the lock.
pub(super) fn write(
    out: &mut impl Write,
    location: &Location,
    kind: Producers,
    members: &[Seat<ProducerFigures>],
    width: Option<usize>,
) -> io::Result<()> {
    let states = states(members, location);
    let written = if kind == Producers::Cpu { "by lock" } else { "written" };
    let rows = table(members, &states, written);
    let widest = rows.iter().map(|row| row.chars().count()).max().unwrap_or_default();
    if width.is_none_or(|width| widest <= width) {
        return rows.iter().try_for_each(|row| writeln!(out, "{row}"));
    }
    for (member, state) in members.iter().zip(states) {
        let title = format!("  {:<12} ", format!("slot {}", member.number));
        writeln!(out, "{}", paragraph(&title, &sentence(member, state, written), width))?;
    }
    Ok(())
}

fn states(members: &[Seat<ProducerFigures>], location: &Location) -> Vec<&'static str> {
    let state = |member: &Seat<ProducerFigures>| State::of(member.state, &member.owner, location);
    members.iter().map(|member| state(member).word()).collect()
}

fn table(members: &[Seat<ProducerFigures>], states: &[&str], written: &str) -> Vec<String> {
    let used = |column: &usize| members.iter().any(|member| figures(member)[*column] > 0);
    let columns: Vec<usize> = (0..FIGURES.len()).filter(used).collect();
    let mut titles = ["slot", "state", "pid", "epoch", written].map(str::to_owned).to_vec();
    titles.extend(columns.iter().map(|column| FIGURES[*column].to_owned()));
    let mut rows = vec![titles];
    for (member, state) in members.iter().zip(states) {
        let (owner, figures) = (&member.owner, figures(member));
        let written = member.figures.written.records;
        let numbers = [owner.pid.into(), owner.epoch, written].into_iter();
        let numbers = numbers.chain(columns.iter().map(|column| figures[*column]));
        let mut row = vec![member.number.to_string(), (*state).to_owned()];
        row.extend(numbers.map(|number| number.to_string()));
        rows.push(row);
    }
    let width = |at: usize| rows.iter().map(|row| row[at].len()).max().unwrap_or_default();
    let widths: Vec<usize> = (0..rows[0].len()).map(width).collect();
    let names =
        std::iter::once("name".to_owned()).chain(members.iter().map(|member| name(&member.owner)));
    let line = |(row, name): (&Vec<String>, String)| {
        let cells = row.iter().zip(&widths).map(|(cell, &width)| format!("  {cell:>width$}"));
        format!("{}  {name}", cells.collect::<String>())
    };
    rows.iter().zip(names).map(line).collect()
}

fn sentence(member: &Seat<ProducerFigures>, state: &str, written: &str) -> String {
    let owner = &member.owner;
    let mut said = format!(
        "{state}: {}, pid {}, epoch {}; {written} {}",
        name(owner),
        owner.pid,
        owner.epoch,
        member.figures.written.records
    );
    for (title, records) in FIGURES.iter().zip(figures(member)).filter(|(_, records)| *records > 0)
    {
        said += &format!(", {title} {records}");
    }
    said
}
