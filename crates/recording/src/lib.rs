//! Recordings: the records of many rings in one file, in the order in which they were read.
//!
//! `proto/RECORDING.md` has the format, byte by byte. A file only grows; it consists of blocks with
//! checksums, so a truncated one is readable up to the cut.
//!
//! ```
//! use perfring_recording::{Options, Reader, Recording};
//! use perfring_events::{Output, What};
//! # use perfring_events::{Event, Rec};
//! # use perfring_consumer::{Item, Snapshot};
//! # use perfring_producer::{Options as Shape, Producer};
//! # use std::time::Instant;
//! # let dir = tempfile::tempdir()?;
//! # let path = dir.path().join("ticks.perfrec");
//! # let ring = dir.path().join("ring");
//! # Producer::create(&ring, &Shape::default())?.publish(b"tick")?;
//! # let snapshot = Snapshot::take(&ring)?;
//! # let origin = perfring_events::Origin {
//! #     id: 0, name: "ring".into(), location: ring.display().to_string(),
//! #     uuid: snapshot.layout().uuid, epoch: 1, policy: Some(snapshot.layout().policy),
//! #     timed: false, data_size: snapshot.layout().data_size, producer: Default::default(),
//! #     types: Default::default(), anchors: *snapshot.anchors(),
//! #     ..Default::default()
//! # };
//! let options = Options { path: path.clone(), ..Options::default() };
//! let mut recording = Recording::open("recording", &options)?;
//! # let mut seq = 0;
//! # for item in &snapshot {
//! #     let Item::Record(record) = item? else { continue };
//! #     let what = What::Record(Rec::new(record, &origin));
//! #     let event = Event { seq, origin: &origin, what };
//! #     seq += 1;
//! recording.take(&event)?; // and so on
//! # }
//! recording.close(Instant::now())?;
//!
//! let mut reader = Reader::open(&path)?;
//! while let Some(event) = reader.next()? {
//!     if let What::Record(record) = &event.what {
//!         assert_eq!((event.origin.name.as_str(), record.bytes), ("ring", &b"tick"[..]));
//!     }
//! }
//! assert_eq!(reader.totals().records, 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

mod block;
mod buffer;
mod counts;
mod error;
mod frame;
mod head;
mod machine;
mod open;
mod over;
mod read;
mod rings;
mod snapshots;
mod target;
mod write;

pub use buffer::{BufferOptions, Buffered};
pub use error::{Missing, ReadError};
pub use head::is_recording;
pub use machine::Machine;
pub use open::{Existing, Options};
pub use read::Reader;
pub use snapshots::write_snapshots;
pub use write::Recording;
