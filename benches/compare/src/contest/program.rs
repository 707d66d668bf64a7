//! The BPF programs of the kernel's contestants: a loop that publishes numbered records, in a few
//! hand-written instructions. A little-endian machine is assumed; another refuses it.
//!
//! Such a program writes the same bytes as [`perfring_bench::payload::fill`], which it cannot call.

use perfring_bench::bpf::{Program, insn};
use perfring_bench::contestant::{Fill, Sender};
use perfring_bench::payload::SPREAD;
use perfring_bench::{BenchError, Result};
use std::hint::spin_loop;
use std::ops::Range;

/// Operations. `dst` and `src` are registers, `imm` a number in the instruction.
pub mod op {
    /// `dst = *(src + offset)`
    pub const LOAD: u8 = 0x79;
    /// `dst = imm`, of two instructions
    pub const LOAD_IMM: u8 = 0x18;
    /// `*(dst + offset) = src`
    pub const STORE: u8 = 0x7b;
    /// `*(dst + offset) = src`, four bytes
    pub const STORE_HALF: u8 = 0x63;
    /// `dst = src`
    pub const MOVE: u8 = 0xbf;
    /// `dst = imm`
    pub const MOVE_IMM: u8 = 0xb7;
    /// `dst = imm`, four bytes, the rest zero
    pub const MOVE_HALF_IMM: u8 = 0xb4;
    /// `dst += imm`
    pub const ADD_IMM: u8 = 0x07;
    /// `dst *= src`
    pub const MULTIPLY: u8 = 0x2f;
    /// To `offset` instructions further
    pub const JUMP: u8 = 0x05;
    /// The same if `dst == imm`
    pub const JUMP_IF_IMM: u8 = 0x15;
    /// The same if `dst != imm`
    pub const JUMP_UNLESS_IMM: u8 = 0x55;
    /// The same if `dst > imm`
    pub const JUMP_ABOVE_IMM: u8 = 0x25;
    /// Calls function `imm`: r1 to r5 are its arguments and are clobbered, r0 is the result
    pub const CALL: u8 = 0x85;
    /// Returns r0
    pub const EXIT: u8 = 0x95;
    /// As `src` of [`LOAD_IMM`]: the number is a map's descriptor
    pub const MAP: u8 = 1;
}

/// Most instructions that the verifier counts for one run of a program: it walks every iteration of
/// the loop, and gives up at a million.
const WALK: usize = 900_000;
/// Records of one run, where they are short.
const BLOCK: usize = 1024;
/// The farthest word that a store reaches from its register.
const REACH: usize = 32_760;

/// A program under construction. r6 is the number of the next record, r7 how many are left, r8 how
/// many were published, r9 the program's argument.
pub struct Loop {
    code: Vec<u64>,
    /// Jumps to the end, whose position is not known yet.
    to_end: Vec<usize>,
}

impl Loop {
    /// Begins an iteration: the loop ends when nothing is left.
    pub fn begin(payload: usize) -> Self {
        let mut this = Loop { code: Vec::new(), to_end: Vec::new() };
        this.push(insn(op::MOVE, 9, 1, 0, 0));
        this.push(insn(op::LOAD, 6, 9, 0, 0));
        this.push(insn(op::LOAD, 7, 9, 8, 0));
        this.push(insn(op::MOVE_IMM, 8, 0, 0, 0));
        // The verifier has to know that it ends.
        this.end_if(op::JUMP_ABOVE_IMM, 7, block(payload) as i32);
        this.end_if(op::JUMP_IF_IMM, 7, 0);
        this
    }

    /// Adds an instruction.
    pub fn push(&mut self, instruction: u64) {
        self.code.push(instruction);
    }

    /// Ends the program if `jump` of this register and number.
    pub fn end_if(&mut self, jump: u8, register: u8, imm: i32) {
        self.to_end.push(self.code.len());
        self.push(insn(jump, register, 0, 0, imm));
    }

