//! The test program as a child of itself: a separate process for things of which a process has only one.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// The variable with the role of a child.
const ROLE: &str = "PERFRING_CONTEXT_ROLE";

/// A child, which answers each line with a line.
#[derive(Debug)]
pub struct Answering {
    child: Child,
    questions: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Answering {
    /// Starts this test program as a child that runs this test alone, in this role.
    ///
    /// # Errors
    /// Processes cannot be started.
    pub fn start(test: &str, role: &str) -> std::io::Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["--exact", test, "--nocapture"])
            .env(ROLE, role)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let (Some(questions), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(std::io::Error::other("no pipes"));
        };
        Ok(Answering { child, questions, answers: BufReader::new(answers) })
    }

    /// Returns the child's number.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Asks, and waits for the answer.
    ///
    /// # Errors
    /// The child has ended.
    pub fn ask(&mut self, question: &str) -> std::io::Result<String> {
        writeln!(self.questions, "{question}")?;
        loop {
            let mut line = String::new();
            if self.answers.read_line(&mut line)? == 0 {
                return Err(std::io::Error::other(format!(
                    "it ended without an answer to {question:?}"
                )));
            }
            // The harness also prints lines.
            if let Some((_, answer)) = line.split_once("ANSWER ") {
                return Ok(answer.trim_end().to_owned());
            }
        }
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the role of this process, if it is a child.
#[must_use]
pub fn role() -> Option<String> {
    std::env::var(ROLE).ok()
}

/// Answers the parent's questions, until there are no more.
pub fn answer(mut to: impl FnMut(&str) -> String) {
    for question in std::io::stdin().lines() {
        let Ok(question) = question else { return };
        println!("ANSWER {}", to(&question));
    }
}
