//! The flight recorder: keeps what overwrite rings hold at one moment in files.

use super::causes::Causes;
use super::explainer::{ENDING, Explainer};
use super::requests::Asked;
use super::snapshots::{Outcome, Taken, Writer};
use crate::config::snapshot_rule::SnapshotRule;
use crate::engine::Engine;
use crate::log::Say;
use perfring_consumer::advanced::{MachineClock, SnapshotReader};
use perfring_consumer::{Location, Policy};
use perfring_export::{FileMode, Origin, Shapes, later};
use perfring_witness::FrozenRing;
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::{Duration, Instant};

/// At the end, snapshots have this time to be written, also if the outputs used up all of `shutdown`.
const WRITES: Duration = Duration::from_secs(10);

/// Takes snapshots by rules.
#[derive(Debug)]
pub(crate) struct Recorder {
    /// The mode of files.
    mode: FileMode,
    /// When each rule was last applied.
    last: HashMap<usize, Instant>,
    /// The evidence of causes, if a rule wants it; or why there is none.
    causes: Option<Result<Causes, String>>,
    /// What was said of missing permissions, without numbers.
    said: HashSet<String>,
    writer: Writer,
    explainer: Explainer,
    /// What is wrong with the last snapshot of each rule.
    troubles: BTreeMap<usize, String>,
    /// Requests whose snapshots are not all written.
    waiting: Vec<Waiting>,
}

/// A request for snapshots.
#[derive(Debug)]
struct Waiting {
    asked: Asked,
    /// The numbers of the snapshots without a file.
    numbers: Vec<u64>,
    files: Vec<Value>,
    failed: Option<String>,
}

impl Recorder {
    /// Creates one whose files have this mode.
    pub(crate) fn new(mode: FileMode) -> Self {
        Recorder {
            mode,
            last: HashMap::new(),
            causes: None,
            said: HashSet::new(),
            writer: Writer::new(),
            explainer: Explainer::default(),
            troubles: BTreeMap::new(),
            waiting: Vec::new(),
        }
    }

    /// Takes a new mode for new rules; a witness that could not begin is tried again.
    pub(super) fn renew(&mut self, mode: FileMode) {
        self.mode = mode;
        self.last.clear();
        self.troubles.clear();
        if self.causes.take_if(|causes| causes.is_err()).is_some() {
            self.said.clear();
        }
    }

    /// To be called at intervals: has a witness for the rings while one of the rules wants its evidence.
    pub(super) fn watch(
        &mut self,
        rules: &[SnapshotRule],
        engine: &Engine,
        now: Instant,
        say: &mut Say<'_>,
    ) {
        if !rules.iter().any(|rule| rule.why) {
            self.causes = None;
            self.said.clear();
        } else if self.causes.is_none() {
            self.causes = Some(Causes::begin());
        }
        if let Some(Ok(causes)) = &mut self.causes {
            causes.poll(engine, now);
        }
        for missing in self.missing() {
            // Processes with such a number come and go.
            let key = missing.chars().filter(|c| !c.is_ascii_digit()).collect();
            if self.said.insert(key) {
                say.warn(&missing);
            }
        }
        self.report(say);
    }

    /// Returns what is missing for causes, if a rule wants them.
    fn missing(&self) -> Vec<String> {
        let missing = match &self.causes {
            None => Vec::new(),
            Some(Ok(causes)) => causes.missing(),
            Some(Err(error)) => vec![format!("no evidence of causes: {error}")],
        };
        missing.into_iter().map(|missing| format!("[[snapshot]] why: {missing}")).collect()
    }

    /// Returns what is missing for causes, and what is wrong with the last snapshots.
    pub(super) fn trouble(&self) -> Option<String> {
        let mut all = self.missing();
        all.extend(self.troubles.values().cloned());
        (!all.is_empty()).then(|| all.join("; "))
    }

    /// Says what became of snapshots since the last call, and what was found in them.
    pub(super) fn report(&mut self, say: &mut Say<'_>) {
        while let Some(outcome) = self.writer.outcome(None) {
            self.finish(outcome, say);
        }
        self.explainer.report(say);
    }

