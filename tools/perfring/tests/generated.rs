//! Files that packages install: manual pages without warnings, and completions that shells accept.

use crate::command::{run, subcommands};
use std::io::Write;
use std::process::{Command, Stdio};

fn has_man() -> bool {
    let found = Command::new("man").arg("--version").output().is_ok();
    if !found {
        assert!(std::env::var_os("PERFRING_NO_SKIP").is_none(), "should run here: there is no man");
        let _ = writeln!(std::io::stderr().lock(), "SKIPPED: there is no man to show pages with");
    }
    found
}

#[test]
fn every_subcommand_has_a_page_that_man_shows_without_a_warning() {
    let dir = tempfile::tempdir().unwrap();
    let done = run(&["man", dir.path().to_str().unwrap()], b"");
    assert_eq!(done.code(), 0, "{}", done.err());
    let all = subcommands();
    assert!(all.len() > 15, "{all:?}");
    let mut pages = vec!["perfring".to_owned()];
    pages.extend(all.iter().filter(|name| *name != "help").map(|name| format!("perfring-{name}")));
    let asked = ["status", "reload", "retry", "snapshot", "drain"];
    pages.extend(asked.map(|what| format!("perfring-sidecar-{what}")));
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), pages.len());
    let man = has_man();
    for page in &pages {
        let path = dir.path().join(format!("{page}.1"));
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains(&format!(".TH {page} 1")), "{page}: {}", &text[..200]);
        let typed = page.replace('-', " ");
        assert!(text.contains(&format!("\\fB{typed}\\fR")), "{page}: no synopsis");
        if man {
            let shown = Command::new("man")
                .args(["--warnings", "--local-file"])
                .arg(&path)
                .env("MANWIDTH", "80")
                .env("LC_ALL", "C.UTF-8")
                .output()
                .unwrap();
            let warnings = String::from_utf8_lossy(&shown.stderr);
            assert!(shown.status.success() && warnings.is_empty(), "{page}: {warnings}");
        }
    }
    println!("{} pages", pages.len());
}

#[test]
fn shells_accept_their_completions() {
    for shell in ["bash", "zsh", "fish"] {
        let done = run(&["completions", shell], b"");
        assert_eq!(done.code(), 0);
        let script = done.out();
        for name in subcommands() {
            assert!(script.contains(&name), "{shell}: no {name}");
        }
        assert!(!script.contains("demo-child"), "{shell}: what is hidden stays so");
        // The other shells are only checked where they are installed.
        if Command::new(shell).arg("--version").output().is_ok() {
            let mut check = Command::new(shell).arg("-n").stdin(Stdio::piped()).spawn().unwrap();
            check.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
            assert!(check.wait().unwrap().success(), "{shell} -n");
        }
    }
    // And bash completes with it.
    let script = run(&["completions", "bash"], b"").out();
    let ask = "COMP_WORDS=(perfring st); COMP_CWORD=1; _perfring perfring st perfring; \
               echo ${COMPREPLY[@]}";
    let answer = Command::new("bash").args(["-c", &format!("{script}\n{ask}")]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&answer.stdout).trim(), "stat");
}

#[test]
fn a_closed_pipe_is_no_failure_of_completions() {
    let program = env!("CARGO_BIN_EXE_perfring");
    let ask = format!("{program} completions bash | head -c 1; exit ${{PIPESTATUS[0]}}");
    let done = Command::new("bash").args(["-c", &ask]).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}
