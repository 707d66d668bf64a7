//! The parts of containers that matter to rings: users, groups, pid and time namespaces.

use crate::command::{Done, Live, skipped};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs::{self, File, Permissions};
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use tempfile::TempDir;

/// The users and the group of `pod.yaml`.
pub(crate) const APP: u32 = 10_001;
pub(crate) const SIDECAR: u32 = 10_002;
pub(crate) const GROUP: u32 = 20_000;

/// A volume in memory with a group and mode 2770, as the kubelet creates it, and the programs.
pub(crate) struct Pod {
    pub(crate) perfring: PathBuf,
    pub(crate) app: PathBuf,
    has_time: bool,
    place: TempDir,
}

impl Pod {
    /// Returns `None` if that is not possible here.
    pub(crate) fn new() -> Option<Pod> {
        let place = tempfile::tempdir().unwrap();
        let path = |name: &str| place.path().join(name);
        fs::create_dir(path("rings")).unwrap();
        let options = format!("mode=2770,gid={GROUP},size=16m");
        let mut command = Command::new("mount");
        command.args(["-t", "tmpfs", "-o", &options, "none"]).arg(path("rings"));
        if !does(&mut command) {
            skipped("only root may mount a volume");
            return None;
        }
        // From here on it is unmounted at the end.
        let mut pod = Pod { perfring: path("perfring"), app: path("app"), has_time: true, place };
        if !does(Command::new("unshare").args(["--pid", "--fork", "--mount-proc", "true"]))
            || !does(Command::new("setpriv").args(["--reuid", "10001", "true"]))
        {
            skipped(
                "namespaces of pids or other users cannot be had here (util-linux: unshare, setpriv)",
            );
            return None;
        }
        pod.has_time = does(Command::new("unshare").args(["--time", "--boottime", "1", "true"]));
        if !pod.has_time {
            println!("without namespaces of time: this kernel has none");
        }
        // In a directory that all users can read, unlike a build directory.
        fs::set_permissions(pod.place.path(), Permissions::from_mode(0o755)).unwrap();
        // By another process: a child that another test forks must not have one of them open to be
        // written, which would be "text file busy".
        assert!(does(Command::new("cp").arg(env!("CARGO_BIN_EXE_perfring")).arg(&pod.perfring)));
        assert!(does(Command::new("cp").arg(std::env::current_exe().unwrap()).arg(&pod.app)));
        fs::create_dir(pod.path("out")).unwrap();
        chown(pod.path("out"), Some(SIDECAR), None).unwrap();
        Some(pod)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    /// The volume.
    pub(crate) fn rings(&self) -> PathBuf {
        self.path("rings")
    }

    /// Returns what was written to stderr.
    pub(crate) fn said(&self) -> String {
        fs::read_to_string(self.path("said")).unwrap_or_default()
    }

    /// Runs a program as this user, in the pod's group or in none, without any capability, with
    /// pids of its own, and a boot clock that is so many seconds ahead.
    fn command(&self, program: &Path, user: u32, in_group: bool, ahead: Option<&str>) -> Command {
        let mut command = Command::new("unshare");
        command.args(["--pid", "--fork", "--mount-proc"]);
        if let Some(ahead) = ahead.filter(|_| self.has_time) {
            command.args(["--time", "--boottime", ahead]);
        }
        let user = user.to_string();
        command.args(["setpriv", "--reuid", &user, "--regid", &user]);
        match in_group {
            true => command.args(["--groups", &GROUP.to_string()]),
            false => command.arg("--clear-groups"),
        };
        command.args(["--bounding-set", "-all", "--inh-caps", "-all", "--no-new-privs"]);
        command.arg(program).env("PERFRING_DIR", self.rings());
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        command
    }

    /// Starts a container.
    pub(crate) fn start(&self, program: &Path, args: &[&str], user: u32, ahead: &str) -> Container {
        let said = File::options().append(true).create(true).open(self.path("said")).unwrap();
        let mut command = self.command(program, user, true, Some(ahead));
        command.args(args).stderr(said);
        let mut live = Live::of(command);
        let stdin = live.child.stdin.take().unwrap();
        // It is the only child of the program that created its namespaces.
        let pid = live.child.id();
        let children = format!("/proc/{pid}/task/{pid}/children");
        let mut inner = None;
        perfring_testkit::wait::until("the container begins", || {
            let listed = fs::read_to_string(&children).unwrap_or_default();
            inner = listed.split_whitespace().next().and_then(|pid| pid.parse().ok());
            inner.is_some()
        });
        Container { live, stdin, pid: Pid::from_raw(inner.unwrap()) }
    }

    /// Runs `perfring` as this user.
    pub(crate) fn run(&self, args: &[&str], user: u32, in_group: bool) -> Done {
        let mut command = self.command(&self.perfring, user, in_group, None);
        Done(command.args(args).stdin(Stdio::null()).output().unwrap())
    }
}

impl Drop for Pod {
    fn drop(&mut self) {
        does(Command::new("umount").arg("-l").arg(self.path("rings")));
    }
}

fn does(command: &mut Command) -> bool {
    command.stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// The first process of a pid namespace.
pub(crate) struct Container {
    live: Live,
    stdin: ChildStdin,
    pid: Pid,
}

impl Container {
    /// Waits for a line of its stdout.
    pub(crate) fn wait_for(&mut self, line: &str) {
        while self.live.line_or_end().expect("it continues") != line {}
    }

    /// Writes a line to its stdin, and waits until it is done.
    pub(crate) fn report(&mut self, line: &str) {
        self.stdin.write_all(format!("{line}\n").as_bytes()).unwrap();
        self.wait_for("done");
    }

    pub(crate) fn is_there(&self) -> bool {
        kill(self.pid, None).is_ok()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(self.pid, signal).unwrap();
    }

    /// Waits for its end. Returns its exit code.
    pub(crate) fn end(mut self) -> Option<i32> {
        self.live.child.wait().unwrap().code()
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        // Only while the pid cannot have been reused.
        if matches!(self.live.child.try_wait(), Ok(None)) {
            let _ = kill(self.pid, Signal::SIGKILL);
        }
    }
}
