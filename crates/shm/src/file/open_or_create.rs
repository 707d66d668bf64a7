//! Opening a ring, or making it if it does not exist.

use crate::file::create::{RingOptions, create};
use crate::file::create_error::CreateError;
use crate::file::error::AttachError;
use crate::file::location::Location;
use crate::file::open::{FileAccess, RingFile};
use nix::unistd::geteuid;
use perfring_abi::{Layout, Policy, Producers};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use thiserror::Error;

/// How often a ring may vanish between its creation and its opening, or appear between its opening
/// and its creation, before that is an error.
const TRIES: u32 = 64;
/// The most symbolic links that the system follows.
const LINKS: u32 = 40;
/// Mode bits by which others than the owner may read and write.
const OTHERS: u32 = 0o066;

/// Why a ring could not be opened or made.
#[derive(Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The ring could not be made.
    #[error(transparent)]
    Create(#[from] CreateError),
    /// The ring exists, or was just made, and could not be attached to.
    #[error(transparent)]
    Attach(#[from] AttachError),
    /// The ring exists and differs from the options.
    #[error(
        "{location} exists and has {option} {found}, where {option} {wanted} is asked for: ask for what it has, \
         or remove it first"
    )]
    Differs {
        /// The ring's location.
        location: Location,
        /// The first field of [`RingOptions`] that differs.
        option: &'static str,
        /// The value that was asked for, sizes as they are rounded.
        wanted: String,
        /// The ring's value.
        found: String,
    },
    /// The ring, a symbolic link to it, or the directory of a set of rings belongs to another user. That user may have put it
    /// there so that this program writes to it.
    #[error(
        "{location}{} belongs to user {owner}, and this program is about to write there: name another place, have that user or \
         root remove it, or set any_owner, which accepts any owner and any mode",
        if *.link { ", a symbolic link," } else { "" }
    )]
    Owner {
        /// The location of the ring, of the link, or of the directory.
        location: Location,
        /// Whether that is a symbolic link.
        link: bool,
        /// Its owner's uid.
        owner: u32,
    },
    /// The ring exists and lets more users in than the options say.
    #[error(
        "{location} has mode {found:03o}, where mode {wanted:03o} is asked for: ask for what it has, change its mode, or remove \
         it first"
    )]
    Mode {
        /// The ring's location.
        location: Location,
        /// The mode that was asked for.
        wanted: u32,
        /// The ring's mode.
        found: u32,
    },
}

perfring_abi::debug_by_display!(OpenError);

/// Attaches to a ring by `attach`, and makes it first if it does not exist. Processes that call this at
/// once get one ring. `file_of` returns the file that was attached to.
///
/// # Errors
/// [`OpenError::Differs`] if the ring exists with other options; [`OpenError::Owner`] and [`OpenError::Mode`], see
/// [`RingOptions::any_owner`]; [`OpenError::Attach`] as `attach` returns it; [`OpenError::Create`].
pub fn open_or_create<T>(
    location: impl Into<Location>,
    options: &RingOptions,
    mut attach: impl FnMut(&Location) -> Result<T, AttachError>,
    file_of: impl FnOnce(&T) -> RingFile,
) -> Result<T, OpenError> {
    let location = location.into();
    options.check()?;
    options.expect_owner(&location)?;
    let mut tries = TRIES;
    let attached = loop {
        let found = RingFile::open(location.clone(), FileAccess::Read)
            .map_err(OpenError::Attach)
            // Before anything is changed in a ring that is not the one asked for.
            .and_then(|ring| options.agree_with(&ring))
            .and_then(|()| attach(&location).map_err(OpenError::Attach));
        let created = match found {
            Ok(attached) => break attached,
            Err(OpenError::Attach(AttachError::NotFound { .. })) => create(&location, options),
            Err(OpenError::Attach(AttachError::Removed { .. })) => Ok(()),
            Err(error) => return Err(error),
        };
        tries -= 1;
        match created {
            Ok(()) if tries > 0 => {}
            // Another process was quicker.
            Err(CreateError::Exists { .. }) if tries > 0 => {}
            Ok(()) => return Err(AttachError::Removed { location }.into()),
            Err(error) => return Err(error.into()),
        }
    };
    // It may be another one, made in between.
    options.agree_with(&file_of(&attached))?;
    Ok(attached)
}

/// Makes a ring if it does not exist. Attaches no process to it.
///
/// # Errors
/// [`OpenError::Differs`] if the ring exists with other options; [`OpenError::Attach`] if it is of
/// the other kind, or no ring; [`OpenError::Create`].
pub fn create_if_missing(
    location: impl Into<Location>,
    options: &RingOptions,
) -> Result<(), OpenError> {
    let open = |location: &Location| RingFile::open(location.clone(), FileAccess::Read);
    open_or_create(location, options, open, RingFile::clone).map(drop)
}

impl RingOptions {
    /// Refuses a file or directory at a location, and each symbolic link on the way from its name, if the owner is neither root
    /// nor this process's user. The directories on the way are the caller's choice.
    ///
    /// # Errors
    /// [`OpenError::Owner`].
    #[doc(hidden)] // for other crates of perfring
    pub fn expect_owner(&self, location: &Location) -> Result<(), OpenError> {
        let mut path = location.path().to_owned();
        for _ in 0..LINKS {
            // If there is no file, or the query fails, the next steps report that.
            let Ok(found) = fs::symlink_metadata(&path) else { return Ok(()) };
            self.trust_owner(&path.as_path().into(), found.is_symlink(), found.uid())?;
            let Ok(next) = fs::read_link(&path) else { return Ok(()) };
            path = path.parent().unwrap_or(Path::new("")).join(next);
        }
        Ok(()) // the system follows no more of them either
    }

