//! The modules of a crate, and the imports of each.
//!
//! A file imports another if a path in it (`use`, an expression, a type, the tokens of a macro)
//! leads into the other file's module. `mod x;` alone is no import: a parent may declare and re-export a
//! module that does not know it.

use crate::rules::sources::{SOURCES, Source, is_name, is_test};
use std::collections::{BTreeMap, BTreeSet};

/// A module's path from its crate's root.
type Module = Vec<String>;

/// Which files import which, by their paths.
pub(crate) type Arrows<'a> = BTreeMap<&'a str, BTreeSet<&'a str>>;

/// The modules of one crate, and the edges between their files.
#[derive(Default)]
pub(crate) struct Graph {
    /// The file of each module: an inline module is in its parent's.
    files: BTreeMap<Module, String>,
    paths: Vec<Import>,
    /// The module of each macro at the crate's root.
    macros: BTreeMap<String, Module>,
    /// The names that the root's file defines, and does not only re-export.
    defined: BTreeSet<String>,
}

/// A path in a module.
struct Import {
    from: Module,
    /// Absolute, or relative to the module.
    path: Vec<String>,
    /// In a test of its file.
    test: bool,
}

impl Graph {
    /// Reads the files of a crate.
    pub(crate) fn of(root: &str) -> Graph {
        let mut graph = Graph::default();
        graph.read(root, Vec::new(), is_test(root));
        graph
    }

    /// Reads the file of a module, and the files that it declares.
    fn read(&mut self, file: &str, module: Module, test: bool) {
        let source = SOURCES.rust.get(file).unwrap_or_else(|| panic!("there is no {file}"));
        self.files.insert(module.clone(), file.to_owned());
        Reader::of(self, file, source, module, test).read();
    }

    /// Returns the module that a path in a module leads to, if it is in this crate, and the rest of the path.
    fn target<'p>(&self, from: &Module, path: &'p [String]) -> Option<(Module, &'p [String])> {
        if let [root, name] = path
            && root == "crate"
            && let Some(module) = self.macros.get(name)
        {
            return Some((module.clone(), &[]));
        }
        let mut at = from.clone();
        let mut rest = path;
        let mut anchored = false;
        while let Some((first, after)) = rest.split_first() {
            match first.as_str() {
                "crate" => at.clear(),
                "self" if !anchored => {}
                "super" => drop(at.pop()?),
                _ => break,
            }
            (anchored, rest) = (true, after);
        }
        // Without an anchor it is a child module's, or from another crate, or from a `use`.
        if !anchored {
            let mut child = at.clone();
            child.push(rest.first()?.clone());
            self.files.get(&child)?;
        }
        while let Some((name, after)) = rest.split_first() {
            at.push(name.clone());
            if !self.files.contains_key(&at) {
                at.pop();
                break;
            }
            rest = after;
        }
        Some((at, rest))
    }

    /// Returns each file, and the files that it imports.
    pub(crate) fn arrows(&self) -> Arrows<'_> {
        self.arrows_of(&|_| true)
    }

    /// Returns the same without tests.
    pub(crate) fn shipped_arrows(&self) -> Arrows<'_> {
        let mut arrows = self.arrows_of(&|import| !import.test);
        arrows.retain(|file, _| !is_test(file));
        arrows
    }

    fn arrows_of(&self, counts: &dyn Fn(&Import) -> bool) -> Arrows<'_> {
        let mut arrows: Arrows<'_> =
            self.files.values().map(|file| (file.as_str(), BTreeSet::new())).collect();
        for import in self.paths.iter().filter(|import| counts(import)) {
            let Some(file) = self.files.get(&import.from) else { continue };
            let target = self.target(&import.from, &import.path);
            if let Some(to) = target.and_then(|(module, _)| self.files.get(&module))
                && to != file
            {
                arrows.entry(file).or_default().insert(to);
            }
        }
        arrows
    }

    /// Returns each file that imports names from the crate's root which the root only re-exports, with the names.
    pub(crate) fn through_the_root(&self) -> BTreeMap<&str, BTreeSet<String>> {
        let mut through: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
        for import in self.paths.iter().filter(|import| !import.test) {
            let Some((to, rest)) = self.target(&import.from, &import.path) else { continue };
            let (Some(file), Some(root)) = (self.files.get(&import.from), self.files.get(&to))
            else {
                continue;
            };
            let name = rest.first().map_or("*", String::as_str);
            let only_there = !is_test(file) && !self.defined.contains(name);
            if to.is_empty() && file != root && only_there {
                through.entry(file).or_default().insert(name.to_owned());
            }
        }
        through
    }
}

