//! A ring's figures, in agreement with each other.

use crate::failure::Failure;
use perfring_consumer::{Location, Stat};
use perfring_view::accounts::Balance;

/// Reads the figures. Those of a ring in use are not of one moment: a few more attempts often find
/// them in agreement.
pub(crate) fn read(location: &Location) -> Result<Stat, Failure> {
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
