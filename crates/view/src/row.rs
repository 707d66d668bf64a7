//! A ring as it is shown: its rates, lags, losses, who is attached, and its state.

use perfring_consumer::{
    Location, Policy, Producers,
    stat::{Count, OwnerInfo, RingTotals, SeatState, Stat},
};
use perfring_figures::accounts::{Fill, counts, is_fed};
use perfring_figures::named::{self, is_read};
use perfring_figures::owner;
use perfring_figures::process::Processes;
use std::time::Duration;

/// Longer than this without a step, and a ring is shown as quiet, or its consumer as stalled.
pub const STILL: Duration = Duration::from_secs(2);

/// A ring's state, from what needs no attention to what needs it now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// It is written to, and read if it must be.
    #[default]
    Ok,
    /// Nothing was written for this long.
    Quiet(Duration),
    /// No producer, and nothing to read.
    Ended,
    /// No producer, and unread records.
    NoProducer,
    /// Unread records, and no consumer.
    NoConsumer,
    /// The consumer is alive and has not moved for this long.
    Stalled(Duration),
    /// Records were lost since the previous poll.
    Losing,
    /// A reservation or the lock holds the ring up.
    HeldUp,
    /// It cannot be read.
    Damaged,
}

impl State {
    /// Formats it in a dozen columns.
    #[must_use]
    pub fn text(self) -> String {
        match self {
            State::Quiet(time) => format!("quiet {}", short(time)),
            State::Stalled(time) => format!("stalled {}", short(time)),
            state => state.word().to_owned(),
        }
    }

    /// Returns its word, without a time.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            State::Ok => "ok",
            State::Quiet(_) => "quiet",
            State::Ended => "ended",
            State::NoProducer => "no producer",
            State::NoConsumer => "no consumer",
            State::Stalled(_) => "stalled",
            State::Losing => "losing",
            State::HeldUp => "held up",
            State::Damaged => "damaged",
        }
    }

    /// Returns since when it is so, if that is known.
    #[must_use]
    pub fn lasts(self) -> Option<Duration> {
        match self {
            State::Quiet(time) | State::Stalled(time) => Some(time),
            _ => None,
        }
    }
}

/// Formats a time in four columns.
fn short(time: Duration) -> String {
    match time.as_secs() {
        s @ ..100 => format!("{s}s"),
        s @ 100..6_000 => format!("{}m", s / 60),
        s @ 6_000..360_000 => format!("{}h", s / 3_600),
        s => format!("{}d", s / 86_400),
    }
}

/// A process that has a seat of a ring, or had it last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Its name, without control characters.
    pub name: String,
    /// Its number.
    pub pid: u32,
    /// When it attached, ns since 1970: another process of that name may have the number, too.
    pub attached_ns: u64,
    /// Whether it has the seat.
    pub alive: bool,
    /// How it is: alive, stopped, dumping core, detached or dead.
    pub how: &'static str,
}

impl Holder {
    /// Returns the owner of a seat of the ring at this location.
    pub(crate) fn of(
        state: SeatState,
        owner: &OwnerInfo,
        at: &Location,
        processes: &mut Processes,
    ) -> Self {
        let (pid, attached_ns, alive) = (owner.pid, owner.attached_ns, state == SeatState::Alive);
        let how = processes.state(state, owner, at).word();
        Holder { name: owner::name(owner), pid, attached_ns, alive, how }
    }
}

/// A consumer of a ring, and how far it has come.
#[derive(Clone, Debug, PartialEq)]
pub struct Reader {
    /// Who it is.
    pub holder: Holder,
    /// What it has not read.
    pub unread: Count,
    /// Where it is in the ring: everything before is read.
    pub pos: u64,
    /// Records that it missed.
    pub missed: u64,
    /// Whether a full ring waits for it.
    pub slowest: bool,
    /// Records a second that it reads, since the previous poll.
    pub rate: Option<f64>,
}

/// A ring at the last poll.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    /// Its number in this process; never reused.
    pub id: u32,
    /// The name of its file.
    pub name: String,
    /// Its path.
    pub location: String,
    /// Its state.
    pub state: State,
    /// A message about what is wrong, if anything is.
    pub trouble: Option<String>,
    /// How full its data area is.
    pub fill: Fill,
    /// Records and bytes a second that were written, since the previous poll.
    pub rate: Option<(f64, f64)>,
    /// Records and bytes a second that its consumer has read and released.
    pub read_rate: Option<(f64, f64)>,
    /// Records that the consumer, or the slowest named one, has not read; `None` if an overwrite ring never had a consumer.
    pub lag: Option<u64>,
    /// Records lost, by all causes, since the ring was created.
    pub lost: u64,
    /// Records lost a second, since the previous poll.
    pub lost_rate: f64,
    /// The producer, or how many.
    pub producer: String,
    /// Its producers: those that have their seats, and of an exclusive ring also the last one.
    pub producers: Vec<Holder>,
    /// Its consumers.
    pub readers: Vec<Reader>,
    /// Names and values that say more about it, once it is described.
    pub details: Vec<(String, String)>,
    /// Its figures; `None` if they cannot be read.
    pub stat: Option<Stat>,
}

impl Row {
    /// Fills in [`Row::details`].
    pub fn describe(&mut self) {
        let location = Location::from(self.location.as_str());
        self.details = self.stat.as_ref().map(|stat| details(stat, &location)).unwrap_or_default();
    }
}

