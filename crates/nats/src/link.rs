//! One connection.

use super::options::Options;
use async_nats::jetstream::context::Context;
use async_nats::{Client, ConnectErrorKind, Event, ServerAddr, Subscriber};
use std::fmt::Display;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;

/// One connection.
pub(super) struct Link {
    pub(super) client: Client,
    pub(super) context: Context,
    pub(super) acks: Subscriber,
    /// The reply subject of each message is this and its number.
    pub(super) inbox: String,
    /// Tells that the server disconnected, or sent an error.
    pub(super) news: Arc<News>,
}

#[derive(Debug, Default)]
pub(super) struct News {
    pub(super) disconnected: Notify,
    heard: Mutex<Heard>,
}

#[derive(Debug, Default)]
struct Heard {
    /// The connection was established once.
    connected: bool,
    /// The server's last message.
    error: Option<String>,
}

impl Link {
    /// # Errors
    /// A message that describes the problem.
    pub(super) async fn make(name: &str, options: &Options) -> Result<Link, String> {
        let news = Arc::new(News::default());
        let (reported, asked) = (Arc::clone(&news), Arc::clone(&news));
        let connect = options
            .connect(name)?
            .event_callback(move |event| {
                reported.hear(event);
                std::future::ready(())
            })
            .reconnect_delay_callback(move |_| match asked.heard().connected {
                false => Duration::ZERO,
                // Never: what waits in the client would overtake what was lost.
                true => Duration::from_secs(1 << 30),
            });
        let servers: Vec<ServerAddr> =
            options.servers.iter().filter_map(|one| one.parse().ok()).collect();
        let client = connect.connect(servers).await;
        let client = client.map_err(|error| unconnected(options, &error))?;
        news.heard().connected = true;
        let mut context = async_nats::jetstream::new(client.clone());
        context.set_timeout(options.ack_timeout);
        let inbox = format!("{}.", client.new_inbox());
        let acks = client.subscribe(format!("{inbox}*")).await;
        let acks = acks.map_err(|error| format!("cannot subscribe to answers: {error}"))?;
        Ok(Link { client, context, acks, inbox, news })
    }
}

fn unconnected(options: &Options, error: &async_nats::ConnectError) -> String {
    let servers = options.servers.join(", ");
    let why = deepest(error);
    match error.kind() {
        ConnectErrorKind::AuthorizationViolation | ConnectErrorKind::Authentication => format!(
            "{servers} refuses access ({why}): check `credentials_file`, `user` and `password`, \
             `token` or `nkey_file`"
        ),
        ConnectErrorKind::Tls => {
            format!("no TLS with {servers} ({why}): check `ca_file`, `cert_file` and `key_file`")
        }
        _ => format!("no NATS server at {servers} ({why}): trying again"),
    }
}

/// Returns the root cause of an error: usually the message of the system or the server.
pub(super) fn deepest(error: &dyn std::error::Error) -> String {
    let mut deepest = error;
    while let Some(source) = deepest.source() {
        deepest = source;
    }
    deepest.to_string()
}

impl News {
    fn hear(&self, event: Event) {
        match event {
            Event::Disconnected | Event::Closed => self.disconnected.notify_one(),
            Event::ServerError(error) => self.note(&error),
            Event::ClientError(error) => self.note(&error),
            _ => {}
        }
    }

    fn note(&self, error: &dyn Display) {
        self.heard().error = Some(error.to_string());
    }

    fn heard(&self) -> MutexGuard<'_, Heard> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the server's message in parentheses, to append to a sentence.
    pub(super) fn said(&self) -> String {
        self.heard().error.as_ref().map(|error| format!(" ({error})")).unwrap_or_default()
    }
}
