//! A scene, and the victim's actions in it: it is started, brought to a point of a call, and continues.

use super::others::*;
use super::traced::*;
use nix::sys::signal::Signal;
use perfring_abi::record_size;
use perfring_consumer::{Policy, advanced::Lead};
use perfring_producer::Options;
use perfring_tests::stepped::OneCpu;
use std::path::Path;

/// The fate of a process at its stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Death,
    Stop,
    Move,
    Signal,
}

/// How often in succession one may be preempted on its way to an instruction.
const MISSED_MOST: usize = 100;

pub(crate) struct Scene {
    pub(crate) name: String,
    pub(crate) call: &'static str,
    pub(crate) len: usize,
    pub(crate) options: Options,
    /// There is room before the ring's limit: the first sequence publishes.
    pub(crate) room: bool,
}

impl Scene {
    pub(crate) fn of(
        policy: Policy,
        lead: Lead,
        call: &'static str,
        len: usize,
        room: bool,
    ) -> Self {
        let (time, sample_id) = (lead != Lead::None, lead == Lead::SampleId);
        let options =
            Options { size: 4096, slots: 8, policy, time, sample_id, ..Options::per_cpu() };
        let room_text = if room { "" } else { ", no room" };
        let name = format!("{}, {lead:?}, {call} {len}{room_text}", policy.name());
        Scene { name, call, len, options, room }
    }

    /// A sequence publishes the record; otherwise it is published under the lock.
    pub(crate) fn short(&self) -> bool {
        self.call == "publish" && self.len <= 512
    }

    pub(crate) fn size(&self) -> u64 {
        record_size(self.len + Lead::of(self.options.time, self.options.sample_id).len())
    }

    pub(crate) fn call(&self, seq: u64) -> String {
        format!("{} {VICTIM} {seq} {}", self.call, self.len)
    }

    pub(crate) fn entry(&self, cpu: usize, seq: u64) -> Entry {
        (cpu, VICTIM, if self.len == 0 { EMPTY } else { seq })
    }
}

pub(crate) fn scenes_closing(policy: Policy) -> [Scene; 3] {
    [
        Scene::of(policy, Lead::None, "publish", 64, false),
        Scene::of(policy, Lead::None, "publish", 600, true),
        Scene::of(policy, Lead::None, "record", 40, true),
    ]
}

/// One scene's set of rings, its victim, and the number of the victim's next record.
pub(crate) struct Stage<'a> {
    pub(crate) scene: &'a Scene,
    pub(crate) args: Vec<&'a str>,
    pub(crate) cpus: &'a [usize],
    pub(crate) others: Others,
    pub(crate) victim: Option<Traced>,
    pub(crate) seq: u64,
    pub(crate) missed: usize,
}

impl<'a> Stage<'a> {
    pub(crate) fn new(scene: &'a Scene, cpus: &'a [usize], args: &[&'a str], dir: &Path) -> Self {
        let others = Others::new(&dir.join("set"), cpus, &scene.options);
        let args = args.to_vec();
        Stage { scene, args, cpus, others, victim: None, seq: 0, missed: 0 }
    }

    /// Returns the victim, which is started first if necessary.
    pub(crate) fn victim(&mut self) -> &mut Traced {
        if self.victim.is_none() {
            // It attaches to the rings of all CPUs that it may run on.
            let most = if self.args[0] == "traced" { 2 } else { 1 };
            may_run_on(&self.cpus[..self.cpus.len().min(most)]);
            let victim = Traced::start(&self.args, &self.others.dir, self.others.here);
            go_to(self.others.here);
            self.others.expect((self.others.here, VICTIM, 0));
            self.others.check(&self.scene.name);
            self.victim = Some(victim);
        }
        self.victim.as_mut().unwrap()
    }

    /// Prepares the rings, and returns the number and the text of the victim's next call.
    pub(crate) fn next(&mut self) -> (u64, String) {
        self.victim();
        self.others.ready(self.scene.size(), self.scene.room);
        self.seq += 1;
        (self.seq, self.scene.call(self.seq))
    }

    pub(crate) fn walk(&mut self) -> Vec<Point> {
        let (seq, call) = self.next();
        let (points, answer) = self.victim().walk(&call);
        assert_eq!(answer, "ok", "{}", self.scene.name);
        self.others.expect(self.scene.entry(self.others.here, seq));
        self.others.check(&self.scene.name);
        points
    }

    /// Brings the victim to a point of a call. Returns the number of its record.
    pub(crate) fn reach(&mut self, point: Point, signals: bool) -> u64 {
        for _ in 0..MISSED_MOST {
            let (seq, call) = self.next();
            let victim = self.victim();
            if signals {
                assert_eq!(victim.driven.ask(&format!("signals {HANDLER} {seq}")), "ok");
            }
            if victim.reach(&call, point) {
                return seq;
            }
            assert_eq!(victim.answer(), "ok");
            self.others.expect(self.scene.entry(self.others.here, seq));
            self.others.check(&self.scene.name);
            self.missed += 1;
        }
        panic!("{}: never at {point:?}", self.scene.name);
    }

    pub(crate) fn is_there(&mut self, seq: u64) -> bool {
        self.others.read();
        let (_, who, seq) = self.scene.entry(0, seq);
        self.others.position(who, seq).is_some()
    }

    /// Checks all losses. The refusals of a signal handler are counted by its process's next call that is no
    /// sequence.
    pub(crate) fn settle(&mut self) {
        self.seq += 1;
        let (seq, here) = (self.seq, self.others.here);
        assert_eq!(self.victim().call(&format!("record {VICTIM} {seq} 40")), "ok");
        self.others.expect((here, VICTIM, seq));
        self.others.check(&self.scene.name);
        self.others.check_losses();
    }

    pub(crate) fn kill(&mut self) {
        self.victim.take().unwrap().kill();
    }

    /// Interrupts the victim, which continues to the end of its call. Returns whether its handler published.
    pub(crate) fn interrupt(&mut self, seq: u64, what: &str) -> bool {
        let victim = self.victim();
        victim.signal(Signal::SIGUSR1);
        assert_eq!(victim.wait_for_end(what), "ok", "{what}");
        let accepted = match victim.driven.ask("signalled").as_str() {
            "1" => true,
            "2" => false,
            other => panic!("{what}: no signal came: {other}"),
        };
        let here = self.others.here;
        if accepted {
            self.others.expect((here, HANDLER, seq));
        } else {
            self.others.refused += 1;
        }
        accepted
    }

    /// Lets the victim end its call, if it has not.
    pub(crate) fn end_call(&mut self, done: bool, what: &str) {
        let victim = self.victim();
        let answer = if done { victim.answer() } else { victim.finish() };
        assert_eq!(answer, "ok", "{what}");
    }
}

pub(crate) fn with_cpus(then: impl FnOnce(&[usize])) {
    let mut all = cpus();
    let _cpu = OneCpu::take();
    let mine = cpus()[0];
    all.sort_by_key(|cpu| *cpu != mine);
    then(&all);
}
