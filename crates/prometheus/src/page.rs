//! A page in any format.

use super::proto;
use super::text::{self, Format, Labels, Sort};
use perfring_events::signal::{Buckets, Exponential};

/// A page that is being written.
pub(super) enum Page {
    Text(text::Page),
    Protobuf(proto::Page),
}

impl Page {
    pub(super) fn new(format: Format) -> Self {
        match format {
            Format::Protobuf => Page::Protobuf(proto::Page::default()),
            format => Page::Text(text::Page::new(format)),
        }
    }

    /// Starts a family: all its samples follow. `name` is that of a counter's samples, with
    /// `_total`.
    pub(super) fn family(&mut self, name: &str, sort: Sort, help: &str) {
        match self {
            Page::Text(page) => page.family(name, sort, help),
            Page::Protobuf(page) => page.family(name, sort, help),
        }
    }

    /// Writes a counter or a gauge of the family.
    pub(super) fn sample(&mut self, name: &str, labels: &Labels, value: f64) {
        match self {
            Page::Text(page) => page.sample(name, labels, None, value),
            Page::Protobuf(page) => page.sample(labels, value),
        }
    }

    /// Writes a histogram of the family; `native` is the same with exponential buckets.
    pub(super) fn histogram(
        &mut self,
        name: &str,
        labels: &Labels,
        explicit: &Buckets,
        native: Option<&Exponential>,
    ) {
        match self {
            Page::Text(page) => page.histogram(name, labels, explicit),
            Page::Protobuf(page) => page.histogram(labels, explicit, native),
        }
    }

    pub(super) fn finish(self) -> Vec<u8> {
        match self {
            Page::Text(page) => page.finish().into_bytes(),
            Page::Protobuf(page) => page.finish(),
        }
    }
}