    /// Loads the address of a map.
    pub fn map(&mut self, register: u8, map: u32) {
        self.push(insn(op::LOAD_IMM, register, op::MAP, 0, map as i32));
        self.push(insn(0, 0, 0, 0, 0));
    }

    /// Writes the record's bytes at r0. Uses r1 to r3.
    pub fn fill(&mut self, payload: usize) {
        self.push(insn(op::STORE, 0, 6, 0, 0));
        if payload > 8 {
            self.push(insn(op::MOVE, 1, 6, 0, 0));
            self.push(insn(op::LOAD_IMM, 2, 0, 0, SPREAD as i32));
            self.push(insn(0, 0, 0, 0, (SPREAD >> 32) as i32));
            self.push(insn(op::MULTIPLY, 1, 2, 0, 0));
            self.push(insn(op::MOVE, 3, 0, 0, 0));
            self.push(insn(op::ADD_IMM, 3, 0, 0, REACH as i32));
            for at in (8..payload).step_by(8) {
                let (base, at) = if at < REACH { (0, at) } else { (3, at - REACH) };
                self.push(insn(op::STORE, base, 1, at as i16, 0));
            }
        }
    }

    /// Ends the iteration and the program.
    pub fn finish(mut self) -> Vec<u64> {
        // Behind `begin`'s first check, so that each iteration begins with the second.
        const TOP: usize = 5;
        self.push(insn(op::ADD_IMM, 6, 0, 0, 1));
        self.push(insn(op::ADD_IMM, 8, 0, 0, 1));
        self.push(insn(op::ADD_IMM, 7, 0, 0, -1));
        let back = TOP as i16 - self.code.len() as i16 - 1;
        self.push(insn(op::JUMP, 0, 0, back, 0));
        let end = self.code.len();
        for at in self.to_end {
            self.code[at] |= insn(0, 0, 0, (end - at - 1) as i16, 0);
        }
        self.code.extend([insn(op::MOVE, 0, 8, 0, 0), insn(op::EXIT, 0, 0, 0, 0)]);
        self.code
    }
}

/// Returns the records of one run.
pub fn block(payload: usize) -> usize {
    (WALK / (payload / 8 + 32)).min(BLOCK)
}

/// The writing end of the kernel's contestants: a program that fills and publishes records until there
/// is no room, and returns how many it has published.
pub struct ProgramSender {
    program: Program,
    payload: usize,
}

impl ProgramSender {
    /// Loads a program built by [`Loop`].
    ///
    /// # Errors
    /// The kernel's.
    pub fn load(code: &[u64], payload: usize) -> Result<Self> {
        Ok(ProgramSender { program: Program::load(code)?, payload })
    }

    /// Publishes as many of these numbers as there is room for, and at most as many as one run
    /// does.
    #[inline]
    fn publish<const N: usize>(&self, numbers: Range<u64>) -> Result<u64> {
        if N != self.payload {
            return Err(BenchError::Cannot("send records of another length"));
        }
        let count = (numbers.end - numbers.start).min(block(N) as u64);
        Ok(self.program.run(&[numbers.start, count])?.into())
    }
}

impl Sender for ProgramSender {
    #[inline]
    fn send<const N: usize>(&mut self, numbers: Range<u64>, _fill: impl Fill<N>) -> Result<()> {
        let (mut next, mut polls) = (numbers.start, 0u32);
        while next < numbers.end {
            let published = self.publish::<N>(next..numbers.end)?;
            next += published;
            if published == 0 {
                spin_loop();
                polls += 1;
                // The reader may need this core. A poll is a system call.
                if polls.is_multiple_of(64) {
                    std::thread::yield_now();
                }
            }
        }
        Ok(())
    }

    #[inline]
    fn offer<const N: usize>(&mut self, number: u64, _fill: impl Fill<N>) -> Result<bool> {
        Ok(self.publish::<N>(number..number + 1)? > 0)
    }
}
