//! Tables of a TOML file that remember their lines.

use perfring_export::registry::{Kind, Place, ReadOptions};
use serde::de::DeserializeOwned;
use std::borrow::Cow;
use std::rc::Rc;
use thiserror::Error;
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};

/// An invalid configuration: the line, the problem and what to do.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct ConfigError(pub(crate) String);

/// A file, split into tables.
pub(super) struct Tables<'a> {
    source: Source<'a>,
    all: Spanned<DeTable<'a>>,
    /// Keys that were taken, for errors that list what is expected.
    taken: Vec<&'static str>,
}

/// One table of an array of tables.
pub(crate) struct Table<'a> {
    source: Source<'a>,
    table: DeTable<'a>,
    span: std::ops::Range<usize>,
    /// Keys that were taken, for errors that list what is expected.
    taken: Vec<&'static str>,
}

/// The position of a table in the file, and those of its values.
pub(crate) struct At<'a> {
    source: Source<'a>,
    start: usize,
    values: Vec<(String, usize)>,
}

impl At<'_> {
    pub(crate) fn error(&self, message: &str) -> ConfigError {
        self.source.error(Some(self.start), message)
    }

    /// Creates an error about the value of this key, or about the table if it has no such key. The key of a table in
    /// the table has a dot.
    pub(crate) fn error_in(&self, key: &str, message: &str) -> ConfigError {
        let value = self.values.iter().find(|(its, _)| its == key);
        self.source.error(Some(value.map_or(self.start, |(_, start)| *start)), message)
    }
}

/// The text that errors refer to.
#[derive(Clone)]
struct Source<'a> {
    text: &'a str,
    name: Rc<str>,
}

impl Source<'_> {
    fn error(&self, at: Option<usize>, message: &str) -> ConfigError {
        let before = at.and_then(|at| self.text.get(..at));
        let line = before.map(|text| text.matches('\n').count() + 1);
        let message = message.trim_end().replace('\n', ", ");
        ConfigError(match line {
            Some(line) => format!("{}, line {line}: {message}", self.name),
            None => format!("{}: {message}", self.name),
        })
    }

    fn toml(&self, error: &toml::de::Error, or: Option<usize>) -> ConfigError {
        self.error(error.span().map(|span| span.start).or(or), error.message())
    }
}

impl<'a> Tables<'a> {
    pub(super) fn parse(text: &'a str, name: &str) -> Result<Self, ConfigError> {
        let source = Source { text, name: name.into() };
        let all = DeTable::parse(text).map_err(|error| source.toml(&error, None))?;
        Ok(Tables { source, all, taken: Vec::new() })
    }

    /// Takes the tables under `[[key]]`.
    pub(super) fn take(&mut self, key: &'static str) -> Result<Vec<Table<'a>>, ConfigError> {
        self.taken.push(key);
        let Some(found) = self.all.get_mut().remove(key) else { return Ok(Vec::new()) };
        let wrong = |span: &std::ops::Range<usize>| {
            self.source.error(Some(span.start), &format!("write [[{key}]] for each {key}"))
        };
        let span = found.span();
        let DeValue::Array(array) = found.into_inner() else { return Err(wrong(&span)) };
        let table = |value: Spanned<DeValue<'a>>| {
            let span = value.span();
            match value.into_inner() {
                DeValue::Table(table) => {
                    Ok(Table { source: self.source.clone(), table, span, taken: Vec::new() })
                }
                _ => Err(wrong(&span)),
            }
        };
        array.into_iter().map(table).collect()
    }

