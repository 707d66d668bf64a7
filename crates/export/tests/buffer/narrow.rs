//! An output whose receiver is the test.

use perfring_export::{Event, Figures, Loss, Output, OutputError, Took, What};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Instant;

/// An output with room for some events, which the test shares.
#[derive(Clone, Default)]
pub(super) struct Narrow(Rc<RefCell<Inner>>);

#[derive(Default)]
struct Inner {
    room: usize,
    /// Records and other events, as they came.
    came: Vec<String>,
    /// Records with a type.
    typed: u64,
    /// Losses, with the ids of their rings.
    lost: Vec<([u8; 16], Loss)>,
    held: Vec<u64>,
    last: u64,
}

impl Output for Narrow {
    fn take(&mut self, event: &Event<'_>) -> Result<Took, OutputError> {
        let mut inner = self.0.borrow_mut();
        if inner.room == 0 {
            return Ok(Took::Busy);
        }
        inner.room -= 1;
        assert!(event.seq > inner.last);
        inner.last = event.seq;
        inner.held.push(event.seq);
        let is_typed = matches!(&event.what, What::Record(record) if record.kind_of().is_some());
        inner.typed += u64::from(is_typed);
        if let What::Lost(loss) = event.what {
            inner.lost.push((event.origin.uuid, loss));
        }
        inner.came.push(match &event.what {
            What::Record(record) => format!("{} {}", event.origin.name, record.pos / 272),
            other => format!("{} {other:?}", event.origin.name),
        });
        Ok(Took::Yes)
    }

    fn flush(&mut self) -> Result<(), OutputError> {
        Ok(())
    }

    fn unsettled(&mut self) -> Option<u64> {
        self.0.borrow().held.first().copied()
    }

    fn close(&mut self, _: Instant) -> Result<(), OutputError> {
        Ok(())
    }

    fn figures(&self) -> Figures {
        Figures::default()
    }
}

impl Narrow {
    /// Gives it room for so many events.
    pub(super) fn set(&self, room: usize) {
        self.0.borrow_mut().room = room;
    }

    /// All that came is delivered.
    pub(super) fn deliver(&self) {
        self.0.borrow_mut().held.clear();
    }

    /// The oldest is delivered.
    pub(super) fn deliver_one(&self) {
        let held = &mut self.0.borrow_mut().held;
        held.drain(..1.min(held.len()));
    }

    /// Returns how many records had a type.
    pub(super) fn typed(&self) -> u64 {
        self.0.borrow().typed
    }

    /// Returns which losses came, with the ids of their rings.
    pub(super) fn lost(&self) -> Vec<([u8; 16], Loss)> {
        self.0.borrow().lost.clone()
    }

    /// Returns what came.
    pub(super) fn came(&self) -> Vec<String> {
        self.0.borrow().came.clone()
    }
}
