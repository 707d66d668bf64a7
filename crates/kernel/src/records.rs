//! The kernel's records, as records of perfring's: what each is called, and its fields.

use bytemuck::{Pod, Zeroable};
use perfring_types::read::{Type, TypeTable};
use perfring_types::{Encoding, Enum, Field, Record, Schema, Shape};

/// What a processor was doing.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Record)]
pub enum Mode {
    /// The kernel did not say.
    #[record(name = "unknown")]
    Unknown,
    /// The kernel's own code.
    #[record(name = "kernel")]
    Kernel,
    /// A program.
    #[record(name = "user")]
    User,
    /// A hypervisor.
    #[record(name = "hypervisor")]
    Hypervisor,
    /// A guest's kernel.
    #[record(name = "guest kernel")]
    GuestKernel,
    /// A guest's program.
    #[record(name = "guest user")]
    GuestUser,
}

macro_rules! samples {
    ($($(#[$doc:meta])* $name:ident, $full:literal, $unit:literal $(, $at:ident)*;)*) => {$(
        $(#[$doc])*
        #[repr(C)]
        #[derive(Clone, Copy, Debug, Record, Pod, Zeroable)]
        #[record(name = $full)]
        pub struct $name {
            /// The process.
            pub pid: u32,
            /// The thread.
            pub tid: u32,
            /// The processor.
            pub cpu: u32,
            /// What the processor was doing.
            pub mode: Enum<Mode>,
            /// How much the sample stands for.
            #[record(unit = $unit)]
            pub period: u64,
            $(
                /// Its address: of the instruction, which is 0 if this user may not know it (`ip`), or
                /// of what was accessed (`addr`).
                pub $at: u64,
            )*
        }
    )*};
}

samples! {
    /// A processor was here: `cpu-clock`.
    CpuClock, "perf.CpuClock", "ns", ip;
    /// A task was here: `task-clock`.
    TaskClock, "perf.TaskClock", "ns", ip;
    /// A page fault: `page-faults`.
    PageFault, "perf.PageFault", "{fault}", ip, addr;
    /// A page fault that needed no reading: `minor-faults`.
    MinorFault, "perf.MinorFault", "{fault}", ip, addr;
    /// A page fault that needed reading from a disk: `major-faults`.
    MajorFault, "perf.MajorFault", "{fault}", ip, addr;
    /// A task left its processor: `context-switches`.
    ContextSwitch, "perf.ContextSwitch", "{switch}";
    /// A task goes on on another processor: `cpu-migrations`.
    CpuMigration, "perf.CpuMigration", "{migration}";
    /// An unaligned access that the kernel made good: `alignment-faults`.
    AlignmentFault, "perf.AlignmentFault", "{fault}", ip, addr;
    /// An instruction that the kernel stood in for: `emulation-faults`.
    EmulationFault, "perf.EmulationFault", "{fault}", ip, addr;
    /// A switch between tasks of different control groups: `cgroup-switches`.
    CgroupSwitch, "perf.CgroupSwitch", "{switch}";
    /// A sample of an event that is not known here.
    Sample, "perf.Sample", "", ip, addr;
}

/// Which way a task was switched.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Record)]
pub enum Switched {
    /// It runs now.
    #[record(name = "in")]
    In,
    /// It waits for something.
    #[record(name = "out")]
    Out,
    /// It could run, and others do.
    #[record(name = "preempted")]
    Preempted,
}

/// Declares records that begin with a task and its processor.
macro_rules! on_processors {
    ($($(#[$doc:meta])* $name:ident, $full:literal $({
        $($(#[$about:meta])* $member:ident: $type:ty,)*
    })?;)*) => {$(
        $(#[$doc])*
        #[repr(C)]
        #[derive(Clone, Copy, Debug, Record, Pod, Zeroable)]
        #[record(name = $full)]
        pub struct $name {
            /// The process.
            pub pid: u32,
            /// The thread.
            pub tid: u32,
            /// The processor.
            pub cpu: u32,
            $($($(#[$about])* pub $member: $type,)*)?
        }
    )*};
}

on_processors! {
    /// A task came to its processor or left it: `switches`.
    Switch, "perf.Switch" {
        /// Which way.
        switched: Enum<Switched>,
    };
    /// As `perf.Switch`, where a whole processor is watched: with the task that comes next, or that
    /// was there before.
    SwitchCpuWide, "perf.SwitchCpuWide" {
        /// Which way.
        switched: Enum<Switched>,
        /// The other process: the next one if this one left, else the one before.
        other_pid: u32,
        /// The other thread.
        other_tid: u32,
    };
    /// A task got a name: `tasks`.
    Comm, "perf.Comm" {
        /// 1: as it began another program.
        exec: u32,
        /// The name.
        #[record(text)]
        comm: [u8; 16],
    };
    /// The kernel takes no more samples for a while, as there were too many.
    Throttle, "perf.Throttle";
    /// It takes samples again.
    Unthrottle, "perf.Unthrottle";
}

macro_rules! tasks {
    ($($(#[$doc:meta])* $name:ident, $full:literal;)*) => {$(
        $(#[$doc])*
        #[repr(C)]
        #[derive(Clone, Copy, Debug, Record, Pod, Zeroable)]
        #[record(name = $full)]
        pub struct $name {
            /// The process.
            pub pid: u32,
            /// The thread.
            pub tid: u32,
            /// The process that started it.
            pub parent_pid: u32,
            /// The thread that started it.
            pub parent_tid: u32,
            /// The processor.
            pub cpu: u32,
        }
    )*};
}

tasks! {
    /// A task begins: `tasks`.
    Fork, "perf.Fork";
    /// A task ends: `tasks`.
    Exit, "perf.Exit";
}

/// Declares a tagged type: its fields and the constants that number them, in one list.
macro_rules! tagged {
    ($(#[$doc:meta])* $schema:ident, $numbers:ident, $full:literal, $help:literal {
        $($number:ident $name:literal $unit:literal $about:literal;)*
    }) => {
        /// The numbers of its fields.
        pub(crate) mod $numbers {
            tagged!(@count 0; $($number)*);
        }

        $(#[$doc])*
        pub(crate) const $schema: Schema<'static> = Schema {
            help: $help,
            ..Schema::new($full, Encoding::Tagged)
                .with_fields(0, &[$(
                    Field { unit: $unit, help: $about, ..Field::new($name, 0, Shape::ANY) }
                ),*])
                .with_hashed_id()
        };
    };
    (@count $at:expr; $number:ident $($rest:ident)*) => {
        pub(crate) const $number: u16 = $at;
        tagged!(@count $at + 1; $($rest)*);
    };
    (@count $at:expr;) => {};
}

tagged! {
    /// A file was mapped as a program: `mappings`.
    MMAP, mmap, "perf.Mmap2", "A file was mapped as a program: `mappings`." {
        PID "pid" "" "The process.";
        TID "tid" "" "The thread.";
        CPU "cpu" "" "The processor.";
        ADDR "addr" "" "Where it begins in memory.";
        LEN "len" "By" "How long it is.";
        PGOFF "pgoff" "By" "Where it begins in the file.";
        PROT "prot" "" "What may be done with it: bits as of mmap(2).";
        FLAGS "flags" "" "How it is mapped: bits as of mmap(2).";
        INODE "inode" "" "The file's number on its device.";
        FILENAME "filename" "" "The file, or a name in brackets or with slashes for memory.";
    }
}

tagged! {
    /// A record of the kernel's that is not known here.
    OTHER, other, "perf.Other", "A record of the kernel's that perfring does not know." {
        TYPE "type" "" "Its number in `enum perf_event_type`.";
        MISC "misc" "" "Its flags.";
        PID "pid" "" "The process.";
        TID "tid" "" "The thread.";
        CPU "cpu" "" "The processor.";
        BODY "body" "" "What it holds, as the kernel wrote it.";
    }
}

/// The types of all records of a kernel ring.
pub(crate) static SCHEMAS: [Schema<'static>; 20] = [
    CpuClock::SCHEMA,
    TaskClock::SCHEMA,
    PageFault::SCHEMA,
    MinorFault::SCHEMA,
    MajorFault::SCHEMA,
    ContextSwitch::SCHEMA,
    CpuMigration::SCHEMA,
    AlignmentFault::SCHEMA,
    EmulationFault::SCHEMA,
    CgroupSwitch::SCHEMA,
    Sample::SCHEMA,
    Switch::SCHEMA,
    SwitchCpuWide::SCHEMA,
    Comm::SCHEMA,
    Fork::SCHEMA,
    Exit::SCHEMA,
    Throttle::SCHEMA,
    Unthrottle::SCHEMA,
    MMAP,
    OTHER,
];

/// Returns the schemas of [`types`], for `perfring_consumer::Types::of_schemas`.
///
/// ```
/// assert!(perfring_kernel::schemas().iter().any(|schema| schema.name == "perf.PageFault"));
/// ```
#[must_use]
pub fn schemas() -> &'static [Schema<'static>] {
    &SCHEMAS
}

/// Returns the types of the records of any kernel ring.
///
/// ```
/// let types = perfring_kernel::types();
/// assert!(types.damage().is_empty());
/// assert_eq!(types.by_name("perf.ContextSwitch").count(), 1);
/// ```
#[must_use]
pub fn types() -> TypeTable {
    let mut table = TypeTable::default();
    for schema in &SCHEMAS {
        // They are this crate's own: a test parses each.
        if let Ok(kind) = Type::parse(schema.id, &schema.to_json()) {
            table.add(kind);
        }
    }
    table
}
