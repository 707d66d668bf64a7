//! The entry point for `tests/fuzz`: messages as a server would get them, without a server.

use super::message::{Encoder, State};
use super::options::Options;
use perfring_events::Event;

/// A message.
#[derive(Clone, Debug)]
pub struct Message {
    /// Its subject.
    pub subject: String,
    /// Names and values of its headers.
    pub headers: Vec<(String, String)>,
    /// Its payload.
    pub payload: Vec<u8>,
}

/// Creates messages from events.
#[derive(Debug)]
pub struct Messages(Encoder);

impl Messages {
    /// Creates the messages that a [`Nats`](super::Nats) with these options sends.
    ///
    /// # Errors
    /// A message.
    pub fn new(options: &Options) -> Result<Self, String> {
        options.check()?;
        Encoder::new(options).map(Messages)
    }

    /// Returns the message; `None` if the event has none.
    pub fn of(&mut self, event: &Event<'_>) -> Option<Message> {
        let entry = self.0.encode(event)?;
        debug_assert!(entry.state == State::Waiting);
        let all = entry.headers();
        let pairs = all.iter().flat_map(|(name, values)| {
            values.iter().map(move |value| (name.to_string(), value.to_string()))
        });
        let headers = pairs.collect();
        Some(Message {
            subject: entry.head.subject.to_string(),
            headers,
            payload: entry.payload.to_vec(),
        })
    }
}
