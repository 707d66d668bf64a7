//! Subjects that a server accepts, whatever a ring's or a type's name is.

/// A subject with placeholders.
#[derive(Clone, Debug)]
pub(super) struct Template {
    tokens: Vec<Vec<Part>>,
}

#[derive(Clone, Debug)]
enum Part {
    Text(String),
    Ring,
    Type,
    Uuid,
}

impl Template {
    /// # Errors
    /// A message that describes the problem.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let bad = |why: &str| format!("`subject` \"{text}\" {why}");
        let mut tokens = Vec::new();
        for token in text.split('.') {
            if token.is_empty() {
                return Err(bad("has an empty word: there is one between dots, and at both ends"));
            }
            tokens.push(parts(token).map_err(|why| bad(&why))?);
        }
        if text.starts_with('$') || text.starts_with("_INBOX.") {
            return Err(bad("begins as the server's own subjects do: choose another first word"));
        }
        if !text.contains("{type}") {
            return Err(bad("has no {type}: losses could not be distinguished from records"));
        }
        Ok(Template { tokens })
    }

    /// Fills in the placeholders.
    pub(super) fn fill(&self, ring: &str, kind: &str, uuid: &str) -> String {
        let part = |part: &Part| match part {
            Part::Text(text) => text.clone(),
            Part::Ring => mangle(ring),
            Part::Type => mangle(kind),
            Part::Uuid => mangle(uuid),
        };
        let token = |parts: &Vec<Part>| parts.iter().map(part).collect::<String>();
        self.tokens.iter().map(token).collect::<Vec<_>>().join(".")
    }

    /// Returns a subject with wildcards that all of its subjects match, and few others.
    pub(super) fn wildcard(&self) -> String {
        let star = |token: &Vec<Part>| match token.as_slice() {
            [Part::Text(text)] => text.clone(),
            _ => "*".into(),
        };
        self.tokens.iter().map(star).collect::<Vec<_>>().join(".")
    }
}

/// Checks a subject without placeholders.
///
/// # Errors
/// What is wrong with it.
pub(super) fn check(subject: &str) -> Result<(), String> {
    if subject.starts_with('$') || subject.starts_with("_INBOX.") {
        return Err("begins as the server's own subjects do: choose another first word".into());
    }
    if subject.split('.').any(str::is_empty) {
        return Err("has an empty word: there is one between dots, and at both ends".into());
    }
    if subject.contains('{') {
        return Err("has a {: the subject of a signal has no placeholders".into());
    }
    legal(subject).map(drop)
}

fn parts(mut token: &str) -> Result<Vec<Part>, String> {
    let mut parts = Vec::new();
    while let Some(open) = token.find('{') {
        if open > 0 {
            parts.push(Part::Text(legal(&token[..open])?));
        }
        let close = token.find('}').filter(|close| *close > open);
        let close = close.ok_or("has a { without its }")?;
        parts.push(match &token[open + 1..close] {
            "ring" => Part::Ring,
            "type" => Part::Type,
            "uuid" => Part::Uuid,
            "host" => Part::Text(mangle(&host())),
            other => {
                return Err(format!(
                    "has {{{other}}}: known are {{ring}}, {{type}}, {{uuid}} and {{host}}"
                ));
            }
        });
        token = &token[close + 1..];
    }
    if !token.is_empty() {
        parts.push(Part::Text(legal(token)?));
    }
    // So that a token without placeholders is one part.
    if parts.iter().all(|part| matches!(part, Part::Text(_))) {
        let text = parts.iter().map(|part| if let Part::Text(text) = part { text } else { "" });
        parts = vec![Part::Text(text.collect())];
    }
    Ok(parts)
}

fn legal(text: &str) -> Result<String, String> {
    let bad = |c: char| c.is_whitespace() || c.is_control() || "*>}".contains(c);
    match text.chars().find(|c| bad(*c)) {
        Some(c) => Err(format!("has {c:?}, which no subject may have")),
        None => Ok(text.to_owned()),
    }
}

fn host() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned()
}

/// Replaces all but letters, digits, `-` and `_`.
fn mangle(text: &str) -> String {
    let legal = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    let word: String = text.chars().take(128).map(legal).collect();
    if word.is_empty() { "_".into() } else { word }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    #[test]
    fn a_subject_is_legal_whatever_the_names_are() {
        let template = Template::parse("perfring.{ring}.{type}").unwrap();
        assert_eq!(template.fill("api-1", "request", "u"), "perfring.api-1.request");
        assert_eq!(template.fill("a.b c/*>\r\nPUB x", "é", "u"), "perfring.a_b_c_____PUB_x._");
        assert_eq!(template.fill("", "", "u"), "perfring._._");
        assert_eq!(template.wildcard(), "perfring.*.*");
        let template = Template::parse("all.r-{ring}.x.{type}").unwrap();
        assert_eq!(template.fill("a", "b", "u"), "all.r-a.x.b");
        assert_eq!(template.wildcard(), "all.*.x.*");
    }

    #[test]
    fn a_bad_template_is_refused_with_a_message() {
        for (text, word) in [
            ("a..{type}", "empty word"),
            ("a.{type}.", "empty word"),
            ("a.{kind}.{type}", "{kind}"),
            ("a.{type", "without its }"),
            ("a.*.{type}", "'*'"),
            ("a b.{type}", "' '"),
            ("$JS.{type}", "server's own"),
            ("a.{ring}", "no {type}"),
        ] {
            let error = Template::parse(text).unwrap_err();
            assert!(error.contains(word), "{text}: {error}");
        }
    }

    #[test]
    fn the_host_is_part_of_the_text() {
        let template = Template::parse("p.{host}.{ring}.{type}").unwrap();
        assert!(!template.wildcard().starts_with("p.*.*.*"), "{}", template.wildcard());
    }
}
