//! `perfring publish`: publishes lines of stdin as records.

use crate::any_producer::{AnyProducer, Line, Report, Watch};
use crate::args;
use crate::failure::{Failure, note, work_done};
use crate::stop::{POLL, Stop};
use perfring_consumer::{Location, ReadError};
use perfring_producer::{RecordType, ReserveError};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// Publish the lines of stdin as records
///
/// Each line is one record, without its line end; it may hold any bytes. The ring must exist. Lines
/// that a full ring refuses, or that exceed its limit, are counted and reported to readers, and the
/// next lines follow. Any number of these commands can publish into a shared ring at a time, or into a
/// directory with a ring for each CPU (`perfring create DIR --producers cpu`).
///
/// Example: vmstat 1 | perfring publish --wait 10s /dev/shm/vmstat
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A path, or shm:NAME; or a directory with rings per CPU
    #[arg(value_parser = args::location())]
    ring: Location,
    /// The records' type
    #[arg(long = "type", value_name = "N", default_value = "4096", value_parser = args::record_type)]
    kind: RecordType,
    /// Wait for space in a full ring, or for a producer that holds a shared ring up, at most
    /// this long per record, like 10s
    #[arg(long, value_name = "TIME", value_parser = args::parse_duration)]
    wait: Option<Duration>,
    /// The name that `perfring stat` shows for this producer
    #[arg(long, default_value = "perfring publish", value_parser = args::name)]
    name: String,
    /// End with code 5 if a line was lost
    #[arg(long)]
    fail_on_loss: bool,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let stop = Stop::install()?;
    let mut producer = AnyProducer::attach_any(&args.ring, &args.name)?;
    let before = producer.counts();
    let mut lines = Lines { max: producer.max_len(), line: Vec::new(), len: 0 };
    let mut input = Input::new()?;
    let ended = match args.wait {
        None => publish_now(&mut producer, args.kind, &mut lines, &mut input, &stop),
        Some(wait) => {
            publish_waiting(&mut producer, args.kind, &mut lines, &mut input, &stop, wait)
        }
    };
    let ring = &args.ring;
    let cut_off = producer.cut_off();
    if let Some(error) = cut_off.filter(|error| *error != ReadError::Removed) {
        note("how many of the lines are in the ring is not known");
        return Err(Failure::corrupt(ring, error));
    }
    let report = Report::between(&before, &producer.counts());
    let shared = !matches!(producer, AnyProducer::One(_));
    drop(producer);
    work_done(&report.sentence(ring, shared), report.lost() > 0);
    if cut_off.is_some() {
        return Err(Failure::General(format!(
            "{ring} was removed, or another file has its name: no reader can open the file that has the last \
             lines; make the ring again, and publish them again"
        )));
    }
    match ended {
        Ok(()) | Err(Failure::Signal(_)) if args.fail_on_loss && report.lost() > 0 => {
            Err(Failure::Loss(format!("{} of the lines were lost", report.lost())))
        }
        Err(Failure::Damaged(sentence)) => Err(Failure::Damaged(format!("{ring}: {sentence}"))),
        ended => ended,
    }
}

/// Publishes the lines of each read of stdin; into an exclusive ring with one store.
fn publish_now(
    producer: &mut AnyProducer,
    kind: RecordType,
    lines: &mut Lines,
    input: &mut Input,
    stop: &Stop,
) -> Result<(), Failure> {
    while let Some(bytes) = input.fill(stop, || producer.cut_off().is_some())? {
        let taken = bytes.len();
        if let AnyProducer::One(producer) = producer {
            let mut batch = producer.batch();
            lines.take(bytes, |line| match line {
                Line::Whole(bytes) => batch.push_as(kind, bytes),
                Line::TooLong(len) => batch.reserve(kind, len).map(drop),
            })?;
            drop(batch);
        } else {
            lines.take(bytes, |line| producer.publish(kind, line))?;
        }
        input.stdin.consume(taken);
    }
    lines.end(|line| producer.publish(kind, line))
}

/// Publishes line by line, waiting for space.
fn publish_waiting(
    producer: &mut AnyProducer,
    kind: RecordType,
    lines: &mut Lines,
    input: &mut Input,
    stop: &Stop,
    wait: Duration,
) -> Result<(), Failure> {
    let watch = Watch::start(stop);
    let publish = |producer: &mut AnyProducer, line: Line<'_>| {
        let result = producer.publish_timeout(kind, line, wait);
        watch.count(result.is_ok());
        result
    };
    while let Some(bytes) = input.fill(stop, || producer.cut_off().is_some())? {
        let taken = bytes.len();
        lines.take(bytes, |line| publish(producer, line))?;
        input.stdin.consume(taken);
    }
    lines.end(|line| publish(producer, line))
}

