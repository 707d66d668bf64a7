//! perfring's calls that publish one record of a payload that exists: what a program calls that
//! logs an event here and an event there.

use super::perfring::{PATIENCE, Reader, Way, can, error, refusal, taken};
use crate::contestant::{Can, Fill, Sender, Setup};
use crate::error::Result;
use crate::payload::Pool;
use bytemuck::{Pod, Zeroable};
use perfring_producer::types::{Encoding, PodRecord, Record, Schema};
use perfring_producer::{Producer, RecordType, ReserveError};
use std::marker::PhantomData;
use std::ops::Range;
use std::path::Path;

/// One of the calls.
pub trait Call: 'static {
    /// Whether it refuses a record at once where there is no room, and counts the refusal.
    const REFUSES: bool;

    /// Publishes a record of this payload.
    fn publish<const N: usize>(
        producer: &mut Producer,
        payload: &[u8; N],
    ) -> Result<(), ReserveError>;

    /// Publishes a record, and waits for room.
    ///
    /// # Errors
    /// There was no room for [`PATIENCE`].
    #[inline(always)]
    fn send<const N: usize>(
        producer: &mut Producer,
        payload: &[u8; N],
    ) -> Result<(), ReserveError> {
        match Self::publish(producer, payload) {
            Err(ReserveError::Full) if Self::REFUSES => again(producer, payload),
            other => other,
        }
    }
}

/// Publishes what was refused.
#[cold]
#[inline(never)]
fn again(producer: &mut Producer, payload: &[u8]) -> Result<(), ReserveError> {
    producer.publish_timeout(RecordType::BYTES, payload, PATIENCE)
}

/// `publish`; where it refuses, the same record by `publish_timeout`.
pub struct Publish;
/// `publish_timeout`.
pub struct PublishTimeout;
/// `reserve_timeout`, a copy, and `commit`.
pub struct ReserveTimeout;
/// `publish_pod`, in the same way as [`Publish`].
pub struct PublishPod;

macro_rules! call {
    (
        $call:ident, $refuses:literal,
        |$producer:ident, $payload:ident| $body:expr
    ) => {
        impl Call for $call {
            const REFUSES: bool = $refuses;

            #[inline(always)]
            fn publish<const N: usize>(
                $producer: &mut Producer,
                $payload: &[u8; N],
            ) -> Result<(), ReserveError> {
                $body
            }
        }
    };
}

call!(Publish, true, |producer, payload| producer.publish(payload));
call!(PublishTimeout, false, |producer, payload| {
    producer.publish_timeout(RecordType::BYTES, payload, PATIENCE)
});
call!(ReserveTimeout, false, |producer, payload| {
    let mut record = producer.reserve_timeout(RecordType::BYTES, N, PATIENCE)?;
    record.copy_from_slice(payload);
    record.commit();
    Ok(())
});
call!(PublishPod, true, |producer, payload| {
    producer.publish_pod(bytemuck::cast_ref::<_, Event<N>>(payload))
});

/// A plain struct.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(transparent)]
struct Event<const N: usize>([u8; N]);

impl<const N: usize> Record for Event<N> {
    const SCHEMA: Schema<'static> =
        Schema::new("bench.Event", Encoding::Pod).with_fields(N as u32, &[]).with_hashed_id();
}

impl<const N: usize> PodRecord for Event<N> {}

/// A payload that exists, by this call. With `DEFAULT`, to a reader that has not chosen how to
/// wait, for latencies.
pub struct Calls<C, const DEFAULT: bool = false>(PhantomData<fn() -> C>);

/// Its writing end.
pub struct Caller<C>(Producer, PhantomData<fn() -> C>);

impl<C: Call, const DEFAULT: bool> Way for Calls<C, DEFAULT> {
    type Sender = Caller<C>;
    type Receiver = Reader;

    fn how(setup: &Setup) -> String {
        let again = match C::REFUSES && !setup.overwrite {
            true => "; what it refuses goes by publish_timeout, and counts as refused",
            false => "",
        };
        let reader = if DEFAULT { "; the reader has chosen no way to wait" } else { "" };
        format!("one producer, one call a record{again}{reader}")
    }

    fn can() -> Can {
        let all = can();
        Can {
            refuses: if C::REFUSES { all.refuses } else { Err("it waits for no time at all") },
            but_latency: if DEFAULT { Err("elsewhere all readers are so") } else { Ok(()) },
            ..all
        }
    }

    fn sender(path: &Path, _: &Setup, _: usize) -> Result<Caller<C>> {
        Producer::attach(path).map(|producer| Caller(producer, PhantomData)).map_err(error)
    }

    fn receiver(path: &Path, setup: &Setup, _: usize) -> Result<Reader> {
        let pace = (!DEFAULT).then_some(setup.pace);
        Ok(Reader::open_paced(path, setup, pace)?.counting(!C::REFUSES || setup.overwrite))
    }
}

impl<C: Call> Sender for Caller<C> {
    #[inline(always)]
    fn send<const N: usize>(&mut self, numbers: Range<u64>, mut fill: impl Fill<N>) -> Result<()> {
        for number in numbers {
            let mut payload = [0; N];
            fill(&mut payload, number);
            C::send(&mut self.0, &payload).map_err(refusal)?;
        }
        Ok(())
    }

    #[inline(always)]
    fn send_from<const N: usize>(&mut self, mut numbers: Range<u64>, pool: &Pool<N>) -> Result<()> {
        numbers.try_for_each(|number| C::send(&mut self.0, pool.get(number))).map_err(refusal)
    }

    #[inline(always)]
    fn offer<const N: usize>(&mut self, number: u64, mut fill: impl Fill<N>) -> Result<bool> {
        let mut payload = [0; N];
        fill(&mut payload, number);
        taken(C::publish(&mut self.0, &payload))
    }
}