    /// Returns whether this user is neither root nor this process's.
    #[doc(hidden)] // for other crates of perfring
    #[must_use]
    pub fn is_foreign(owner: u32) -> bool {
        owner != 0 && owner != geteuid().as_raw()
    }

    fn trust_owner(&self, location: &Location, link: bool, owner: u32) -> Result<(), OpenError> {
        match !self.any_owner && Self::is_foreign(owner) {
            true => Err(OpenError::Owner { location: location.clone(), link, owner }),
            false => Ok(()),
        }
    }

    /// Refuses a ring that differs from these options. Its mode may let fewer users in.
    ///
    /// # Errors
    /// [`OpenError::Differs`], [`OpenError::Owner`], [`OpenError::Mode`], [`AttachError::Kind`].
    #[doc(hidden)] // for other crates of perfring
    pub fn agree_with(&self, ring: &RingFile) -> Result<(), OpenError> {
        let (location, layout, (owner, mode)) = (&ring.location, &ring.layout, ring.owner()?);
        self.trust_owner(location, false, owner)?;
        if !self.any_owner && mode & OTHERS & !self.mode != 0 {
            let (location, wanted, found) = (location.clone(), self.mode, mode & 0o777);
            return Err(OpenError::Mode { location, wanted, found });
        }
        if layout.producers != self.producers {
            let (location, producers) = (location.clone(), layout.producers);
            return Err(AttachError::Kind { location, producers }.into());
        }
        match self.difference(layout) {
            None => Ok(()),
            Some((option, wanted, found)) => {
                Err(OpenError::Differs { location: location.clone(), option, wanted, found })
            }
        }
    }

    /// Returns whether these options make a ring of this layout. The mode, and options that the ring
    /// ignores, are not compared.
    #[doc(hidden)] // for `set`
    #[must_use]
    pub fn makes(&self, layout: &Layout) -> bool {
        layout.producers == self.producers && self.difference(layout).is_none()
    }

    /// Returns the first option that differs from a layout of the same kind of producers, and both its values.
    fn difference(&self, layout: &Layout) -> Option<(&'static str, String, String)> {
        let types_size = self.types_size.next_multiple_of(layout.page_size.into());
        let slots = match self.producers {
            Producers::One => layout.slots,
            Producers::Many | Producers::Cpu => self.slots,
        };
        let cpu = if self.producers == Producers::Cpu { self.cpu } else { 0 };
        let evict = match self.policy {
            Policy::Drop => layout.evict,
            Policy::Overwrite => self.evict,
        };
        macro_rules! compared {
            ($($option:ident: $wanted:expr, $found:expr;)+) => {
                [$((stringify!($option), format!("{:?}", $wanted), format!("{:?}", $found))),+]
            };
        }
        let metrics_size = self.metrics_size.next_multiple_of(layout.page_size.into());
        let RingOptions { size, policy, report, time, sample_id, aux_size, consumers, .. } = *self;
        let compared = compared! {
            size: size, layout.data_size;
            policy: policy, layout.policy;
            evict: evict, layout.evict;
            report: report, layout.report;
            slots: slots, layout.slots;
            cpu: cpu, layout.cpu;
            types_size: types_size, layout.types_size;
            time: time, layout.time;
            sample_id: sample_id, layout.sample_id;
            aux_size: aux_size, layout.aux_size;
            consumers: consumers, layout.consumers;
            metrics_size: metrics_size, layout.metrics_size;
        };
        compared.into_iter().find(|(_, wanted, found)| wanted != found)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_that_vanishes_or_changes_meanwhile_is_made_again_or_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ring");
        let options = RingOptions { types_size: 0, ..RingOptions::default() };
        let attach = |location: &Location| RingFile::open(location.clone(), FileAccess::Write);

        // Removed each time between the check and the attachment, until it stays.
        let mut calls = 0;
        let vanishing = |location: &Location| {
            calls += 1;
            if calls <= 5 {
                fs::remove_file(location.path()).unwrap();
            }
            attach(location)
        };
        let ring = open_or_create(&path, &options, vanishing, RingFile::clone).unwrap();
        assert_eq!(ring.layout.uuid, attach(&Location::from(&path)).unwrap().layout.uuid);
        assert_eq!(calls, 6);

        // Another ring replaces it.
        let larger = RingOptions { size: 1 << 21, ..options };
        let replaced = |location: &Location| {
            fs::remove_file(location.path()).unwrap();
            create(location, &larger).unwrap();
            attach(location)
        };
        let differs = open_or_create(&path, &options, replaced, RingFile::clone).unwrap_err();
        assert!(matches!(differs, OpenError::Differs { option: "size", .. }), "{differs}");

        // One that never stays is given up.
        let never = |location: &Location| {
            fs::remove_file(location.path()).unwrap();
            attach(location)
        };
        let removed = open_or_create(&path, &larger, never, RingFile::clone).unwrap_err();
        assert!(matches!(removed, OpenError::Attach(AttachError::Removed { .. })), "{removed}");
    }
}
