//! The analysis: evidence in the order of time goes in, findings come out.

use crate::case::{Case, Coverage, GapCase, HeldBy, LossCase, ReadCase, What};
use crate::cover::Cover;
use crate::evidence::{Events, Evidence, Fact, Holder, Role, Writer};
use crate::finding::{Kind, Report};
use crate::gap::{Gap, split_at};
use crate::looks::Looks;
use crate::moved::Moved;
use crate::names::Names;
use crate::options::Options;
use crate::owners::{Owners, SeatsThen};
use crate::preempted::Preempted;
use crate::reads::{Late, Reads};
use crate::rules::{RULES, Rule, judge};
use crate::threads::Threads;
use crate::verdict::finding;
use perfring_consumer::Cause;
use perfring_events::LossCause;
use std::collections::{HashMap, HashSet, VecDeque};

/// How long a gap waits for evidence that comes after it, ns: a witness looks at /proc every 20 ms.
const SETTLES: u64 = 100_000_000;
/// Losses of one ring by one cause that follow each other within this time are one finding, ns.
const BURST: u64 = 1_000_000_000;
/// The limit of findings that are kept: the worst.
const KEPT: usize = 10_000;
/// The number of no ring: what happened to the machine.
const NO_RING: u32 = u32::MAX;

/// Joins the records of rings with the kernel's events and with what a witness saw.
///
/// ```
/// use perfring_why::{Analysis, Events, Evidence, Fact, Options, Switch, Thread, Writer};
/// let (shop, hog) = (Thread { pid: 17, tid: 17 }, Thread { pid: 99, tid: 99 });
/// let record = Fact::Record { ring: 0, pos: 0, writer: Writer::Thread(shop) };
/// let named = |thread, name: &str| Fact::Named { source: None, thread, name: name.to_owned() };
/// let switched = |how, next| Fact::Switched { source: 1, thread: shop, cpu: 0, how, next };
/// let mut analysis = Analysis::new(Options { slower_than: 100_000, since: 0 });
/// for (time, fact) in [
///     (0, Fact::Watched { of: Events::Switches, pid: 0 }),
///     (0, named(shop, "shop")),
///     (0, named(hog, "hog")),
///     (1_000, record.clone()),
///     (2_000, switched(Switch::Preempted, Some(hog))),
///     (3_002_000, switched(Switch::In, None)),
///     (3_003_000, record),
/// ] {
///     analysis.add(Evidence { time, fact });
/// }
/// let report = analysis.finish();
/// let finding = &report.findings[0];
/// assert_eq!((finding.cause, finding.certainty.word()), ("preempted", "certain"));
/// assert!(finding.sentence.starts_with(
///     "shop (17) wrote nothing for 3.00 ms: it was preempted by hog (99) for 3.00 ms"
/// ));
/// ```
#[derive(Debug)]
pub struct Analysis {
    options: Options,
    rules: Vec<&'static Rule>,
    threads: Threads,
    names: Names,
    /// Gaps that wait for evidence that comes later.
    pending: VecDeque<Gap>,
    /// The last loss of each ring and cause, while it may continue.
    losses: HashMap<(u32, &'static str), (u64, u64, LossCase)>,
    /// For each ring, the number of the last loss in the order of all evidence.
    lost_at: HashMap<u32, u64>,
    /// For each thread, the number and the ring of its last record.
    wrote_at: HashMap<u32, (u64, u32)>,
    order: u64,
    /// Rings that keep their records until they are read.
    drops: HashSet<u32>,
    moved: Moved,
    owners: Owners,
    /// Losses at which no seat was known: they are judged last.
    unseen: Vec<(u32, (u64, u64, LossCase))>,
    cover: Cover,
    looks: Looks,
    reads: Reads,
    /// The threads of consumers: what they do from one look to the next.
    readers: Threads,
    first: Option<u64>,
    newest: u64,
    preempted: Preempted,
    report: Report,
}

impl Analysis {
    /// Begins.
    #[must_use]
    pub fn new(options: Options) -> Self {
        Self::with_rules(options, RULES.iter().collect())
    }

    pub(crate) fn with_rules(options: Options, rules: Vec<&'static Rule>) -> Self {
        Analysis {
            options,
            rules,
            threads: Threads::default(),
            names: Names::default(),
            pending: VecDeque::new(),
            losses: HashMap::new(),
            lost_at: HashMap::new(),
            wrote_at: HashMap::new(),
            order: 0,
            drops: HashSet::new(),
            moved: Moved::default(),
            owners: Owners::default(),
            unseen: Vec::new(),
            cover: Cover::default(),
            looks: Looks::default(),
            reads: Reads::new(options.slower_than),
            readers: Threads::default(),
            first: None,
            newest: 0,
            preempted: Preempted::default(),
            report: Report::default(),
        }
    }

