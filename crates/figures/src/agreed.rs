//! A ring's figures, in agreement with each other.

use crate::accounts::Balance;
use crate::areas::TypesUse;
use perfring_consumer::{AttachError, Location, Observer, Start, stat::Stat};

/// Reads the figures. Those of a ring in use are not of one moment: a few more attempts often find
/// them in agreement.
///
/// # Errors
/// See [`AttachError`].
pub fn read(location: &Location) -> Result<Stat, AttachError> {
    agree(|| Stat::read(location))
}

/// Reads the figures, and how full the type table is, of a ring that is opened once.
///
/// # Errors
/// See [`AttachError`].
pub fn with_types(location: &Location) -> Result<(Stat, TypesUse), AttachError> {
    let observer = Observer::attach(location, Start::Oldest)?;
    Ok((agree(|| observer.stat())?, TypesUse::of(&observer)))
}

fn agree(read: impl Fn() -> Result<Stat, AttachError>) -> Result<Stat, AttachError> {
    const POLLS: u32 = 20;
    let mut stat = read()?;
    for _ in 1..POLLS {
        match &stat.totals {
            Some(totals) if !Balance::of(stat.layout.policy, totals).holds() => {}
            _ => break,
        }
        stat = read()?;
    }
    Ok(stat)
}
