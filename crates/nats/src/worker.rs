//! The thread that communicates with the servers.
//!
//! Each connection has a client, and a runtime, of its own: a client that reconnects by itself
//! would send what it still has before what was lost with the old connection, out of order. So
//! reconnecting is disabled: the client is dropped with its runtime, and all unanswered messages
//! are sent again, from the oldest on.

use super::flight::{Finished, Flight};
use super::link::{Link, deepest};
use super::message::{Entry, decimal};
use super::options::Options;
use super::read_back::read_back;
use super::reported::{Pause, Shared};
use super::stream::find;
use async_nats::jetstream::ErrorCode;
use async_nats::{Message, StatusCode, Subject};
use futures_util::{FutureExt, StreamExt};
use perfring_events::{
    delivery::{
        backoff::Backoff,
        dead_letters::{DeadLetters, Letter},
        refusals::Refused,
    },
    later,
};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{sleep, sleep_until};

/// The first pause.
const PAUSE: Duration = Duration::from_millis(100);

/// The cause of refusals: the only one for which a server refuses a message for good.
pub(super) const TOO_LARGE: &str = "too large";

/// Messages that are sent before answers are polled.
const CHUNK: usize = 64;

#[derive(Debug)]
pub(super) struct Worker {
    name: String,
    options: Options,
    /// The subjects of our stream.
    subjects: Vec<String>,
    letters: Option<DeadLetters>,
    shared: Arc<Shared>,
    from: UnboundedReceiver<Vec<Entry>>,
    /// No more entries will arrive.
    is_closing: bool,
    flight: Flight,
    backoff: Backoff,
    /// The stream's creation time when it was last found, ns: another time means another stream.
    stream: Option<i128>,
}

/// Why a connection ends.
enum End {
    /// All is done.
    Closed,
    /// A message that describes the problem.
    Trouble(String),
}

impl Worker {
    pub(super) fn new(
        name: &str,
        options: &Options,
        shared: Arc<Shared>,
        from: UnboundedReceiver<Vec<Entry>>,
        letters: Option<DeadLetters>,
    ) -> Result<Self, String> {
        Ok(Worker {
            name: name.to_owned(),
            subjects: options.subjects()?,
            letters,
            options: options.clone(),
            shared,
            from,
            is_closing: false,
            flight: Flight::default(),
            backoff: Backoff::new(&options.terms, PAUSE),
            stream: None,
        })
    }

    /// Runs until all is acknowledged and no more entries arrive, or it is asked to stop.
    pub(super) fn run(mut self) {
        let shared = Arc::clone(&self.shared);
        loop {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let runtime = match runtime {
                Ok(runtime) => runtime,
                Err(error) => {
                    self.trouble(format!("no descriptors for a connection: {error}"));
                    std::thread::sleep(self.backoff.pause());
                    continue;
                }
            };
            let is_over = runtime.block_on(async {
                tokio::select! {
                    () = shared.stop.notified() => true,
                    is_over = self.connection() => is_over,
                }
            });
            runtime.shutdown_background();
            if is_over {
                return;
            }
        }
    }

    /// Runs one connection, and the pause after it. Returns whether all is done.
    async fn connection(&mut self) -> bool {
        let end = match self.link().await {
            Ok(mut link) => {
                let end = self.serve(&mut link).await;
                self.flight.truncated();
                end
            }
            Err(sentence) => End::Trouble(sentence),
        };
        match end {
            End::Closed => true,
            End::Trouble(sentence) => {
                self.trouble(sentence);
                self.shared.reported().retries += 1;
                // What was taken meanwhile waits in the channel, limited by the window.
                let (pause, shared) = (self.next_pause(), Arc::clone(&self.shared));
                tokio::select! {
                    () = shared.end_of(Some(pause)) => false,
                    is_over = self.idle_end() => is_over,
                }
            }
        }
    }

    /// Waits for entries. Returns whether there is nothing left to do and no more will arrive.
    async fn idle_end(&mut self) -> bool {
        while !self.is_closing {
            match self.from.recv().await {
                Some(entries) => self.flight.push(entries),
                None => self.is_closing = true,
            }
        }
        if self.flight.is_empty() {
            return true;
        }
        std::future::pending().await
    }

    fn next_pause(&mut self) -> Pause {
        self.shared.begin_pause(self.backoff.pause())
    }

    fn trouble(&self, sentence: String) {
        self.shared.reported().trouble = Some(sentence);
    }

    /// Connects, and finds or creates the stream.
    async fn link(&mut self) -> Result<Link, String> {
        let link = Link::make(&self.name, &self.options).await?;
        self.find_stream(&link).await?;
        if self.flight.is_empty() {
            self.shared.reported().trouble = None; // otherwise the first acknowledgement clears it
        }
        Ok(link)
    }

