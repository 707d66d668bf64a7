//! The metrics area: the values of instruments, as words that their processes update and readers sample.
//!
//! A block has the values of one instrument in one process. Blocks are appended, and stay: the counts of a process remain after
//! its death. `proto/ABI.md`, "The metrics area", has the layout.
//!
//! The orderings U and V are in the crate's table. Nothing else is ordered: two counters that a process updates one after the other may be sampled in between.

mod block;
mod buckets;
mod cell;
mod kind;
mod writer;

pub use block::{AreaBlock, BadArea, BadPart, BlockOwner, MetricValue, MetricsArea, MetricsFill};
pub use buckets::{Bucket, Buckets};
pub use cell::{add, add_f64, adjust, measure, raise, set};
pub use kind::MetricKind;
pub use writer::{BlockPlace, MetricsWriter, NewBlock, NoBlock};
