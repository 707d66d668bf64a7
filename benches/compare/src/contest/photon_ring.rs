//! The crate photon-ring, between threads. Lossless: its `event_channel`, whose slots are written
//! and read in place and whose producer waits for its slowest reader. Otherwise its rings that
//! overwrite, of one producer (`channel`) or of many (`channel_mpmc`), out of which records are
//! copied.

use crate::CompareError;
use crate::contest::handed::{self, Held, Whose};
use crate::contest::slots::{Slot, aligned, slots};
use crate::contest::waits::{Polls, wait_until};
use crate::contestant::{About, Can, Contestant, Location, Receiver, Sender, Setup};
use perfring_bench::payload::sized;
use photon_ring::{
    EventPublisher, EventSubscriber, MpPublisher, Publisher, Subscribable, Subscriber,
    TryRecvError, channel, channel_mpmc, event_channel,
};
use std::any::Any;
use std::ops::Range;
use std::path::Path;

/// A ring of one producer, or, if `MANY`, of as many as there are senders.
pub struct PhotonRingOf<const MANY: bool>;
/// A ring of one producer.
pub type PhotonRing = PhotonRingOf<false>;
/// A ring of many producers.
pub type PhotonRingMany = PhotonRingOf<true>;

/// The kind of its rings.
#[derive(Clone, Copy)]
enum Ring {
    Events,
    One,
    Many,
}

impl Ring {
    fn of(many: bool, setup: &Setup) -> Self {
        match (many, setup.overwrite) {
            (true, _) => Ring::Many,
            (false, true) => Ring::One,
            (false, false) => Ring::Events,
        }
    }
}

/// An end, which is created for records of one length.
type End = Box<dyn Any + Send>;

fn of<T: Any>(end: &mut End) -> Result<&mut T, CompareError> {
    end.downcast_mut().ok_or(CompareError::Cannot("take records of another length"))
}

fn make_events<A: Copy + Send + Sync + 'static, const N: usize>(
    count: usize,
    receivers: usize,
    held: &Held,
) {
    let (publisher, readers) = event_channel(count, || Slot::<A, N>::EMPTY);
    for index in 0..receivers {
        held.lay::<End>(Whose::Receiver(index), Box::new(readers.subscribe()));
    }
    held.lay::<End>(Whose::Sender(0), Box::new(publisher));
}

fn lay_readers<const N: usize>(readers: &Subscribable<[u8; N]>, receivers: usize, held: &Held) {
    for index in 0..receivers {
        held.lay::<End>(Whose::Receiver(index), Box::new(readers.subscribe()));
    }
}

fn make<const N: usize>(ring: Ring, setup: &Setup, held: &Held) {
    let count = slots(setup.data_size, N) as usize;
    match ring {
        Ring::Events => aligned!(N, A => make_events::<A, N>(count, setup.receivers, held)),
        Ring::One => {
            let (publisher, readers) = channel::<[u8; N]>(count);
            lay_readers(&readers, setup.receivers, held);
            held.lay::<End>(Whose::Sender(0), Box::new(publisher));
        }
        Ring::Many => {
            let (publisher, readers) = channel_mpmc::<[u8; N]>(count);
            lay_readers(&readers, setup.receivers, held);
            for index in 0..setup.senders {
                held.lay::<End>(Whose::Sender(index), Box::new(publisher.clone()));
            }
        }
    }
}

impl<const MANY: bool> Contestant for PhotonRingOf<MANY> {
    type Sender = PhotonSender;
    type Receiver = PhotonReceiver;
    type Held = Held;

    fn can() -> Can {
        const OVERWRITES: &str = "its ring for many producers always overwrites";
        Can {
            payload: usize::MAX,
            lossless: if MANY { Err(OVERWRITES) } else { Ok(()) },
            senders: if MANY { Ok(()) } else { Err("one producer: `photon-ring many` has many") },
            overwrite: Ok(()),
            receivers: Ok(()),
            sleeping: Err("nothing wakes its readers: they poll"),
            refuses: if MANY { Err(OVERWRITES) } else { Ok(()) },
        }
    }

    fn about(setup: &Setup) -> About {
        let count = slots(setup.data_size, setup.payload);
        let how = match Ring::of(MANY, setup) {
            Ring::Events => "event_channel, try_publish and process in place",
            Ring::One => "channel, publish_with and try_recv by value",
            Ring::Many => "channel_mpmc, publish_with and try_recv by value",
        };
        About {
            name: if MANY { "photon-ring many" } else { "photon-ring" },
            version: "photon-ring 3.0".to_owned(),
            location: Location::Threads,
            settings: format!("{count} slots, {how}, atomic-slots"),
            waits: Polls::about(setup.pace),
        }
    }