/// Stdin, in chunks; reading it also checks for signals, and whether the ring is still there.
struct Input {
    stdin: BufReader<File>,
    looked: Instant,
}

/// How often it is asked whether the ring is still there.
const LOOK: Duration = Duration::from_secs(1);

impl Input {
    fn new() -> Result<Self, Failure> {
        let fd = io::stdin().as_fd().try_clone_to_owned().map_err(|error| Self::failed(&error))?;
        let stdin = BufReader::with_capacity(64 << 10, File::from(fd));
        Ok(Input { stdin, looked: Instant::now() })
    }

    fn failed(error: &io::Error) -> Failure {
        Failure::General(format!("cannot read stdin: {error}"))
    }

    /// Returns the next bytes; `None` at the end, or when the producer is found to be cut off.
    fn fill(
        &mut self,
        stop: &Stop,
        is_cut_off: impl Fn() -> bool,
    ) -> Result<Option<&[u8]>, Failure> {
        let is_end = loop {
            stop.check()?;
            if self.looked.elapsed() >= LOOK {
                self.looked = Instant::now();
                if is_cut_off() {
                    return Ok(None);
                }
            }
            // A signal restarts an interrupted read, but not a poll, which has a limit.
            let peek = Timespec::try_from(POLL).ok();
            match poll(&mut [PollFd::new(self.stdin.get_ref(), PollFlags::IN)], peek.as_ref()) {
                Ok(0) | Err(Errno::INTR) => {}
                Ok(_) => match self.stdin.fill_buf() {
                    Ok(bytes) => break bytes.is_empty(),
                    // Another process took what was there, and the descriptor has O_NONBLOCK.
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(error) => return Err(Self::failed(&error)),
                },
                Err(errno) => return Err(Self::failed(&errno.into())),
            }
        };
        Ok((!is_end).then_some(self.stdin.buffer()))
    }
}

/// Splits chunks into lines. Of a line that is too long for the ring, only the length is kept.
struct Lines {
    max: usize,
    /// The beginning of an incomplete line, while it can still fit.
    line: Vec<u8>,
    /// Its length so far.
    len: usize,
}

impl Lines {
    fn take(
        &mut self,
        mut bytes: &[u8],
        mut publish: impl FnMut(Line<'_>) -> Result<(), ReserveError>,
    ) -> Result<(), Failure> {
        while let Some(at) = bytes.iter().position(|&byte| byte == b'\n') {
            let (line, rest) = (&bytes[..at], &bytes[at + 1..]);
            if self.len == 0 && line.len() <= self.max {
                outcome(publish(Line::Whole(line)))?;
            } else {
                self.append(line);
                self.finish(&mut publish)?;
            }
            bytes = rest;
        }
        self.append(bytes);
        Ok(())
    }

    /// Finishes a last line without a line end.
    fn end(
        &mut self,
        mut publish: impl FnMut(Line<'_>) -> Result<(), ReserveError>,
    ) -> Result<(), Failure> {
        if self.len > 0 { self.finish(&mut publish) } else { Ok(()) }
    }

    fn append(&mut self, bytes: &[u8]) {
        self.len += bytes.len();
        if self.len <= self.max {
            self.line.extend_from_slice(bytes);
        }
    }

    fn finish(
        &mut self,
        publish: &mut impl FnMut(Line<'_>) -> Result<(), ReserveError>,
    ) -> Result<(), Failure> {
        let result = if self.len <= self.max {
            publish(Line::Whole(&self.line))
        } else {
            publish(Line::TooLong(self.len))
        };
        self.line.clear();
        self.len = 0;
        outcome(result)
    }
}

/// A refused line is counted by the ring and the next one follows; a damaged ring ends the command,
/// and one that has another producer.
fn outcome(result: Result<(), ReserveError>) -> Result<(), Failure> {
    match result {
        Err(error @ (ReserveError::Corrupt { .. } | ReserveError::Truncated)) => {
            Err(Failure::Damaged(error.to_string()))
        }
        Err(error @ (ReserveError::Replaced | ReserveError::NoSpace)) => {
            Err(Failure::General(error.to_string()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_of_any_size_give_the_same_lines() {
        let text = b"one\n\ntwo\nthis is far too long\nthree";
        for size in 1..=text.len() {
            let mut lines = Lines { max: 5, line: Vec::new(), len: 0 };
            let mut seen = Vec::new();
            let mut publish = |line: Line<'_>| {
                seen.push(match line {
                    Line::Whole(bytes) => String::from_utf8_lossy(bytes).into_owned(),
                    Line::TooLong(len) => format!("{len}!"),
                });
                Ok(())
            };
            for chunk in text.chunks(size) {
                lines.take(chunk, &mut publish).unwrap();
            }
            lines.end(&mut publish).unwrap();
            assert_eq!(seen, ["one", "", "two", "20!", "three"], "chunks of {size}");
        }
    }
}
