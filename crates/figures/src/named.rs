//! The named consumers of a ring, in words.

use crate::owner::{count, name};
use crate::process::State;
use perfring_consumer::{
    Location,
    stat::{ConsumerFigures, Seat, Stat},
};

/// Returns whether a consumer is attached, named or not.
pub fn is_read(stat: &Stat) -> bool {
    stat.consumer.is_alive() || stat.consumers.iter().any(|consumer| consumer.is_alive())
}

/// Returns the position of the slowest one that is waited for.
pub fn slowest_pos(stat: &Stat) -> Option<u64> {
    let waited_for = stat.consumers.iter().filter(|consumer| consumer.figures.waited_for);
    waited_for.map(|consumer| consumer.figures.totals.pos).min()
}

/// Returns the word for how it is.
pub fn state(consumer: &Seat<ConsumerFigures>, location: &Location) -> &'static str {
    State::of(consumer.state, &consumer.owner, location).word()
}

/// Formats how far it has come.
pub fn lag(consumer: &Seat<ConsumerFigures>) -> String {
    let unread = consumer.figures.unread;
    let missed = match consumer.figures.totals.lapped.records {
        0 => String::new(),
        missed => format!(", missed {missed}"),
    };
    if unread.bytes == 0 {
        return format!("caught up{missed}");
    }
    let slowest =
        if consumer.figures.slowest { ", the slowest: a full ring waits for it" } else { "" };
    let (records, bytes) = (count(unread.records, "record"), count(unread.bytes, "byte"));
    format!("{records} and {bytes} behind{missed}{slowest}")
}

/// Formats who it is, how it is, and how far it has come, for a line of its own.
pub fn line(consumer: &Seat<ConsumerFigures>, location: &Location) -> String {
    let (who, pid) = (name(&consumer.owner), consumer.owner.pid);
    let (state, lag) = (state(consumer, location), lag(consumer));
    let left = if consumer.figures.waited_for { "" } else { ", not waited for" };
    format!("{who}, pid {pid}, {state}: {lag}{left}")
}
