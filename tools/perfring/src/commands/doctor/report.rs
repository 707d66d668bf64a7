//! The results: a line for each check, and the exit code.

use crate::columns::paragraph;
use crate::failure::Failure;
use crate::verbosity::{Painted, Style};
use perfring_export::Stream;
use perfring_figures::owner::count;
use serde_json::json;
use std::io::{BufWriter, Stdout, Write};

/// The directory of named segments, and the best one for rings.
pub(super) const SHM: &str = "/dev/shm";

/// Writes lines to stdout and counts the problems.
#[derive(Debug)]
pub(super) struct Report {
    out: BufWriter<Stream<Stdout>>,
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
            out: BufWriter::new(Stream::stdout()),
            json,
            width,
            subject: String::new(),
            warnings: 0,
            failures: 0,
            missing: false,
            damaged: false,
        }
    }

    /// Sets the subject of the checks that follow.
    pub(super) fn subject(&mut self, subject: &str) -> Result<(), Failure> {
        subject.clone_into(&mut self.subject);
        if self.json {
            return Ok(());
        }
        writeln!(self.out, "{subject}").map_err(Failure::output)
    }

    pub(super) fn ok(&mut self, check: &str, message: impl Into<String>) -> Result<(), Failure> {
        self.line("ok", check, &message.into(), None)
    }

    /// Information; nothing needs to be done.
    pub(super) fn note(&mut self, check: &str, message: impl Into<String>) -> Result<(), Failure> {
        self.line("note", check, &message.into(), None)
    }

    /// Something needs attention.
    pub(super) fn warn(
        &mut self,
        check: &str,
        message: impl Into<String>,
        advice: impl Into<String>,
    ) -> Result<(), Failure> {
        self.warnings += 1;
        self.line("warn", check, &message.into(), Some(&advice.into()))
    }

    /// Something does not work.
    pub(super) fn fail(
        &mut self,
        check: &str,
        message: impl Into<String>,
        advice: impl Into<String>,
    ) -> Result<(), Failure> {
        self.failures += 1;
        self.line("FAIL", check, &message.into(), Some(&advice.into()))
    }

    /// A part of a ring is damaged.
    pub(super) fn damaged(
        &mut self,
        check: &str,
        message: impl Into<String>,
        advice: impl Into<String>,
    ) -> Result<(), Failure> {
        self.damaged = true;
        self.fail(check, message, advice)
    }

    /// A ring for which another command would end with this failure.
    pub(super) fn refused(&mut self, check: &str, failure: Failure) -> Result<(), Failure> {
        let message = match failure {
            Failure::NotFound(message) => {
                self.missing = true;
                message
            }
            Failure::Damaged(message) => {
                self.damaged = true;
                message
            }
            Failure::General(message) => message,
            other => return Err(other),
        };
        self.failures += 1;
        self.line("FAIL", check, &message, None)
    }

    fn line(
        &mut self,
        word: &str,
        check: &str,
        message: &str,
        advice: Option<&str>,
    ) -> Result<(), Failure> {
        let written = if self.json {
            let (subject, level) = (&self.subject, word.to_ascii_lowercase());
            let line = json!({
                "subject": subject, "check": check, "level": level, "message": message, "advice": advice
            });
            writeln!(self.out, "{line}")
        } else {
            let advice = advice.map_or(String::new(), |advice| format!(": {advice}"));
            let title = format!("  {word:<4}  {check:<11}  ");
            let text = paragraph(&title, &format!("{message}{advice}"), self.width);
            let (word, rest) = text.split_at(title.len().min(6));
            writeln!(self.out, "{}{rest}", Painted(style(word), word))
        };
        written.map_err(Failure::output)
    }

    /// Returns the overall result.
    pub(super) fn end(mut self) -> Result<(), Failure> {
        self.out.flush().map_err(Failure::output)?;
        if self.warnings + self.failures == 0 {
            return Ok(());
        }
        let sum = [(self.failures, "failure"), (self.warnings, "warning")];
        let sum = sum.iter().filter(|(number, _)| *number > 0);
        let sum: Vec<String> = sum.map(|(number, thing)| count(*number, thing)).collect();
        let sentence = format!("something needs attention: {}", sum.join(" and "));
        Err(if self.damaged {
            Failure::Damaged(sentence)
        } else if self.missing {
            Failure::NotFound(sentence)
        } else {
            Failure::General(sentence)
        })
    }
}

/// Returns the emphasis of a level.
fn style(word: &str) -> Style {
    match word.trim() {
        "FAIL" => Style::Bad,
        "warn" => Style::Warning,
        "ok" => Style::Good,
        _ => Style::Plain,
    }
}
