//! What to measure, and for how long.

use crate::case::Scale;
use crate::error::{BenchError, Result};
use crate::part::SENDERS_MAX;
use crate::payload::PAYLOADS;
use crate::waits::WaitStrategy;
use std::str::FromStr;

/// The options, for `--help`.
pub const USAGE: &str = "\
Measures perfring between two processes, beside the least code that moves the same bytes.

  --repetitions N          samples of each kind, the contestants taking turns [5]
  --seconds-per-sample S   [0.3]
  --payloads N,N           of 8, 64, 256, 1024, 4096, 16384, 65472 [all]
  --reader STRATEGY        latency, throughput or adaptive, for all readers [adaptive]
  --only PART,PART         of throughput, overwrite, latency, many [all]
  --producers N,N          processes of many, 1 to 64 each [1,2,4,8]
  --data-size BYTES        of each ring, a power of two [1048576]
  --short                  a few records of each kind, to see that it works
  --json                   one JSON object a line
";

/// One of the benchmarks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Records a second from one process to the other.
    Throughput,
    /// Nanoseconds a record for a producer that overwrites.
    Overwrite,
    /// Half a round trip.
    Latency,
    /// Many producer processes and one ring.
    Many,
}

impl Part {
    /// In the order of the report.
    const ALL: [Part; 4] = [Part::Throughput, Part::Overwrite, Part::Latency, Part::Many];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Part::Throughput => "throughput",
            Part::Overwrite => "overwrite",
            Part::Latency => "latency",
            Part::Many => "many",
        }
    }
}

impl FromStr for Part {
    type Err = BenchError;

    fn from_str(text: &str) -> Result<Self> {
        Part::ALL
            .into_iter()
            .find(|part| part.name() == text)
            .ok_or_else(|| BenchError::Usage(format!("no such part: {text}")))
    }
}

/// What to measure.
#[derive(Clone, Debug)]
pub struct Options {
    /// Samples of each kind.
    pub repetitions: usize,
    /// How long a producer produces for one sample.
    pub seconds_per_sample: f64,
    /// A producer also stops after this many records.
    pub max_records: u64,
    /// Round trips of one latency sample.
    pub round_trips: u64,
    /// Payload lengths, of [`PAYLOADS`].
    pub payloads: Vec<usize>,
    /// How every reader waits.
    pub reader: WaitStrategy,
    /// Which benchmarks to run.
    pub parts: Vec<Part>,
    /// How many producers, in [`Part::Many`]: 1 to 64.
    pub producers: Vec<usize>,
    /// Size of each ring's data area in bytes: a power of two, at least 64 KiB.
    pub data_size: u64,
    /// JSON lines instead of a table.
    pub json: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            repetitions: 5,
            seconds_per_sample: 0.3,
            max_records: u64::MAX,
            round_trips: 100_000,
            payloads: PAYLOADS.to_vec(),
            reader: WaitStrategy::default(),
            parts: Part::ALL.to_vec(),
            producers: vec![1, 2, 4, 8],
            data_size: 1 << 20,
            json: false,
        }
    }
}

impl Options {
    /// Returns how much is measured of each kind.
    pub(crate) fn scale(&self) -> Scale {
        Scale {
            repetitions: self.repetitions,
            seconds_per_sample: self.seconds_per_sample,
            max_records: self.max_records,
            round_trips: self.round_trips,
            data_size: self.data_size,
            pace: self.reader,
            ..Scale::default()
        }
    }

    /// Returns options for a few records of each kind: checks that everything works, measures
    /// nothing.
    #[must_use]
    pub fn short() -> Self {
        Options {
            repetitions: 1,
            // Only the count ends a sample, however slow the machine is.
            seconds_per_sample: 3600.0,
            max_records: 20_480,
            // Few, and few before them: beside other busy processes a trip takes two turns of a
            // core.
            round_trips: 33,
            producers: vec![1, 3],
            ..Options::default()
        }
    }

