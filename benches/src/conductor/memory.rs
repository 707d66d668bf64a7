//! The memory of a sample's processes.

use super::actor::Actor;
use crate::error::Result;
use std::fs;

/// The kernel's own mappings, whose size a contestant reports: which of them count as a process's
/// differs from kernel to kernel.
const KERNELS: [&str; 2] = ["anon_inode:[perf_event]", "anon_inode:bpf-map"];

/// Returns the sum of the proportional set sizes (Pss) of these processes and of all their
/// descendants, in bytes: a page that two of them share counts half for each, and one that a
/// process has mapped twice counts once. A process that ends meanwhile counts nothing.
pub(super) fn of(cast: &[Actor]) -> Result<u64> {
    let mut sum = 0;
    for entry in fs::read_dir("/proc")? {
        let dir = entry?.path();
        let Ok(stat) = fs::read_to_string(dir.join("stat")) else { continue };
        // pid (name) state parent group ...; a name may hold anything, also parentheses.
        let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
        let group = fields.split_whitespace().nth(2).and_then(|field| field.parse::<u32>().ok());
        if cast.iter().any(|actor| Some(actor.group()) == group) {
            sum += mapped(&fs::read_to_string(dir.join("smaps")).unwrap_or_default());
        }
    }
    Ok(sum)
}

/// Returns the Pss in bytes of all mappings that are not the kernel's own.
fn mapped(smaps: &str) -> u64 {
    let (mut sum, mut counts) = (0, true);
    for line in smaps.lines() {
        if let Some(rest) = line.strip_prefix("Pss:") {
            let kib = rest.trim().strip_suffix("kB").and_then(|kib| kib.trim().parse::<u64>().ok());
            sum += if counts { kib.unwrap_or_default() * 1024 } else { 0 };
        } else if line
            .starts_with(|letter: char| letter.is_ascii_digit() || ('a'..='f').contains(&letter))
        {
            // A mapping's first line: addresses, rights, offset, device, inode, and a name.
            counts = !KERNELS.iter().any(|name| line.ends_with(name));
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::mapped;

    #[test]
    fn what_the_kernel_has_made_is_reported_and_not_weighed() {
        let smaps = "\
7f01-7f02 rw-s 00000000 00:01 5 /dev/shm/a\nSize: 8 kB\nPss: 6 kB\nPss_Dirty: 4 kB\n\
7f03-7f04 rw-s 00000000 00:0e 12 anon_inode:[perf_event]\nPss: 4 kB\n\
7f05-7f06 r--s 00000000 00:0e 12 anon_inode:bpf-map\nPss: 4 kB\n\
ffff-ffff rw-p 00000000 00:00 0 [stack]\nPss: 1 kB\nVmFlags: rd\n";
        assert_eq!(mapped(smaps), 7 * 1024);
    }
}
