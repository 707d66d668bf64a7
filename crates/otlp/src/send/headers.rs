//! The headers of requests, some of which files have.

use percent_encoding::percent_decode_str;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::PathBuf;
use ureq::http::{HeaderMap, HeaderName, HeaderValue, header};

/// Headers from the environment and the options, and the files that have the others.
#[derive(Clone, Debug)]
pub(super) struct Sources {
    fixed: HeaderMap,
    headers: Option<PathBuf>,
    token: Option<PathBuf>,
}

impl Sources {
    /// # Errors
    /// A message without any value, which may be a secret.
    pub(super) fn new(
        reported: Option<String>,
        own: &BTreeMap<String, String>,
        headers: Option<PathBuf>,
        token: Option<PathBuf>,
    ) -> Result<Self, String> {
        let mut fixed = HeaderMap::new();
        for pair in reported.iter().flat_map(|reported| reported.split(',')) {
            if let Some((name, value)) = pair.split_once('=') {
                set(&mut fixed, &unescaped(name.trim()), &unescaped(value.trim()))?;
            }
        }
        own.iter().try_for_each(|(name, value)| set(&mut fixed, name, value))?;
        Ok(Sources { fixed, headers, token })
    }

    /// Returns whether there are files that may change.
    pub(super) fn can_change(&self) -> bool {
        self.headers.is_some() || self.token.is_some()
    }

    /// Returns the headers as the files have them now. Later sources replace earlier ones: the
    /// environment or `headers`, `headers_file`, `token_file`.
    ///
    /// # Errors
    /// A message without any value.
    pub(super) fn read(&self) -> Result<HeaderMap, String> {
        let mut all = self.fixed.clone();
        let read = |path: &PathBuf| {
            let text = std::fs::read_to_string(path);
            text.map_err(|error| format!("{} cannot be read: {error}", path.display()))
        };
        if let Some(path) = &self.headers {
            for (number, line) in (1..).zip(read(path)?.lines()) {
                let line = line.trim();
                if line.is_empty() || line.starts_with('#') {
                    continue;
                }
                let at = |why: &str| format!("{}, line {number}: {why}", path.display());
                let pair = line.split_once(':').ok_or_else(|| at("write it as \"name: value\""))?;
                set(&mut all, pair.0.trim(), pair.1.trim()).map_err(|why| at(&why))?;
            }
        }
        if let Some(path) = &self.token {
            let token = read(path)?;
            let token = token.trim();
            if token.is_empty() {
                return Err(format!("{} is empty: it should have a token", path.display()));
            }
            set(&mut all, header::AUTHORIZATION.as_str(), &format!("Bearer {token}"))
                .map_err(|why| format!("{}: {why}", path.display()))?;
        }
        Ok(all)
    }
}

fn set(all: &mut HeaderMap, name: &str, value: &str) -> Result<(), String> {
    let bad = |what| format!("the header {name:?} has {what} that HTTP does not allow");
    let name = HeaderName::try_from(name).map_err(|_| bad("a name"))?;
    let mut value = HeaderValue::try_from(value).map_err(|_| bad("a value"))?;
    value.set_sensitive(true);
    all.insert(name, value);
    Ok(())
}

/// Decodes percent escapes, which the environment uses in headers; anything else stays as it is.
fn unescaped(text: &str) -> Cow<'_, str> {
    percent_decode_str(text).decode_utf8_lossy()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn files_are_read_each_time_and_replace_other_sources() {
        let dir = tempfile::tempdir().unwrap();
        let (headers, token) = (dir.path().join("headers"), dir.path().join("token"));
        std::fs::write(&headers, "# ours\nX-Scope: a:b\n\nauthorization: Basic x\n").unwrap();
        std::fs::write(&token, "t0\n").unwrap();
        let own = [("x-scope".into(), "from options".into())].into();
        let sources = Sources::new(None, &own, Some(headers.clone()), Some(token.clone()));
        let sources = sources.unwrap();
        let read = |name: &str| sources.read().unwrap()[name].to_str().unwrap().to_owned();
        assert_eq!((&*read("x-scope"), &*read("authorization")), ("a:b", "Bearer t0"));
        std::fs::write(&token, "t1").unwrap();
        assert_eq!(read("authorization"), "Bearer t1");
        std::fs::write(&headers, "secret").unwrap();
        let error = sources.read().unwrap_err();
        assert!(error.contains("line 1") && !error.contains("secret"), "{error}");
    }
}
