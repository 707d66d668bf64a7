//! The consumers of a ring: whether somebody reads it, and whom its producers wait for.

use super::owners;
use super::report::Report;
use crate::failure::Failure;
use perfring_consumer::{
    Location, Policy,
    stat::{ConsumerFigures, RingTotals, Seat, SeatState, Stat},
};
use perfring_figures::accounts::Fill;
use perfring_figures::named::{is_read, line};
use perfring_figures::owner::{count, holding};
use perfring_figures::process::State;

pub(super) fn check(
    report: &mut Report,
    location: &Location,
    stat: &Stat,
    totals: &RingTotals,
) -> Result<(), Failure> {
    let fill = Fill::of_data(stat, totals);
    let is_full = fill.used >= fill.size / 10 * 9;
    if stat.layout.consumers != 0 {
        return named(report, location, stat, is_full);
    }
    let state = State::of(stat.consumer.state, &stat.consumer.owner, location);
    let last = holding(&stat.consumer, state);
    let waiting = totals.present.records;
    if stat.consumer.is_alive() || stat.layout.policy == Policy::Overwrite || waiting == 0 {
        return owners::seat(report, "consumer", &stat.consumer, location);
    }
    let wait = if waiting == 1 { "waits" } else { "wait" };
    let message = format!("{last}, and {} {wait}", count(waiting, "record"));
    if is_full {
        let advice = format!("start one, for example `perfring consume {location}`");
        report.warn("consumer", format!("{message}; new ones find no room"), advice)
    } else {
        report.note("consumer", message)
    }
}

/// Reports who is there, and of a full ring the one that it waits for.
fn named(
    report: &mut Report,
    location: &Location,
    stat: &Stat,
    is_full: bool,
) -> Result<(), Failure> {
    let seats = count(stat.layout.consumers.into(), "seat");
    let alive = stat.consumers.iter().filter(|consumer| consumer.is_alive()).count();
    let used = format!("{alive} of {seats} for named ones in use");
    let start = || format!("start one, for example `perfring consume {location} --name NAME`");
    if is_full && !is_read(stat) {
        report.warn("consumers", format!("{used}; new records find no room"), start())?;
    } else {
        report.ok("consumers", used)?;
    }
    for consumer in &stat.consumers {
        one(report, location, consumer, is_full)?;
    }
    Ok(())
}

fn one(
    report: &mut Report,
    location: &Location,
    consumer: &Seat<ConsumerFigures>,
    is_full: bool,
) -> Result<(), Failure> {
    let message = line(consumer, location);
    let pid = consumer.owner.pid;
    match State::of(consumer.state, &consumer.owner, location) {
        State::Seat(SeatState::Dead | SeatState::Detached) if consumer.figures.waited_for => {
            let advice = format!(
                "the next producer that needs room drops it, or `perfring recover {location}`"
            );
            report.note("consumers", format!("{message}; {advice}"))
        }
        State::Stopped if is_full && consumer.figures.slowest => {
            report.warn("consumers", message, format!("kill -CONT {pid} to continue it, or end it"))
        }
        State::Seat(SeatState::Dead | SeatState::Detached) => report.note("consumers", message),
        _ => report.ok("consumers", message),
    }
}
