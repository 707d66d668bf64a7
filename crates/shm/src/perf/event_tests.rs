//! Compares the request for an event with the kernel's own header.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

use super::*;
use crate::perf::attr::{Also, SAMPLE_TYPE, TYPE_SOFTWARE};
use crate::perf::mapped::MappedKernel;
use crate::perf::recorder::MappedRecorder;
use perfring_ring::KernelCopy;
use std::fs;
use std::mem::offset_of;
use std::path::Path;
use std::process::Command;

/// Runs a C program that includes the kernel's header, of which `proto/upstream` has a copy.
fn c(body: &str) -> Vec<u64> {
    let dir = tempfile::tempdir().unwrap();
    let header = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../proto/upstream/perf_event.h");
    let text = format!(
        "#include <stddef.h>\n#include <stdio.h>\n#include <string.h>\n#include <sys/ioctl.h>\n\
         #include {:?}\n#define SHOW(x) printf(\"%llu\\n\", (unsigned long long)(x));\n\
         #define AT(f) SHOW(offsetof(struct perf_event_attr, f))\n\
         #define BIT(f) {{ struct perf_event_attr a; memset(&a, 0, sizeof a); a.f = 1; \
         SHOW(((unsigned long long *)&a)[5]); }}\nint main(void) {{ {body} }}\n",
        header.canonicalize().unwrap(),
    );
    let (source, program) = (dir.path().join("a.c"), dir.path().join("a"));
    fs::write(&source, text).unwrap();
    let compiled = Command::new("cc").arg("-o").args([&program, &source]).status();
    assert!(compiled.expect("a C compiler: install gcc").success());
    let said = Command::new(program).output().unwrap();
    String::from_utf8(said.stdout).unwrap().lines().map(|line| line.parse().unwrap()).collect()
}

