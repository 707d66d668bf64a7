//! Names that readers keep apart: Spark and DuckDB ignore the case of a column's name, and some file systems that of a file.

use std::collections::{HashMap, HashSet};

/// Returns what is equal for two names that some reader takes for one: its letters without their case, as Java's
/// `equalsIgnoreCase` and Unicode's case folding have it.
fn folded(name: &str) -> String {
    // To upper case and back: so is `ı` an `i`, and `ß` is `ss`. The dot of `İ` becomes a mark of its own.
    let upper = name.chars().flat_map(char::to_uppercase);
    upper.flat_map(char::to_lowercase).filter(|c| *c != '\u{307}').collect()
}

/// Names of columns that are taken.
#[derive(Debug, Default)]
pub(super) struct ColumnNames {
    ours: HashSet<String>,
    taken: HashSet<String>,
}

impl ColumnNames {
    /// Takes the names of the columns that are not a record's own.
    pub(super) fn of<'a>(ours: impl Iterator<Item = &'a str>) -> Self {
        let ours: HashSet<String> = ours.map(folded).collect();
        ColumnNames { taken: ours.clone(), ours }
    }

    /// Changes the names of a record's own columns, in place, so that no two are one for a reader. Which of them are
    /// changed does not depend on their order.
    pub(super) fn make_unique(&mut self, names: &mut [&mut String]) {
        let mut sorted: Vec<&mut &mut String> = names.iter_mut().collect();
        sorted.sort(); // stable: of equal names, the first one stays
        for name in sorted {
            if self.ours.contains(&folded(name)) {
                name.insert_str(0, "field.");
            }
            while !self.taken.insert(folded(name)) {
                name.push('_');
            }
        }
    }
}

/// Names of files that are taken, without number and `.parquet`.
#[derive(Debug)]
pub(super) struct FileNames {
    /// How often each was asked for, without case.
    asked: HashMap<String, u32>,
}

/// What Windows takes for a device, with any extension.
const DEVICES: [&str; 4] = ["con", "prn", "aux", "nul"];
const NUMBERED_DEVICES: [&str; 2] = ["com", "lpt"];

impl FileNames {
    /// Takes the names of the files that are not of one type.
    pub(super) fn of(ours: &[&str]) -> Self {
        FileNames { asked: ours.iter().map(|name| ((*name).to_owned(), 1)).collect() }
    }

    /// Returns the name of a type's files. No two are one where the case does not count.
    pub(super) fn of_type(&mut self, name: &str) -> String {
        let odd = |c: char| !c.is_ascii_alphanumeric() && !matches!(c, '.' | '-' | '_');
        let name: String = name.replace(odd, "_").chars().take(100).collect();
        let mut name = name.trim_start_matches('.').to_owned();
        // `NAME-2` is the second file of `NAME`.
        if let Some((before, number)) = name.rsplit_once('-')
            && number.bytes().all(|byte| byte.is_ascii_digit())
        {
            name = format!("{before}_{number}");
        }
        let lower = name.to_ascii_lowercase();
        let first = lower.split('.').next().unwrap_or_default();
        let device = first.strip_suffix(|c: char| c.is_ascii_digit());
        if DEVICES.contains(&first) || device.is_some_and(|of| NUMBERED_DEVICES.contains(&of)) {
            name.insert(0, '_');
        }
        let count = self.asked.entry(name.to_ascii_lowercase()).or_default();
        *count += 1;
        // No name of a type has a `~`.
        if *count > 1 || name.is_empty() { format!("{name}~{count}") } else { name }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unique(names: &[&str]) -> Vec<String> {
        let mut all: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut columns = ColumnNames::of(["time", "ring", "more"].into_iter());
        columns.make_unique(&mut all.iter_mut().collect::<Vec<_>>());
        let folded: HashSet<String> = all.iter().map(|name| folded(name)).collect();
        assert_eq!(folded.len(), all.len(), "{all:?}");
        all
    }

    #[test]
    fn columns_are_distinct_for_readers_that_ignore_case() {
        assert_eq!(unique(&["id", "a"]), ["id", "a"]);
        assert_eq!(unique(&["id", "ID", "Id"]), ["id__", "ID", "Id_"]);
        assert_eq!(unique(&["ID", "Id", "id"]), ["ID", "Id_", "id__"], "in any order");
        // With the suffix itself, and with our own columns.
        assert_eq!(unique(&["id", "ID", "Id_"]), ["id__", "ID", "Id_"]);
        assert_eq!(unique(&["Time", "field.time"]), ["field.Time", "field.time_"]);
        assert_eq!(unique(&["time", "MORE"]), ["field.time", "field.MORE"]);
        // As Java and Unicode have it.
        assert_eq!(unique(&["straße", "STRASSE"]), ["straße_", "STRASSE"]);
        assert_eq!(unique(&["\u{130}d", "id", "\u{131}d"]), ["\u{130}d_", "id", "\u{131}d__"]);
        assert_eq!(
            unique(&["\u{3c3}", "\u{3c2}", "\u{3a3}"]),
            ["\u{3c3}__", "\u{3c2}_", "\u{3a3}"]
        );
        assert_eq!(unique(&["r\u{130}ng"]), ["field.r\u{130}ng"]);
    }

    #[test]
    fn files_are_distinct_where_case_does_not_count_and_no_devices() {
        let mut names = FileNames::of(&["losses", "untyped"]);
        let mut name = |of: &str| names.of_type(of);
        assert_eq!(name("shop.Order"), "shop.Order");
        assert_eq!(name("shop.order"), "shop.order~2");
        assert_eq!(name("Losses"), "Losses~2");
        assert_eq!(name("shop/order"), "shop_order");
        assert_eq!(name("shop-2"), "shop_2");
        assert_eq!(name("shop_2"), "shop_2~2");
        assert_eq!(name("CON"), "_CON");
        assert_eq!(name("com1.Event"), "_com1.Event");
        assert_eq!(
            (name("console.Event"), name("com.Event")),
            ("console.Event".into(), "com.Event".into())
        );
        assert_eq!((name("..."), name("")), ("~1".to_owned(), "~2".to_owned()));
    }
}