    /// Adds what is known next, in the order of time.
    pub fn add(&mut self, evidence: Evidence) {
        let Evidence { time, fact } = evidence;
        let is_timed = !matches!(fact, Fact::Ring { .. } | Fact::Named { source: None, .. });
        if is_timed {
            self.first.get_or_insert(time);
        }
        if let Some(source) = fact.source() {
            self.cover.heard(source, time, self.newest);
        }
        self.newest = self.newest.max(if is_timed { time } else { 0 });
        self.note(time, fact);
        while let Some(gap) = self.pending.pop_front() {
            if self.newest < gap.until.saturating_add(SETTLES) {
                self.pending.push_front(gap);
                break;
            }
            self.judge_gap(gap);
        }
    }

    fn note(&mut self, time: u64, fact: Fact) {
        if let Fact::Seat { seat, .. } | Fact::Present { seat, .. } = &fact {
            self.names.add_owner(seat);
        }
        match fact {
            Fact::Ring { ring, name, drops } => {
                self.names.add_ring(ring, &name);
                self.drops.extend(drops.then_some(ring));
            }
            Fact::Record { ring, pos, writer } => {
                self.reads.record(ring, pos, time);
                self.record(time, ring, writer);
            }
            Fact::Lost { ring, records, cause } => self.lost(time, ring, records, cause),
            Fact::Seat { ring, seat } => {
                if let Some((_, since, seat)) = self.owners.seat(time, ring, seat) {
                    let what = What::Owner { seat, is_over: true };
                    self.judge(what, ring, since, time.saturating_sub(since));
                }
            }
            Fact::Present { ring, seat } => self.owners.present(time, ring, seat),
            Fact::Switched { thread, cpu, how, next, .. } => {
                self.threads.switched(time, thread, cpu, how, next);
                self.readers.switched(time, thread, cpu, how, next);
                self.mark_broken();
            }
            Fact::Fault { thread, .. } => self.threads.fault(time, thread),
            Fact::Named { thread, name, .. } => {
                self.threads.know(thread);
                self.readers.know(thread);
                self.names.add(thread, &name);
            }
            Fact::Started { thread, parent, .. } => {
                self.threads.know(thread);
                self.readers.know(thread);
                self.names.inherit(thread, parent);
            }
            Fact::Ended { thread, .. } => {
                self.threads.ended(thread);
                self.readers.ended(thread);
            }
            Fact::Other { .. } => {}
            Fact::Missing { of, pid, source, records } => {
                self.report.missing = self.report.missing.saturating_add(records);
                self.cover.holes.lost(source, time, of, pid, records);
            }
            Fact::Watched { of, pid } => {
                let had_switches = self.cover.has_switches();
                if self.cover.begin(time, of, pid) && of == Events::Switches {
                    // No cause is known before that, of whatever thread.
                    if !had_switches {
                        self.report.anonymous = 0;
                    }
                    self.threads.forget_places(pid);
                    self.readers.forget_places(pid);
                }
            }
            Fact::Unwatched { of, pid } => self.cover.end(time, of, pid),
            Fact::Stopped { pid, stopped, before, look } => {
                self.looks.stop(pid, stopped, (before, look, time));
            }
            Fact::Delayed { thread, before, added } => {
                self.looks.delay(thread.tid, before, time, added);
            }
            Fact::Throttled { pid, before, added } => {
                self.looks.throttle(pid, before, time, added);
            }
            Fact::InCall { thread, look, name } => self.looks.call(thread.tid, look, time, name),
            Fact::Stolen { cpu, before, added } => self.looks.steal(cpu, before, time, added),
            Fact::Stalled { pid, before, added } => self.looks.stall(pid, before, time, added),
            Fact::Suspended { before, added } => self.looks.suspend(before, time, added),
            Fact::Held { ring, pid, from, until } => self.looks.hold(ring, pid, from, until),
            Fact::ClockSet { before, by } => {
                self.judge(What::Clock(by), NO_RING, before, time.saturating_sub(before));
            }
            Fact::Read { ring, number, pid, pos, look } => {
                let thread = self.readers.only_thread_of(pid);
                let did = thread.and_then(|thread| self.readers.looked(look, thread));
                if let Some(late) = self.reads.look((ring, number, pid), pos, look, did) {
                    self.judge_late(late);
                }
            }
        }
    }

