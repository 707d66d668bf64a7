//! BPF programs: a loop that publishes numbered records, in a few hand-written instructions. A
//! little-endian machine is assumed; another refuses it.
//!
//! Such a program writes the same bytes as [`fill`](crate::payload::fill), which it cannot call.

use super::system::insn;
use crate::payload::SPREAD;

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
/// Records that one run publishes, where they are short.
pub const BLOCK: u64 = 1024;
/// The farthest word that a store reaches from its register.
const REACH: usize = 32_760;

/// A program under construction. r6 is the number of the next record, r7 how many are left, r8 how
/// many were published, r9 the program's argument.
pub struct Loop {
    code: Vec<u64>,
    /// Jumps to the end, and to the next record, whose positions are not known yet.
    to_end: Vec<usize>,
    to_next: Vec<usize>,
}

impl Loop {
    /// Begins an iteration: the loop ends when nothing is left.
    pub fn begin(payload: usize) -> Self {
        let mut this = Loop { code: Vec::new(), to_end: Vec::new(), to_next: Vec::new() };
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

    /// Goes on with the next record, and does not count this one, if `jump` of this register and
    /// number.
    pub fn skip_if(&mut self, jump: u8, register: u8, imm: i32) {
        self.to_next.push(self.code.len());
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
        self.push(insn(op::ADD_IMM, 8, 0, 0, 1));
        let next = self.code.len();
        self.push(insn(op::ADD_IMM, 6, 0, 0, 1));
        self.push(insn(op::ADD_IMM, 7, 0, 0, -1));
        let back = TOP as i16 - self.code.len() as i16 - 1;
        self.push(insn(op::JUMP, 0, 0, back, 0));
        let end = self.code.len();
        for (jumps, to) in [(self.to_end, end), (self.to_next, next)] {
            for at in jumps {
                self.code[at] |= insn(0, 0, 0, (to - at - 1) as i16, 0);
            }
        }
        self.code.extend([insn(op::MOVE, 0, 8, 0, 0), insn(op::EXIT, 0, 0, 0, 0)]);
        self.code
    }
}

/// Returns the records of one run.
pub fn block(payload: usize) -> usize {
    (WALK / (payload / 8 + 32)).min(BLOCK as usize)
}

/// Returns the program that publishes into a BPF ring buffer: each record is reserved, written in
/// place and submitted. Where there is no room, it ends, or with `skips` continues with the next
/// number.
pub fn into_ringbuf(map: u32, payload: usize, wakes: bool, skips: bool) -> Vec<u64> {
    const RESERVE: i32 = 131;
    const SUBMIT: i32 = 132;
    const NO_WAKEUP: i32 = 1;
    let mut code = Loop::begin(payload);
    code.map(1, map);
    code.push(insn(op::MOVE_IMM, 2, 0, 0, payload as i32));
    code.push(insn(op::MOVE_IMM, 3, 0, 0, 0));
    code.push(insn(op::CALL, 0, 0, 0, RESERVE));
    if skips {
        code.skip_if(op::JUMP_IF_IMM, 0, 0);
    } else {
        code.end_if(op::JUMP_IF_IMM, 0, 0);
    }
    code.fill(payload);
    code.push(insn(op::MOVE, 1, 0, 0, 0));
    code.push(insn(op::MOVE_IMM, 2, 0, 0, if wakes { 0 } else { NO_WAKEUP }));
    code.push(insn(op::CALL, 0, 0, 0, SUBMIT));
    code.finish()
}
