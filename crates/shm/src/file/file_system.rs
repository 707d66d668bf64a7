//! The file system of a ring, and the promises that fail there. `proto/ABI.md` has the whole table.

use crate::file::location::Location;
use nix::sys::statfs::{FsType, Statfs, fstatfs, statfs};
use std::fs::File;
use std::io;

/// Rings are in memory, and nothing else: all promises hold.
const MEMORY: [(i64, &str); 3] =
    [(0x0102_1994, "tmpfs"), (0x8584_58f6, "ramfs"), (0x9584_58f6, "hugetlbfs")];
/// A page that is written again gets another block.
const COPY_ON_WRITE: [(i64, &str); 3] =
    [(0x9123_683e, "btrfs"), (0x2fc1_2fc1, "zfs"), (0xca45_1a4e, "bcachefs")];
/// The memory or the locks of other machines.
const REMOTE: [(i64, &str); 8] = [
    (0x6969, "nfs"),
    (0x517b, "smb"),
    (0xff53_4d42, "cifs"),
    (0xfe53_4d42, "smb2"),
    (0x0102_1997, "9p"),
    // virtiofs says the same.
    (0x6573_5546, "fuse"),
    (0x00c3_6400, "ceph"),
    (0x5346_414f, "afs"),
];
const XFS: i64 = 0x5846_5342;
const OVERLAY: i64 = 0x794c_7630;
const OTHERS: [(i64, &str); 4] =
    [(0xef53, "ext4"), (XFS, "xfs"), (OVERLAY, "overlay"), (0xf2f5_2010, "f2fs")];

/// A kind of file system, and the promises that a ring there lacks.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("ring");
/// perfring_shm::create(&path, &perfring_shm::RingOptions::default())?;
/// if let Some(warning) = perfring_shm::FileSystem::of(&path)?.warning() {
///     eprintln!("{}: {warning}", path.display());
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileSystem {
    /// `f_type` of `statfs(2)`: 32 bits, with or without a sign.
    kind: i64,
    size: u64,
    free: u64,
}

impl FileSystem {
    /// Returns the file system of a ring, or of a directory for rings.
    ///
    /// # Errors
    /// The errors of `statfs(2)`.
    pub fn of(location: impl Into<Location>) -> io::Result<Self> {
        Ok(Self::new(&statfs(&location.into().path())?))
    }

    pub(crate) fn of_file(file: &File) -> io::Result<Self> {
        Ok(Self::new(&fstatfs(file)?))
    }

    fn new(stat: &Statfs) -> Self {
        let block = u64::try_from(stat.block_size()).unwrap_or_default();
        let FsType(kind) = stat.filesystem_type();
        FileSystem {
            kind: i64::from(kind as u32),
            size: stat.blocks().saturating_mul(block),
            free: stat.blocks_available().saturating_mul(block),
        }
    }

    /// Returns its bytes in all.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Returns its free bytes.
    #[must_use]
    pub fn free(&self) -> u64 {
        self.free
    }

    /// Returns its name, such as "tmpfs"; "type" and a number for an unknown file system.
    #[must_use]
    pub fn name(&self) -> String {
        let mut known = [&MEMORY[..], &COPY_ON_WRITE, &REMOTE, &OTHERS].into_iter().flatten();
        let found = known.find(|(kind, _)| *kind == self.kind);
        found.map_or_else(|| format!("type {:#x}", self.kind), |(_, name)| (*name).to_owned())
    }

    /// Returns whether its files are only in memory.
    #[must_use]
    pub fn is_memory(&self) -> bool {
        self.is_one_of(&MEMORY)
    }

    fn is_one_of(&self, kinds: &[(i64, &str)]) -> bool {
        kinds.iter().any(|(kind, _)| *kind == self.kind)
    }