    /// Parses options from arguments. `--bench`, which `cargo bench` adds, is ignored.
    ///
    /// # Errors
    /// [`BenchError::Usage`] if an argument is unknown or invalid.
    pub fn parse(args: impl IntoIterator<Item = String>) -> Result<Self> {
        let args: Vec<String> = args.into_iter().collect();
        let short = args.iter().any(|arg| arg == "--short");
        let mut options = if short { Options::short() } else { Options::default() };
        let mut args = args.into_iter();
        while let Some(arg) = args.next() {
            let (name, inline) = match arg.split_once('=') {
                Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
                None => (arg, None),
            };
            let mut value = || {
                inline
                    .clone()
                    .or_else(|| args.next())
                    .ok_or_else(|| BenchError::Usage(format!("{name} needs a value")))
            };
            match name.as_str() {
                "--bench" | "--short" => {}
                "--json" => options.json = true,
                "--repetitions" => options.repetitions = number(&name, &value()?)?,
                "--seconds-per-sample" => options.seconds_per_sample = number(&name, &value()?)?,
                "--data-size" => options.data_size = number(&name, &value()?)?,
                "--reader" => options.reader = value()?.parse()?,
                "--payloads" => {
                    options.payloads =
                        value()?.split(',').map(|n| number(&name, n)).collect::<Result<_, _>>()?;
                }
                "--producers" => {
                    options.producers =
                        value()?.split(',').map(|n| number(&name, n)).collect::<Result<_, _>>()?;
                }
                "--only" => {
                    options.parts =
                        value()?.split(',').map(str::parse).collect::<Result<_, _>>()?;
                }
                _ => return Err(BenchError::Usage(format!("unknown option {name}\n{USAGE}"))),
            }
        }
        options.check()?;
        Ok(options)
    }

    /// Checks whether a run is possible with them.
    pub(crate) fn check(&self) -> Result<()> {
        let complain = |what: String| Err(BenchError::Usage(what));
        if let Some(payload) = self.payloads.iter().find(|n| !PAYLOADS.contains(n)) {
            return complain(format!("payload {payload} is not one of {PAYLOADS:?}"));
        }
        if !self.data_size.is_power_of_two() || !(1 << 16..=1 << 32).contains(&self.data_size) {
            return complain(format!(
                "data size {} is not a power of two from 64 KiB to 4 GiB",
                self.data_size
            ));
        }
        if !(self.seconds_per_sample > 0.0 && self.seconds_per_sample <= 3600.0) {
            return complain(format!("{} seconds per sample", self.seconds_per_sample));
        }
        if let Some(n) = self.producers.iter().find(|n| !(1..=SENDERS_MAX).contains(*n)) {
            return complain(format!("{n} producers: 1 to {SENDERS_MAX} can be measured"));
        }
        if self.repetitions == 0 || self.round_trips == 0 {
            return complain("nothing to repeat".to_owned());
        }
        Ok(())
    }
}

fn number<T: FromStr>(name: &str, text: &str) -> Result<T> {
    text.trim()
        .parse()
        .map_err(|_| BenchError::Usage(format!("{name}: {text:?} is not a number that fits")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options> {
        Options::parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn options_are_taken_and_nonsense_is_refused() {
        let options =
            parse("--bench --json --payloads=8,64 --reader latency --only latency,many").unwrap();
        assert!(options.json);
        assert_eq!((options.payloads, options.reader), (vec![8, 64], WaitStrategy::Latency));
        assert_eq!(options.parts, [Part::Latency, Part::Many]);
        assert_eq!(parse("--producers 1,16").unwrap().producers, [1, 16]);
        assert_eq!(parse("--repetitions 7 --short").unwrap().repetitions, 7);
        for bad in [
            "--payloads 7",
            "--reader",
            "--reader fast",
            "--data-size 100000",
            "--seconds-per-sample NaN",
            "--repetitions 0",
            "--producers 0",
            "--producers 1,65",
            "--frobnicate",
        ] {
            assert!(matches!(parse(bad), Err(BenchError::Usage(_))), "{bad}");
        }
    }
}
