//! Rows like those of `tests/kernel-traces`, written by the running kernel and read by our reader: two reservations are open at
//! a time, and end in either order. `PERFRING_NEW_TRACES` makes it print the rows, which the imitation of `crates/ring` replays.

use super::OVERWRITE;
use crate::{RINGBUF, SPREAD, Writer};
use perfring_bench::bpf::{Program, create_map, insn, map_id, number, op};
use perfring_consumer::Item;
use perfring_kernel::{BpfOptions, BpfPlace, BpfRing};
use perfring_testkit::rng::Rng;
use std::collections::VecDeque;
use std::fmt::Write as _;
use std::os::fd::{AsFd, OwnedFd};

const ROWS: u64 = 3_000;
const SIZE: u64 = 4096;

/// The program's input and its findings: an index into the words of its context, or of its answer.
#[derive(Clone, Copy)]
enum Word {
    ALen,
    BLen,
    /// Bits: there is a B, B ends first, A is discarded, B is discarded.
    How,
    /// The number, which is written at the beginning of each payload that has room.
    Seq,
}

/// A program that reserves two records in `map`, and writes positions and outcomes to `answers`.
fn code(map: u32, answers: u32) -> Vec<u64> {
    const OUTPUT: i32 = 130;
    const QUERY: i32 = 134;
    const RESERVE: i32 = 198;
    const SUBMIT: i32 = 199;
    const DISCARD: i32 = 200;
    const WRITE: i32 = 202;
    const AND_IMM: u8 = 0x57;
    // The stack: two records, what is written into each, and the answer.
    const RECORDS: [i16; 2] = [-16, -32];
    const FILL: i16 = -40;
    const ANSWER: i16 = -72;
    let number = |register, imm| insn(op::MOVE_IMM, register, 0, 0, imm);
    let call = |function| insn(op::CALL, 0, 0, 0, function);
    let load_map = |fd: u32| [insn(op::LOAD_IMM, 1, op::MAP, 0, fd as i32), insn(0, 0, 0, 0, 0)];
    let on_stack = |register, at: i16| {
        [insn(op::MOVE, register, 10, 0, 0), insn(op::ADD_IMM, register, 0, 0, at.into())]
    };
    let store = |at: i16| insn(op::STORE, 10, 0, at, 0);
    let word = |register, word: Word| insn(op::LOAD, register, 6, 8 * word as i16, 0);
    let mut code = vec![insn(op::MOVE, 6, 1, 0, 0), number(0, 0)];
    code.extend((0..4).map(|nth| store(ANSWER + 8 * nth)));
    code.extend([word(7, Word::Seq), insn(op::STORE, 10, 7, FILL, 0), word(7, Word::How)]);
    // Reserves and fills a record, and notes the outcome.
    let reserve = |of: usize| {
        let mut code = Vec::from(load_map(map));
        code.extend([word(2, [Word::ALen, Word::BLen][of]), number(3, 0)]);
        code.extend(on_stack(4, RECORDS[of]));
        code.extend([call(RESERVE), store(ANSWER + 16 + 8 * of as i16)]);
        code.extend(on_stack(1, RECORDS[of]));
        code.push(number(2, 0));
        code.extend(on_stack(3, FILL));
        code.extend([number(4, 8), number(5, 0), call(WRITE)]);
        code
    };
    let query = || {
        let mut code = Vec::new();
        for (nth, what) in [3, 4].into_iter().enumerate() {
            code.extend(load_map(map));
            code.extend([number(2, what), call(QUERY), store(ANSWER + 8 * nth as i16)]);
        }
        code
    };
    // Ends a record as a bit of r7 says.
    let end = |of: usize| {
        let with = |function| {
            let mut code = Vec::from(on_stack(1, RECORDS[of]));
            code.extend([number(2, 0), call(function)]);
            code
        };
        let (submit, discard) = (with(SUBMIT), with(DISCARD));
        let mut code = vec![insn(op::MOVE, 8, 7, 0, 0), insn(AND_IMM, 8, 0, 0, 4 << of)];
        code.push(insn(op::JUMP_UNLESS_IMM, 8, 0, submit.len() as i16 + 1, 0));
        code.extend(submit);
        code.push(insn(op::JUMP, 0, 0, discard.len() as i16, 0));
        code.extend(discard);
        code
    };
    let answer = || {
        let mut code = Vec::from(load_map(answers));
        code.extend(on_stack(2, ANSWER));
        code.extend([number(3, 32), number(4, 0), call(OUTPUT), insn(op::EXIT, 0, 0, 0, 0)]);
        code
    };
    let branch = |bit: i32, then: &[u64]| {
        let skip = then.len() as i16;
        [
            insn(op::MOVE, 8, 7, 0, 0),
            insn(AND_IMM, 8, 0, 0, bit),
            insn(op::JUMP_IF_IMM, 8, 0, skip, 0),
        ]
    };
    code.extend(reserve(0));
    let two = {
        let mut two = reserve(1);
        two.extend(query());
        let b_first = [end(1), end(0), answer()].concat();
        two.extend(branch(2, &b_first));
        two.extend(b_first);
        two.extend([end(0), end(1), answer()].concat());
        two
    };
    code.extend(branch(1, &two));
    code.extend(two);
    code.extend([query(), end(0), answer()].concat());
    code
}

