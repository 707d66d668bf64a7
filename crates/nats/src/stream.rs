//! The stream that stores the messages.

use super::link::Link;
use super::options::{Discard, Storage, Stream};
use async_nats::jetstream::ErrorCode;
use async_nats::jetstream::context::{CreateStreamErrorKind, GetStreamErrorKind};
use async_nats::jetstream::stream;

/// Finds the stream, or creates it.
///
/// # Errors
/// A message that describes the problem.
pub(super) async fn find(
    link: &Link,
    options: &Stream,
    subjects: &[String],
) -> Result<stream::Stream, String> {
    let name = &options.name;
    let mut found = link.context.get_stream(name).await.map_err(|error| match error.kind() {
        GetStreamErrorKind::JetStream(error) => Some(error),
        _ => None,
    });
    if let Err(Some(error)) = &found
        && error.error_code() == ErrorCode::STREAM_NOT_FOUND
    {
        if !options.create {
            return Err(format!(
                "there is no stream \"{name}\" on the server: create it, with the subjects {}, or set \
                 `create = true`",
                subjects.join(", ")
            ));
        }
        let made = link.context.create_stream(config(options, subjects)).await;
        found = made.map_err(|error| match error.kind() {
            CreateStreamErrorKind::JetStream(error) => Some(error),
            _ => None,
        });
    }
    let stream = found.map_err(|error| match error {
        Some(error) if error.error_code() == ErrorCode::JETSTREAM_NOT_ENABLED_FOR_ACCOUNT => {
            "our account may not use JetStream: enable it there".to_owned()
        }
        Some(error) => format!("the server refuses the stream \"{name}\": {error}"),
        None => format!(
            "the server does not answer to JetStream requests{}: start it with -js, and let our user \
             publish to $JS.API.>",
            link.news.said()
        ),
    })?;
    if stream.cached_info().config.no_ack {
        return Err(format!(
            "the stream \"{name}\" acknowledges nothing (no_ack), so nothing could ever be called \
             delivered: use another"
        ));
    }
    Ok(stream)
}

fn config(options: &Stream, subjects: &[String]) -> stream::Config {
    let age = options.max_age;
    let window = options.duplicate_window;
    stream::Config {
        name: options.name.clone(),
        subjects: subjects.to_vec(),
        max_bytes: bound(options.max_bytes),
        max_messages: bound(options.max_messages),
        max_age: age,
        storage: match options.storage {
            Storage::File => stream::StorageType::File,
            Storage::Memory => stream::StorageType::Memory,
        },
        num_replicas: options.replicas,
        // The server refuses a duplicate window that is longer than messages live.
        duplicate_window: if age.is_zero() { window } else { window.min(age) },
        discard: match options.discard {
            Discard::New => stream::DiscardPolicy::New,
            Discard::Old => stream::DiscardPolicy::Old,
        },
        ..stream::Config::default()
    }
}

/// Converts a limit to the server's form: -1 is none.
fn bound(most: u64) -> i64 {
    match most {
        0 => -1,
        most => i64::try_from(most).unwrap_or(i64::MAX),
    }
}