/// Returns how far the consumer of a ring without named ones has come.
pub(crate) fn consumer_pos(stat: &Stat, totals: &RingTotals) -> u64 {
    match stat.layout.policy {
        Policy::Drop => totals.tail,
        Policy::Overwrite => totals.consumer.pos,
    }
}

/// Returns what was lost since the ring was created, by cause. What an overwrite ring overwrites is not lost.
#[must_use]
pub fn losses(totals: &RingTotals) -> [(&'static str, Count); 6] {
    let refused = &totals.producer.refused;
    [
        ("full", refused.full),
        ("too_large", refused.too_large),
        ("contended", refused.contended),
        ("pending", refused.pending),
        ("lapped", totals.consumer.lapped),
        ("reclaimed", totals.producer.reclaimed),
    ]
}

/// Returns the records that the consumer has not read yet, or the slowest named one.
pub(crate) fn lag(stat: &Stat) -> Option<u64> {
    let totals = stat.totals.as_ref()?;
    match stat.layout.policy {
        Policy::Drop => {
            let waited_for = stat.consumers.iter().filter(|consumer| consumer.figures.waited_for);
            let most = waited_for.map(|consumer| consumer.figures.unread.records).max();
            Some(most.unwrap_or(totals.present.records))
        }
        Policy::Overwrite if stat.consumer.owner.epoch == 0 => None,
        Policy::Overwrite => {
            let passed = totals.consumer.read.plus(totals.consumer.lapped);
            Some(totals.producer.written.records.saturating_sub(passed.records))
        }
    }
}

pub(crate) fn state(
    stat: &Stat,
    lag: Option<u64>,
    losing: bool,
    quiet: Duration,
    unread: Duration,
) -> State {
    let waiting = stat.layout.policy == Policy::Drop && lag.unwrap_or(0) > 0;
    match () {
        () if stat.held_up.is_some() => State::HeldUp,
        () if losing => State::Losing,
        () if is_read(stat) && lag.unwrap_or(0) > 0 && unread >= STILL => State::Stalled(unread),
        () if waiting && !is_read(stat) && is_fed(stat) => State::NoConsumer,
        () if waiting && !is_fed(stat) => State::NoProducer,
        () if !is_fed(stat) => State::Ended,
        () if quiet >= STILL => State::Quiet(quiet),
        () => State::Ok,
    }
}

/// Returns the producers of a ring, and how each is: the last one of an exclusive ring; of any other, those that
/// have detached only if no other is attached.
pub(crate) fn producers(stat: &Stat) -> Vec<(SeatState, &OwnerInfo)> {
    let only = (stat.producer.state, &stat.producer.owner);
    let mut all: Vec<_> = match stat.layout.producers {
        Producers::One => vec![only],
        Producers::Many | Producers::Cpu => {
            stat.producers.iter().map(|member| (member.state, &member.owner)).collect()
        }
    };
    let is_fed = is_fed(stat);
    all.retain(|(state, owner)| owner.epoch != 0 && (*state != SeatState::Detached || !is_fed));
    all
}

pub(crate) fn producer(stat: &Stat) -> String {
    let alive = stat.producers.iter().filter(|member| member.is_alive()).count();
    match (alive, &stat.producer.owner) {
        (2.., _) => format!("{alive} alive"),
        (_, owner) if owner.epoch == 0 => "none yet".to_owned(),
        (_, owner) => format!("{} {}", owner::name(owner), owner.pid),
    }
}

fn details(stat: &Stat, location: &Location) -> Vec<(String, String)> {
    let layout = &stat.layout;
    let holder = |state: SeatState, owner: &OwnerInfo| match (owner.epoch, state) {
        (_, SeatState::Free) => "none so far".to_owned(),
        (0, _) => "attaching".to_owned(),
        (nth, _) => {
            let (state, name, user) = (state.word(), owner::name(owner), owner::user(owner));
            format!("{state}: {name}, pid {}{user} (attach {nth})", owner.pid)
        }
    };
    let mut producers = producers(stat);
    if producers.is_empty() {
        producers.push((stat.producer.state, &stat.producer.owner));
    }
    let line = |(state, owner)| ("producer".to_owned(), holder(state, owner));
    let mut lines: Vec<_> = producers.into_iter().map(line).collect();
    if layout.consumers == 0 {
        let consumer = &stat.consumer;
        lines.push(("consumer".to_owned(), holder(consumer.state, &consumer.owner)));
    } else if stat.consumers.is_empty() {
        lines.push(("consumers".to_owned(), "none so far".to_owned()));
    }
    let named = stat.consumers.iter().map(|consumer| named::line(consumer, location));
    lines.extend(named.map(|line| ("consumer".to_owned(), line)));
    lines.push(("uuid".to_owned(), uuid::Uuid::from_bytes(layout.uuid).to_string()));
    if stat.metrics.size > 0 {
        let used = format!("{} of {} bytes used", stat.metrics.used, stat.metrics.size);
        let troubled = stat.metrics.trouble().map(|trouble| format!("{used}; {trouble}"));
        lines.push(("metrics".to_owned(), troubled.unwrap_or(used)));
    }
    if let Some(totals) = &stat.totals {
        let counts = counts(layout, totals);
        lines.extend(counts.into_iter().map(|(name, count)| {
            (name.to_owned(), format!("{} records, {} bytes", count.records, count.bytes))
        }));
    }
    lines
}
