//! systemd's `RemoveIPC=`: when a user's last session ends, systemd removes what the user owns in /dev/shm.

use super::report::{Report, SHM};
use crate::failure::Failure;
use nix::unistd::{Uid, User};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The greatest user id of systemd's system users: nothing of theirs is removed.
const SYSTEM_UIDS: u32 = 999;
/// The directories with configuration. A file in an earlier one replaces a file of the same name in a later one.
const DIRS: [&str; 4] = ["etc/systemd", "run/systemd", "usr/local/lib/systemd", "usr/lib/systemd"];

/// Reports a ring that systemd removes.
pub(super) fn check(report: &mut Report, ring: &Path, owner: u32) -> Result<(), Failure> {
    match whose(Path::new("/"), ring, owner) {
        Some(source) => report.note("logout", sentence(&source, owner)),
        None => Ok(()),
    }
}

/// Returns where systemd has it from that this ring is to be removed when its owner logs out; `None` if it does not do so.
fn whose(root: &Path, ring: &Path, owner: u32) -> Option<String> {
    let shm = root.join(SHM.trim_start_matches('/'));
    let ring = fs::canonicalize(ring).ok()?;
    if owner <= SYSTEM_UIDS || !ring.starts_with(shm) || !root.join("run/systemd/seats").is_dir() {
        return None;
    }
    match setting(root) {
        Some((false, _)) => None,
        Some((true, file)) => Some(format!("RemoveIPC=yes in {}", file.display())),
        None => Some("RemoveIPC=yes, the default".to_owned()),
    }
}

fn sentence(source: &str, owner: u32) -> String {
    let name = User::from_uid(Uid::from_raw(owner)).ok().flatten().map(|user| user.name);
    let (user, linger) = match name {
        Some(name) => (format!("user {name}"), format!("loginctl enable-linger {name}")),
        None => (format!("uid {owner}"), format!("loginctl enable-linger {owner}")),
    };
    format!(
        "systemd removes this ring when the last session of {user} ends ({source}): run `{linger}`, set RemoveIPC=no in \
         /etc/systemd/logind.conf, run the program as a system user, or keep the ring outside {SHM}"
    )
}

/// Returns the last setting, and the file that has it. `None` if there is none.
fn setting(root: &Path) -> Option<(bool, PathBuf)> {
    let dirs = DIRS.map(|dir| root.join(dir));
    let main = dirs.iter().map(|dir| dir.join("logind.conf")).find(|file| file.exists());
    // In the order of their names, wherever they are.
    let mut more: BTreeMap<_, PathBuf> = BTreeMap::new();
    for dir in dirs {
        for entry in fs::read_dir(dir.join("logind.conf.d")).into_iter().flatten().flatten() {
            if entry.path().extension().is_some_and(|extension| extension == "conf") {
                more.entry(entry.file_name()).or_insert_with(|| entry.path());
            }
        }
    }
    let files = main.into_iter().chain(more.into_values());
    files.rev().find_map(|file| Some((of_file(&fs::read_to_string(&file).ok()?)?, file)))
}

/// Returns the last setting in the text of a file. systemd ignores a value that is none of its words.
fn of_file(text: &str) -> Option<bool> {
    let mut section = "";
    let mut found = None;
    for line in text.lines().map(str::trim) {
        if line.starts_with('[') {
            section = line;
        } else if let Some((name, value)) = line.split_once('=')
            && section == "[Login]"
            && name.trim_end() == "RemoveIPC"
        {
            found = match value.trim_start().to_ascii_lowercase().as_str() {
                "yes" | "y" | "true" | "t" | "on" | "1" => Some(true),
                "no" | "n" | "false" | "f" | "off" | "0" => Some(false),
                _ => found,
            };
        }
    }
    found
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// A machine's files, with a ring in its /dev/shm.
    fn machine(files: &[(&str, &str)]) -> (tempfile::TempDir, PathBuf) {
        let root = tempfile::tempdir().unwrap();
        let ring = root.path().join("dev/shm/rings/ring");
        fs::create_dir_all(ring.parent().unwrap()).unwrap();
        fs::write(&ring, "").unwrap();
        fs::create_dir_all(root.path().join("run/systemd/seats")).unwrap();
        for (file, text) in files {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        (root, ring)
    }

    fn said(files: &[(&str, &str)]) -> Option<String> {
        let (root, ring) = machine(files);
        let said = whose(root.path(), &ring, 1000)?;
        Some(said.replace(root.path().to_str().unwrap(), ""))
    }

    #[test]
    fn the_last_setting_of_all_files_counts() {
        const ETC: &str = "etc/systemd/logind.conf";
        const ETC_D: &str = "etc/systemd/logind.conf.d/50-a.conf";
        const USR_D: &str = "usr/lib/systemd/logind.conf.d/50-a.conf";
        const LATER: &str = "usr/lib/systemd/logind.conf.d/60-b.conf";
        const NO: &str = "[Login]\nRemoveIPC=no\n";
        const YES: &str = "# [Login]\n[Login]\n#RemoveIPC=no\n RemoveIPC = Yes\n";
        let default = Some("RemoveIPC=yes, the default".to_owned());
        let yes = |file: &str| Some(format!("RemoveIPC=yes in /{file}"));
        let cases = [
            (vec![], default.clone()),
            (vec![(ETC, "[Login]\n#RemoveIPC=no\n")], default.clone()),
            (vec![(ETC, "[Other]\nRemoveIPC=no\n")], default.clone()),
            (vec![(ETC, "[Login]\nRemoveIPC=perhaps\n")], default.clone()),
            (vec![(ETC, NO)], None),
            (vec![(ETC, YES)], yes(ETC)),
            (vec![(ETC, NO), (ETC_D, YES)], yes(ETC_D)),
            (vec![(ETC, YES), (USR_D, NO)], None),
            (vec![(ETC, YES), (USR_D, NO), (ETC_D, "")], yes(ETC)), // that of /etc replaces the other
            (vec![(ETC_D, NO), (LATER, YES)], yes(LATER)),
            (vec![("usr/lib/systemd/logind.conf", NO), (ETC, "")], default),
            (vec![("usr/lib/systemd/logind.conf", NO)], None),
            (vec![(ETC, "[Login]\nRemoveIPC=yes\nRemoveIPC=0\n")], None),
            (vec![("etc/systemd/logind.conf.d/50-a.bak", NO), (ETC, YES)], yes(ETC)),
        ];
        for (files, expected) in cases {
            assert_eq!(said(&files), expected, "{files:?}");
        }
    }

    #[test]
    fn only_rings_of_users_in_shared_memory_are_removed_and_only_by_logind() {
        let (root, ring) = machine(&[]);
        let elsewhere = root.path().join("ring");
        fs::write(&elsewhere, "").unwrap();
        assert!(whose(root.path(), &ring, 1000).is_some());
        assert_eq!(whose(root.path(), &ring, 999), None, "a system user");
        assert_eq!(whose(root.path(), &ring, 0), None, "root");
        assert_eq!(whose(root.path(), &elsewhere, 1000), None, "outside /dev/shm");
        let link = root.path().join("link");
        std::os::unix::fs::symlink(&ring, &link).unwrap();
        assert!(whose(root.path(), &link, 1000).is_some(), "by a link to it");
        fs::remove_dir(root.path().join("run/systemd/seats")).unwrap();
        assert_eq!(whose(root.path(), &ring, 1000), None, "no logind");
        println!("{}", sentence("RemoveIPC=yes, the default", 1000));
    }
}
