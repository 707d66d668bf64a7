//! The machine: the report's first line.

use crate::case::Scale;
use crate::error::Result;
use serde::Serialize;
use std::fmt;
use std::fs;

/// Machine, kernel, compiler and what all samples have in common.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// The processor, as the kernel names it.
    pub cpu: String,
    /// Linux's release.
    pub kernel: String,
    /// The reader's and the producer's core.
    pub cores: Option<[usize; 2]>,
    /// Runnable tasks in the minute before: two processes that share their cores with others wait
    /// for each other's turns, and measure the scheduler.
    pub load: String,
    /// The compilation target.
    pub target: &'static str,
    /// The compiler.
    pub rustc: &'static str,
    /// Its optimisation level.
    pub opt_level: &'static str,
    /// Its other flags.
    pub rustflags: &'static str,
    /// Size of a ring in bytes.
    pub data_size: u64,
    /// How readers wait.
    pub reader: &'static str,
    /// Samples of each kind.
    pub repetitions: usize,
    /// How long each takes.
    pub seconds_per_sample: f64,
}

impl Machine {
    /// Describes this machine, now.
    pub fn of(scale: &Scale, cores: Option<[usize; 2]>) -> Result<Self> {
        let info = fs::read_to_string("/proc/cpuinfo")?;
        let field = |name: &str| {
            let line = info.lines().find(|line| line.starts_with(name))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        };
        let model = field("model name").unwrap_or_else(|| "unknown".to_owned());
        let cpu = match (field("cpu family"), field("model\t")) {
            (Some(family), Some(number)) => format!("{model} (family {family}, model {number})"),
            _ => model,
        };
        Ok(Machine {
            cpu,
            kernel: fs::read_to_string("/proc/sys/kernel/osrelease")?.trim().to_owned(),
            cores,
            load: fs::read_to_string("/proc/loadavg")?
                .split_whitespace()
                .next()
                .unwrap_or_default()
                .to_owned(),
            target: env!("BENCH_TARGET"),
            rustc: env!("BENCH_RUSTC"),
            opt_level: env!("BENCH_OPT_LEVEL"),
            rustflags: env!("BENCH_RUSTFLAGS"),
            data_size: scale.data_size,
            reader: scale.pace.name(),
            repetitions: scale.repetitions,
            seconds_per_sample: scale.seconds_per_sample,
        })
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, Linux {}, ", self.cpu, self.kernel)?;
        match self.cores {
            Some([reader, producer]) => {
                write!(f, "reader on core {reader}, producer on {producer}")
            }
            None => write!(f, "only one core: not pinned, and no measure of anything"),
        }?;
        write!(f, ", load {}", self.load)?;
        write!(f, "\n{}, {}, opt-level {}", self.rustc, self.target, self.opt_level)?;
        if !self.rustflags.is_empty() {
            write!(f, ", {}", self.rustflags)?;
        }
        write!(
            f,
            "\n{} KiB rings, {} reader, {} repetitions of {} s",
            self.data_size / 1024,
            self.reader,
            self.repetitions,
            self.seconds_per_sample
        )
    }
}
