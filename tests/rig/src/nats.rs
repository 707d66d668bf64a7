//! A NATS server for tests, and the contents of its stream.

use async_nats::HeaderMap;
use async_nats::jetstream::consumer::{AckPolicy, pull};
use async_nats::jetstream::{self, stream};
use futures_util::StreamExt;
use perfring_testkit::wait::{WATCHDOG, state, until};
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Returns the server's program, if it is installed.
fn program() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    folders.push("/usr/sbin".into());
    let found = folders.into_iter().map(|one| one.join("nats-server")).find(|one| one.is_file());
    if found.is_none() {
        let why = "there is no nats-server: install Debian's `nats-server`";
        assert!(std::env::var_os("PERFRING_NO_SKIP").is_none(), "should run here, but {why}");
        let _ = writeln!(std::io::stderr().lock(), "SKIPPED: {why}");
    }
    found
}

/// A server with its own port and store. Killed and removed when dropped.
pub struct Server {
    program: PathBuf,
    child: Option<Child>,
    port: u16,
    dir: tempfile::TempDir,
}

/// One message of the stream.
pub struct Stored {
    pub subject: String,
    pub headers: HeaderMap,
    pub payload: Vec<u8>,
    /// When it was stored, ns since 1970.
    pub at: i128,
}

impl Stored {
    fn new(message: &jetstream::Message) -> Self {
        Stored {
            subject: message.subject.to_string(),
            headers: message.headers.clone().unwrap_or_default(),
            payload: message.payload.to_vec(),
            at: message.info().unwrap().published.unix_timestamp_nanos(),
        }
    }

    /// Returns the number in the feed's message.
    pub fn number(&self) -> u64 {
        u64::from_le_bytes(self.payload.as_slice().try_into().unwrap())
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.as_str())
    }
}

impl Server {
    /// Starts a server with JetStream. `None` if none is installed.
    pub fn start() -> Option<Server> {
        Self::with("jetstream { store_dir: STORE }")
    }

    /// Starts a server with these lines of configuration; `STORE` is its store.
    pub fn with(config: &str) -> Option<Server> {
        let mut server = Self::prepare(config)?;
        server.up();
        Some(server)
    }

    /// Prepares a server without starting it.
    pub fn prepare(config: &str) -> Option<Server> {
        let program = program()?;
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        // In memory: other writers to the disk must not hold it up. It outlives the server.
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        let server = Server { program, child: None, port, dir };
        server.configure(config);
        Some(server)
    }

    /// Writes the configuration for the next start.
    pub fn configure(&self, config: &str) {
        let store = format!("{:?}", self.dir.path().join("store"));
        let config = config.replace("STORE", &store);
        let text = format!("listen: \"127.0.0.1:{}\"\n{config}\n", self.port);
        std::fs::write(self.dir.path().join("server.conf"), text).unwrap();
    }

    pub fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// Returns its process, if it runs.
    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    pub fn up(&mut self) {
        assert!(self.child.is_none());
        let log = std::fs::File::create(self.dir.path().join("log")).unwrap();
        let child = Command::new(&self.program)
            .arg("-c")
            .arg(self.dir.path().join("server.conf"))
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        self.child = Some(child);
        let child = self.child.as_mut().unwrap();
        until("the server's greeting", || {
            assert!(child.try_wait().unwrap().is_none(), "the server ended: see its log");
            let Ok(stream) = TcpStream::connect(("127.0.0.1", self.port)) else { return false };
            stream.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
            let mut line = String::new();
            BufReader::new(stream).read_line(&mut line).is_ok() && line.starts_with("INFO ")
        });
    }

