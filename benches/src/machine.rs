//! The machine: the report's first line.

use crate::cores::Places;
use crate::error::{Result, system};
use crate::raw::ticks;
use crate::scale::Scale;
use nix::time::{ClockId, clock_gettime};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use std::fs;

/// Machine, kernel, compiler and what all samples have in common.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// The processor, as the kernel names it.
    pub cpu: String,
    /// Linux's release.
    pub kernel: String,
    /// The reader's and the producer's core.
    pub cores: Option<[usize; 2]>,
    /// Runnable tasks in the minute before: two processes that share their cores with others wait
    /// for each other's turns, and measure the scheduler.
    pub load: String,
    /// The compilation target.
    pub target: &'static str,
    /// The compiler.
    pub rustc: &'static str,
    /// Its optimisation level.
    pub opt_level: &'static str,
    /// Its other flags.
    pub rustflags: &'static str,
    /// Size of a ring in bytes.
    pub data_size: u64,
    /// How readers wait.
    pub reader: &'static str,
    /// Samples of each kind.
    pub repetitions: usize,
    /// How long each takes.
    pub seconds_per_sample: f64,
    /// How many records each has at most.
    #[serde(skip)]
    pub max_records: u64,
    /// Senders that can have processors of their own.
    pub sender_room: usize,
    /// The step of the clock that measures latencies, one way.
    pub clock_step_ns: f64,
    /// The commit of which the program was built.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit: Option<&'static str>,
    /// The beginning of the run.
    pub started: String,
}

impl Machine {
    /// Describes this machine, now.
    pub fn of(
        scale: &Scale,
        places: Option<&Places>,
        tick_ns: f64,
        commit: Option<&'static str>,
    ) -> Result<Self> {
        let now = clock_gettime(ClockId::CLOCK_REALTIME).map_err(system("clock_gettime"))?;
        let info = fs::read_to_string("/proc/cpuinfo")?;
        let field = |name: &str| {
            let line = info.lines().find(|line| line.starts_with(name))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        };
        let model = field("model name").unwrap_or_else(|| "unknown".to_owned());
        let cpu = match (field("cpu family"), field("model\t")) {
            (Some(family), Some(number)) => format!("{model} (family {family}, model {number})"),
            _ => model,
        };
        Ok(Machine {
            cpu,
            kernel: fs::read_to_string("/proc/sys/kernel/osrelease")?.trim().to_owned(),
            cores: places.map(Places::two),
            load: fs::read_to_string("/proc/loadavg")?
                .split_whitespace()
                .next()
                .unwrap_or_default()
                .to_owned(),
            target: env!("BENCH_TARGET"),
            rustc: env!("BENCH_RUSTC"),
            opt_level: env!("BENCH_OPT_LEVEL"),
            rustflags: env!("BENCH_RUSTFLAGS"),
            data_size: scale.data_size,
            reader: scale.pace.name(),
            repetitions: scale.repetitions,
            seconds_per_sample: scale.seconds_per_sample,
            max_records: scale.max_records,
            sender_room: places.map_or(0, Places::room),
            clock_step_ns: clock_step_ns(tick_ns),
            commit,
            started: utc(now.tv_sec()),
        })
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, Linux {}, ", self.cpu, self.kernel)?;
        match self.cores {
            Some([reader, producer]) => {
                write!(f, "reader on core {reader}, producer on {producer}")
            }
            None => write!(f, "only one core: not pinned, and no measure of anything"),
        }?;
        write!(f, ", load {}", self.load)?;
        write!(f, "\n{}, {}, opt-level {}", self.rustc, self.target, self.opt_level)?;
        if !self.rustflags.is_empty() {
            write!(f, ", {}", self.rustflags)?;
        }
        write!(
            f,
            "\n{} KiB rings, {} reader, {} repetition{} of ",
            self.data_size / 1024,
            self.reader,
            self.repetitions,
            if self.repetitions == 1 { "" } else { "s" }
        )?;
        match self.max_records {
            u64::MAX => write!(f, "{} s", self.seconds_per_sample),
            records => write!(f, "{records} records"),
        }?;
        let commit = self.commit.map_or_else(String::new, |commit| format!("commit {commit}, "));
        write!(f, "\n{commit}{}", self.started)
    }
}

/// Returns the step of the clock of round trips, halved as they are, in nanoseconds: shorter times
/// cannot be measured.
fn clock_step_ns(tick_ns: f64) -> f64 {
    let mut before = ticks();
    let differences = (0..POLLS).map(|_| {
        let now = ticks();
        let difference = now.wrapping_sub(before);
        before = now;
        difference
    });
    step(differences) as f64 * tick_ns / 2.0
}

/// How often the clock is read.
const POLLS: usize = 8192;

/// Returns the greatest step of which all frequent differences are multiples. Clocks of two
/// processors need not be in step, and this thread may have moved from one to the other. A
/// processor that never returns the same time twice adds a tick to the last one, so a difference of
/// a tick is ignored if the most frequent difference is much larger.
fn step(differences: impl Iterator<Item = u64>) -> u64 {
    let mut counts: BTreeMap<u64, usize> = BTreeMap::new();
    for difference in differences {
        *counts.entry(difference).or_default() += 1;
    }
    let often = || counts.iter().filter(|(_, count)| **count >= POLLS / 100);
    let most = often().max_by_key(|(_, count)| **count).map_or(0, |(one, _)| *one);
    let is_multiple = |one: u64| one % most <= 1 || most - one % most <= 1;
    if most > 4 && often().all(|(one, _)| is_multiple(*one)) {
        return most;
    }
    often().map(|(one, _)| *one).fold(0, divisor)
}

/// Returns the greatest common divisor.
fn divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// Formats seconds since 1970 as a date.
fn utc(seconds: i64) -> String {
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // Years that begin in March: the leap day is the last one.
    let days = days + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    let year = year + era * 400 + next;
    let (hour, minute) = (second / 3600, second / 60 % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02} UTC")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot continue has failed")]
    use super::{Machine, POLLS, Scale, divisor, step, utc};

    #[test]
    fn a_sample_is_described_by_what_ends_it() {
        let of = |scale: Scale| Machine::of(&scale, None, 1.0, None).unwrap().to_string();
        let short = of(Scale { repetitions: 1, max_records: 20_480, ..Scale::default() });
        assert!(short.contains(", 1 repetition of 20480 records\n"), "{short}");
        let default = of(Scale::default());
        assert!(default.contains(" repetitions of 0.3 s\n"), "{default}");
    }

    #[test]
    fn the_step_is_what_all_differences_are_multiples_of() {
        let differences = (0..POLLS as u64).map(|n| if n == 9 { 7777 } else { 26 * (n % 3) });
        assert_eq!(step(differences), 26);
        let reported_once = [1, 25, 26, 26, 26, 51, 52].into_iter().cycle().take(POLLS);
        assert_eq!(step(reported_once), 26);
        let fine = [20, 21, 21, 23, 30].into_iter().cycle().take(POLLS);
        assert_eq!(step(fine), 1);
        assert_eq!([20, 30, 50, 20].into_iter().fold(0, divisor), 10);
        assert_eq!(divisor(0, 0), 0);
    }

    #[test]
    fn dates_are_right_around_leap_days() {
        assert_eq!(utc(0), "1970-01-01 00:00 UTC");
        assert_eq!(utc(951_782_400), "2000-02-29 00:00 UTC");
        assert_eq!(utc(951_868_800), "2000-03-01 00:00 UTC");
        assert_eq!(utc(1_798_761_599), "2026-12-31 23:59 UTC");
    }
}
