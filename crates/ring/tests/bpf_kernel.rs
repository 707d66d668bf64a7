//! The producers of a BPF ring-buffer map, step by step: a plain imitation of `kernel/bpf/ringbuf.c` (Linux 6.19 to 7.2).
//! Each step is one store that a reader could see. `bpf.rs` holds it against traces of a real kernel.
#![cfg(not(loom))]

use perfring_abi::BpfWord;
use perfring_ring::BpfPages;
use perfring_testkit::rng::Rng;
use std::cell::{Cell, RefCell};

/// A record as its producer knows it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Written {
    pub(crate) pos: u64,
    pub(crate) len: u32,
    pub(crate) seq: u64,
    /// How it ended.
    pub(crate) ended: Option<Ended>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Submitted,
    Discarded,
}

impl Written {
    pub(crate) fn size(&self) -> u64 {
        BpfWord::of(self.len).size()
    }

    /// Returns a word of its payload.
    pub(crate) fn word(&self, nth: usize) -> u64 {
        (self.seq << 16 | nth as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    fn words(&self) -> usize {
        (self.len as usize).div_ceil(8)
    }
}

/// The next step of a producer.
#[derive(Clone, Copy, Debug)]
enum Step {
    Idle,
    /// It holds the lock, and is about to store `overwrite_pos`.
    Overwrite {
        record: Written,
        oldest: u64,
    },
    /// To store the header.
    Header(Written),
    /// To store `producer_pos`, and to release the lock.
    Publish(Written),
    /// To store this word of the payload.
    Fill(Written, usize),
}

/// A map, and those who write it.
#[derive(Debug)]
pub(crate) struct Kernel {
    size: u64,
    overwrites: bool,
    consumer_pos: u64,
    producer_pos: u64,
    pending_pos: u64,
    overwrite_pos: u64,
    data: Vec<u64>,
    producers: Vec<Step>,
    locked: bool,
    /// All records ever granted, by position.
    pub(crate) written: Vec<Written>,
    pub(crate) refused: u64,
}

impl Kernel {
    pub(crate) fn new(size: u64, overwrites: bool, producers: usize) -> Self {
        Kernel {
            size,
            overwrites,
            consumer_pos: 0,
            producer_pos: 0,
            pending_pos: 0,
            overwrite_pos: 0,
            data: vec![0; size as usize / 8],
            producers: vec![Step::Idle; producers],
            locked: false,
            written: Vec::new(),
            refused: 0,
        }
    }

    fn at(&self, pos: u64) -> usize {
        (pos / 8) as usize & (self.data.len() - 1)
    }

    fn header(&self, pos: u64) -> BpfWord {
        BpfWord::from_raw(self.data[self.at(pos)])
    }

    pub(crate) fn positions(&self) -> [u64; 3] {
        [self.consumer_pos, self.producer_pos, self.overwrite_pos]
    }

    /// Advances the consumer, as the kernel's trace did.
    pub(crate) fn consume(&mut self, bytes: u64) {
        self.consumer_pos += bytes;
    }

    /// The first half of `__bpf_ringbuf_reserve`: nothing of it can be seen by a reader.
    fn begin(&mut self, len: u32) -> Step {
        let mask = self.size - 1;
        let size = BpfWord::of(len).size();
        let end = self.producer_pos + size;
        while self.pending_pos < self.producer_pos {
            let word = self.header(self.pending_pos);
            if word.is_busy() {
                break;
            }
            self.pending_pos += word.size();
        }
        let fits =
            end - self.pending_pos <= mask && (self.overwrites || end - self.consumer_pos <= mask);
        if size > self.size || !fits {
            self.refused += 1;
            return Step::Idle;
        }
        let mut oldest = self.overwrite_pos;
        while self.overwrites && end - oldest > mask {
            oldest += self.header(oldest).size();
        }
        self.locked = true;
        let seq = self.written.len() as u64;
        Step::Overwrite {
            record: Written { pos: self.producer_pos, len, seq, ended: None },
            oldest,
        }
    }

    /// Takes one step of a producer: `len` is what it reserves if it is idle, `how` how its record ends.
    pub(crate) fn step(&mut self, producer: usize, len: u32, how: Ended) {
        self.producers[producer] = match self.producers[producer] {
            Step::Idle if self.locked => Step::Idle,
            Step::Idle => self.begin(len),
            Step::Overwrite { record, oldest } => {
                self.overwrite_pos = oldest;
                Step::Header(record)
            }
            Step::Header(record) => {
                let at = self.at(record.pos);
                self.data[at] = BpfWord::of(record.len | BpfWord::BUSY).raw();
                Step::Publish(record)
            }
            Step::Publish(record) => {
                self.producer_pos = record.pos + record.size();
                self.written.push(record);
                self.locked = false;
                Step::Fill(record, 0)
            }
            Step::Fill(record, nth) if nth < record.words() => {
                let at = self.at(record.pos + 8 + 8 * nth as u64);
                self.data[at] = record.word(nth);
                Step::Fill(record, nth + 1)
            }
            Step::Fill(record, _) => {
                let flag = if how == Ended::Discarded { BpfWord::DISCARDED } else { 0 };
                let at = self.at(record.pos);
                self.data[at] = BpfWord::of(record.len | flag).raw();
                self.written[record.seq as usize].ended = Some(how);
                Step::Idle
            }
        };
    }

    /// Takes the steps of a reservation. Returns whether it was granted.
    pub(crate) fn reserve(&mut self, producer: usize, len: u32) -> bool {
        self.step(producer, len, Ended::Submitted);
        if matches!(self.producers[producer], Step::Idle) {
            return false;
        }
        (0..3).for_each(|_| self.step(producer, len, Ended::Submitted));
        true
    }

    /// Takes the steps from a reservation to its end.
    pub(crate) fn end(&mut self, producer: usize, how: Ended) {
        while !matches!(self.producers[producer], Step::Idle) {
            self.step(producer, 0, how);
        }
    }
}

/// A map whose producers take steps before each load of a reader.
pub(crate) struct Racing {
    pub(crate) kernel: RefCell<Kernel>,
    rng: RefCell<Rng>,
    /// Steps are taken.
    pub(crate) runs: Cell<bool>,
    /// The longest payload.
    most: u64,
}

impl Racing {
    pub(crate) fn new(kernel: Kernel, seed: u64, most: u64) -> Self {
        let (kernel, rng) = (RefCell::new(kernel), RefCell::new(Rng::new(seed)));
        Racing { kernel, rng, runs: Cell::new(true), most }
    }

    /// Lets producers take some steps: mostly few, sometimes enough to write the whole ring again.
    pub(crate) fn turn(&self) {
        if !self.runs.get() {
            return;
        }
        let (mut rng, mut kernel) = (self.rng.borrow_mut(), self.kernel.borrow_mut());
        let steps = match rng.below(40) {
            0 => rng.below(400),
            1..=8 => rng.below(20),
            9..=20 => 1,
            _ => 0,
        };
        for _ in 0..steps {
            let producer = rng.below(kernel.producers.len() as u64) as usize;
            let how = if rng.below(5) == 0 { Ended::Discarded } else { Ended::Submitted };
            kernel.step(producer, rng.below(self.most + 1) as u32, how);
        }
    }

    /// Ends all open reservations, and takes no more steps.
    pub(crate) fn stop(&self) {
        self.runs.set(false);
        let mut kernel = self.kernel.borrow_mut();
        // The one that holds the lock first: the others do not reserve any more.
        for producer in 0..kernel.producers.len() {
            kernel.end(producer, Ended::Submitted);
        }
    }
}

impl BpfPages for Racing {
    fn data_size(&self) -> u64 {
        self.kernel.borrow().size
    }

    fn producer_pos(&self) -> u64 {
        self.turn();
        self.kernel.borrow().producer_pos
    }

    fn consumer_pos(&self) -> u64 {
        self.turn();
        self.kernel.borrow().consumer_pos
    }

    fn overwrite_pos(&self) -> u64 {
        self.turn();
        self.kernel.borrow().overwrite_pos
    }

    fn header(&self, pos: u64) -> BpfWord {
        self.turn();
        self.kernel.borrow().header(pos)
    }

    fn copy_out(&self, pos: u64, to: &mut [u64]) {
        for (nth, word) in to.iter_mut().enumerate() {
            self.turn();
            let kernel = self.kernel.borrow();
            *word = kernel.data[kernel.at(pos + 8 * nth as u64)];
        }
    }

    fn set_consumer_pos(&self, pos: u64) {
        self.turn();
        self.kernel.borrow_mut().consumer_pos = pos;
    }
}