    /// Takes the table `[key]`, if there is one.
    pub(super) fn take_one(&mut self, key: &'static str) -> Result<Option<Table<'a>>, ConfigError> {
        self.taken.push(key);
        let Some(found) = self.all.get_mut().remove(key) else { return Ok(None) };
        let (source, span) = (self.source.clone(), found.span());
        match found.into_inner() {
            DeValue::Table(table) => Ok(Some(Table { source, table, span, taken: Vec::new() })),
            _ => Err(source.error(Some(span.start), &format!("write [{key}]"))),
        }
    }

    /// Parses the remaining keys.
    pub(super) fn rest<T: DeserializeOwned>(self) -> Result<T, ConfigError> {
        let span = self.all.span();
        read(&self.source, span, self.all.into_inner(), &self.taken)
    }
}

impl<'a> Table<'a> {
    /// Takes and parses some of its keys.
    pub(super) fn part<T: DeserializeOwned>(
        &mut self,
        keys: &[&'static str],
    ) -> Result<T, ConfigError> {
        self.taken.extend(keys);
        let mut part = DeTable::new();
        for key in keys {
            if let Some((key, value)) = self.table.remove_entry(*key) {
                part.insert(key, value);
            }
        }
        read(&self.source, self.span.clone(), part, &[])
    }

    /// Returns the text of a key, if it has one.
    pub(crate) fn text(&self, key: &str) -> Option<String> {
        self.table.get(key).and_then(|value| value.get_ref().as_str()).map(str::to_owned)
    }

    /// Returns the value of a key; `None` if it has none, or another kind of value.
    pub(super) fn value<T: DeserializeOwned>(&self, key: &str) -> Option<T> {
        T::deserialize(ValueDeserializer::from(self.table.get(key)?.clone())).ok()
    }

    /// Gives a key this text, if the key is not there.
    pub(super) fn default(&mut self, key: &'static str, text: &'static str) {
        if !self.table.contains_key(key) {
            let text = DeValue::String(Cow::Borrowed(text));
            self.table.insert(at_none(Cow::Borrowed(key)), at_none(text));
        }
    }

    /// Parses all of its keys.
    pub(crate) fn read<T: DeserializeOwned>(self) -> Result<T, ConfigError> {
        read(&self.source, self.span, self.table, &self.taken)
    }

    /// Creates an error about the whole table.
    pub(crate) fn error(&self, message: &str) -> ConfigError {
        self.at().error(message)
    }

    /// Returns its position, for errors after it was parsed.
    pub(crate) fn at(&self) -> At<'a> {
        let mut values = Vec::new();
        starts("", &self.table, &mut values);
        At { source: self.source.clone(), start: self.span.start, values }
    }

    /// Returns a text that is equal for equal tables, whatever their lines.
    pub(crate) fn same(&self) -> String {
        format!("{:?}", plain(&DeValue::Table(self.table.clone())))
    }

    /// Formats its keys and values without secrets, and without these keys, in the order of the file.
    pub(super) fn shown(&self, without: &[&str]) -> Vec<String> {
        let mut keys: Vec<_> =
            self.table.iter().filter(|(key, _)| !without.contains(&&**key.get_ref())).collect();
        keys.sort_by_key(|(key, value)| (key.span().start, value.span().start));
        keys.iter().map(|(key, value)| shown(key.get_ref(), value.get_ref())).collect()
    }

    /// Creates a table from a type of output, and the value of its kind's first option.
    pub(super) fn of(name: &str, kind: &'a str, first: Option<(&'static Kind, &'a str)>) -> Self {
        let text = |text| DeValue::String(Cow::Borrowed(text));
        let mut table = DeTable::new();
        table.insert(at_none(Cow::Borrowed("type")), at_none(text(kind)));
        if let Some((kind, value)) = first
            && let Some(key) = kind.first
        {
            let value = match kind.place {
                // A list with one element.
                Place::Addresses => DeValue::Array([at_none(text(value))].into_iter().collect()),
                _ => text(value),
            };
            table.insert(at_none(Cow::Borrowed(key)), at_none(value));
        }
        Table {
            source: Source { text: "", name: name.into() },
            table,
            span: usize::MAX..usize::MAX,
            taken: Vec::new(),
        }
    }
}

impl ReadOptions for Table<'_> {
    type Error = ConfigError;

