//! What a look into a ring's file tells, that maps it for no longer.

use crate::file::error::{AttachError, Role};
use crate::file::open::{Place, RingFile};
use crate::file::peers::is_dead;
use crate::map::plain::Plain;
use crate::sys::ofd_lock::ByteLock;
use perfring_ring::{Anchors, Totals, Who};

impl RingFile {
    /// Who holds the place, or held it last.
    ///
    /// # Errors
    /// [`AttachError::Io`] if the file cannot be mapped.
    pub fn holder(&self, place: Place) -> Result<Who, AttachError> {
        let map = Plain::map(self)?;
        map.sure(self, map.holder(place))
    }

    /// The books; `None` if they are damaged.
    ///
    /// # Errors
    /// [`AttachError::Io`] if the file cannot be mapped.
    pub fn totals(&self) -> Result<Option<Totals>, AttachError> {
        let map = Plain::map(self)?;
        map.sure(self, Totals::of(map.shared(), self.layout.policy, is_dead(self)))
    }

    /// The wall-clock time of the newest record's stamp, ns since 1970: `None` in a ring without time,
    /// or without records so far. Of a busy ring perhaps that of a record some time before.
    ///
    /// # Errors
    /// [`AttachError::Io`] if the file cannot be mapped.
    pub fn newest_wall(&self) -> Result<Option<u64>, AttachError> {
        if !self.layout.time {
            return Ok(None);
        }
        let map = Plain::map(self)?;
        map.sure(self, newest_wall(&map))
    }

    /// The last sign of life that the file has kept, ns since 1970: when it was made, when somebody
    /// last attached, the stamp of its newest record.
    ///
    /// # Errors
    /// [`AttachError::Io`] if the file cannot be mapped.
    pub fn last_sign_of_life(&self) -> Result<u64, AttachError> {
        let map = Plain::map(self)?;
        let places = (0..self.layout.slots).map(Place::Producer).chain([Place::Consumer]);
        let attached = places.map(|place| map.holder(place).attached_ns).max();
        let stamped = if self.layout.time { newest_wall(&map) } else { None };
        map.sure(self, self.layout.created_ns.max(attached.unwrap_or(0)).max(stamped.unwrap_or(0)))
    }

    /// Takes a place, or says who has it.
    pub(crate) fn take(&self, place: Place, role: Role) -> Result<ByteLock, AttachError> {
        match self.try_take(place)? {
            Some(lock) => Ok(lock),
            None => Err(AttachError::Busy {
                home: self.home.clone(),
                role,
                holder: self.holder(place)?,
            }),
        }
    }
}

fn newest_wall(map: &Plain) -> Option<u64> {
    let ring = map.ring();
    match perfring_ring::newest_stamp(ring) {
        0 => None,
        stamp => Anchors::read(ring).wall(ring.head(), stamp),
    }
}