    /// Returns why rings should not be there, if they should not: a promise that does not hold.
    #[must_use]
    pub fn warning(&self) -> Option<&'static str> {
        if self.is_one_of(&COPY_ON_WRITE) {
            Some(
                "a page that is written again takes a new block there, so the space allocated at creation is no \
                 promise: on a full disk a producer is killed by SIGBUS",
            )
        } else if self.is_one_of(&REMOTE) {
            Some(
                "it is not this machine's memory: locks and records of other machines may be seen late, or never",
            )
        } else {
            None
        }
    }

    /// Returns a note about rings on a file system that works.
    #[must_use]
    pub fn note(&self) -> Option<&'static str> {
        match self.kind {
            XFS => Some(
                "after a reflink copy of the ring (cp makes one) its blocks are shared, and on a full disk the \
                 next producer that writes to one is killed by SIGBUS: copy with cp --reflink=never",
            ),
            OVERLAY => Some(
                "a process that opens the file in the overlay's upper directory does not see the locks of processes \
                 that open it here; whether its space is certain depends on the file system of that directory",
            ),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(kind: i64) -> FileSystem {
        FileSystem { kind, size: 0, free: 0 }
    }

    #[test]
    fn what_does_not_hold_is_said_of_each_file_system() {
        // The kernel's numbers, from nix.
        use nix::sys::statfs as magic;
        let number = |kind: FsType| i64::from(kind.0 as u32);
        for (kind, name, warns, notes) in [
            (magic::TMPFS_MAGIC, "tmpfs", "", ""),
            (magic::HUGETLBFS_MAGIC, "hugetlbfs", "", ""),
            (magic::EXT4_SUPER_MAGIC, "ext4", "", ""),
            (magic::XFS_SUPER_MAGIC, "xfs", "", "reflink"),
            (magic::OVERLAYFS_SUPER_MAGIC, "overlay", "", "upper directory"),
            (magic::BTRFS_SUPER_MAGIC, "btrfs", "SIGBUS", ""),
            (FsType(0x2fc1_2fc1), "zfs", "SIGBUS", ""),
            (FsType(0xca45_1a4e), "bcachefs", "SIGBUS", ""),
            (magic::NFS_SUPER_MAGIC, "nfs", "other machines", ""),
            (magic::SMB_SUPER_MAGIC, "smb", "other machines", ""),
            (magic::FUSE_SUPER_MAGIC, "fuse", "other machines", ""),
            (magic::AFS_SUPER_MAGIC, "afs", "other machines", ""),
            (FsType(0x1234), "type 0x1234", "", ""),
        ] {
            let of = of(number(kind));
            assert_eq!(of.name(), name);
            for (said, says) in [(of.warning(), warns), (of.note(), notes)] {
                let right =
                    said.map_or(says.is_empty(), |said| !says.is_empty() && said.contains(says));
                assert!(right, "{name}: {said:?}");
            }
        }
        // The type has a sign on some architectures.
        assert_eq!(of(i64::from(0x9123_683e_u32 as i32 as u32)).name(), "btrfs");
    }

    /// Returns the names in this module for a name in the document.
    fn names_of(in_document: &str) -> Vec<&str> {
        match in_document {
            "overlayfs" => vec!["overlay"],
            "smb" => vec!["smb", "cifs", "smb2"],
            "virtiofs" => vec!["fuse"],
            name => vec![name],
        }
    }

    #[test]
    fn the_documents_table_says_the_same() {
        let document = include_str!("../../../../proto/ABI.md");
        let section = document.split("\n## File systems\n").nth(1).unwrap();
        let rows = section.lines().skip_while(|line| !line.starts_with("|---")).skip(1);
        let all = [&MEMORY[..], &COPY_ON_WRITE, &REMOTE, &OTHERS].concat();
        let mut missing = all.clone();
        for row in rows.map_while(|line| line.strip_prefix("| ")) {
            let cells: Vec<&str> = row.split('|').map(str::trim).collect();
            // Without the text in brackets, of which there is at most one.
            let (before, bracket) = cells[0].split_once(" (").unwrap_or((cells[0], ")"));
            let in_document =
                format!("{before}{}", bracket.split_once(')').unwrap().1).to_lowercase();
            // Empty: nothing is said of it.
            let (warns, notes) = match (cells[1], cells[2], cells[3]) {
                ("yes", "yes", "yes") | ("", "", "") => ("", false),
                ("yes", "yes", "no") => ("SIGBUS", false),
                (_, memory, _) if memory.starts_with("within one kernel") => {
                    ("other machines", false)
                }
                _ => ("", true),
            };
            for name in in_document.split(", ").flat_map(names_of) {
                let found = all.iter().find(|(_, known)| *known == name);
                let (kind, _) = *found.unwrap_or_else(|| panic!("only ABI.md has {name}"));
                let of = of(kind);
                let warned = of.warning().map_or(warns.is_empty(), |warning| {
                    !warns.is_empty() && warning.contains(warns)
                });
                assert!(warned && of.note().is_some() == notes, "{name}: {row}");
                missing.retain(|(_, known)| *known != name);
            }
        }
        assert!(missing.is_empty(), "ABI.md does not have {missing:?}");
    }

    #[test]
    fn a_ring_s_file_says_where_it_is() {
        let proc = FileSystem::of("/proc/self/stat").unwrap();
        assert_eq!((proc.name().as_str(), proc.is_memory()), ("type 0x9fa0", false));
        let here = tempfile::NamedTempFile::new().unwrap();
        let kinds = [FileSystem::of(here.path()), FileSystem::of_file(here.as_file())];
        let [path, file] = kinds.map(|kind| kind.unwrap().kind);
        assert_eq!(path, file);
    }
}
