//! A ring's figures, in agreement with each other.

use crate::failure::Failure;
use perfring_consumer::{Location, stat::Stat};
use perfring_figures::agreed;

/// Reads the figures.
pub(crate) fn read(location: &Location) -> Result<Stat, Failure> {
    Ok(agreed::read(location)?)
}
