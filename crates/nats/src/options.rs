//! Options of a NATS output.

use super::subject;
use perfring_events::{DeadLetterFile, Terms, read_duration, read_size};
use perfring_files::json::Integers;
use perfring_otlp::{Lane, Mapping};
use serde::Deserialize;
use std::path::PathBuf;
use std::time::Duration;

/// The client drops acknowledgements that it has no room for, so it has room for a whole window.
const MAX_WINDOW: usize = 65_536;

/// Where records are sent, and how. All fields are optional.
///
/// ```
/// use perfring_nats::{Options, Storage};
/// let options: Options = toml::from_str(
///     r#"
///     servers = ["nats://a.example:4222", "nats://b.example:4222"]
///     credentials_file = "/etc/perfring/nats.creds"
///     [stream]
///     name = "telemetry"
///     max_age = "1d"
///     "#,
/// )?;
/// assert_eq!(options.stream.storage, Storage::File);
/// assert_eq!(options.window, 8192);
/// # Ok::<(), toml::de::Error>(())
/// ```
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Options {
    /// Servers of one cluster, `nats://HOST:PORT` or `tls://HOST:PORT`: the first that answers is
    /// used. By default one on this machine.
    pub servers: Vec<String>,
    /// The stream that stores the records, and how it is created.
    pub stream: Stream,
    /// The subject of a record. `{ring}`, `{type}`, `{uuid}` and `{host}` stand for the ring's
    /// name, the record type's name, the ring's id and this machine's name, with `_` for characters
    /// that a subject must not have, including dots. A loss has `lost` as its type; a type that the
    /// ring's table does not name has `bytes` or `unnamed`.
    pub subject: String,
    /// The content of a message.
    pub payload: Payload,
    /// How JSON has integers beyond 2^53.
    pub integers: Integers,
    /// The subject of log records in OTLP: the default is that of the OpenTelemetry Collector's
    /// NATS receiver, here and below.
    pub logs_subject: String,
    /// The subject of metrics in OTLP.
    pub metrics_subject: String,
    /// The subject of spans in OTLP.
    pub traces_subject: String,
    /// How records become OTLP: the same keys as an OTLP output has. `plain` counts with
    /// `payload = "otlp"`, and a batch has at most 512 KiB, whatever `batch_bytes` is.
    pub otlp: Mapping,
    /// A file for what the server refuses for good: a JSON object a line, with the reason and the
    /// message in base64. Without one, such records are counted and reported alone.
    pub dead_letters: DeadLetterFile,
    /// The limit of that file's bytes: what would exceed it is counted and reported alone. The file
    /// may be moved away at any time.
    #[serde(deserialize_with = "read_size")]
    pub dead_letters_max_bytes: u64,
    /// The headers of a message of one record. By default all with raw bytes; and with JSON, which
    /// contains the same values, only the id: the others cost a quarter of the speed.
    pub headers: Option<Headers>,
    /// The limit of messages that are taken and not yet acknowledged.
    pub window: usize,
    /// The limit of their bytes, including what is stored with each.
    #[serde(deserialize_with = "read_size")]
    pub window_bytes: u64,
    /// ms without any acknowledgement, while some are awaited, after which the connection is closed
    /// and opened again.
    #[serde(deserialize_with = "read_duration")]
    pub ack_timeout: Duration,
    /// What it has in common with other outputs.
    #[serde(skip)]
    pub terms: Terms,
    /// A file with a JWT and its seed, as `nsc` writes it. It is read again for each connection, as
    /// are the other files here.
    pub credentials_file: Option<PathBuf>,
    /// User name.
    pub user: Option<String>,
    /// The user's password.
    pub password: Option<String>,
    /// A file with the password, which keeps it out of the configuration file.
    pub password_file: Option<PathBuf>,
    /// Token.
    pub token: Option<String>,
    /// A file with the token.
    pub token_file: Option<PathBuf>,
    /// A file with the seed of an nkey.
    pub nkey_file: Option<PathBuf>,
    /// Whether to require TLS. A server that demands TLS, or a `tls://` URL, does not need it.
    pub tls: bool,
    /// A file with certificates to trust, PEM, in addition to the system's.
    pub ca_file: Option<PathBuf>,
    /// A file with our own certificate, PEM. Requires `key_file`.
    pub cert_file: Option<PathBuf>,
    /// A file with its key, PEM.
    pub key_file: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            servers: vec!["nats://127.0.0.1:4222".into()],
            stream: Stream::default(),
            subject: "perfring.{ring}.{type}".into(),
            payload: Payload::Auto,
            integers: Integers::Number,
            logs_subject: "otel_logs".into(),
            metrics_subject: "otel_metrics".into(),
            traces_subject: "otel_traces".into(),
            otlp: Mapping::default(),
            dead_letters: DeadLetterFile::Default,
            dead_letters_max_bytes: 64 << 20,
            headers: None,
            window: 8192,
            window_bytes: 32 << 20,
            ack_timeout: Duration::from_secs(10),
            terms: Terms::default(),
            credentials_file: None,
            user: None,
            password: None,
            password_file: None,
            token: None,
            token_file: None,
            nkey_file: None,
            tls: false,
            ca_file: None,
            cert_file: None,
            key_file: None,
        }
    }
}

