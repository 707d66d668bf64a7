//! The headings of the guide's page of error messages.

/// Whether the text begins as the heading says, with anything for each `…`.
#[must_use]
pub fn begins(text: &str, heading: &str) -> bool {
    let mut rest = text;
    heading.split('…').enumerate().all(|(n, piece)| {
        let at = if n == 0 { rest.starts_with(piece).then_some(0) } else { rest.find(piece) };
        at.is_some_and(|at| {
            rest = &rest[at + piece.len()..];
            true
        })
    })
}
