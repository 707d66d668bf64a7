//! `[resource]`: attributes that are added to the resource of each process.

use super::table::{ConfigError, Table};
use serde::Deserialize;
use std::collections::BTreeMap;

/// A value, or a table of those whose names begin with the same word: `k8s.pod.name = "x"` without quotes.
#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    Text(String),
    Number(i64),
    Bool(bool),
    Table(BTreeMap<String, Written>),
}

/// Reads the table, with values from the environment.
pub(super) fn read(
    table: Table<'_>,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<Vec<(String, String)>, ConfigError> {
    let at = table.at();
    let written: BTreeMap<String, Written> = table.read()?;
    let mut all = Vec::new();
    flatten("", written, &mut all);
    let expanded = all.into_iter().map(|(name, value)| match expand(&value, environment) {
        Ok(value) if value.is_empty() => Err((format!("{name} is empty: leave it out"), name)),
        Ok(value) => Ok((name, value)),
        Err(why) => Err((format!("{name}: {why}"), name)),
    });
    let wrong = |(why, key): (String, String)| at.error_in(&key, &format!("[resource]: {why}"));
    expanded.map(|one| one.map_err(wrong)).collect()
}

fn flatten(prefix: &str, table: BTreeMap<String, Written>, all: &mut Vec<(String, String)>) {
    for (key, value) in table {
        let name = if prefix.is_empty() { key } else { format!("{prefix}.{key}") };
        match value {
            Written::Text(text) => all.push((name, text)),
            Written::Number(number) => all.push((name, number.to_string())),
            Written::Bool(value) => all.push((name, value.to_string())),
            Written::Table(table) => flatten(&name, table, all),
        }
    }
}

/// Replaces `${NAME}` anywhere, and `$NAME` as the whole value, by the variable's value; `$$` is a dollar sign.
fn expand(value: &str, environment: &dyn Fn(&str) -> Option<String>) -> Result<String, String> {
    let variable = |name: &str| match environment(name) {
        Some(value) if !value.is_empty() => Ok(value),
        Some(_) => Err(format!("the variable {name} is empty in the environment")),
        None => Err(format!("the variable {name} is not set in the environment")),
    };
    if let Some(name) = value.strip_prefix('$').filter(|name| is_name(name)) {
        return variable(name);
    }
    let (mut out, mut rest) = (String::new(), value);
    while let Some((before, after)) = rest.split_once('$') {
        out.push_str(before);
        if let Some(after) = after.strip_prefix('$') {
            out.push('$');
            rest = after;
            continue;
        }
        let named = after.strip_prefix('{').and_then(|after| after.split_once('}'));
        let Some((name, after)) = named.filter(|(name, _)| is_name(name)) else {
            return Err(format!(
                "{value:?} has a $ that names no variable: write ${{NAME}}, or $NAME alone, or $$ for a dollar sign"
            ));
        };
        out.push_str(&variable(name)?);
        rest = after;
    }
    out.push_str(rest);
    Ok(out)
}

fn is_name(text: &str) -> bool {
    let is_start = |c: char| c.is_ascii_alphabetic() || c == '_';
    text.starts_with(is_start) && text.chars().all(|c| is_start(c) || c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_from_the_environment_by_one_rule() {
        let environment = |name: &str| match name {
            "POD" => Some("shop-7".to_owned()),
            "NONE" => Some(String::new()),
            _ => None,
        };
        let expand = |value: &str| expand(value, &environment);
        for (value, expanded) in [
            ("plain", "plain"),
            ("$POD", "shop-7"),
            ("${POD}", "shop-7"),
            ("a-${POD}-${POD}", "a-shop-7-shop-7"),
            ("$$POD costs 5$$", "$POD costs 5$"),
        ] {
            assert_eq!(expand(value).as_deref(), Ok(expanded), "{value}");
        }
        for (value, says) in [
            ("$OTHER", "the variable OTHER is not set"),
            ("x${OTHER}", "the variable OTHER is not set"),
            ("$NONE", "the variable NONE is empty"),
            ("a$POD", "names no variable: write ${NAME}"),
            ("${POD", "names no variable"),
            ("${a b}", "names no variable"),
            ("5$", "names no variable"),
        ] {
            assert!(expand(value).is_err_and(|why| why.contains(says)), "{value}");
        }
    }
}
