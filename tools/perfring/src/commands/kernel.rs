//! `perfring tail --perf` and `--bpf`: kernel events, records of BPF programs and a ring's records on one timeline.

use crate::args;
use crate::commands::follow::{FollowArgs, TURN};
use crate::failure::{Failure, summary};
use crate::output::Output;
use crate::output::last::Records;
use crate::records::shapes::Shapes;
use crate::records::time::Since;
use crate::stop::{POLL, Stop};
use perfring_consumer::advanced::MachineClock;
use perfring_consumer::{Anchors, Location, Observer, Types};
use perfring_kernel::{
    BpfOpenError, BpfOptions, BpfRing, BpfStopper, EventKind, KernelRecorder, KernelRing,
    OpenError, Options, Stopper, Target, open, schemas,
};
use perfring_set::{Merge, SourceError, SourceId};
use std::time::Duration;

/// How long records are held back, to be put in the order of time.
const DELAY: Duration = Duration::from_millis(20);

#[derive(Debug, clap::Args)]
pub(crate) struct KernelArgs {
    /// Show kernel events: cpu-clock, task-clock, page-faults, minor-faults, major-faults,
    /// context-switches, cpu-migrations, alignment-faults, emulation-faults, cgroup-switches;
    /// switches, tasks, mappings. Several are separated by commas
    #[arg(long, value_name = "EVENTS", value_delimiter = ',', requires = "traced")]
    perf: Vec<EventKind>,
    #[command(flatten)]
    of: Traced,
    /// Bytes of each ring of the kernel: a power of two of whole pages. A processor has a ring for each event; switches, tasks
    /// and mappings share the first. By default the rings of a processor have 512K together
    #[arg(long, value_name = "SIZE", requires = "perf", value_parser = args::parse_size)]
    perf_size: Option<u64>,
    /// Sampling interval of cpu-clock and task-clock
    #[arg(long, value_name = "TIME", requires = "perf", value_parser = args::interval,
        default_value = "1ms")]
    perf_period: Duration,
    /// Keep the newest kernel events in memory, and show them at the end: at Ctrl-C, after --timeout, or when the process has
    /// ended. The kernel overwrites older events, and nothing is read before the end. A ring's records are shown at the end,
    /// too: those that it then has. With -n N, only the newest N of all records
    #[arg(long, requires = "perf", conflicts_with = "bpf")]
    pub(crate) perf_overwrite: bool,
    /// Show the records that BPF programs submit to a ring-buffer map: the path at which it is pinned, or id:N. May be
    /// given several times. It is read as the map's one consumer: what was shown leaves the map. PATH,observe leaves it
    /// there. A map in overwrite mode is observed in any case. A record's time is when it was found, or with
    /// PATH,time=OFFSET its eight bytes at this offset, from bpf_ktime_get_ns (boottime=OFFSET: from
    /// bpf_ktime_get_boot_ns)
    #[arg(long, value_name = "MAP")]
    bpf: Vec<BpfOptions>,
}

#[derive(Debug, clap::Args)]
#[group(id = "traced", multiple = false, requires = "perf")]
struct Traced {
    /// With --perf: trace this process, its threads, and the threads and processes that they start
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,
    /// With --perf: trace the whole machine
    #[arg(long, short)]
    all: bool,
}

impl KernelArgs {
    pub(crate) fn is_wanted(&self) -> bool {
        self.has_events() || !self.bpf.is_empty()
    }

    /// Returns the option that was given, for a message.
    pub(crate) fn option(&self) -> &'static str {
        if self.has_events() { "--perf" } else { "--bpf" }
    }

    fn has_events(&self) -> bool {
        !self.perf.is_empty()
    }

    /// Returns whether records that come later are shown: kernel events always come later.
    pub(crate) fn waits(&self, follow: &FollowArgs) -> bool {
        self.has_events() || follow.waits()
    }

    fn options(&self) -> Options {
        let target = self.of.pid.map_or(Target::System, Target::Process);
        Options {
            events: self.perf.clone(),
            data_size: self.perf_size,
            clock_period_ns: u64::try_from(self.perf_period.as_nanos()).unwrap_or(u64::MAX),
            ..Options::of(target)
        }
    }
}

impl From<OpenError> for Failure {
    fn from(error: OpenError) -> Self {
        let text = error.to_string();
        match error {
            OpenError::NoProcess { .. } => Failure::NotFound(text),
            OpenError::Nothing | OpenError::Size { .. } => Failure::Usage(text),
            error if error.is_forbidden() => Failure::Forbidden(text),
            _ => Failure::General(text),
        }
    }
}

