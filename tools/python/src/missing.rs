//! Rings that are created if they are missing.

use perfring_producer::{Location, Options, error::CreateError, files::create};

/// The number of attempts at a ring that other processes create and remove meanwhile.
const TRIES: u32 = 100;

/// Attaches to a ring, of whatever options, and creates it before that if it is missing.
pub(crate) fn attach_or_create<T, E>(
    location: &Location,
    options: &Options,
    attach: impl Fn(Location) -> Result<T, E>,
    is_missing: impl Fn(&E) -> bool,
    not_created: impl FnOnce(CreateError) -> E,
) -> Result<T, E> {
    let mut tries = 0;
    loop {
        tries += 1;
        match attach(location.clone()) {
            Err(error) if is_missing(&error) && tries < TRIES => {}
            done => return done,
        }
        match create(location.clone(), options) {
            // Another process created it.
            Ok(()) | Err(CreateError::Exists { .. }) => {}
            Err(error) => return Err(not_created(error)),
        }
    }
}