/// A record that the kernel granted, and that was submitted.
#[derive(Debug, PartialEq, Eq)]
struct Submitted {
    pos: u64,
    len: u64,
    seq: u64,
}

struct Pairs {
    map: OwnedFd,
    program: Program,
    answers: BpfRing,
    /// What a reader is to find, from the oldest on.
    submitted: VecDeque<Submitted>,
    /// The positions of the oldest record after each row.
    oldest: Vec<u64>,
}

impl Pairs {
    fn new(flags: u32) -> Option<Self> {
        // This one says whether the machine permits it.
        let map = Writer::with_flags(SIZE as u32, flags)?.map;
        let answers = create_map(RINGBUF, [0, 0], 4096, 0).unwrap();
        let program = Program::load(&code(number(map.as_fd()), number(answers.as_fd()))).unwrap();
        let place = BpfPlace::Id(map_id(answers.as_fd()).unwrap());
        let answers = BpfRing::open(&BpfOptions::of(place)).unwrap();
        Some(Pairs { map, program, answers, submitted: VecDeque::new(), oldest: vec![0] })
    }

    fn open(&self) -> BpfRing {
        let place = BpfPlace::Id(map_id(self.map.as_fd()).unwrap());
        BpfRing::open(&BpfOptions::of(place)).unwrap()
    }

    /// Runs the program. Returns the positions of the producers and of the oldest record while both records were open, and
    /// whether each was granted.
    fn run(&mut self, seq: u64, [a, b]: [Option<(u64, bool)>; 2], b_first: bool) -> [u64; 4] {
        let word = |record: Option<(u64, bool)>, bit| match record {
            Some((len, discards)) => (len, u64::from(discards) << bit),
            None => (0, 0),
        };
        let ((a_len, a_ends), (b_len, b_ends)) = (word(a, 2), word(b, 3));
        let how = u64::from(b.is_some()) | u64::from(b_first) << 1 | a_ends | b_ends;
        assert_eq!(self.program.run(&[a_len, b_len, how, seq]).unwrap(), 0);
        self.answers.peek().unwrap();
        let Some((Item::Record(answer), _)) = self.answers.take().unwrap() else {
            panic!("no answer")
        };
        let mut words = [0; 4];
        for (word, bytes) in words.iter_mut().zip(answer.bytes.chunks_exact(8)) {
            *word = u64::from_ne_bytes(bytes.try_into().unwrap());
        }
        let resume_point = self.answers.resume_point();
        self.answers.release_to(&resume_point);
        [words[0], words[1], u64::from(words[2] == 0), u64::from(b.is_some() && words[3] == 0)]
    }

    /// Takes items, and holds them against what was submitted. Returns the bytes that were lost.
    fn take(&mut self, ring: &mut BpfRing, most: u64) -> u64 {
        let mut lost = 0;
        ring.peek().unwrap();
        for _ in 0..most {
            match ring.take().unwrap() {
                None => return lost,
                Some((Item::Record(record), _)) => {
                    let due = self.submitted.pop_front().expect("a record that was submitted");
                    assert_eq!((record.pos, record.bytes.len() as u64), (due.pos, due.len));
                    if let Some(seq) = record.bytes.first_chunk() {
                        assert_eq!(u64::from_ne_bytes(*seq), due.seq);
                    }
                }
                Some((Item::Lost(gone), _)) => {
                    // The ring reads one item ahead, so the loss may have been found at an earlier row.
                    let end = gone.pos + gone.bytes;
                    assert!(self.oldest.contains(&end), "more is lost than was gone");
                    lost += gone.bytes;
                    self.submitted.retain(|record| record.pos >= gone.pos + gone.bytes);
                }
            }
        }
        lost
    }
}

