//! What to measure, and for how long.

use crate::error::{BenchError, Result};
use crate::part::SENDERS_MAX;
use crate::payload::PAYLOADS;
use crate::scale::Scale;
use crate::workload::Workload;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// The options, for `--help`.
pub const USAGE: &str = "\
Measures perfring between processes, beside the least code that moves the same bytes.

  --only W,W               of throughput, latency, wakeup, producers, overwrite, fanout, full, cold, memory
  --contestants NAME,NAME  besides the limits; see --list [all]
  --payloads N,N           of 8, 64, 256, 1024, 4096, 16384, 65472 [all]
  --producers N,N          or --senders: processes of producers, 1 to 64 each [1,2,4,8]
  --receivers N,N          receivers of fanout [1,4,16]
  --repetitions N          samples of each kind, the contestants taking turns [5]
  --seconds-per-sample S   [0.3]
  --data-size BYTES        of each ring, a power of two [1048576]
  --reader STRATEGY        or --pace: latency, throughput or adaptive, for all readers that poll [adaptive]
  --short                  a few records of each kind, to see that it works
  --list                   lists the contestants, and those that cannot run here
  --json [FILE]            one JSON object a line; without a file, on standard output instead of tables
";

/// What to measure.
#[derive(Clone, Debug)]
pub struct Options {
    /// The comparisons to run; empty means the program's usual ones.
    pub workloads: Vec<Workload>,
    /// The contestants by name; empty means all.
    pub contestants: Vec<String>,
    /// Payload lengths of [`Workload::Throughput`], of [`PAYLOADS`].
    pub payloads: Vec<usize>,
    /// Senders of [`Workload::Producers`].
    pub senders: Vec<usize>,
    /// Receivers of [`Workload::Fanout`].
    pub receivers: Vec<usize>,
    /// How much is measured of each kind.
    pub scale: Scale,
    /// A few records of each kind: one round, and no more.
    pub short: bool,
    /// Only the contestants are listed.
    pub list: bool,
    /// Where JSON lines go; `-` is the standard output, which then has no table.
    pub json: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            workloads: Vec::new(),
            contestants: Vec::new(),
            payloads: PAYLOADS.to_vec(),
            senders: vec![1, 2, 4, 8],
            receivers: vec![1, 4, 16],
            scale: Scale::default(),
            short: false,
            list: false,
            json: None,
        }
    }
}

impl Options {
    /// Returns options for a few records of each kind: checks that everything works, measures
    /// nothing.
    #[must_use]
    pub fn short() -> Self {
        Options {
            payloads: vec![8, 64, 1024, 4096, 65_472],
            senders: vec![1, 3],
            receivers: vec![1, 3],
            scale: Scale {
                repetitions: 1,
                // Only the count ends a sample, however slow the machine is.
                seconds_per_sample: 3600.0,
                patience: Duration::from_secs(600),
                max_records: 20_480,
                round_trips: 200,
                cold_starts: 2,
                ..Scale::default()
            },
            short: true,
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
        let mut args = args.into_iter().peekable();
        while let Some(arg) = args.next() {
            let (name, inline) = match arg.split_once('=') {
                Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
                None => (arg, None),
            };
            let mut value = || {
                let next = || args.next_if(|next| !next.starts_with("--"));
                inline.clone().or_else(next)
            };
            let missing = || BenchError::Usage(format!("{name} needs a value"));
            let scale = &mut options.scale;
            match name.as_str() {
                "--bench" | "--short" => {}
                "--list" => options.list = true,
                "--json" => options.json = Some(value().unwrap_or_else(|| "-".into()).into()),
                _ => {
                    let mut of = || value().ok_or_else(missing);
                    match name.as_str() {
                        "--repetitions" => scale.repetitions = number(&name, &of()?)?,
                        "--seconds-per-sample" => {
                            scale.seconds_per_sample = number(&name, &of()?)?;
                        }
                        "--data-size" => scale.data_size = number(&name, &of()?)?,
                        "--reader" | "--pace" => scale.pace = of()?.parse()?,
                        "--payloads" => options.payloads = numbers(&name, &of()?)?,
                        "--producers" | "--senders" => options.senders = numbers(&name, &of()?)?,
                        "--receivers" => options.receivers = numbers(&name, &of()?)?,
                        "--only" => {
                            options.workloads =
                                of()?.split(',').map(str::parse).collect::<Result<_, _>>()?;
                        }
                        "--contestants" => {
                            options.contestants = of()?.split(',').map(str::to_owned).collect();
                        }
                        _ => {
                            let why = format!("unknown option {name}\n{USAGE}");
                            return Err(BenchError::Usage(why));
                        }
                    }
                }
            }
        }
        options.check()?;
        Ok(options)
    }

    /// Checks whether a run is possible with them.
    ///
    /// # Errors
    /// [`BenchError::Usage`] if one of them is invalid.
    pub fn check(&self) -> Result<()> {
        let complain = |what: String| Err(BenchError::Usage(what));
        let Scale { data_size, seconds_per_sample, repetitions, .. } = self.scale;
        if let Some(payload) = self.payloads.iter().find(|n| !PAYLOADS.contains(n)) {
            return complain(format!("payload {payload} is not one of {PAYLOADS:?}"));
        }
        if !data_size.is_power_of_two() || !(1 << 16..=1 << 32).contains(&data_size) {
            return complain(format!(
                "data size {data_size} is not a power of two from 64 KiB to 4 GiB"
            ));
        }
        if !(seconds_per_sample > 0.0 && seconds_per_sample <= 3600.0) {
            return complain(format!("{seconds_per_sample} seconds per sample"));
        }
        let mut crowd = self.senders.iter().chain(&self.receivers);
        if let Some(n) = crowd.find(|n| !(1..=SENDERS_MAX).contains(*n)) {
            return complain(format!("{n} at once: 1 to {SENDERS_MAX} can be measured"));
        }
        if repetitions == 0 {
            return complain("nothing to repeat".to_owned());
        }
        Ok(())
    }
}

fn numbers(name: &str, text: &str) -> Result<Vec<usize>> {
    text.split(',').map(|text| number(name, text)).collect()
}

fn number<T: FromStr>(name: &str, text: &str) -> Result<T> {
    text.trim()
        .parse()
        .map_err(|_| BenchError::Usage(format!("{name}: {text:?} is not a number that fits")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::waits::WaitStrategy;

    fn parse(line: &str) -> Result<Options> {
        Options::parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn options_are_taken_and_nonsense_is_refused() {
        let options =
            parse("--bench --json --payloads=8,64 --reader latency --only latency,producers")
                .unwrap();
        assert_eq!(options.json.unwrap().to_str(), Some("-"));
        assert_eq!(options.payloads, [8, 64]);
        assert_eq!(options.scale.pace, WaitStrategy::Latency);
        assert_eq!(options.workloads, [Workload::Latency, Workload::Producers]);
        assert_eq!(parse("--json rows --list").unwrap().json.unwrap().to_str(), Some("rows"));
        assert_eq!(parse("--producers 1,16").unwrap().senders, [1, 16]);
        assert_eq!(parse("--repetitions 7 --short").unwrap().scale.repetitions, 7);
        for bad in [
            "--payloads 7",
            "--reader",
            "--reader fast",
            "--data-size 100000",
            "--seconds-per-sample NaN",
            "--repetitions 0",
            "--producers 0",
            "--producers 1,65",
            "--only --short",
            "--frobnicate",
        ] {
            assert!(matches!(parse(bad), Err(BenchError::Usage(_))), "{bad}");
        }
    }
}
