//! Passing everything that is there to a closure.

use crate::consumer::{Consumer, read_in_place};
use crate::cursor::Cursor;
use crate::item::{Item, RecordRef};
use perfring_ring::{Count, ReadError};
use perfring_shm::ReadWindow;

impl Consumer {
    /// Passes all items that are present now to `visit`, and returns their number. For small
    /// records this takes a quarter less time than a loop of [`Consumer::read`], because the loop
    /// keeps its position in registers. It polls the ring once, so it ends even if a producer keeps
    /// publishing.
    ///
    /// ```
    /// # use perfring_consumer::{Consumer, Item};
    /// # use perfring_producer::{Options, Producer};
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("ring");
    /// # let mut producer = Producer::create(&path, &Options::default())?;
    /// for n in 0..100u64 {
    ///     producer.publish(&n.to_le_bytes())?;
    /// }
    /// let mut consumer = Consumer::attach(&path)?;
    /// let mut bytes = 0;
    /// let items = consumer.drain(|item| match item {
    ///     Item::Record(record) => bytes += record.bytes.len(), // in the ring itself
    ///     Item::Lost(lost) => eprintln!("{} lost", lost.records),
    /// })?;
    /// assert_eq!((items, bytes), (100, 800));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// Each item counts as read when `visit` returns, and its space goes back to the producer as
    /// [`Consumer::read`] describes. If `visit` panics, some of the items that it has seen are
    /// returned again.
    ///
    /// # Errors
    /// [`ReadError`]; items that were visited before count as read.
    #[inline(always)]
    pub fn drain(&mut self, visit: impl FnMut(Item<'_>)) -> Result<u64, ReadError> {
        let (wait_strategy, distance) = (self.wait_strategy, &mut self.distance);
        if let Cursor::InPlace(window) = &mut self.cursor {
            return drain_in_place(window, |passed| distance.keep(wait_strategy, passed), visit);
        }
        self.drain_copied(visit)
    }

    fn drain_copied(&mut self, mut visit: impl FnMut(Item<'_>)) -> Result<u64, ReadError> {
        // Where the one poll found the head.
        let (mut count, mut end) = (0, None);
        loop {
            if self.cursor.must_poll() {
                let here = self.cursor.resume_point();
                if end.is_some_and(|end| here.pos() >= end) {
                    while let Some(lost) = self.cursor.lost() {
                        visit(Item::Lost(lost));
                        count += 1;
                    }
                    return Ok(count);
                }
                if end.is_none() {
                    self.distance.keep(self.wait_strategy, here.before());
                    end = Some(self.cursor.mapping().head());
                }
            }
            let item = match &mut self.cursor {
                Cursor::InPlace(window) => read_in_place(window),
                Cursor::Guarded(guarded) => guarded.read(),
                Cursor::Saving(saving) => saving.read(),
            };
            match item {
                Ok(Some(item)) => visit(item),
                Ok(None) => return Ok(count),
                Err(ReadError::Removed) if count > 0 => return Ok(count),
                Err(error) => return Err(error),
            }
            count += 1;
        }
    }
}

#[inline(always)]
fn drain_in_place(
    window: &mut ReadWindow,
    before_poll: impl FnOnce(Count),
    mut visit: impl FnMut(Item<'_>),
) -> Result<u64, ReadError> {
    // Where the one poll found the head.
    let (mut count, mut end) = (0, 0);
    let mut before_poll = Some(before_poll);
    loop {
        if before_poll.is_none() && window.reader().cursor() >= end {
            while let Some(lost) = window.lost() {
                visit(Item::Lost(lost));
                count += 1;
            }
            return Ok(count);
        }
        if window.reader().known() == 0
            && let Some(before_poll) = before_poll.take()
        {
            end = window.poll_ahead(before_poll);
        }
        let visited = window.visit_known(|frame, bytes| {
            visit(Item::Record(RecordRef::new(frame, bytes)));
        });
        count += visited;
        if visited > 0 && window.reader().known() == 0 {
            continue; // to the one poll, or the end
        }
        match read_in_place(window) {
            Ok(Some(item)) => visit(item),
            Ok(None) => return Ok(count),
            // The next call returns it.
            Err(ReadError::Removed) if count > 0 => return Ok(count),
            Err(error) => return Err(error),
        }
        count += 1;
    }
}
