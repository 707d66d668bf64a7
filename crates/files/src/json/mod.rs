//! JSON lines: an object for each record and each loss.
//!
//! The members are those of `perfring dump --format json`, preceded by those that identify the
//! ring:
//!
//! ```json
//! {"time":"2026-07-01T12:00:00.000000001Z","ring":"shop","uuid":"…","epoch":1,"pos":64,"type":5000,"type_name":"demo.Tick","len":8,"time_ns":81,"time_unix_ns":1782907200000000001,"fields":{"count":7}}
//! {"ring":"shop","uuid":"…","epoch":1,"lost":{"pos":128,"records":3,"bytes":96,"cause":"full","sum":7}}
//! ```
//!
//! | member | |
//! |---|---|
//! | `time`, `time_unix_ns` | the wall-clock time of the timestamp, in UTC and in ns since 1970; missing if it is unknown |
//! | `time_ns` | the timestamp: ns of the machine's boot clock; missing in a ring without time |
//! | `pid`, `tid` | the thread that wrote it, in its own pid namespace; missing in a ring whose records do not say |
//! | `ring`, `uuid`, `epoch` | the ring's name, its own id, and how many producers had attached when it was opened |
//! | `pos` | with `uuid` the record's key: identifies a line that is received twice |
//! | `type`, `type_name`, `len` | the record's type, by number and, if the ring has it, by name; bytes of the payload |
//! | `class` | the type's class: `log`, `span_start`, `span_end`, `gauge`, `sum`, `histogram` or `resource`; missing if it has none |
//! | `late_ns` | how much the record arrived too late for the order of time; missing if it did not |
//! | `fields`, `value` | its value by its type: an object, or something else |
//! | `text`, `base64` | instead of these the payload, if it has no type, or a type without fields |
//! | `bad` | why the payload does not match its type |
//! | `lost` | a loss before `pos`: `records`, their `bytes`, and the `cause`. `records` is `null` if the number is unknown, as of what the kernel overwrites. `sum` is how many the ring's producers have lost by this cause since it was created, these included; missing if that is unknown. So the losses of two lines that overlap came twice. `at_end` is `true` if the place of the loss is unknown: no marker reported it when everything before `pos` was read. Otherwise it is missing |
//!
//! jq and JavaScript round integers beyond 2^53, and `time_unix_ns` is one: see [`Options::integers`].

mod encode;
mod file;
mod lines;
mod packed;

pub use encode::{Integers, class_of, encode};
pub use file::Options;
pub use lines::{JsonLines, Lines};
