//! What was found, a line for each check, and what it all comes to.

use crate::columns::paragraph;
use crate::failure::Failure;
use crate::owner::count;
use serde_json::json;
use std::io::{self, BufWriter, StdoutLock, Write};

/// Where named segments live, and where rings are best.
pub(super) const SHM: &str = "/dev/shm";

/// Lines on their way to stdout, and the sum of them.
#[derive(Debug)]
pub(super) struct Report {
    out: BufWriter<StdoutLock<'static>>,
    json: bool,
    width: Option<usize>,
    subject: String,
    warnings: u64,
    failures: u64,
    missing: bool,
    damaged: bool,
}

impl Report {
    pub(super) fn new(json: bool, width: Option<usize>) -> Self {
        Report {
            out: BufWriter::new(io::stdout().lock()),
            json,
            width,
            subject: String::new(),
            warnings: 0,
            failures: 0,
            missing: false,
            damaged: false,
        }
    }

    /// What the checks are about from now on.
    pub(super) fn subject(&mut self, subject: &str) -> Result<(), Failure> {
        subject.clone_into(&mut self.subject);
        if self.json {
            return Ok(());
        }
        writeln!(self.out, "{subject}").map_err(Failure::output)
    }

    pub(super) fn ok(&mut self, check: &str, says: impl Into<String>) -> Result<(), Failure> {
        self.line("ok", check, &says.into(), None)
    }

    /// Worth knowing; nothing is to be done.
    pub(super) fn note(&mut self, check: &str, says: impl Into<String>) -> Result<(), Failure> {
        self.line("note", check, &says.into(), None)
    }

    /// Somebody should do something.
    pub(super) fn warn(
        &mut self,
        check: &str,
        says: impl Into<String>,
        todo: impl Into<String>,
    ) -> Result<(), Failure> {
        self.warnings += 1;
        self.line("warn", check, &says.into(), Some(&todo.into()))
    }

    /// It does not work.
    pub(super) fn fail(
        &mut self,
        check: &str,
        says: impl Into<String>,
        todo: impl Into<String>,
    ) -> Result<(), Failure> {
        self.failures += 1;
        self.line("FAIL", check, &says.into(), Some(&todo.into()))
    }

    /// A ring that another command would end for, with this failure.
    pub(super) fn refused(&mut self, check: &str, failure: Failure) -> Result<(), Failure> {
        let says = match failure {
            Failure::NotFound(says) => {
                self.missing = true;
                says
            }
            Failure::Damaged(says) => {
                self.damaged = true;
                says
            }
            Failure::General(says) => says,
            other => return Err(other),
        };
        self.failures += 1;
        self.line("FAIL", check, &says, None)
    }

    fn line(
        &mut self,
        word: &str,
        check: &str,
        says: &str,
        todo: Option<&str>,
    ) -> Result<(), Failure> {
        let written = if self.json {
            let (subject, level) = (&self.subject, word.to_ascii_lowercase());
            let line = json!({
                "subject": subject, "check": check, "level": level, "says": says, "todo": todo
            });
            writeln!(self.out, "{line}")
        } else {
            let todo = todo.map_or(String::new(), |todo| format!(": {todo}"));
            let title = format!("  {word:<4}  {check:<11}  ");
            writeln!(self.out, "{}", paragraph(&title, &format!("{says}{todo}"), self.width))
        };
        written.map_err(Failure::output)
    }

    /// What it comes to.
    pub(super) fn end(mut self) -> Result<(), Failure> {
        self.out.flush().map_err(Failure::output)?;
        if self.warnings + self.failures == 0 {
            return Ok(());
        }
        let sum = [(self.failures, "failure"), (self.warnings, "warning")];
        let sum = sum.iter().filter(|(number, _)| *number > 0);
        let sum: Vec<String> = sum.map(|(number, thing)| count(*number, thing)).collect();
        let sentence = format!("something is to be done: {}", sum.join(" and "));
        Err(if self.damaged {
            Failure::Damaged(sentence)
        } else if self.missing {
            Failure::NotFound(sentence)
        } else {
            Failure::General(sentence)
        })
    }
}
