//! Names that a format takes.

/// At most so many bytes of a text, whole characters only.
pub(crate) fn truncated(text: &str, most: usize) -> &str {
    let mut end = text.len().min(most);
    while !text.is_char_boundary(end) {
        end -= 1; // 0 is a boundary
    }
    &text[..end]
}

/// A C identifier of a name: letters, digits and underscores of ASCII; all else is an underscore.
pub(crate) fn identifier(name: &str) -> String {
    let letter = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    let mut out: String = name.chars().map(letter).collect();
    if out.is_empty() || out.starts_with(|c: char| c.is_ascii_digit()) {
        out.insert(0, '_');
    }
    out
}