/// The JetStream stream that stores the records.
///
/// An existing stream is used as it is: then only the name is used.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Stream {
    /// Its name: without blanks, dots, `*` or `>`.
    pub name: String,
    /// Whether to create it if it does not exist, also if it is removed later.
    pub create: bool,
    /// Where it is stored.
    pub storage: Storage,
    /// The limit of its bytes; 0 means no limit but the server's. A server of 2.9.10, Debian's,
    /// removes the oldest messages of a stream at this limit even if it is configured to refuse:
    /// limit the number of messages there.
    #[serde(deserialize_with = "read_size")]
    pub max_bytes: u64,
    /// The limit of its messages; 0 means no limit.
    pub max_messages: u64,
    /// The time after which a message is removed; 0 means never.
    #[serde(deserialize_with = "read_duration")]
    pub max_age: Duration,
    /// The number of servers of a cluster that store it, 1 to 5.
    pub replicas: usize,
    /// The time for which the server remembers a message's id, and so refuses a duplicate. It costs
    /// the server memory: see [the module](crate).
    #[serde(deserialize_with = "read_duration")]
    pub duplicate_window: Duration,
    /// What it does when it is full.
    pub discard: Discard,
}

impl Default for Stream {
    fn default() -> Self {
        Stream {
            name: "perfring".into(),
            create: true,
            storage: Storage::File,
            max_bytes: 0,
            max_messages: 0,
            max_age: Duration::ZERO,
            replicas: 1,
            duplicate_window: Duration::from_secs(120),
            discard: Discard::New,
        }
    }
}

/// Where a stream is stored.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Storage {
    /// On disk.
    #[default]
    File,
    /// In the server's memory: acknowledged messages are lost when the server ends.
    Memory,
}

/// What a full stream does.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Discard {
    /// It refuses new messages: the output waits, and reports so.
    #[default]
    New,
    /// It removes its oldest messages without a report.
    Old,
}

/// The content of a message.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Payload {
    /// OTLP for records of OpenTelemetry's vocabulary, and for losses of rings that have such
    /// types; JSON for all else.
    #[default]
    Auto,
    /// OTLP for all: many records in one message, in protobuf, as the OpenTelemetry Collector's
    /// NATS receiver reads it (`otlp_proto`).
    Otlp,
    /// The record as the JSON lines output writes it, without the newline.
    Json,
    /// The record's raw bytes. A loss is JSON in this case, too.
    Raw,
}

/// The headers of a message.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Headers {
    /// All headers: see [the module](crate).
    All,
    /// `Nats-Msg-Id` alone. It has the ring's id and the position.
    Id,
}

