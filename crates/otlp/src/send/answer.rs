//! What a receiver's answer means.

use std::time::Duration;

/// The result of a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// Not accepted now; possibly with the receiver's delay. It is sent again.
    Later { after: Option<Duration>, why: String },
    /// What the receiver makes of it, for good.
    Final(Verdict),
}

/// What a receiver makes of a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Accepted, except this many items; possibly with the receiver's reason.
    Taken { rejected: u64, why: String },
    /// It is malformed.
    Malformed { cause: &'static str, why: String },
    /// It is too large: its parts may be accepted.
    TooLarge { why: String },
}

/// The cause of what a partial success rejects.
pub(super) const PARTIAL: &str = "partial success";
/// The cause of items that are too large for the receiver one by one.
pub(super) const TOO_LARGE: &str = "too large";

/// Returns what an error status of HTTP means; `said` is what the receiver says about it.
///
/// OTLP's specification calls 429, 502, 503 and 504 retryable and all else final. This departs from
/// it on purpose: an expired token (401, 403), a wrong path (404, 405), a crash of the receiver
/// (500) and whatever a proxy answers say nothing about the records, are mended by an operator, and
/// would lose everything meanwhile. So records are held, and only what the receiver calls malformed
/// is final.
pub(super) fn of_status(status: u16, whom: &str, said: &str, after: Option<Duration>) -> Answer {
    let answers = format!("{whom} answers {said}");
    match status {
        400 => Answer::Final(Verdict::Malformed { cause: "400", why: answers }),
        422 => Answer::Final(Verdict::Malformed { cause: "422", why: answers }),
        413 => Answer::Final(Verdict::TooLarge { why: answers }),
        429 | 502 | 503 | 504 => Answer::Later { after, why: format!("{answers}; retrying") },
        status => Answer::Later { after, why: held(&answers, advice(status)) },
    }
}

/// Returns a message about something that an operator must mend.
pub(super) fn held(answers: &str, advice: &str) -> String {
    format!("{answers}: {advice}; records are held until it accepts them")
}

fn advice(status: u16) -> &'static str {
    match status {
        300..=399 => "set `endpoint` to the address that it names",
        401 | 403 => "set credentials in `headers`, `headers_file` or `token_file`",
        404 | 405 | 415 => "is it the address of an OTLP receiver (http/protobuf)?",
        _ => "see the receiver's log",
    }
}

/// Returns the beginning of a foreign text, without characters that disturb a terminal.
pub(super) fn shown(text: &str) -> String {
    let quiet = |c: char| if perfring_types::read::disturbs(c) { ' ' } else { c };
    text.chars().take(200).map(quiet).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_malformed_requests_are_final() {
        for status in 300..600 {
            let answer = of_status(status, "it", "", None);
            let is_later = matches!(answer, Answer::Later { .. });
            assert_eq!(is_later, !matches!(status, 400 | 413 | 422), "{status}: {answer:?}");
        }
    }
}