impl From<BpfOpenError> for Failure {
    fn from(error: BpfOpenError) -> Self {
        let text = error.to_string();
        match error {
            BpfOpenError::NotFound { .. } => Failure::NotFound(text),
            BpfOpenError::NotPinned { .. }
            | BpfOpenError::NotMap { .. }
            | BpfOpenError::Kind { .. } => Failure::Usage(text),
            BpfOpenError::Damaged { .. } => Failure::Damaged(text),
            BpfOpenError::Descriptors { .. } => Failure::Shortage(text),
            error if error.is_forbidden() => Failure::Forbidden(text),
            _ => Failure::General(text),
        }
    }
}

/// Rings that are merged, each with its index among the output's shapes.
struct Timeline<'a> {
    merge: Merge,
    sources: Vec<SourceId>,
    ring: Option<&'a Location>,
    kernel: Vec<Stopper>,
    /// Recorders of kernel events. They have no source before the end.
    recorders: Vec<KernelRecorder>,
    bpf: Vec<BpfStopper>,
    /// Of the ring, records after this time of its clock are not shown.
    until: Option<u64>,
    /// Such a record was there.
    passed: bool,
}

/// Returns what a map is called in messages.
fn name_of(ring: &BpfRing) -> String {
    match ring.map_name() {
        "" => format!("the BPF map id:{}", ring.map_id()),
        name => format!("the BPF map {name} (id:{})", ring.map_id()),
    }
}

pub(crate) fn tail(
    args: &KernelArgs,
    follow: &FollowArgs,
    records: Records,
    ring: Option<(&Location, Observer)>,
    stop: &Stop,
) -> Result<(), Failure> {
    let merge = Merge::new(DELAY).map_err(Failure::general)?;
    let mut timeline = Timeline {
        merge,
        sources: Vec::new(),
        ring: None,
        kernel: Vec::new(),
        recorders: Vec::new(),
        bpf: Vec::new(),
        until: None,
        passed: false,
    };
    let mut shapes = Vec::new();
    let mut since = follow.format.select.since;
    if let Some((location, observer)) = ring {
        since = follow.format.since(location, observer.layout())?;
        shapes.push(Shapes::follow(location, observer.layout())?);
        timeline.sources.push(timeline.merge.add(Box::new(observer)));
        timeline.ring = Some(location);
    }
    let kernel_shapes = |event: EventKind, cpu: i32| {
        let name = format!("{event} on processor {cpu}");
        Shapes::of(Types::of_schemas(schemas()), Anchors::default()).named(name)
    };
    if args.perf_overwrite {
        timeline.recorders = KernelRecorder::open(&args.options())?;
    } else if args.has_events() {
        for ring in open(&args.options())? {
            shapes.push(kernel_shapes(ring.event(), ring.cpu()));
            timeline.kernel.push(ring.stopper());
            timeline.sources.push(timeline.merge.add(Box::new(ring)));
        }
    }
    for recorder in &timeline.recorders {
        shapes.push(kernel_shapes(recorder.event(), recorder.cpu()));
        timeline.kernel.push(recorder.stopper());
    }
    for options in &args.bpf {
        let ring = BpfRing::open(options)?;
        shapes.push(Shapes::of(Types::default(), Anchors::default()).named(name_of(&ring)));
        if !args.waits(follow) {
            ring.stopper().stop(); // before its first poll: it ends with what is there
        }
        timeline.bpf.push(ring.stopper());
        timeline.sources.push(timeline.merge.add(Box::new(ring)));
    }
    if !args.waits(follow) {
        timeline.until = Some(MachineClock::find().map_err(Failure::general)?.now_ns());
    }
    let since = since.map(Since::before_now).transpose()?;
    let mut output = Output::of_many(&follow.format, shapes, since);
    output.show(records);
    let mut ended = match timeline.recorders.is_empty() {
        true => timeline.follow(follow, records, &mut output, stop),
        false => timeline.record(follow, stop),
    };
    if let Ok(End::Process) = ended
        && let Some(pid) = args.of.pid
    {
        summary(&format!("process {pid} ended: end"));
    }
    // The timeline includes what the kernel has written until now, and what it had no room for.
    if matches!(ended, Ok(End::Process) | Err(Failure::Timeout(_) | Failure::Signal(_)))
        && let Err(failure) = timeline.drain(&mut output, records)
    {
        ended = Err(failure);
    }
    let flushed = match &ended {
        Err(Failure::ClosedPipe) => Ok(()),
        _ => output.end(timeline.ring),
    };
    if follow.fail_on_loss
        && matches!(ended, Ok(_) | Err(Failure::Timeout(_) | Failure::Signal(_)))
        && let Some(lost) = output.lost_in_words()
    {
        let larger = match args.has_events() {
            true => "a larger --perf-size gives the kernel more room",
            false => "make the map larger",
        };
        return flushed.and(Err(Failure::Loss(format!("{lost}: {larger}"))));
    }
    ended.and(flushed)
}