    /// SIGKILL.
    pub fn kill(&mut self) {
        let mut child = self.child.take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    fn signal(&self, signal: &str) {
        let pid = self.child.as_ref().unwrap().id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
    }

    /// Stops the server. When this returns, no thread of the server runs: a thread that passes the
    /// stop on may have to wait for a processor, and the other threads run before that.
    pub fn freeze(&self) {
        self.signal("-STOP");
        let tasks = format!("/proc/{}/task", self.child.as_ref().unwrap().id());
        let stands = |task: std::fs::DirEntry| state(task.file_name().display()) == Some('T');
        until("the server to be stopped", || {
            std::fs::read_dir(&tasks).unwrap().all(|task| task.is_ok_and(stands))
        });
    }

    pub fn thaw(&self) {
        self.signal("-CONT");
    }

    /// Runs `ask` with a client of the server.
    pub fn ask<T>(&self, ask: impl AsyncFnOnce(jetstream::Context) -> T) -> T {
        self.ask_as(async_nats::ConnectOptions::new(), ask)
    }

    /// Runs `ask` with a client that has these credentials.
    pub fn ask_as<T>(
        &self,
        options: async_nats::ConnectOptions,
        ask: impl AsyncFnOnce(jetstream::Context) -> T,
    ) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let options = options.connection_timeout(WATCHDOG).request_timeout(Some(WATCHDOG));
            let mut context = jetstream::new(options.connect(self.url()).await.unwrap());
            context.set_timeout(WATCHDOG);
            ask(context).await
        })
    }

    /// Returns all messages of the stream, in its order.
    pub fn stored(&self) -> Vec<Stored> {
        self.ask(async |context| stored(&context, "perfring").await)
    }

    /// Returns the last messages of these subjects: their headers, and their payloads' lengths.
    pub fn last_of(&self, subjects: &[String]) -> Vec<Option<(HeaderMap, usize)>> {
        self.ask(async |context| {
            let mut all = vec![None; subjects.len()];
            if let Ok(stream) = context.get_stream("perfring").await {
                for (last, subject) in all.iter_mut().zip(subjects) {
                    let found = stream.get_last_raw_message_by_subject(subject).await;
                    *last = found.ok().map(|message| (message.headers, message.payload.len()));
                }
            }
            all
        })
    }

    pub fn has_stream(&self) -> bool {
        self.ask(async |context| context.get_stream("perfring").await.is_ok())
    }

    /// Takes the messages from the stream: it is a work queue, which gives each message to one
    /// reader. (Purging does not work: a server of 2.9 also purges messages that arrive meanwhile.)
    pub fn drain(&self, to: &mut Vec<Stored>) {
        self.ask(async |context| {
            let name = Some("reader".to_owned());
            let config = pull::Config { durable_name: name, ..pull_config() };
            let stream = context.get_stream("perfring").await.unwrap();
            let consumer = stream.create_consumer(config).await.unwrap();
            let mut batch = consumer.fetch().max_messages(1000).messages().await.unwrap();
            while let Some(message) = next(&mut batch).await {
                message.double_ack().await.unwrap();
                to.push(Stored::new(&message));
            }
        });
    }

    pub fn make_stream(&self, config: stream::Config) {
        self.ask(async |context| context.create_stream(config).await.unwrap());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.child.is_some() {
            self.kill();
        }
    }
}

/// Without the threshold the server removes a consumer that asks for nothing for five seconds, as on a busy machine.
fn pull_config() -> pull::Config {
    pull::Config { inactive_threshold: WATCHDOG, ..pull::Config::default() }
}

/// Returns the next message of a batch. A batch whose consumer is gone has no end.
async fn next(batch: &mut pull::Batch) -> Option<jetstream::Message> {
    tokio::time::timeout(WATCHDOG, batch.next()).await.expect("an answer").transpose().unwrap()
}

pub async fn stored(context: &jetstream::Context, name: &str) -> Vec<Stored> {
    let stream = context.get_stream(name).await.unwrap();
    let count = stream.cached_info().state.messages;
    let config = pull::Config { ack_policy: AckPolicy::None, ..pull_config() };
    let consumer = stream.create_consumer(config).await.unwrap();
    let mut all = Vec::new();
    while (all.len() as u64) < count {
        let mut batch = consumer.fetch().max_messages(1000).messages().await.unwrap();
        let before = all.len();
        while let Some(message) = next(&mut batch).await {
            all.push(Stored::new(&message));
        }
        assert!(all.len() > before, "the stream ended at {before} of {count}");
    }
    all
}
