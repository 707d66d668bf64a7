//! The writing end of the kernel's contestants.

use perfring_bench::bpf::{Program, block};
use perfring_bench::contestant::{Fill, Sender};
use perfring_bench::{BenchError, Result};
use std::hint::spin_loop;
use std::ops::Range;

/// A program that fills and publishes records until there is no room, and returns how many it has
/// published.
pub struct ProgramSender {
    program: Program,
    payload: usize,
}

impl ProgramSender {
    /// Loads a program.
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
