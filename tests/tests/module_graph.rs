//! The files of a crate import downwards only: no two of them import each other, not even through
//! re-exports of a crate's root.
//!
//! A file imports another if a path in it (`use`, an expression, a type, the tokens of a macro)
//! leads into the other's module. `mod x;` alone is no import: a parent may declare and re-export a
//! module that does not know it. `PERFRING_GRAPH=1 cargo test -p perfring-tests --test between module_graph
//! -- --nocapture` prints all edges.

use proc_macro2::{TokenStream, TokenTree};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use syn::visit::{self, Visit};

/// A module's path from its crate's root.
type Module = Vec<String>;

/// The modules of one crate, and the edges between their files.
#[derive(Default)]
struct Graph {
    /// The file of each module: an inline module is in its parent's.
    files: BTreeMap<Module, PathBuf>,
    /// A module and a path in it: absolute, or relative to the module.
    paths: Vec<(Module, Vec<String>)>,
    /// The module of each macro at the crate's root.
    macros: BTreeMap<String, Module>,
    lines: usize,
}

impl Graph {
    /// Reads the file of a module, and those that it declares.
    fn read(&mut self, file: &Path, module: &Module) {
        let text = std::fs::read_to_string(file)
            .unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let parsed =
            syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        self.lines += text.lines().count();
        let mut reader = FileReader { graph: self, file, module: module.clone() };
        reader.graph.files.insert(module.clone(), file.to_owned());
        reader.visit_file(&parsed);
    }

    /// Returns the file that a path in a module leads to, if it is in this crate.
    fn target(&self, from: &Module, path: &[String]) -> Option<&Path> {
        if let [root, name] = path
            && root == "crate"
            && let Some(module) = self.macros.get(name)
        {
            return self.files.get(module).map(PathBuf::as_path);
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
        for name in rest {
            at.push(name.clone());
            if !self.files.contains_key(&at) {
                at.pop();
                break;
            }
        }
        self.files.get(&at).map(PathBuf::as_path)
    }

    /// Returns each file, and those that it imports.
    fn arrows(&self) -> BTreeMap<&Path, BTreeSet<&Path>> {
        let mut arrows: BTreeMap<&Path, BTreeSet<&Path>> = BTreeMap::new();
        for file in self.files.values() {
            arrows.entry(file).or_default();
        }
        for (from, path) in &self.paths {
            let Some(file) = self.files.get(from) else { continue };
            if let Some(to) = self.target(from, path).filter(|to| to != file) {
                arrows.entry(file).or_default().insert(to);
            }
        }
        arrows
    }
}

/// Collects the paths of one file.
struct FileReader<'a> {
    graph: &'a mut Graph,
    file: &'a Path,
    module: Module,
}

impl FileReader<'_> {
    fn path(&mut self, path: Vec<String>) {
        self.graph.paths.push((self.module.clone(), path));
    }

    /// Adds a `use` tree's paths, one for each leaf.
    fn tree(&mut self, mut prefix: Vec<String>, tree: &syn::UseTree) {
        match tree {
            syn::UseTree::Path(path) => {
                prefix.push(path.ident.to_string());
                self.tree(prefix, &path.tree);
            }
            syn::UseTree::Name(name) if name.ident == "self" => self.path(prefix),
            syn::UseTree::Name(name) => {
                prefix.push(name.ident.to_string());
                self.path(prefix);
            }
            syn::UseTree::Rename(rename) => {
                prefix.push(rename.ident.to_string());
                self.path(prefix);
            }
            syn::UseTree::Glob(_) => self.path(prefix),
            syn::UseTree::Group(group) => {
                for tree in &group.items {
                    self.tree(prefix.clone(), tree);
                }
            }
        }
    }

    /// Adds the paths among a macro's tokens that begin with an anchor.
    fn tokens(&mut self, tokens: TokenStream) {
        let mut path: Vec<String> = Vec::new();
        let mut colons = 0;
        for token in tokens {
            match token {
                TokenTree::Ident(ident) => {
                    let name = ident.to_string();
                    let begins = matches!(name.as_str(), "crate" | "super" | "self");
                    if colons == 2 && !path.is_empty() {
                        path.push(name);
                    } else {
                        self.found(&mut path);
                        if begins {
                            path.push(name);
                        }
                    }
                    colons = 0;
                }
                TokenTree::Punct(punct) if punct.as_char() == ':' => colons += 1,
                other => {
                    self.found(&mut path);
                    colons = 0;
                    if let TokenTree::Group(group) = other {
                        self.tokens(group.stream());
                    }
                }
            }
        }
        self.found(&mut path);
    }

    fn found(&mut self, path: &mut Vec<String>) {
        let path = std::mem::take(path);
        if path.len() > 1 {
            self.path(path);
        }
    }

    /// Returns the file of a module, by the compiler's rules.
    fn file_of(&self, item: &syn::ItemMod) -> PathBuf {
        let folder = self.file.parent().unwrap_or(Path::new(""));
        let named = item.attrs.iter().find_map(|attr| {
            let syn::Meta::NameValue(pair) = &attr.meta else { return None };
            match &pair.value {
                syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(name), .. })
                    if pair.path.is_ident("path") =>
                {
                    Some(folder.join(name.value()))
                }
                _ => None,
            }
        });
        if let Some(file) = named {
            return file;
        }
        let stem = self.file.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        let folder = match stem {
            "lib" | "main" | "mod" => folder.to_owned(),
            _ => folder.join(stem),
        };
        let name = item.ident.to_string();
        let beside = folder.join(format!("{name}.rs"));
        if beside.is_file() { beside } else { folder.join(name).join("mod.rs") }
    }
}

