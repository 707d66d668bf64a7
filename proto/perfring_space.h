/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * perfring_space.h: space for a ring's file, for perfring_create.h and perfring_attach.h. A page without a
 * block gets one when it is touched, and SIGBUS where the file system is full. So a ring is allocated when it is
 * made, and again when a process attaches to write: a sparse copy has lost pages.
 */
#ifndef PERFRING_SPACE_H
#define PERFRING_SPACE_H

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/vfs.h>

/* Bytes that a call allocates at least, however often signals interrupt. */
#define PERFRING_PIECE_LEAST 65536

/* How perfring_allocate works. */
#define PERFRING_ALLOCATE_NEW 0	  /* by any means: no other process has the file */
#define PERFRING_ALLOCATE_HOLES 1 /* as the file system can: other processes may be writing the file */

/* Allocates `size` bytes of a file: returns 0 or an errno. A call that a signal interrupts is repeated with half the
 * length: the kernel takes back what such a call has allocated, and a shorter one ends before the next signal. */
static inline int perfring_allocate(int fd, uint64_t size, int how)
{
	uint64_t at = 0, longest = size, len;
	int error;

	while (at < size) {
		len = longest < size - at ? longest : size - at;
		if (how == PERFRING_ALLOCATE_NEW)
			error = posix_fallocate(fd, (off_t)at, (off_t)len);
		else
			/* Not posix_fallocate: where the file system cannot allocate, the C library writes bytes
			 * that others may be writing. */
			error = fallocate(fd, FALLOC_FL_KEEP_SIZE, (off_t)at, (off_t)len) < 0 ? errno : 0;
		if (!error)
			at += len;
		else if (error == EINTR)
			longest = (len / 2 + PERFRING_PIECE_LEAST - 1) & ~(uint64_t)(PERFRING_PIECE_LEAST - 1);
		else
			return error;
	}
	return 0;
}

/* Allocates the pages that a ring's file lacks: returns 0, or ENOSPC, EDQUOT or EIO. Any other failure is none:
 * nothing is promised where the file system, or a filter of system calls, does not allocate. */
static inline int perfring_fill_holes(int fd, uint64_t size)
{
	struct statfs system;
	struct stat meta;
	int error;

	if (fstat(fd, &meta) < 0)
		return EIO;
	/* In memory (tmpfs, ramfs) the blocks are the pages: nothing is missing. On a disk, some blocks hold no
	 * data. */
	if ((uint64_t)meta.st_blocks >= size / 512 && fstatfs(fd, &system) == 0 &&
	    ((uint32_t)system.f_type == 0x01021994 || (uint32_t)system.f_type == 0x858458f6))
		return 0;
	error = perfring_allocate(fd, size, PERFRING_ALLOCATE_HOLES);
	return error == ENOSPC || error == EDQUOT || error == EIO ? error : 0;
}

#endif /* PERFRING_SPACE_H */
