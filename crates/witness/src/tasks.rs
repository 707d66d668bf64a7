//! The names of tasks, as /proc has them.

use perfring_kernel::records::Comm;
use std::fs;

/// Returns how many threads a process has; 0 if it is not visible.
pub(crate) fn threads(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count)
}

/// Returns the names of all tasks of the machine.
pub(crate) fn tasks(mut each: impl FnMut(Comm)) {
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        if let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) {
            names(pid, &mut each);
        }
    }
}

/// Returns the names of a process's threads.
pub fn names(pid: u32, mut each: impl FnMut(Comm)) {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    for task in tasks {
        let Some(tid) = task.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        let Ok(name) = fs::read(task.path().join("comm")) else { continue };
        let name = name.trim_ascii_end();
        let mut comm = Comm { pid, tid, cpu: 0, exec: 0, comm: [0; 16] };
        let len = name.len().min(comm.comm.len());
        comm.comm[..len].copy_from_slice(&name[..len]);
        each(comm);
    }
}

/// A thread, as its `schedstat` has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scheduled {
    pub(crate) tid: u32,
    /// For how long it could run and had no CPU, so far, ns: it is added when the thread gets a CPU.
    pub(crate) delay: u64,
    /// How often it got a CPU.
    pub(crate) times: u64,
}

/// Returns the threads of a process.
pub(crate) fn scheduled(pid: u32) -> impl Iterator<Item = Scheduled> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    tasks.filter_map(|task| {
        let tid = task.file_name().to_str()?.parse().ok()?;
        let stat = fs::read_to_string(task.path().join("schedstat")).ok()?;
        let mut numbers = stat.split_whitespace().skip(1).map(|number| number.parse().ok());
        Some(Scheduled { tid, delay: numbers.next()??, times: numbers.next()?? })
    })
}