/// How a timeline ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// As many records as requested.
    Enough,
    /// The process ended, and no more events come from it.
    Process,
    /// Everything that was in the maps was shown.
    Maps,
}

impl Timeline<'_> {
    fn follow(
        &mut self,
        args: &FollowArgs,
        records: Records,
        output: &mut Output<'_>,
        stop: &Stop,
    ) -> Result<End, Failure> {
        let deadline = args.deadline();
        let mut left = records.most();
        loop {
            if left == 0 {
                return Ok(End::Enough);
            }
            stop.check()?;
            let some = self.turn(output, &mut left)?;
            if left == 0 {
                return Ok(End::Enough);
            }
            output.report_unmet();
            let wait = args.wait(deadline, records, left)?;
            let idle = self.passed || !some && !self.merge.wait(wait);
            if idle && let Some(end) = self.end() {
                return Ok(end);
            }
        }
    }

    /// Lets the kernel record until the end. Nothing is read meanwhile.
    fn record(&self, args: &FollowArgs, stop: &Stop) -> Result<End, Failure> {
        let deadline = args.deadline();
        loop {
            stop.check()?;
            if let Some(end) = self.end() {
                return Ok(end);
            }
            std::thread::sleep(args.wait(deadline, Records::All, u64::MAX)?);
        }
    }

    /// Returns how it ended, if it has: with kernel events when these have ended, otherwise when all maps were read that
    /// were to be read once.
    fn end(&self) -> Option<End> {
        if self.kernel.is_empty() {
            return self.bpf.iter().all(BpfStopper::is_over).then_some(End::Maps);
        }
        self.kernel.iter().all(Stopper::is_over).then_some(End::Process)
    }

    /// Writes items whose time has come, and releases their space once they are written. Returns
    /// whether there was any.
    fn turn(&mut self, output: &mut Output<'_>, left: &mut u64) -> Result<bool, Failure> {
        let mut some = false;
        // Read again each time, as the wall clock may be set.
        let anchors = KernelRing::anchors().unwrap_or_default();
        let first = usize::from(self.ring.is_some());
        for index in first..self.sources.len() {
            output.set_anchors(index, anchors);
        }
        for _ in 0..TURN {
            if *left == 0 {
                break;
            }
            match self.merge.next() {
                Ok(Some(merged)) => {
                    some = true;
                    let index = self.sources.iter().position(|id| *id == merged.source);
                    if index < Some(first) && self.until.is_some_and(|until| merged.time > until) {
                        self.passed = true;
                        continue;
                    }
                    *left -= output.item_of(index.unwrap_or(usize::MAX), merged.item)?;
                }
                Ok(None) => break,
                Err((source, error)) => return Err(self.failed(source, error)),
            }
        }
        output.flush()?;
        for id in &self.sources {
            if let Some(resume_point) = self.merge.resume_point(*id) {
                self.merge.release(*id, &resume_point);
            }
        }
        Ok(some)
    }

    /// Writes the rest of the kernel's rings, which are stopped for that. What recorders have is shown only now, with what
    /// the ring has at this moment.
    fn drain(&mut self, output: &mut Output<'_>, records: Records) -> Result<(), Failure> {
        let stopped = self.kernel.iter().try_for_each(Stopper::stop);
        stopped.map_err(|error| Failure::General(format!("cannot stop the kernel: {error}")))?;
        self.bpf.iter().for_each(BpfStopper::stop);
        let clock = MachineClock::find().map_err(Failure::general)?;
        let (mut left, mut ring_until) = (u64::MAX, None);
        for recorder in &mut self.recorders {
            let snapshot = recorder.snapshot().map_err(|error| {
                Failure::General(format!("cannot read what the kernel has recorded: {error}"))
            })?;
            self.sources.push(self.merge.add(Box::new(snapshot)));
            left = records.most();
            self.until = Some(clock.now_ns());
            // The merge has then returned everything that the ring got before.
            ring_until = self.ring.and(Some(clock.now_ns() + DELAY.as_nanos() as u64));
        }
        let first = usize::from(self.ring.is_some());
        while left > 0 {
            let some = self.turn(output, &mut left)?;
            let is_passed =
                ring_until.is_none_or(|until| self.passed || !some && clock.now_ns() > until);
            if is_passed && self.sources.iter().skip(first).all(|id| self.merge.is_drained(*id)) {
                break;
            }
            if !some {
                self.merge.wait(POLL);
            }
        }
        Ok(())
    }

    fn failed(&self, source: SourceId, error: SourceError) -> Failure {
        match (self.ring, error) {
            (Some(location), SourceError::Read(error)) if self.sources.first() == Some(&source) => {
                Failure::corrupt(location, error)
            }
            (_, SourceError::Other(sentence)) => Failure::Damaged(sentence.into()),
            (_, error) => Failure::Damaged(format!("a ring of the kernel's: {error}")),
        }
    }
}