    fn record(&mut self, time: u64, ring: u32, writer: Writer) {
        self.report.records += 1;
        self.pending.extend(self.moved.heard(ring));
        let thread = match writer {
            Writer::Thread(thread) => Some(thread),
            Writer::Process(pid) => self.threads.writer_of(pid),
            Writer::Unknown => None,
        };
        let Some(thread) = thread else {
            self.report.anonymous += 1;
            return;
        };
        let wrote = self.threads.wrote(time, thread, ring);
        self.mark_broken();
        self.order += 1;
        let before = self.wrote_at.insert(thread.tid, (self.order, ring));
        let Some(gap) = wrote else {
            split_at(&mut self.pending, thread, time, self.options.slower_than);
            return;
        };
        if gap.length() < self.options.slower_than {
            return;
        }
        // A record that was lost in between may be this thread's: it may have written all the time.
        let is_hidden = before.is_some_and(|(order, other)| {
            let lost = |ring| self.lost_at.get(&ring).is_some_and(|at| *at > order);
            lost(ring) || lost(other)
        });
        match is_hidden {
            true => self.report.hidden += 1,
            false => self.pending.extend(match before.filter(|(_, other)| *other != ring) {
                Some((_, other)) => self.moved.hold(gap, other),
                None => Some(gap),
            }),
        }
    }

    /// Marks gaps that end with records which the switches contradict.
    fn mark_broken(&mut self) {
        for (thread, record) in self.threads.take_broken() {
            let of = |gap: &&mut Gap| gap.thread == thread && gap.until == record;
            self.pending.iter_mut().filter(of).for_each(|gap| gap.parts.contradicted = true);
        }
    }

    fn lost(&mut self, time: u64, ring: u32, records: u64, cause: LossCause) {
        self.order += 1;
        self.lost_at.insert(ring, self.order);
        self.report.hidden += self.moved.lost(ring);
        let drops = self.drops.contains(&ring);
        let role = match cause {
            LossCause::Ring(Cause::Pending | Cause::Contended) => Role::Producer,
            _ => Role::Consumer,
        };
        let SeatsThen { seats, changed } = self.owners.at(ring, time, role);
        match self.losses.get_mut(&(ring, cause.name())) {
            Some((_, until, loss)) if time.saturating_sub(*until) < BURST => {
                *until = time.max(*until);
                loss.records = loss.records.saturating_add(records);
            }
            _ => {
                let loss = LossCase { records, cause, drops, seats, changed, present: Vec::new() };
                let loss = (time, time, loss);
                let before = self.losses.insert((ring, cause.name()), loss);
                self.judge_loss(ring, before);
            }
        }
    }

    fn judge_loss(&mut self, ring: u32, loss: Option<(u64, u64, LossCase)>) {
        match loss {
            // The present seats of a live ring are known last.
            Some(loss) if loss.2.seats.is_empty() && self.unseen.len() < KEPT => {
                self.unseen.push((ring, loss));
            }
            Some((from, until, mut loss)) => {
                // Processes are looked at more often than seats.
                for seat in &mut loss.seats {
                    let is_alive = seat.here && seat.holder == Holder::Alive;
                    if is_alive && self.looks.is_stopped_at(seat.pid, from) {
                        seat.holder = Holder::Stopped;
                    }
                }
                self.judge(What::Loss(loss), ring, from, until.saturating_sub(from));
            }
            None => {}
        }
    }

    /// Returns the times since the last record of each thread, up to the end of the evidence about the thread.
    fn open_gaps(&mut self) -> Vec<Gap> {
        let (cover, newest) = (&self.cover, self.newest);
        let end = |pid: u32| cover.last_end(pid).unwrap_or(newest).min(newest);
        let mut gaps = self.threads.open(end);
        let lost = |gap: &Gap| {
            let last = self.wrote_at.get(&gap.thread.tid).map_or(0, |(order, _)| *order);
            self.lost_at.get(&gap.ring).is_some_and(|at| *at > last)
        };
        gaps.retain(|gap| gap.length() >= self.options.slower_than && !lost(gap));
        gaps
    }

