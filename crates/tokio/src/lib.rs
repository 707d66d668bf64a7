//! perfring's readers under tokio: a task waits for records as it waits for a socket.
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
//!     assert_eq!(record.bytes, b"two".as_slice());
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
//! Readers do not end by themselves: another producer may come. [`Consumer::end_with_producer`] makes
//! one that does. Whatever waits must be polled in a runtime with I/O enabled, and an observer's with
//! time.
#![forbid(unsafe_code)]

mod consumer;
mod error;
mod observer;
mod owned;

pub use consumer::Consumer;
pub use error::Error;
pub use observer::Observer;
pub use owned::{OwnedItem, OwnedRecord};
pub use perfring_consumer::{
    AttachError, Item, Location, Lost, PollBy, PollError, ReadError, Record,
};