impl Options {
    /// Returns what is wrong with the options.
    pub(super) fn check(&self) -> Result<(), String> {
        if self.servers.is_empty() {
            return Err("`servers` is empty: name one, such as \"nats://127.0.0.1:4222\"".into());
        }
        for server in &self.servers {
            if let Err(error) = server.parse::<async_nats::ServerAddr>() {
                return Err(format!(
                    "\"{server}\" in `servers` is not an address ({error}): \
                     write it as \"nats://HOST:PORT\" or \"tls://HOST:PORT\""
                ));
            }
        }
        let name = &self.stream.name;
        let bad = |c: char| c.is_whitespace() || c.is_control() || ".*>/\\".contains(c);
        if name.is_empty() || name.contains(bad) {
            return Err(format!(
                "\"{name}\" cannot be a stream's name: use letters, digits, - and _"
            ));
        }
        if matches!(self.payload, Payload::Auto | Payload::Otlp) {
            for lane in Lane::ALL {
                subject::check(self.otlp_subject(lane)).map_err(|why| {
                    format!("`{}_subject` {:?} {why}", lane.name(), self.otlp_subject(lane))
                })?;
            }
        }
        if self.window == 0 || self.window_bytes == 0 {
            return Err("`window` and `window_bytes` must be more than 0".into());
        }
        if self.window > MAX_WINDOW {
            return Err(format!("`window` may be at most {}", MAX_WINDOW));
        }
        if self.ack_timeout.is_zero() {
            return Err("`ack_timeout` must be more than 0".into());
        }
        if !(1..=5).contains(&self.stream.replicas) {
            return Err("`replicas` must be 1 to 5".into());
        }
        let has_user = self.user.is_some();
        let passwords = [self.password.is_some(), self.password_file.is_some()];
        let tokens = [self.token.is_some(), self.token_file.is_some()];
        let count = |all: &[bool]| all.iter().filter(|one| **one).count();
        if has_user != (count(&passwords) == 1) || count(&passwords) > 1 {
            return Err("`user` needs `password` or `password_file`, and these need `user`".into());
        }
        let ways = [self.credentials_file.is_some(), has_user, self.nkey_file.is_some()];
        if count(&ways) + count(&tokens) > 1 {
            return Err("more than one of `credentials_file`, `user`, `token`, `token_file` and \
                        `nkey_file` is set: the server takes one, leave the others out"
                .into());
        }
        if self.cert_file.is_some() != self.key_file.is_some() {
            return Err("`cert_file` and `key_file` go together".into());
        }
        let files = [&self.ca_file, &self.cert_file, &self.key_file];
        for file in files.into_iter().flatten() {
            if let Err(error) = std::fs::File::open(file) {
                return Err(format!("{}: {error}", file.display()));
            }
        }
        Ok(())
    }

    /// Returns the subject of a signal in OTLP.
    pub(super) fn otlp_subject(&self, lane: Lane) -> &str {
        match lane {
            Lane::Logs => &self.logs_subject,
            Lane::Metrics => &self.metrics_subject,
            Lane::Traces => &self.traces_subject,
        }
    }

    /// Returns all subjects that the stream must have, some with wildcards.
    pub(super) fn subjects(&self) -> Result<Vec<String>, String> {
        let single = subject::Template::parse(&self.subject)?.wildcard();
        let mut signals: Vec<String> = Vec::new();
        for lane in &self.otlp.signals {
            let subject = self.otlp_subject(*lane).to_owned();
            if !signals.contains(&subject) {
                signals.push(subject);
            }
        }
        Ok(match self.payload {
            Payload::Json | Payload::Raw => vec![single],
            Payload::Auto => [vec![single], signals].concat(),
            Payload::Otlp => signals,
        })
    }

    /// Returns how to connect, with the secrets as their files have them now.
    pub(super) fn connect(&self, name: &str) -> Result<async_nats::ConnectOptions, String> {
        let read = |file: &PathBuf| match std::fs::read_to_string(file) {
            Ok(text) => Ok(text.trim().to_owned()),
            Err(error) => Err(format!("{}: {error}", file.display())),
        };
        let mut options = async_nats::ConnectOptions::new()
            .name(format!("perfring {name}"))
            .connection_timeout(self.ack_timeout.min(Duration::from_secs(5)))
            .request_timeout(Some(self.ack_timeout))
            .subscription_capacity(MAX_WINDOW)
            .client_capacity(1024)
            .skip_subject_validation(true)
            .require_tls(self.tls);
        if let Some(file) = &self.credentials_file {
            options = options
                .credentials(&read(file)?)
                .map_err(|error| format!("{}: it has no credentials ({error})", file.display()))?;
        }
        if let Some(user) = &self.user {
            let password = match (&self.password, &self.password_file) {
                (Some(password), _) => password.clone(),
                (None, Some(file)) => read(file)?,
                (None, None) => String::new(),
            };
            options = options.user_and_password(user.clone(), password);
        }
        if let Some(token) = &self.token {
            options = options.token(token.clone());
        }
        if let Some(file) = &self.token_file {
            options = options.token(read(file)?);
        }
        if let Some(file) = &self.nkey_file {
            options = options.nkey(read(file)?);
        }
        if let Some(file) = &self.ca_file {
            options = options.add_root_certificates(file.clone());
        }
        if let (Some(cert), Some(key)) = (&self.cert_file, &self.key_file) {
            options = options.add_client_certificate(cert.clone(), key.clone());
        }
        Ok(options)
    }
}
