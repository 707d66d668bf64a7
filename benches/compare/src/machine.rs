//! What was measured on.

use crate::CompareError;
use crate::options::Options;
use crate::rows::Machine;
use nix::time::{ClockId, clock_gettime};
use std::process::Command;

/// This machine, now.
///
/// # Errors
/// If the kernel does not tell.
pub fn of(options: &Options, cores: Option<[usize; 2]>) -> Result<Machine, CompareError> {
    let bare = perfring_bench::Options {
        repetitions: options.repetitions,
        seconds_per_sample: options.seconds_per_sample,
        data_size: options.data_size,
        reader: options.pace,
        ..perfring_bench::Options::default()
    };
    let machine = perfring_bench::machine::Machine::of(&bare, cores)?;
    let now = clock_gettime(ClockId::CLOCK_REALTIME)
        .map_err(|source| CompareError::System { what: "clock_gettime", source })?;
    Ok(Machine {
        cpu: machine.cpu,
        kernel: machine.kernel,
        cores: machine.cores,
        load: machine.load,
        commit: commit(),
        rustc: machine.rustc.to_owned(),
        target: machine.target.to_owned(),
        rustflags: machine.rustflags.to_owned(),
        repetitions: options.repetitions,
        seconds_per_sample: options.seconds_per_sample,
        data_size: options.data_size,
        started: utc(now.tv_sec()),
    })
}

/// The commit of the source that this was built from, and whether it was changed since.
fn commit() -> String {
    let git = |args: &[&str]| {
        let dir = env!("CARGO_MANIFEST_DIR");
        let output = Command::new("git").arg("-C").arg(dir).args(args).output().ok()?;
        let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        output.status.success().then_some(text)
    };
    let Some(commit) = git(&["rev-parse", "--short=12", "HEAD"]) else {
        return "unknown".to_owned();
    };
    match git(&["status", "--porcelain", "--untracked-files=no"]) {
        Some(changes) if !changes.is_empty() => format!("{commit}, changed"),
        _ => commit,
    }
}

/// Seconds since 1970 as a date.
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
    use super::utc;

    #[test]
    fn dates_are_right_around_leap_days() {
        assert_eq!(utc(0), "1970-01-01 00:00 UTC");
        assert_eq!(utc(951_782_400), "2000-02-29 00:00 UTC");
        assert_eq!(utc(951_868_800), "2000-03-01 00:00 UTC");
        assert_eq!(utc(1_798_761_599), "2026-12-31 23:59 UTC");
    }
}
