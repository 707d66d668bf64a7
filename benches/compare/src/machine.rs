//! The machine of a run.

use crate::rows::Machine;
use nix::time::{ClockId, clock_gettime};
use perfring_bench::Result;
use perfring_bench::cores::Places;
use perfring_bench::error::system;
use perfring_bench::raw::ticks;
use perfring_bench::turns::Bench;
use std::collections::BTreeMap;

/// Describes this machine, now.
pub fn of(bench: &Bench) -> Result<Machine> {
    let places = bench.places.as_ref();
    let now = clock_gettime(ClockId::CLOCK_REALTIME).map_err(system("clock_gettime"))?;
    Ok(Machine {
        here: perfring_bench::machine::Machine::of(&bench.scale, places.map(Places::two))?,
        sender_room: places.map_or(0, Places::room),
        clock_step_ns: clock_step_ns(bench.tick_ns),
        commit: env!("COMPARE_COMMIT"),
        started: utc(now.tv_sec()),
    })
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
    use super::{POLLS, divisor, step, utc};
    use std::process::Command;

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

    /// Cargo rebuilds after each commit: a header that names another one is detected here.
    #[test]
    fn the_commit_is_that_of_the_source() {
        let output = Command::new("git").args(["rev-parse", "--short=12", "HEAD"]).output();
        let Some(output) = output.ok().filter(|output| output.status.success()) else {
            assert_eq!(env!("COMPARE_COMMIT"), "unknown");
            return;
        };
        let head = String::from_utf8_lossy(&output.stdout);
        assert_eq!(env!("COMPARE_COMMIT").trim_end_matches("-dirty"), head.trim());
    }

    #[test]
    fn dates_are_right_around_leap_days() {
        assert_eq!(utc(0), "1970-01-01 00:00 UTC");
        assert_eq!(utc(951_782_400), "2000-02-29 00:00 UTC");
        assert_eq!(utc(951_868_800), "2000-03-01 00:00 UTC");
        assert_eq!(utc(1_798_761_599), "2026-12-31 23:59 UTC");
    }
}