    /// Finds or creates the stream, and searches it for messages that may be stored already.
    async fn find_stream(&mut self, link: &Link) -> Result<(), String> {
        let stream = find(link, &self.options.stream, &self.subjects).await?;
        let info = stream.cached_info();
        let created = info.created.unix_timestamp_nanos();
        if self.stream.replace(created).is_some_and(|before| before != created) {
            self.flight.forget_sequence();
        }
        // Half of it: a message that is sent now must still be known when the server handles it.
        let age = info.config.duplicate_window / 2;
        let found =
            read_back(&stream, &mut self.flight, age, self.options.ack_timeout).await.map_err(
                |error| format!("cannot read the stream \"{}\" back: {error}", info.config.name),
            )?;
        for number in found {
            self.deliver(number, None);
        }
        Ok(())
    }

    /// Sends messages and handles answers, until the connection fails.
    async fn serve(&mut self, link: &mut Link) -> End {
        let patience = self.options.ack_timeout;
        let mut heard = Instant::now();
        // The server has refused a message: nothing more is sent until all are answered and a pause
        // is over, and then one message as a test.
        let mut refused = false;
        let mut resume: Option<Pause> = None;
        let mut limit = self.options.window;
        loop {
            while let Ok(entries) = self.from.try_recv() {
                self.flight.push(entries);
            }
            self.is_closing |= self.from.is_closed() && self.from.is_empty();
            while let Some(Some(message)) = link.acks.next().now_or_never() {
                heard = Instant::now();
                self.hear(link, &message, &mut limit, &mut refused);
            }
            if self.is_closing && self.flight.is_empty() {
                return End::Closed;
            }
            if refused && self.flight.in_flight == 0 {
                refused = false;
                resume = Some(self.next_pause());
            }
            let may_send = !refused && resume.is_none() && self.flight.in_flight < limit;
            if may_send && self.flight.next_waiting().is_some() {
                if self.flight.in_flight == 0 {
                    heard = Instant::now();
                }
                let room = (limit - self.flight.in_flight).min(CHUNK);
                let sent = tokio::select! {
                    sent = self.send(link, room) => sent,
                    () = link.news.disconnected.notified() => Err(lost(link)),
                    () = sleep(patience) => Err(silent(link, patience)),
                };
                match sent {
                    Ok(()) => continue,
                    Err(sentence) => return End::Trouble(sentence),
                }
            }
            let awaiting = self.flight.in_flight > 0;
            tokio::select! {
                biased;
                () = link.news.disconnected.notified() => return End::Trouble(lost(link)),
                message = link.acks.next() => {
                    let Some(message) = message else { return End::Trouble(lost(link)) };
                    heard = Instant::now();
                    self.hear(link, &message, &mut limit, &mut refused);
                }
                entries = self.from.recv(), if !self.is_closing => match entries {
                    Some(entries) => self.flight.push(entries),
                    None => self.is_closing = true,
                },
                () = sleep_until(later(heard, patience).into()), if awaiting => {
                    return End::Trouble(silent(link, patience));
                }
                () = self.shared.end_of(resume) => {
                    resume = None;
                    limit = 1;
                    self.flight.rewind();
                    if let Err(sentence) = self.find_stream(link).await {
                        return End::Trouble(sentence);
                    }
                }
            }
        }
    }

    /// Handles an answer: a stored message raises the limit of messages in flight.
    fn hear(&mut self, link: &Link, message: &Message, limit: &mut usize, refused: &mut bool) {
        match self.answer(link, message) {
            Ok(true) => *limit = self.options.window,
            Ok(false) => {}
            Err(sentence) => {
                self.trouble(sentence);
                *refused = true;
            }
        }
    }

    /// Sends at most `room` messages.
    async fn send(&mut self, link: &Link, room: usize) -> Result<(), String> {
        let now = Instant::now();
        for _ in 0..room {
            let Some((number, entry)) = self.flight.next_waiting() else { break };
            let mut reply = String::with_capacity(link.inbox.len() + 20);
            reply.push_str(&link.inbox);
            decimal(&mut reply, number);
            let (subject, payload) = (entry.head.subject.clone(), entry.payload.clone());
            let headers = entry.headers();
            let sent = link.client.publish_with_reply_and_headers(
                subject,
                Subject::from(reply),
                headers,
                payload,
            );
            match sent.await {
                Ok(()) => {
                    if self.flight.sent(number, now) {
                        self.shared.reported().retries += 1;
                    }
                }
                Err(error) if error.kind() == async_nats::client::PublishErrorKind::Send => {
                    return Err(lost(link));
                }
                Err(error) => self.refuse(number, &deepest(&error))?,
            }
        }
        Ok(())
    }