    /// Waits until all snapshots are written, and for explanations until then; ends the witness.
    pub(super) fn end(&mut self, deadline: Instant, say: &mut Say<'_>) {
        let written = deadline.max(later(Instant::now(), WRITES));
        while let Some(outcome) = self.writer.outcome(Some(written)) {
            self.finish(outcome, say);
        }
        for (reason, dir) in self.writer.pending() {
            let dir = dir.display();
            say.warn(&format!(
                "no snapshot ({reason}) in {dir}: the sidecar ended before it was written"
            ));
        }
        self.waiting.drain(..).for_each(|waiting| waiting.asked.refuse("it is ending"));
        self.causes = None;
        self.explainer.end(deadline, say);
    }

    /// Keeps what overwrite rings hold, unless this rule was applied a short time ago: then only if it was explicitly requested.
    /// The file is written later. Returns the snapshot's number; `None` if there is none.
    pub(crate) fn snapshot(
        &mut self,
        at: usize,
        rule: &SnapshotRule,
        reason: &str,
        asked: bool,
        engine: &Engine,
        say: &mut Say<'_>,
    ) -> Option<u64> {
        let now = Instant::now();
        let interval = rule.min_interval;
        let soon = self.last.get(&at).is_some_and(|last| now.duration_since(*last) < interval);
        if soon && !asked {
            return None;
        }
        self.last.insert(at, now);
        let causes =
            self.causes.as_ref().filter(|_| rule.why).and_then(|causes| causes.as_ref().ok());
        let (rings, until) = copies(engine, causes.map(Causes::clock), say);
        if rings.is_empty() {
            say.info(&format!("snapshot ({reason}): there is no overwrite ring"));
            return None;
        }
        let evidence = causes.map(|causes| causes.evidence(engine, until));
        let (rule, reason) = (rule.clone(), reason.to_owned());
        Some(self.writer.begin(Taken { at, rule, reason, rings, evidence, mode: self.mode }))
    }

    /// Answers a request once these snapshots are written.
    pub(super) fn answer(&mut self, asked: Asked, numbers: Vec<u64>) {
        self.waiting.push(Waiting { asked, numbers, files: Vec::new(), failed: None });
        self.answer_finished();
    }

    fn answer_finished(&mut self) {
        for waiting in self.waiting.extract_if(.., |waiting| waiting.numbers.is_empty()) {
            match waiting.failed {
                None => waiting.asked.done(json!({ "snapshots": waiting.files })),
                Some(sentence) => waiting.asked.refuse(&sentence),
            }
        }
    }

    /// Says what became of a snapshot.
    fn finish(&mut self, outcome: Outcome, say: &mut Say<'_>) {
        let Outcome { number, at, rule, reason, file } = outcome;
        let answer = match file {
            Ok(written) => {
                let path = &written.path;
                let (shown, records) = (path.display().to_string(), written.records);
                say.info(&format!("snapshot ({reason}): {records} records in {shown}"));
                written.troubles.iter().for_each(|trouble| say.warn(trouble));
                match written.troubles.is_empty() {
                    true => self.troubles.remove(&at),
                    false => self.troubles.insert(at, written.troubles.join("; ")),
                };
                let mut answer = json!({ "path": shown, "records": records });
                if written.why {
                    answer["why"] = path.with_extension(ENDING).display().to_string().into();
                    self.explainer.explain(written.path, self.mode, rule.slower_than, say);
                }
                Ok(answer)
            }
            Err(why) => {
                let sentence = format!("no snapshot ({reason}) in {}: {why}", rule.dir.display());
                say.warn(&sentence);
                self.troubles.insert(at, sentence.clone());
                Err(sentence)
            }
        };
        for waiting in self.waiting.iter_mut().filter(|waiting| waiting.numbers.contains(&number)) {
            waiting.numbers.retain(|its| *its != number);
            match &answer {
                Ok(file) => waiting.files.push(file.clone()),
                Err(sentence) => waiting.failed = Some(sentence.clone()),
            }
        }
        self.answer_finished();
    }
}

