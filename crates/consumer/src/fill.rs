//! How full a ring is, and whether a producer may add to it.

use crate::consumer::Consumer;
use crate::cursor::either;
use crate::observer::Observer;
use crate::stat::Fill;
use perfring_abi::Producers;
use perfring_ring::{OwnerInfo, Seat};
use perfring_shm::{AttachError, SeatId, named, slots};

impl Consumer {
    /// Returns how full the ring is now.
    #[must_use]
    pub fn fill(&self) -> Fill {
        let held = either!(&self.cursor, window => window.reader().held(), _ => 0);
        let (head, size) = (self.cursor.mapping().head(), self.layout().data_size);
        Fill { unread: head.saturating_sub(self.position()).min(size), held, size }
    }

    /// Returns whether more records may come: a producer is attached, or has left a reservation
    /// open that [`AdvancedConsumer::tend`](crate::advanced::AdvancedConsumer::tend) has not ended
    /// yet.
    ///
    /// # Errors
    /// [`AttachError::Io`] where the file system has no locks.
    pub fn has_producer(&self) -> Result<bool, AttachError> {
        // Records behind a dead producer's reservation are published once it is recovered: see `tend`.
        let mapping = self.cursor.mapping();
        Ok(mapping.file().has_producer()? || mapping.lags())
    }
}

impl Observer {
    /// Returns how full the ring is now. With a whole ring unread, an observer of an overwrite ring
    /// is lapped.
    #[must_use]
    pub fn fill(&self) -> Fill {
        let (head, size) = (self.window.mapping().head(), self.layout().data_size);
        Fill {
            unread: head.saturating_sub(self.window.observer().resume_point().pos()).min(size),
            held: 0,
            size,
        }
    }

    /// Returns the position before which a drop ring is free: its slowest consumer has released everything there. A named
    /// consumer counts at once, a producer moves the ring's tail later. In an overwrite ring, the position of the oldest
    /// record.
    ///
    /// ```
    /// # use perfring_consumer::{Observer, Start};
    /// # use perfring_producer::{Options, Producer};
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("ring");
    /// # let mut producer = Producer::create(&path, &Options::default())?;
    /// let observer = Observer::attach(&path, Start::Latest)?;
    /// producer.publish(b"a record")?;
    /// assert!(observer.released()? < observer.head(), "the record is unread");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`AttachError`]: the seats of named consumers cannot be read.
    pub fn released(&self) -> Result<u64, AttachError> {
        let mapping = self.window.mapping();
        let tail = mapping.raw().tail();
        if self.layout().consumers == 0 {
            return Ok(tail);
        }
        let seats = named(mapping.file(), None)?.into_iter().map(|seat| seat.figures);
        let slowest = seats.filter(|of| of.waited_for).map(|of| of.totals.pos).min();
        Ok(slowest.unwrap_or(0).max(tail))
    }

    /// Returns whether a producer is attached, so that more records may come.
    ///
    /// # Errors
    /// [`AttachError::Io`] where the file system has no locks.
    pub fn has_producer(&self) -> Result<bool, AttachError> {
        self.window.mapping().file().has_producer()
    }

    /// Returns the producers that are attached and alive, by the kernel's locks.
    ///
    /// ```
    /// # use perfring_consumer::{Observer, Start};
    /// # use perfring_producer::{Options, Producer};
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("ring");
    /// let producer = Producer::create(&path, &Options::default())?;
    /// let observer = Observer::attach(&path, Start::Latest)?;
    /// assert_eq!(observer.live_producers()?[0].pid, std::process::id());
    /// drop(producer);
    /// assert!(observer.live_producers()?.is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`AttachError::Io`] where the file system has no locks.
    pub fn live_producers(&self) -> Result<Vec<OwnerInfo>, AttachError> {
        let ring = self.window.mapping().file();
        fn alive<F>(seat: Seat<F>) -> Option<OwnerInfo> {
            seat.is_alive().then_some(seat.owner)
        }
        Ok(match ring.layout().producers {
            Producers::One => alive(ring.seat(SeatId::Producer(0))?).into_iter().collect(),
            Producers::Many | Producers::Cpu => {
                slots(ring)?.producers.into_iter().filter_map(alive).collect()
            }
        })
    }

    /// Returns the owner info of the producer's seat: of the present producer, or of the last one. In a shared ring, that
    /// of its first slot.
    #[must_use]
    pub fn producer(&self) -> OwnerInfo {
        self.window.mapping().producer()
    }
}