/// A name, `::`, or another character that is no space, and its position in the file.
type Token<'a> = (usize, &'a str);

fn tokens(bare: &str) -> Vec<Token<'_>> {
    let (bytes, mut at, mut found) = (bare.as_bytes(), 0, Vec::new());
    while at < bytes.len() {
        let name = bytes[at..].iter().take_while(|byte| is_name(**byte)).count();
        let len = match name {
            0 if bare[at..].starts_with("::") => 2,
            0 => bare[at..].chars().next().map_or(1, char::len_utf8),
            name => name,
        };
        if !bytes[at].is_ascii_whitespace() {
            found.push((at, &bare[at..at + len]));
        }
        at += len;
    }
    found
}

fn is_path_name(token: &str) -> bool {
    token.bytes().all(is_name)
}

/// Collects the paths of one file.
struct Reader<'a> {
    graph: &'a mut Graph,
    file: &'a str,
    source: &'a Source,
    tokens: Vec<Token<'a>>,
    at: usize,
    module: Module,
    /// In a test, or at the beginning of an item that is for tests alone.
    test: bool,
    /// The state to restore at the end of each block: whether it is a module's, and `test` before its item.
    blocks: Vec<(bool, bool)>,
    /// `test` before the present item.
    test_before: bool,
    /// The file that an attribute of the present item names.
    named: Option<String>,
    exported: bool,
}

