//! A ring's figures, in agreement with each other.

use crate::accounts::Balance;
use perfring_consumer::{AttachError, Location, Stat};

/// Reads the figures. Those of a ring in use are not of one moment: a few more attempts often find
/// them in agreement.
///
/// # Errors
/// See [`AttachError`].
pub fn read(location: &Location) -> Result<Stat, AttachError> {
    const POLLS: u32 = 20;
    let mut stat = Stat::read(location)?;
    for _ in 1..POLLS {
        match &stat.totals {
            Some(totals) if !Balance::of(stat.layout.policy, totals).holds() => {}
            _ => break,
        }
        stat = Stat::read(location)?;
    }
    Ok(stat)
}
