//! The output: an event's way to the threads that send.

use super::client::Client;
use super::lanes::Lanes;
use super::options::{Options, Route};
use super::post;
use crate::mapper::Mapper;
use crate::mapping::Lane;
use perfring_events::{
    DeadLetterFile, Event, Figures, Output, OutputError, Took, What, check_file,
    delivery::{
        checks::{more_than_zero, of_output},
        dead_letters::DeadLetters,
    },
};
use std::sync::Arc;
use std::time::Instant;

/// Sends records to an OTLP receiver. See the [crate](crate).
#[derive(Debug)]
pub struct Otlp {
    name: String,
    mapper: Mapper,
    lanes: Arc<Lanes>,
    queue_bytes: usize,
    taken: u64,
}

impl Otlp {
    /// Creates an output of this name. It connects when there is something to send.
    ///
    /// # Errors
    /// The options, or the environment, are invalid; a file that they name cannot be read, or that
    /// of dead letters not written.
    pub fn open(name: &str, options: &Options) -> Result<Self, OutputError> {
        Self::check(name, options)?;
        let (file, most) = (&options.dead_letters, options.dead_letters_max_bytes);
        let letters = DeadLetters::open(name, file, &options.terms, most)?;
        Self::with(name, options, clients(name, options)?, letters)
    }

    /// Checks addresses, limits, and the files that the options name.
    ///
    /// # Errors
    /// What [`Otlp::open`] would refuse.
    pub fn check(name: &str, options: &Options) -> Result<(), OutputError> {
        options.mapping.check(name)?;
        more_than_zero(name, &[("queue_bytes", options.queue_bytes as u64)])?;
        if let DeadLetterFile::At(letters) = &options.dead_letters {
            of_output(name, check_file(letters))?;
        }
        clients(name, options).map(drop)
    }

    pub(super) fn with(
        name: &str,
        options: &Options,
        clients: Vec<Client>,
        letters: Option<DeadLetters>,
    ) -> Result<Self, OutputError> {
        let fault =
            |bad| OutputError::new(name, format!("a thread to send cannot be started: {bad}"));
        let lanes = post::start(name, clients, letters, &options.terms).map_err(fault)?;
        let (mapper, queue_bytes) = (Mapper::new(&options.mapping), options.queue_bytes);
        Ok(Otlp { name: name.to_owned(), mapper, lanes, queue_bytes, taken: 0 })
    }

    /// Checks that all sending threads run.
    fn are_running(&self) -> Result<(), OutputError> {
        self.lanes
            .ended
            .why()
            .map_or(Ok(()), |why| Err(OutputError::new(&self.name, why.to_owned())))
    }

    fn send(&mut self) {
        for (lane, batch) in self.mapper.ready() {
            self.lanes.push(lane, batch);
        }
    }

    /// See `Otlp::requests`.
    #[cfg(feature = "fuzz")]
    pub(super) fn drained(&mut self, all: bool) -> Vec<(Lane, Vec<u8>)> {
        if all {
            self.mapper.gather();
        }
        self.send();
        self.lanes.drain()
    }
}

impl Output for Otlp {
    fn add_resource(&mut self, attributes: &[(String, String)]) {
        self.mapper.add_resource(attributes);
    }

    fn take(&mut self, event: &Event<'_>) -> Result<Took, OutputError> {
        self.are_running()?;
        // What waits to be sent takes all the memory that it may.
        if self.lanes.bytes() >= self.queue_bytes {
            return Ok(Took::Busy);
        }
        self.taken += u64::from(matches!(event.what, What::Record(_)));
        self.mapper.take(event);
        self.send();
        Ok(Took::Yes)
    }

    fn flush(&mut self) -> Result<(), OutputError> {
        self.mapper.tend();
        self.send();
        self.are_running()
    }

    fn hurry(&mut self) {
        self.mapper.hurry();
        self.send();
    }

    fn retry(&mut self) -> bool {
        self.lanes.retry()
    }

    fn unsettled(&mut self) -> Option<u64> {
        let oldest = self.mapper.oldest().into_iter().chain(self.lanes.oldest()).min();
        oldest.filter(|seq| *seq != u64::MAX) // what holds nothing back
    }

    fn close(&mut self, deadline: Instant) -> Result<(), OutputError> {
        self.mapper.close();
        self.send();
        let closed = self.lanes.close(deadline);
        self.lanes.stop();
        closed.map_err(|(records, trouble)| {
            let why = trouble.map(|why| format!(": {why}")).unwrap_or_default();
            let sentence = format!("{records} records were not delivered in time{why}");
            OutputError::new(&self.name, sentence)
        })
    }

    fn figures(&self) -> Figures {
        let sent = self.lanes.figures();
        let delivered = self.mapper.delivered() + sent.delivered;
        let mut figures = Figures { taken: self.taken, delivered, ..sent };
        self.mapper.left_out().add_to(&mut figures);
        figures
    }
}

impl Drop for Otlp {
    fn drop(&mut self) {
        self.lanes.stop();
    }
}

/// Makes what sends each signal, without connecting.
fn clients(name: &str, options: &Options) -> Result<Vec<Client>, OutputError> {
    let env = |key: &str| std::env::var(key).ok();
    let lanes = Lane::ALL.into_iter().filter(|lane| options.mapping.signals.contains(lane));
    lanes.map(|lane| Client::new(name, Route::new(name, lane, options, &env)?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use perfring_events::delivery::thread::is_an_error_of;

    #[test]
    fn a_thread_that_has_panicked_is_an_error_that_names_it() {
        let endpoint = Some("http://127.0.0.1:9".to_owned());
        let mut output = Otlp::open("out", &Options { endpoint, ..Options::default() }).unwrap();
        let ended = output.lanes.ended.clone();
        is_an_error_of(&mut output, &ended);
        assert!(output.figures().trouble.unwrap().contains("out of luck"));
        assert!(output.close(Instant::now()).is_ok(), "nothing is lost");
    }
}
