//! What the programs in `benches` share: their arguments, their other processes, and their figures.

use crate::stats::{median, range};
use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// The arguments of a program.
pub struct Args {
    /// All of them.
    pub all: Vec<String>,
    /// It is to measure: `cargo test` passes no `--bench`, and runs it only to see that it works.
    pub real: bool,
    /// One JSON object a line.
    pub json: bool,
}

impl Args {
    /// Returns those of this program.
    pub fn here() -> Self {
        let all: Vec<String> = std::env::args().skip(1).collect();
        let has = |name: &str| all.iter().any(|arg| arg == name);
        Args { real: has("--bench"), json: has("--json"), all }
    }

    /// Returns whether a row is wanted: all are, or those whose name has the word that is no
    /// option.
    pub fn wants(&self, name: &str) -> bool {
        self.all.iter().find(|arg| !arg.starts_with("--")).is_none_or(|word| name.contains(word))
    }
}

/// The median of samples, and the lowest and the highest.
#[derive(Clone, Copy, Debug)]
pub struct Spread {
    /// The middle one.
    pub median: f64,
    /// The lowest and the highest.
    pub range: (f64, f64),
}

impl Spread {
    /// Returns that of these samples.
    pub fn of(samples: impl IntoIterator<Item = f64> + Clone) -> Self {
        let range = range(samples.clone()).unwrap_or((f64::NAN, f64::NAN));
        Spread { median: median(samples).unwrap_or(f64::NAN), range }
    }
}

impl Spread {
    /// Formats it with so many digits.
    pub fn text(self, digits: usize) -> String {
        let (low, high) = self.range;
        format!("{:.digits$} ({low:.digits$} to {high:.digits$})", self.median)
    }
}

/// This program again, as another process that is spoken to line by line.
pub struct Other {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Other {
    /// Starts it with these arguments.
    pub fn start(args: &[&str]) -> io::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn()?;
        let none = || io::Error::other("no pipe to the child");
        let input = Some(child.stdin.take().ok_or_else(none)?);
        let output = BufReader::new(child.stdout.take().ok_or_else(none)?);
        Ok(Other { child, input, output })
    }

    /// Sends it a line.
    pub fn say(&mut self, line: &str) -> io::Result<()> {
        self.input.as_mut().map_or(Ok(()), |input| writeln!(input, "{line}"))
    }

    /// Returns its next line.
    pub fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        Ok(line.trim().to_owned())
    }

    /// Waits until it ends, which its closed input tells it to. Returns whether all went well.
    pub fn end(mut self) -> io::Result<bool> {
        drop(self.input.take());
        Ok(self.child.wait()?.success())
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        // It has ended already, unless this process fails.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