fn write_and_read_rows(name: &str, flags: u32) {
    let Some(mut pairs) = Pairs::new(flags) else {
        assert!(std::env::var_os("PERFRING_GUEST").is_none(), "the guest can");
        return;
    };
    let mut ring = pairs.open();
    let mut rng = Rng::from_env();
    let (mut head, mut consumed) = (0, 0);
    let (mut granted, mut refused, mut lost) = (0u64, 0u64, 0u64);
    let mut trace = String::new();
    for op in 0..ROWS {
        // In normal mode, what the consumer has released.
        let mut advance = 0;
        if rng.below(3) == 0 {
            lost += pairs.take(&mut ring, rng.below(8));
            let resume_point = ring.resume_point();
            ring.release_to(&resume_point);
            if flags == 0 {
                let now = ring.fill();
                advance = head - now.unread - now.held - consumed;
                consumed += advance;
            }
        }
        let mut record = || {
            let len = match rng.below(40) {
                0 => rng.below(4300),
                1 => 4080 + rng.below(16),
                _ => rng.below(600),
            };
            (len, rng.below(4) == 0)
        };
        let a = record();
        let b = record();
        let (b, b_first) = (rng.any().is_multiple_of(2).then_some(b), rng.any().is_multiple_of(2));
        let seq = op.wrapping_mul(SPREAD);
        let [producer, overwrite, a_ok, b_ok] = pairs.run(seq, [Some(a), b], b_first);
        let begin = head;
        for (record, ok) in [(Some(a), a_ok), (b, b_ok)] {
            let Some((len, discards)) = record else { continue };
            if ok == 0 {
                refused += 1;
                continue;
            }
            granted += 1;
            if !discards {
                pairs.submitted.push_back(Submitted { pos: head, len, seq });
            }
            head += (len + 8).next_multiple_of(8);
        }
        assert_eq!(head, producer, "row {op} from {begin}");
        assert!(
            pairs.oldest.iter().all(|oldest| overwrite >= *oldest) && head - overwrite < SIZE
                || flags == 0,
            "row {op}"
        );
        pairs.oldest.push(overwrite);
        let ends = |record: Option<(u64, bool)>| match record {
            Some((_, true)) => "discard",
            Some(_) => "commit",
            None => "",
        };
        let len =
            |record: Option<(u64, bool)>| record.map_or(String::new(), |(len, _)| len.to_string());
        writeln!(
            trace,
            "{op},{advance},{},{},{},{},{},{a_ok},{},{producer},{overwrite},{consumed},{producer},{overwrite}",
            a.0,
            len(b),
            if b_first { "ba" } else { "ab" },
            ends(Some(a)),
            ends(b),
            b.map_or(String::new(), |_| b_ok.to_string()),
        )
        .unwrap();
    }
    lost += pairs.take(&mut ring, u64::MAX);
    assert!(pairs.submitted.is_empty(), "{:?}", pairs.submitted);
    println!(
        "{name}: {ROWS} rows, {granted} granted, {refused} refused, {lost} bytes lost to the reader"
    );
    assert!(granted > ROWS / 2 && refused > 50);
    assert_eq!(lost > 0, flags != 0);
    if std::env::var_os("PERFRING_NEW_TRACES").is_some() {
        println!("TRACE {name}");
        println!(
            "op,advance,a_len,b_len,order,a_end,b_end,a_ok,b_ok,reserved_producer_pos,reserved_overwrite_pos,ended_consumer_pos,ended_producer_pos,ended_overwrite_pos"
        );
        println!("{trace}TRACE END");
    }
}

#[test]
fn three_thousand_rows_in_overwrite_mode_are_read_as_the_kernel_wrote_them() {
    write_and_read_rows("overwrite", OVERWRITE);
}

#[test]
fn three_thousand_rows_in_normal_mode_are_read_as_the_kernel_wrote_them() {
    write_and_read_rows("normal", 0);
}