    fn part<T: DeserializeOwned>(&mut self, keys: &[&'static str]) -> Result<T, ConfigError> {
        Table::part(self, keys)
    }

    fn expects(&mut self, keys: &[&'static str]) {
        self.taken.extend(keys);
    }

    fn read<T: DeserializeOwned>(self) -> Result<T, ConfigError> {
        Table::read(self)
    }
}

fn read<T: DeserializeOwned>(
    source: &Source<'_>,
    span: std::ops::Range<usize>,
    table: DeTable<'_>,
    taken: &[&str],
) -> Result<T, ConfigError> {
    // Options that contain others do not say where a key or a value is that they do not take.
    let keys: Vec<(String, usize)> =
        table.keys().map(|key| (format!("`{}`", key.get_ref()), key.span().start)).collect();
    let all = Spanned::new(span, table);
    parse(&all).map_err(|error| {
        let unknown = error.message().strip_prefix("unknown field ");
        let key = unknown.and_then(|rest| keys.iter().find(|(key, _)| rest.starts_with(key)));
        if let Some((key, at)) = key {
            return source.error(Some(*at), &renamed(key, &expected(key, error.message(), taken)));
        }
        let start = all.span().start;
        let nowhere = error.span().is_none_or(|span| span.start == start);
        let key = nowhere.then(|| wrong_key::<T>(&all, error.message())).flatten();
        match key {
            Some(at) => source.error(Some(at), error.message()),
            None => source.toml(&error, Some(start)),
        }
    })
}

fn parse<T: DeserializeOwned>(table: &Spanned<DeTable<'_>>) -> Result<T, toml::de::Error> {
    let value = Spanned::new(table.span(), DeValue::Table(table.get_ref().clone()));
    T::deserialize(ValueDeserializer::from(value))
}

/// Returns where the key is without which there is not this error.
fn wrong_key<T: DeserializeOwned>(all: &Spanned<DeTable<'_>>, message: &str) -> Option<usize> {
    all.get_ref().keys().find_map(|key| {
        let mut others = all.clone();
        others.get_mut().remove(&**key.get_ref());
        let is_it = match parse::<T>(&others) {
            Ok(_) => true,
            Err(other) => other.message() != message && !other.message().starts_with("missing"),
        };
        is_it.then(|| key.span().start)
    })
}

/// Lists all keys that are expected: serde knows those of one part of the options alone.
fn expected(key: &str, message: &str, taken: &[&str]) -> String {
    let known =
        message.split('`').skip(1).step_by(2).filter(|known| *known != key.trim_matches('`'));
    let mut all: Vec<&str> = known.chain(taken.iter().copied()).collect();
    all.sort_unstable();
    all.dedup();
    format!("unknown field {key}, expected one of `{}`", all.join("`, `"))
}

/// Says what to write instead of a key with its unit in its name.
fn renamed(key: &str, message: &str) -> String {
    let key = key.trim_matches('`');
    let units = [("_seconds", "s"), ("_ms", "ms"), ("_s", "s")];
    let now = units.iter().find_map(|(end, unit)| Some((key.strip_suffix(end)?, unit)));
    match now.filter(|(now, _)| message.contains(&format!("`{now}`"))) {
        Some((now, unit)) => {
            format!("{key} is called {now}, and has its unit: write {now} = \"60{unit}\"")
        }
        None => message.to_owned(),
    }
}

/// Adds the keys of a table and where their values begin. The value of a flag, or a default, stands nowhere.
fn starts(prefix: &str, table: &DeTable<'_>, all: &mut Vec<(String, usize)>) {
    for (key, value) in table {
        let name = format!("{prefix}{}", key.get_ref());
        if let DeValue::Table(table) = value.get_ref() {
            starts(&format!("{name}."), table, all);
        }
        if !value.span().is_empty() {
            all.push((name, value.span().start));
        }
    }
}

fn at_none<T>(value: T) -> Spanned<T> {
    Spanned::new(0..0, value)
}

/// Formats a key and its value without secrets. These are passwords, tokens, the values of headers, and what a URL has
/// beside its place.
fn shown(key: &str, value: &DeValue<'_>) -> String {
    format!("{key} = {}", shown_value(key, value))
}

fn shown_value(key: &str, value: &DeValue<'_>) -> String {
    let is_secret = matches!(key, "password" | "token");
    match value {
        DeValue::Table(table) => {
            let mut members: Vec<String> = table
                .iter()
                .map(|(name, value)| match key {
                    "headers" => format!("{} = {HIDDEN}", name.get_ref()),
                    _ => shown(name.get_ref(), value.get_ref()),
                })
                .collect();
            members.sort();
            format!("{{ {} }}", members.join(", "))
        }
        _ if is_secret => HIDDEN.to_owned(),
        DeValue::Array(all) => {
            let all: Vec<String> =
                all.iter().map(|value| shown_value(key, value.get_ref())).collect();
            format!("[{}]", all.join(", "))
        }
        // An address of a server may have no scheme.
        DeValue::String(text) if key == "servers" && !text.contains("://") => {
            format!("{:?}", text.rsplit('@').next().unwrap_or_default())
        }
        DeValue::String(text) => format!("{:?}", without_user(text)),
        value => plain(value),
    }
}

/// Stands for a value that is not shown.
const HIDDEN: &str = "(hidden)";

/// Removes the user, the password and the query of a URL.
fn without_user(text: &str) -> Cow<'_, str> {
    let Some((scheme, rest)) = text.split_once("://") else { return text.into() };
    let (authority, rest) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    // The password may have such a character, and the host comes after the last `@` then; or the path or the query has an `@`.
    if rest.contains('@') {
        return format!("{scheme}://{HIDDEN}").into();
    }
    let path = rest.split(['?', '#']).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    format!("{scheme}://{host}{path}").into()
}

/// Formats a value without its position in the file.
fn plain(value: &DeValue<'_>) -> String {
    match value {
        DeValue::Table(table) => {
            let mut members: Vec<String> = table
                .iter()
                .map(|(key, value)| format!("{:?}={}", key.get_ref(), plain(value.get_ref())))
                .collect();
            members.sort();
            format!("{{{}}}", members.join(","))
        }
        DeValue::Array(array) => {
            let values: Vec<String> = array.iter().map(|value| plain(value.get_ref())).collect();
            format!("[{}]", values.join(","))
        }
        DeValue::String(text) => format!("{text:?}"),
        DeValue::Integer(number) => number.to_string(),
        DeValue::Float(number) => number.to_string(),
        DeValue::Boolean(value) => value.to_string(),
        DeValue::Datetime(time) => time.to_string(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot continue has failed")]
    use super::*;

    #[test]
    fn no_secret_is_shown_however_it_is_written() {
        let text = r#"
            a = "https://user:secret@host/base?key=secret#secret"
            b = "https://user:pa?secret@host"
            c = "https://us@er:pa/secret@host/base"
            d = "https://host/base?mail=secret@secret"
            servers = ["user:pa/secret@host:1", "nats://user:secret@host:2", "host:3"]
            e = [{ password = "secret", headers = { x = "secret" }, url = "https://secret@host" }, [1, "https://secret@host"]]
        "#;
        let table = DeTable::parse(text).unwrap().into_inner();
        let mut all: Vec<String> =
            table.iter().map(|(key, value)| shown(key.get_ref(), value.get_ref())).collect();
        all.sort();
        println!("{all:#?}");
        assert!(!all.concat().contains("secret"), "{all:?}");
        assert_eq!(all[0], "a = \"https://host/base\"");
        assert_eq!(all[1], "b = \"https://(hidden)\"");
        assert_eq!(all[5], "servers = [\"host:1\", \"nats://host:2\", \"host:3\"]");
    }
}