    /// Handles the answer to one message. Returns whether it is stored.
    fn answer(&mut self, link: &Link, message: &Message) -> Result<bool, String> {
        let number = message.subject.as_str().get(link.inbox.len()..);
        let Some(number) = number.and_then(|text| text.parse().ok()) else { return Ok(false) };
        let Some(entry) = self.flight.awaited(number) else { return Ok(false) };
        let name = &self.options.stream.name;
        if message.status == Some(StatusCode::NO_RESPONDERS) {
            let subject = &entry.head.subject;
            let sentence = format!(
                "no stream takes the subject {subject}: \"{name}\" must have the subjects {}",
                self.subjects.join(", ")
            );
            self.nack(number);
            return Err(sentence);
        }
        match serde_json::from_slice::<Answer<'_>>(&message.payload) {
            Ok(Answer { error: None, stream, seq }) if stream == *name => {
                self.deliver(number, Some(seq));
                self.backoff.end();
                Ok(true)
            }
            // It is stored, but in another stream.
            Ok(Answer { error: None, stream, .. }) => {
                let sentence = format!(
                    "the subject {} belongs to the stream \"{stream}\" and not to \"{name}\": \
                     take one of them as `stream.name`, or another `subject`",
                    entry.head.subject
                );
                self.nack(number);
                Err(sentence)
            }
            Ok(Answer { error: Some(error), .. }) => {
                if error.err_code == ErrorCode::STREAM_MESSAGE_EXCEEDS_MAXIMUM.0
                    || error.err_code == ErrorCode::STREAM_HEADER_EXCEEDS_MAXIMUM.0
                {
                    return match self.refuse(number, error.description) {
                        Ok(()) => Ok(false),
                        Err(sentence) => {
                            self.nack(number);
                            Err(sentence)
                        }
                    };
                }
                let sentence = format!("the stream \"{name}\" refuses: {}", error.description);
                self.nack(number);
                Err(sentence)
            }
            Err(_) => {
                self.nack(number);
                Err(format!("an invalid answer: {:?}", message.payload))
            }
        }
    }

    fn nack(&mut self, number: u64) {
        self.flight.refused(number);
        self.shared.reported().retries += 1;
    }

    fn deliver(&mut self, number: u64, sequence: Option<u64>) {
        if let Some(entry) = self.flight.any(number) {
            let mut reported = self.shared.reported();
            reported.delivered += entry.records();
            reported.bytes += entry.payload.len() as u64;
            reported.trouble = None;
            reported.refusals.answered(Refused::NotAll, None);
        }
        let finished = match sequence {
            Some(sequence) => self.flight.stored(number, sequence),
            None => self.flight.done(number),
        };
        self.finish(finished);
    }

    /// Refuses an entry for good: the server has no room for a message of its size.
    ///
    /// # Errors
    /// Another message could be delivered, or this one not be kept: it is to be sent again.
    fn refuse(&mut self, number: u64, why: &str) -> Result<(), String> {
        if let Some(entry) = self.flight.any(number) {
            let size = entry.payload.len();
            if entry.items() > 1 {
                return Err(format!(
                    "the server refuses a batch of {size} bytes ({why}): set `otlp.batch_bytes` to \
                     less, or the server's limit to more; records are held until then"
                ));
            }
            let mut what = format!("{} of {size} bytes: {why}", entry.id());
            let letter = Letter {
                output: &self.name,
                signal: &entry.head.subject,
                cause: TOO_LARGE,
                reason: why,
                items: 1,
                refused: 1,
                request: &entry.payload,
            };
            what += &DeadLetters::place(self.letters.as_ref(), &letter)?;
            let mut reported = self.shared.reported();
            reported.refused += entry.records();
            let why = format!("{} refused for good, the last: {what}", reported.refused);
            reported.refusals.answered(Refused::All, Some(why));
        }
        let finished = self.flight.done(number);
        self.finish(finished);
        Ok(())
    }

    fn finish(&self, finished: Finished) {
        if finished.entries > 0 {
            let reported = &mut self.shared.reported().finished;
            reported.entries += finished.entries;
            reported.cost += finished.cost;
        }
    }
}

#[derive(serde::Deserialize)]
struct Answer<'a> {
    #[serde(borrow)]
    error: Option<Refusal<'a>>,
    #[serde(default)]
    stream: &'a str,
    #[serde(default)]
    seq: u64,
}

#[derive(serde::Deserialize)]
struct Refusal<'a> {
    #[serde(default)]
    err_code: u64,
    #[serde(default)]
    description: &'a str,
}

fn lost(link: &Link) -> String {
    format!("the connection to the server broke{}: connecting again", link.news.said())
}

fn silent(link: &Link, patience: Duration) -> String {
    let ms = patience.as_millis();
    format!("no acknowledgement for {ms} ms{}: connecting again", link.news.said())
}