#[test]
fn the_attributes_stand_where_the_kernels_header_has_them() {
    let ours = [
        offset_of!(Attr, kind),
        offset_of!(Attr, size),
        offset_of!(Attr, config),
        offset_of!(Attr, sample_period),
        offset_of!(Attr, sample_type),
        offset_of!(Attr, read_format),
        offset_of!(Attr, flags),
        offset_of!(Attr, wakeup_watermark),
        offset_of!(Attr, bp_type),
        offset_of!(Attr, config1),
        offset_of!(Attr, config2),
        offset_of!(Attr, branch_sample_type),
        offset_of!(Attr, sample_regs_user),
        offset_of!(Attr, sample_stack_user),
        offset_of!(Attr, clockid),
        size_of::<Attr>(),
    ];
    let theirs = c("AT(type) AT(size) AT(config) AT(sample_period) AT(sample_type) AT(read_format)
        SHOW(40) AT(wakeup_watermark) AT(bp_type) AT(config1) AT(config2) AT(branch_sample_type)
        AT(sample_regs_user) AT(sample_stack_user) AT(clockid) SHOW(PERF_ATTR_SIZE_VER3)");
    assert_eq!(ours.map(|at| at as u64), *theirs);
}

#[test]
fn flags_and_numbers_are_the_kernels() {
    let spec = KernelEventSpec {
        config: 3,
        period: 1,
        also: Also::default(),
        user_only: false,
        wakeup_bytes: 0,
        overwrite: false,
    };
    let attr = |spec: KernelEventSpec, whose| spec.attr(whose, FORMAT_LOST);
    let plain = attr(spec, Whose::Cpu(0)).flags;
    let with = |also| attr(KernelEventSpec { also, ..spec }, Whose::Cpu(0)).flags ^ plain;
    let ours = [
        plain,
        attr(spec, Whose::Thread { tid: 1, cpu: 0 }).flags ^ plain,
        attr(KernelEventSpec { user_only: true, ..spec }, Whose::Cpu(0)).flags ^ plain,
        with(Also { tasks: true, ..Also::default() }),
        with(Also { mappings: true, ..Also::default() }),
        with(Also { switches: true, ..Also::default() }),
        attr(KernelEventSpec { overwrite: true, ..spec }, Whose::Cpu(0)).flags ^ plain,
    ];
    let all = c("BIT(disabled) BIT(watermark) BIT(sample_id_all) BIT(use_clockid) BIT(inherit)
        BIT(exclude_kernel) BIT(exclude_hv) BIT(task) BIT(comm) BIT(comm_exec) BIT(mmap) BIT(mmap2)
        BIT(context_switch) BIT(write_backward)");
    let sums = [0..4, 4..5, 5..7, 7..10, 10..12, 12..13, 13..14];
    assert_eq!(ours, sums.map(|range| all[range].iter().sum::<u64>()));

    let numbers = c("SHOW(PERF_TYPE_SOFTWARE) SHOW(PERF_SAMPLE_IP | PERF_SAMPLE_TID |
        PERF_SAMPLE_TIME | PERF_SAMPLE_ADDR | PERF_SAMPLE_CPU | PERF_SAMPLE_PERIOD |
        PERF_SAMPLE_IDENTIFIER) SHOW(PERF_FORMAT_LOST) SHOW(PERF_FLAG_FD_CLOEXEC)
        SHOW(PERF_EVENT_IOC_ENABLE) SHOW(PERF_EVENT_IOC_DISABLE) SHOW(PERF_EVENT_IOC_SET_OUTPUT)
        SHOW(PERF_EVENT_IOC_PAUSE_OUTPUT)");
    let ours = [
        u64::from(TYPE_SOFTWARE),
        SAMPLE_TYPE,
        FORMAT_LOST,
        CLOEXEC,
        IOC_ENABLE,
        IOC_DISABLE,
        IOC_SET_OUTPUT,
        IOC_PAUSE_OUTPUT,
    ];
    assert_eq!(ours, *numbers);
}

#[test]
fn a_forked_child_has_no_ring_and_does_not_fault() {
    let spec = KernelEventSpec {
        config: 9,
        period: 0,
        also: Also { tasks: true, ..Also::default() },
        user_only: true,
        wakeup_bytes: 1024,
        overwrite: false,
    };
    let tid = i32::try_from(std::process::id()).unwrap();
    let whose = Whose::Thread { tid, cpu: 0 };
    let backward = KernelEventSpec { overwrite: true, ..spec };
    let (event, newest) =
        match (KernelEvent::open(&spec, whose), KernelEvent::open(&backward, whose)) {
            (Ok(event), Ok(newest)) => (event, newest),
            (Err(NoEvent::Forbidden | NoEvent::Missing), _) => {
                assert!(std::env::var_os("PERFRING_NO_SKIP").is_none(), "not to be skipped");
                println!("SKIPPED: this machine forbids perf events");
                return;
            }
            errors => panic!("{errors:?}"),
        };
    let mut recorder = MappedRecorder::map(vec![newest], 8192).unwrap();
    let mut ring = MappedKernel::map(vec![event], 8192).unwrap();
    // SAFETY: the child calls nothing but what is tested, which takes no lock and no memory that
    // `body` does not have already, and `_exit`.
    match unsafe { libc::fork() } {
        0 => {
            let mut body = Vec::new();
            let quiet = ring.poll() == Ok(0)
                && ring.peek(0, &mut body) == Ok(None)
                && ring.live_head() == 0
                && recorder.copy().is_ok_and(|copy| copy == KernelCopy::default());
            ring.release(8);
            // SAFETY: ends the child at once.
            unsafe { libc::_exit(if quiet { 0 } else { 1 }) };
        }
        child => {
            let mut status = -1;
            // SAFETY: stores an int, which is ours.
            unsafe { libc::waitpid(child, &raw mut status, 0) };
            assert_eq!(status, 0, "the child failed");
        }
    }
    assert!(ring.poll().is_ok() && recorder.copy().is_ok());
}