impl<'ast> Visit<'ast> for FileReader<'_> {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        self.module.push(item.ident.to_string());
        let module = self.module.clone();
        match &item.content {
            Some(_) => {
                self.graph.files.insert(module, self.file.to_owned());
                visit::visit_item_mod(self, item);
            }
            None => {
                let file = self.file_of(item);
                self.graph.read(&file, &module);
            }
        }
        self.module.pop();
    }

    fn visit_item_macro(&mut self, item: &'ast syn::ItemMacro) {
        let exported = item.attrs.iter().any(|attr| attr.path().is_ident("macro_export"));
        if let Some(name) = item.ident.as_ref().filter(|_| exported) {
            self.graph.macros.insert(name.to_string(), self.module.clone());
        }
        visit::visit_item_macro(self, item);
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        if item.leading_colon.is_none() {
            self.tree(Vec::new(), &item.tree);
        }
    }

    // `pub(crate)` imports nothing.
    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {}

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.leading_colon.is_none() {
            self.path(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, item: &'ast syn::Macro) {
        self.tokens(item.tokens.clone());
        visit::visit_macro(self, item);
    }
}

/// Returns the cycles among the edges: sets of files that each lead to all others of their set.
fn cycles<'a>(arrows: &BTreeMap<&'a Path, BTreeSet<&'a Path>>) -> Vec<BTreeSet<&'a Path>> {
    let reach: BTreeMap<&Path, BTreeSet<&Path>> = arrows
        .keys()
        .map(|from| {
            let (mut seen, mut next) = (BTreeSet::new(), vec![*from]);
            while let Some(at) = next.pop() {
                next.extend(arrows[at].iter().copied().filter(|to| seen.insert(*to)));
            }
            (*from, seen)
        })
        .collect();
    let cycles: BTreeSet<BTreeSet<&Path>> = reach
        .iter()
        .map(|(from, all)| all.iter().copied().filter(|to| reach[to].contains(from)).collect())
        .collect();
    cycles.into_iter().filter(|cycle| !cycle.is_empty()).collect()
}

/// Returns the roots of all crates: those of the workspace, and those beside it.
fn roots(top: &Path) -> Vec<PathBuf> {
    let mut roots = Vec::new();
    let mut folders = vec![top.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()) {
            let name = entry.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if entry.is_dir() && !name.starts_with('.') && name != "target" && name != "src" {
                folders.push(entry);
            }
        }
        if folder.join("Cargo.toml").is_file() {
            let src = folder.join("src");
            roots.extend(["lib.rs", "main.rs"].map(|name| src.join(name)));
        }
    }
    roots.retain(|root| root.is_file());
    roots.sort();
    roots
}

#[test]
fn the_files_of_a_crate_import_downwards_only() {
    let top = perfring_tests::workspace();
    let print = std::env::var_os("PERFRING_GRAPH").is_some();
    let shown = |path: &Path| path.strip_prefix(&top).unwrap_or(path).display().to_string();
    let (mut files, mut lines, mut crates, mut found) = (0, 0, 0, Vec::new());
    for root in roots(&top) {
        let mut graph = Graph::default();
        graph.read(&root, &Vec::new());
        let arrows = graph.arrows();
        (files, lines, crates) = (files + arrows.len(), lines + graph.lines, crates + 1);
        if print {
            for (from, to) in &arrows {
                let to: Vec<_> = to.iter().map(|to| shown(to)).collect();
                println!("{} -> {}", shown(from), to.join(" "));
            }
        }
        for cycle in cycles(&arrows) {
            let mut text = String::new();
            for from in &cycle {
                let to: Vec<_> = arrows[from].intersection(&cycle).map(|to| shown(to)).collect();
                text += &format!("\n    {} -> {}", shown(from), to.join(" "));
            }
            found.push(format!("{} files of {} in a cycle:{text}", cycle.len(), shown(&root)));
        }
    }
    println!("{crates} crates, {files} files, {lines} lines");
    assert!(crates > 10 && files > 100, "not all crates were found: {crates}, {files} files");
    assert!(found.is_empty(), "{} cycles:\n{}", found.len(), found.join("\n"));
}