    fn create(path: &Path, setup: &Setup) -> Result<Held, CompareError> {
        let (held, ring) = (Held::new(path), Ring::of(MANY, setup));
        sized!(setup.payload, N => {
            make::<N>(ring, setup, &held);
            Ok(())
        })?;
        Ok(held)
    }

    fn sender(path: &Path, setup: &Setup, index: usize) -> Result<PhotonSender, CompareError> {
        let end = handed::take(path, Whose::Sender(index))?;
        Ok(PhotonSender { end, ring: Ring::of(MANY, setup) })
    }

    fn receiver(path: &Path, setup: &Setup, index: usize) -> Result<PhotonReceiver, CompareError> {
        Ok(PhotonReceiver {
            end: handed::take(path, Whose::Receiver(index))?,
            in_place: !setup.overwrite && !MANY,
            most: slots(setup.data_size, setup.payload),
            lagged: 0,
            polls: Polls::new(setup.pace),
        })
    }
}

/// The writing end.
pub struct PhotonSender {
    end: End,
    ring: Ring,
}

#[inline(always)]
fn record<const N: usize>(fill: &mut impl FnMut(&mut [u8; N], u64), number: u64) -> [u8; N] {
    let mut record = [0; N];
    fill(&mut record, number);
    record
}

impl Sender for PhotonSender {
    #[inline(always)]
    fn send<const N: usize>(
        &mut self,
        numbers: Range<u64>,
        mut fill: impl FnMut(&mut [u8; N], u64),
    ) -> Result<(), CompareError> {
        match self.ring {
            Ring::Events => aligned!(N, A => {
                let end = of::<EventPublisher<Slot<A, N>>>(&mut self.end)?;
                for number in numbers {
                    wait_until(|| {
                        end.try_publish(|slot| fill(&mut slot.bytes, number)).then_some(())
                    });
                }
            }),
            Ring::One => {
                let end = of::<Publisher<[u8; N]>>(&mut self.end)?;
                numbers.for_each(|number| end.publish_with(|| record(&mut fill, number)));
            }
            Ring::Many => {
                let end = of::<MpPublisher<[u8; N]>>(&mut self.end)?;
                numbers.for_each(|number| end.publish_with(|| record(&mut fill, number)));
            }
        }
        Ok(())
    }

    fn offer<const N: usize>(
        &mut self,
        number: u64,
        mut fill: impl FnMut(&mut [u8; N], u64),
    ) -> Result<bool, CompareError> {
        if !matches!(self.ring, Ring::Events) {
            self.send(number..number + 1, fill)?;
            return Ok(true);
        }
        aligned!(N, A => {
            let end = of::<EventPublisher<Slot<A, N>>>(&mut self.end)?;
            Ok(end.try_publish(|slot| fill(&mut slot.bytes, number)))
        })
    }
}

/// The reading end.
pub struct PhotonReceiver {
    end: End,
    in_place: bool,
    /// The most records of one `drain`, so that it ends even while senders keep up.
    most: u64,
    lagged: u64,
    polls: Polls,
}

impl PhotonReceiver {
    #[inline(always)]
    fn show<const N: usize>(
        &mut self,
        most: u64,
        mut visit: impl FnMut(&[u8; N]),
    ) -> Result<u64, CompareError> {
        let mut count = 0;
        if self.in_place {
            aligned!(N, A => {
                let end = of::<EventSubscriber<Slot<A, N>>>(&mut self.end)?;
                while count < most && end.process(|slot| visit(&slot.bytes)).is_some() {
                    count += 1;
                }
            });
        } else {
            let end = of::<Subscriber<[u8; N]>>(&mut self.end)?;
            while count < most {
                match end.try_recv() {
                    Ok(record) => {
                        visit(&record);
                        count += 1;
                    }
                    // It continues with the oldest that is left.
                    Err(TryRecvError::Lagged { .. }) => {}
                    Err(TryRecvError::Empty) => break,
                }
            }
            self.lagged = end.total_lagged();
        }
        if count > 0 {
            self.polls.found();
        }
        Ok(count)
    }
}

impl Receiver for PhotonReceiver {
    #[inline(always)]
    fn drain<const N: usize>(&mut self, visit: impl FnMut(&[u8; N])) -> Result<u64, CompareError> {
        self.show(self.most, visit)
    }

    #[inline(always)]
    fn next<const N: usize>(&mut self, visit: impl FnMut(&[u8; N])) -> Result<bool, CompareError> {
        self.show(1, visit).map(|count| count > 0)
    }

    #[inline]
    fn wait(&mut self) {
        self.polls.wait();
    }

    fn reported_lost(&mut self) -> Option<u64> {
        (!self.in_place).then_some(self.lagged)
    }
}
