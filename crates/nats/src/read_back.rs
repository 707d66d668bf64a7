//! Finds out which doubtful messages a stream has already stored.

use super::flight::Flight;
use async_nats::jetstream::consumer::{AckPolicy, DeliverPolicy, pull};
use async_nats::jetstream::stream::Stream;
use futures_util::StreamExt;
use std::time::Duration;
use tokio::time::timeout;

#[derive(Debug, thiserror::Error)]
#[error("no answer for {} ms", .0.as_millis())]
struct Silent(Duration);

type Error = Box<dyn std::error::Error + Send + Sync>;

/// Headers that are requested at a time.
const BATCH: usize = 512;

/// Returns the numbers of those entries that were first sent longer ago than `age`, and that the
/// stream has stored. The others are no longer in doubt.
///
/// # Errors
/// Also if the server answers nothing for `patience`: a request is lost with the connection, or with the consumer, which the
/// server removes from a client that was slow. Its end is then never told.
pub(super) async fn read_back(
    stream: &Stream,
    flight: &mut Flight,
    age: Duration,
    patience: Duration,
) -> Result<Vec<u64>, Error> {
    let mut found = Vec::new();
    for (subject, mut doubt) in flight.doubtful(age) {
        let consumer = stream
            .create_consumer(pull::Config {
                filter_subject: subject,
                deliver_policy: DeliverPolicy::ByStartSequence { start_sequence: doubt.after + 1 },
                ack_policy: AckPolicy::None,
                headers_only: true,
                inactive_threshold: Duration::from_secs(10),
                ..pull::Config::default()
            })
            .await?;
        let mut left = consumer.cached_info().num_pending;
        while left > 0 && !doubt.numbers.is_empty() {
            let mut batch = consumer.fetch().max_messages(BATCH).messages().await?;
            let mut came = 0;
            let next = async |batch: &mut pull::Batch| timeout(patience, batch.next()).await;
            while let Some(message) = next(&mut batch).await.map_err(|_| Silent(patience))? {
                let message = message?;
                came += 1;
                left = message.info()?.pending;
                let id = message.headers.as_ref().and_then(|all| all.get("Nats-Msg-Id"));
                if let Some(number) = id.and_then(|id| doubt.numbers.remove(id.as_str())) {
                    found.push(number);
                }
            }
            if came == 0 {
                break; // the server announced more, and has none
            }
        }
        stream.delete_consumer(&consumer.cached_info().name).await.ok(); // it also expires by itself
        for number in doubt.numbers.into_values() {
            flight.not_there(number);
        }
    }
    Ok(found)
}
