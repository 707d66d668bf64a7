//! The rules about files: their length, and where a module with a folder is.

use crate::rules::allowed;
use crate::rules::sources::{SOURCES, is_test};
use std::collections::BTreeMap;

/// The most lines of a file outside tests.
const MOST: usize = 450;

/// Longer files, with the lines that each may have.
const LONGER: [(&str, usize); 0] = [];

#[test]
fn a_file_outside_tests_has_at_most_450_lines() {
    let list = "LONGER in tests/tests/rules/files.rs";
    let mut lines: BTreeMap<&str, usize> = BTreeMap::new();
    for (path, source) in SOURCES.rust.iter().filter(|(path, _)| !is_test(path)) {
        lines.insert(path, source.text.lines().count());
    }
    let may = |path: &str| LONGER.iter().find(|(entry, _)| *entry == path).map(|(_, most)| *most);
    let mut found = Vec::new();
    for (path, lines) in lines.iter().filter(|(_, lines)| **lines > MOST) {
        match may(path) {
            None => found.push(format!("{path} has {lines} lines: split it, {MOST} are the most")),
            Some(most) if *lines > most => found.push(format!(
                "{path} has grown from {most} to {lines} lines: split it, or take out as many ({list})"
            )),
            Some(_) => {}
        }
    }
    let mended =
        LONGER.iter().filter(|(path, _)| lines.get(path).is_none_or(|lines| *lines <= MOST));
    found.extend(mended.map(|(path, _)| allowed::mended(list, path)));
    println!("{} files, {} of them longer than {MOST} lines", lines.len(), LONGER.len());
    assert!(found.is_empty(), "\n{}\n", found.join("\n"));
}

/// A test program is beside its folder, because cargo takes no file in a separate folder for a program.
#[test]
fn a_module_with_a_folder_is_its_mod_rs() {
    let files = SOURCES.rust.keys().filter(|path| !is_test(path));
    let mut found = Vec::new();
    for path in files {
        let folder = format!("{}/", path.trim_end_matches(".rs"));
        let inside = SOURCES.rust.range(folder.clone()..).next();
        if inside.is_some_and(|(inside, _)| inside.starts_with(&folder)) {
            found.push(format!("{path} is beside its folder: move it to {folder}mod.rs"));
        }
    }
    assert!(found.is_empty(), "\n{}\n", found.join("\n"));
}

/// Cargo takes no file of `tests` for a program if a manifest says `autotests = false`. A file that no other file
/// declares would therefore be a test that never runs.
#[test]
fn a_file_of_tests_is_a_part_of_its_program() {
    let (mut files, mut found) = (0, Vec::new());
    let manifests = SOURCES.manifests.iter();
    for (manifest, _) in manifests.filter(|(_, text)| text.contains("autotests = false")) {
        let tests = manifest.replace("Cargo.toml", "tests/");
        let of_package = SOURCES.rust.range(tests.clone()..);
        for (path, _) in of_package.take_while(|(path, _)| path.starts_with(&tests)) {
            let module = path.trim_end_matches(".rs").trim_end_matches("/mod");
            let Some((folder, name)) = module.rsplit_once('/') else { continue };
            let top = folder == tests.trim_end_matches('/');
            let above = match top {
                true => vec![format!("{folder}/main.rs")],
                false => vec![format!("{folder}.rs"), format!("{folder}/mod.rs")],
            };
            let above = above.iter().find_map(|above| SOURCES.rust.get(above));
            // A folder without any declared file has data, such as programs that do not compile.
            let Some(above) = above.filter(|above| top || above.bare.contains("mod ")) else {
                continue;
            };
            files += 1;
            if name != "main" && !above.bare.contains(&format!("mod {name};")) {
                found.push(format!("{path} is in no test program: declare it with `mod {name};`"));
            }
        }
    }
    println!("{files} files");
    assert!(files > 150, "not all files were found: {files}");
    assert!(found.is_empty(), "\n{}\n", found.join("\n"));
}