    fn judge_gap(&mut self, mut gap: Gap) {
        let (from, until) = (gap.from, gap.until);
        gap.parts.contradicted |= self.threads.is_early(gap.thread, until);
        let coverage = self.cover.of(&gap);
        let stopped = self.looks.stopped_of(&gap, coverage);
        let throttled = self.looks.throttled_of(&gap);
        let (ring, length) = (gap.ring, gap.length());
        let held = self.looks.held_by(&gap).map(|held| self.explain_holder(held, &gap));
        let (stalled, suspended) = (self.looks.stalled_of(&gap), self.looks.suspended(from, until));
        let (stolen, call) = (self.looks.stolen_of(&gap), self.looks.call_of(&gap));
        let has_faults = self.cover.has_faults(&gap);
        let delayed = self.looks.delayed_of(&gap);
        let what = What::Gap(GapCase {
            gap,
            coverage,
            has_faults,
            stopped,
            delayed,
            throttled,
            stalled,
            suspended,
            stolen,
            call,
            held,
        });
        self.judge(what, ring, from, length);
    }

    /// Finds out what kept the holder of a reservation or a lock from its work: its own gap has ended, too.
    fn explain_holder(&self, held: HeldBy, gap: &Gap) -> HeldBy {
        let stopped = self.looks.stopped(held.pid, gap.from, gap.until);
        if stopped.surely > held.least / 2 {
            let why = Some("stopped by a signal or a debugger".to_owned());
            return HeldBy { why, ..held };
        }
        let why = self.preempted.within(held.pid, gap.from, gap.until, held.least / 2);
        HeldBy { why, ..held }
    }

    fn judge_late(&mut self, late: Late) {
        let Late { ring, number, pid, from, until, worst, .. } = late;
        let reader = self.owners.consumer(ring, number, pid);
        let stopped = self.looks.stopped(pid, from, until);
        let gap = self.readers.only_thread_of(pid).and_then(|thread| late.watched(thread));
        let is_whole = |gap: &Gap| self.cover.of(gap) == Coverage::Whole && !gap.parts.contradicted;
        let parts = gap.filter(is_whole).map(|gap| (gap.parts, from.saturating_sub(gap.from)));
        let lasted = until.saturating_sub(from);
        let what = What::Read(ReadCase { reader, lasted, stopped, parts });
        self.judge(what, ring, worst.0, worst.1);
    }

    fn judge(&mut self, what: What, ring: u32, time: u64, length: u64) {
        if time.saturating_add(length) < self.options.since {
            return;
        }
        let case = Case { what, ring, time, length, names: &self.names };
        let rule = judge(self.rules.iter().copied(), &case);
        // A thread that could run may have nothing more to write.
        if case.gap().is_some_and(|gap| gap.gap.is_open) && !rule.is_some_and(|rule| rule.bars) {
            return;
        }
        let finding = finding(&case, rule);
        self.preempted.note(&finding);
        let sum = self.report.sums.entry((finding.kind, finding.cause)).or_default();
        sum.findings += 1;
        sum.length = sum.length.saturating_add(length);
        sum.records = sum.records.saturating_add(finding.records);
        self.report.findings.push(finding);
        if self.report.findings.len() >= 2 * KEPT {
            self.sort();
        }
    }

    fn sort(&mut self) {
        self.report.findings.sort_by_key(|finding| {
            let size = if finding.kind == Kind::Loss { finding.records } else { finding.length };
            let is_less = finding.cause == "released"; // the ring lost nothing
            (finding.kind, is_less, std::cmp::Reverse(size), finding.time)
        });
        self.report.findings.truncate(KEPT);
    }

    /// Ends: what was still open is judged by what is known now.
    #[must_use]
    pub fn finish(mut self) -> Report {
        self.pending.extend(self.moved.end());
        while let Some(gap) = self.pending.pop_front() {
            self.judge_gap(gap);
        }
        for gap in self.open_gaps() {
            self.judge_gap(gap);
        }
        for late in self.reads.end() {
            self.judge_late(late);
        }
        let mut losses: Vec<_> = std::mem::take(&mut self.losses).into_iter().collect();
        losses.sort_by_key(|(key, _)| *key);
        losses.into_iter().for_each(|((ring, _), loss)| self.judge_loss(ring, Some(loss)));
        for (ring, (from, until, mut loss)) in std::mem::take(&mut self.unseen) {
            loss.present = self.owners.now(ring);
            self.judge(What::Loss(loss), ring, from, until.saturating_sub(from));
        }
        for (ring, since, seat) in self.owners.end() {
            let what = What::Owner { seat, is_over: false };
            self.judge(what, ring, since, self.newest.saturating_sub(since));
        }
        self.sort();
        let from = self.first.unwrap_or(self.newest).max(self.options.since.min(self.newest));
        let until = self.newest;
        self.report.length = until.saturating_sub(from);
        self.report.covered = self.cover.within(from, until);
        self.report.in_part = self.report.covered == 0 && self.cover.has_switches();
        self.report
    }
}