/// Copies what overwrite rings hold: all copies precede the files, so all rings are copied as close to one moment as possible.
/// Also returns the time up to which these copies have all records, if there is a clock; else 0.
fn copies(
    engine: &Engine,
    clock: Option<&MachineClock>,
    say: &mut Say<'_>,
) -> (Vec<FrozenRing>, u64) {
    let now = || clock.map_or(0, MachineClock::now_ns);
    let mut rings: Vec<FrozenRing> = Vec::new();
    let mut copied: Vec<(&Shapes, u64, u64)> = Vec::new();
    let recorders = engine.shapes().filter(|of| of.origin().policy == Some(Policy::Overwrite));
    for shapes in recorders {
        let begun = now();
        match shapes.snapshot() {
            Ok(Some(snapshot)) => {
                let location = Location::from(&*shapes.origin().location);
                let copy = Shapes::of_snapshot(&snapshot, &location, rings.len() as u32);
                let live = shapes.origin();
                let origin = Origin {
                    name: live.name.clone(),
                    epoch: live.epoch,
                    producer: live.producer.clone(),
                    birth: live.birth,
                    ..copy.origin().clone()
                };
                copied.push((shapes, snapshot.span().end, begun));
                rings.push((origin, Box::new(SnapshotReader::new(snapshot))));
            }
            Ok(None) => {}
            Err(error) => {
                say.warn(&format!("{}: not in the snapshot: {error}", shapes.origin().name))
            }
        }
    }
    // A ring that has grown since may have a record of any time after its copy.
    let until = now();
    let grown = copied.iter().filter(|(shapes, end, _)| shapes.head() != *end);
    let until = grown.map(|(_, _, begun)| *begun).fold(until, u64::min);
    (rings, until)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot continue has failed")]
    use super::*;
    use crate::config::{Input, InputSource};
    use perfring_consumer::{Item, Snapshot};
    use perfring_producer::{Options, Producer};
    use perfring_set::Source;
    use std::thread;

    /// The clocks of two threads may differ by this much, ns.
    const ERROR: u64 = 1_000_000;

    fn times(mut source: Box<dyn Source>) -> Vec<u64> {
        let mut times = Vec::new();
        while let Some((item, _)) = source.take().unwrap() {
            if let Item::Record(record) = item {
                times.extend(record.time);
            }
        }
        times
    }

    #[test]
    fn up_to_the_time_of_copies_no_record_is_missing_in_them() {
        let dir = tempfile::tempdir().unwrap();
        let mut engine = Engine::new(Duration::ZERO).unwrap();
        let mut ring = |name: &str, size: u64| {
            let path = dir.path().join(name);
            let options =
                Options { size, policy: Policy::Overwrite, time: true, ..Options::default() };
            let producer = Producer::create(&path, &options).unwrap();
            let location = Location::from(&*path);
            let input = Input::new(InputSource::Ring(location.clone()));
            engine.attach(&location, &input, None, |_| None).unwrap();
            (path, producer)
        };
        let (busy, mut writer) = ring("busy", 4 << 20);
        // While this ring is copied, the other one grows.
        let (_, mut large) = ring("large", 16 << 20);
        (0..250).for_each(|_| large.publish(&[1; 60_000]).unwrap());
        let clock = MachineClock::find().unwrap();
        let mut say = |_: &crate::log::Message<'_>| {};
        let mut copied = Vec::new();
        let writing = thread::spawn(move || {
            for _ in 0..40_000 {
                writer.publish(b"a record").unwrap();
                thread::yield_now();
            }
        });
        while copied.is_empty() || (!writing.is_finished() && copied.len() < 4) {
            let (mut rings, until) = copies(&engine, Some(&clock), &mut Say(&mut say));
            copied.push((rings.swap_remove(0).1, until));
        }
        writing.join().unwrap();
        let all = times(Box::new(SnapshotReader::new(Snapshot::take(&*busy).unwrap())));
        // A writer that is preempted in a publish has taken its timestamp, and the ring has not grown.
        let (number, mut late) = (copied.len(), 0);
        for (copy, until) in copied {
            let last = times(copy).last().copied().unwrap_or(0);
            let next = all.iter().copied().find(|time| *time > last).unwrap_or(u64::MAX);
            println!("{} ns to the next record, of {}", next.saturating_sub(until), all.len());
            late += usize::from(next.saturating_add(ERROR) < until);
        }
        assert!(2 * late <= number, "{late} of {number}");
    }
}
