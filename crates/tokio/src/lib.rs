//! perfring's readers under tokio: a task waits for records as it waits for a socket.
//!
//! Most users depend on `perfring` with the feature `tokio`, where this crate is `perfring::tokio`.
//!
//! | | [`Consumer`] | [`Observer`] |
//! |---|---|---|
//! | wraps | [`perfring_consumer::Consumer`] | [`perfring_consumer::Observer`] |
//! | is woken | by the producer, through a descriptor of the runtime's `epoll` | never: it looks, once in 10 ms when nothing comes |
//! | in place | `read().await`, [`Consumer::ready`] and then all that a consumer can do | `read().await`: a copy anyway |
//! | as a [`Stream`](futures_core::Stream) | of [`OwnedItem`] | of [`OwnedItem`] |
//!
//! ```
//! use futures_util::StreamExt;
//! use perfring_tokio::{Consumer, Item, OwnedItem};
//! # use perfring_producer::{Options, Producer};
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let dir = tempfile::tempdir()?;
//! # let path = dir.path().join("ticks");
//! # let mut producer = Producer::create(&path, &Options::default())?;
//! # for word in [&b"one"[..], b"two", b"three"] { producer.publish(word)?; }
//! let mut consumer = Consumer::attach(&path)?;
//!
//! // Borrowed from the ring.
//! if let Some(Item::Record(record)) = consumer.read().await? {
//!     assert_eq!(record.bytes, b"one");
//! }
//! // Owned: for channels, and all that streams can do.
//! if let Some(OwnedItem::Record(record)) = consumer.next().await.transpose()? {
//!     assert_eq!(record.bytes(), b"two");
//! }
//! // All that is there, in place, at the speed of the ring.
//! if consumer.ready().await? {
//!     consumer.get_mut().drain(|item| println!("{item:?}"))?;
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Nothing is lost with a future or a stream that is dropped, as `select!` does: an item is taken from
//! the ring in the very step that returns it. No ring has a thread. A task that always finds something
//! lets others run now and then (tokio's cooperative budget).
//!
//! # Forwarding
//!
//! By default a record counts as read at the next call that reads, whatever became of it. The obvious
//! forwarder therefore loses a record with each connection:
//!
//! ```
//! # use perfring_producer::{Options, Producer};
//! # use perfring_tokio::{Consumer, Item};
//! # use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
//! # use std::time::Duration;
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let dir = tempfile::tempdir()?;
//! # let path = dir.path().join("ring");
//! # let mut producer = Producer::create(&path, &Options::default())?;
//! # for word in [&b"one"[..], b"two", b"three"] { producer.publish(word)?; }
//! # drop(producer);
//! # let consumer = Consumer::attach(&path)?;
//! # let mut consumer = consumer.end_with_producer(Duration::from_millis(1));
//! # let (mut socket, mut far_end) = (duplex(1).0, None); // the far end is gone
//! # let mut connect = || { let (near, far) = duplex(100); far_end = Some(far); near };
//! while let Some(item) = consumer.read().await? {
//!     let Item::Record(record) = item else { continue }; // a loss otherwise
//!     if socket.write_all(record.bytes).await.is_err() {
//!         socket = connect(); // wrong: the next `read` counts this record as read
//!     }
//! }
//! # drop(socket);
//! # let mut arrived = String::new();
//! # far_end.unwrap().read_to_string(&mut arrived).await?;
//! # assert_eq!(arrived, "twothree");
//! # Ok(())
//! # }
//! ```
//!
//! Cancel-safety does not help: a future that is dropped while it writes has read its record already. Three
//! rules make a forwarder that delivers each record at least once:
//!
//! 1. Attach with [`Acknowledge::Explicit`](perfring_consumer::Acknowledge::Explicit), and call
//!    [`Consumer::acknowledge`] once a record has arrived. Unacknowledged records are returned again to the
//!    next consumer, also after `kill -9`.
//! 2. This consumer does not return it again, and `acknowledge` includes everything returned so far. After a
//!    failure, send the record again, or drop the consumer and attach again.
//! 3. A write that succeeds says only that the kernel has the bytes; a reset discards them. Acknowledge when
//!    the peer has confirmed the record.
//!
//! The example `tokio_forwarder` of the crate `perfring` is such a program.
//!
//! # Ending
//!
//! Readers do not end by themselves: another producer may come. [`Consumer::end_with_producer`] makes
//! one that does. Whatever waits must be polled in a runtime with I/O enabled, and an observer's with
//! time.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

mod consumer;
mod error;
mod found;
mod observer;

pub use consumer::Consumer;
pub use error::Error;
pub use observer::Observer;

pub use perfring_consumer::{
    AttachError, Item, Location, Lost, OwnedItem, OwnedRecord, ReadError, RecordRef,
    poll::{PollBy, PollError},
};
