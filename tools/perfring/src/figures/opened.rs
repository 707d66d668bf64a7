//! One line about a ring that is opened, for `-v`.

use crate::args::show_size;
use perfring_consumer::{Layout, Location};

pub(crate) fn opened(location: &Location, layout: &Layout) -> String {
    let (size, policy) = (show_size(layout.data_size), layout.policy.name());
    let (producers, uuid) = (layout.producers.name(), uuid::Uuid::from_bytes(layout.uuid));
    let time = if layout.time { "with" } else { "without" };
    format!(
        "{location} is opened: {size}, {policy}, producers {producers}, {time} timestamps, {uuid}"
    )
}