impl<'a> Reader<'a> {
    fn of(
        graph: &'a mut Graph,
        file: &'a str,
        source: &'a Source,
        module: Module,
        test: bool,
    ) -> Reader<'a> {
        Reader {
            graph,
            file,
            source,
            tokens: tokens(&source.bare),
            at: 0,
            module,
            test,
            blocks: Vec::new(),
            test_before: test,
            named: None,
            exported: false,
        }
    }

    /// Returns a token from the present one on, or an empty one after the last.
    fn token(&self, ahead: usize) -> &'a str {
        self.tokens.get(self.at + ahead).map_or("", |(_, token)| token)
    }

    fn before(&self, back: usize) -> &'a str {
        self.at.checked_sub(back).map_or("", |at| self.tokens[at].1)
    }

    fn read(mut self) {
        while self.at < self.tokens.len() {
            match self.token(0) {
                "#" if self.token(1) == "[" || self.token(1) == "!" => self.attribute(),
                "mod" if is_path_name(self.token(1)) => self.submodule(),
                "use" => self.import(),
                "macro_rules" if self.exported => {
                    self.graph.macros.insert(self.token(2).to_owned(), self.module.clone());
                    self.at += 3;
                }
                "{" => {
                    self.open(false);
                    self.at += 1;
                }
                "}" => self.close(),
                ";" => {
                    self.end_item(self.test_before);
                    self.at += 1;
                }
                name if is_path_name(name) => {
                    self.define(name);
                    self.path();
                }
                _ => self.at += 1,
            }
        }
    }

    /// Begins a block, or a module, of the present item.
    fn open(&mut self, is_module: bool) {
        self.blocks.push((is_module, self.test_before));
        self.end_item(self.test);
    }

    fn close(&mut self) {
        let (was_module, test) = self.blocks.pop().unwrap_or((false, self.test_before));
        if was_module {
            self.module.pop();
        }
        self.end_item(test);
        self.at += 1;
    }

    fn end_item(&mut self, test: bool) {
        (self.test, self.test_before) = (test, test);
        (self.named, self.exported) = (None, false);
    }

    fn attribute(&mut self) {
        let start = self.at;
        self.at += if self.token(1) == "!" { 2 } else { 1 };
        let mut depth = 0;
        loop {
            match self.token(0) {
                "[" => depth += 1,
                "]" => depth -= 1,
                _ => {}
            }
            self.at += 1;
            if depth == 0 || self.at >= self.tokens.len() {
                break;
            }
        }
        let text: String = self.tokens[start..self.at].iter().map(|(_, token)| *token).collect();
        self.test |= text == "#[cfg(test)]" || text.starts_with("#[cfg(all(test,");
        self.exported |= text == "#[macro_export]";
        if text.starts_with("#[path=") {
            let (begin, end) = (self.tokens[start].0, self.tokens[self.at - 1].0);
            let name = self.source.text[begin..end].split('"').nth(1).unwrap_or("");
            self.named = Some(format!("{}/{name}", self.folder()));
        }
    }

    fn folder(&self) -> &'a str {
        self.file.rsplit_once('/').map_or("", |(folder, _)| folder)
    }

    fn submodule(&mut self) {
        let name = self.token(1);
        let end = self.token(2);
        self.at += 2;
        if end != "{" && end != ";" {
            return;
        }
        self.module.push(name.to_owned());
        let module = self.module.clone();
        if end == "{" {
            self.graph.files.insert(module, self.file.to_owned());
            self.open(true);
        } else {
            let file = self.named.take().unwrap_or_else(|| self.file_of(name));
            self.graph.read(&file, module, self.test);
            self.module.pop();
            self.end_item(self.test_before);
        }
        self.at += 1;
    }

    /// Returns the file of a module, by the compiler's rules.
    fn file_of(&self, name: &str) -> String {
        let stem = self.file[self.folder().len()..].trim_matches('/').trim_end_matches(".rs");
        let folder = match stem {
            "lib" | "main" | "mod" => self.folder().to_owned(),
            stem => format!("{}/{stem}", self.folder()),
        };
        let beside = format!("{folder}/{name}.rs");
        if SOURCES.rust.contains_key(&beside) { beside } else { format!("{folder}/{name}/mod.rs") }
    }

    /// Reads a `use` tree: a path for each leaf.
    fn import(&mut self) {
        self.at += 1;
        // From another crate, or the captures of a type.
        if matches!(self.token(0), "::" | "<") {
            return;
        }
        // The path before each open brace, and the path before the present leaf.
        let (mut prefixes, mut path): (Vec<Vec<String>>, Vec<String>) = (vec![], vec![]);
        loop {
            match self.token(0) {
                "::" => {}
                "{" => prefixes.push(path.clone()),
                // A list that ends with a comma has no leaf after it.
                end @ ("," | "}" | ";" | "") => {
                    if path.last().is_some_and(|name| name == "self") && path.len() > 1 {
                        path.pop();
                    }
                    if !matches!(self.before(1), "," | "}" | "{") {
                        self.add(path);
                    }
                    if end == "}" {
                        prefixes.pop();
                    }
                    if matches!(end, ";" | "") {
                        break;
                    }
                    path = prefixes.last().cloned().unwrap_or_default();
                }
                "as" => self.at += 1,
                name if is_path_name(name) => path.push(name.to_owned()),
                _ => {}
            }
            self.at += 1;
        }
    }

    /// Notes a name that the root's file defines.
    fn define(&mut self, keyword: &str) {
        const KEYWORDS: [&str; 8] =
            ["const", "enum", "fn", "static", "struct", "trait", "type", "union"];
        if self.module.is_empty() && self.blocks.is_empty() && KEYWORDS.contains(&keyword) {
            self.graph.defined.insert(self.token(1).to_owned());
        }
    }

    /// Reads a path, up to its first `<`. One name alone is no path.
    fn path(&mut self) {
        let before = self.before(1);
        let no_path = matches!(before, "::" | ".") || before == "in" && self.before(3) == "pub";
        let mut path = vec![self.token(0).to_owned()];
        while self.token(1) == "::" && is_path_name(self.token(2)) {
            path.push(self.token(2).to_owned());
            self.at += 2;
        }
        self.at += 1;
        if path.len() > 1 && !no_path {
            self.add(path);
        }
    }

    fn add(&mut self, path: Vec<String>) {
        let (from, test) = (self.module.clone(), self.test);
        self.graph.paths.push(Import { from, path, test });
    }
}

/// Returns the cycles among the edges: sets of at least two that each lead to all others of their set.
pub(crate) fn cycles<'a>(arrows: &Arrows<'a>) -> BTreeSet<BTreeSet<&'a str>> {
    let reach: Arrows<'a> = arrows
        .keys()
        .map(|from| {
            let (mut seen, mut next) = (BTreeSet::new(), vec![*from]);
            while let Some(at) = next.pop() {
                let all = arrows.get(at).into_iter().flatten();
                next.extend(all.copied().filter(|to| seen.insert(*to)));
            }
            (*from, seen)
        })
        .collect();
    let cycle = |(from, all): (&&'a str, &BTreeSet<&'a str>)| -> BTreeSet<&'a str> {
        all.iter()
            .copied()
            .filter(|to| reach.get(to).is_some_and(|back| back.contains(from)))
            .collect()
    };
    reach.iter().map(cycle).filter(|cycle| cycle.len() > 1).collect()
}
