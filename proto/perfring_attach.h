/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * perfring_attach.h: opens a ring from C11 or C++17, for perfring_reader.h and perfring_producer.h,
 * which programs include. No library, no dependency: Linux, and gcc's or clang's atomics.
 *
 *     #define _GNU_SOURCE            // before the first #include, or as -D_GNU_SOURCE
 *     #include "perfring_reader.h"
 *
 * Every function that can fail returns 0 or a negative PERFRING_E_*; perfring_error(code) is a
 * sentence for each, and `why` of the handle says more. A handle belongs to one thread at a time.
 *
 * Readers know rings of both policies, exclusive, shared and per CPU, with and without timestamps; producers
 * know exclusive rings, with and without timestamps. A ring with any other feature is refused. A file that is truncated
 * while it is mapped kills the process with SIGBUS, as any mapping does; so does a full disk under a ring on btrfs
 * and others that copy on write. ABI.md lists file systems.
 *
 * The letters at the atomics are those of the table in perfring.h.
 */
#ifndef PERFRING_ATTACH_H
#define PERFRING_ATTACH_H

#include "perfring_check.h"
#include "perfring_space.h"

#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifndef F_OFD_SETLK
#error "define _GNU_SOURCE before the first #include: perfring needs open-file-description locks"
#endif

/* The role of a handle. */
#define PERFRING_OBSERVER 0
#define PERFRING_CONSUMER 1
#define PERFRING_PRODUCER 2

/* Positions beyond this are rejected. */
#define PERFRING_POS_MAX ((uint64_t)1 << 62)
/* ns: the longest sleep where a wake may not come. */
#define PERFRING_SLICE_NS 20000000
/* ns: the longest sleep otherwise: a producer may die between taking a sleeper's flag and waking it. */
#define PERFRING_LONG_NS 1000000000
/* ns: how often a reader that waits checks whether the ring's file still exists. */
#define PERFRING_REMOVED_NS 1000000000

#define PERFRING_LOAD(at) __atomic_load_n(at, __ATOMIC_RELAXED)
#define PERFRING_LOAD_ACQUIRE(at) __atomic_load_n(at, __ATOMIC_ACQUIRE)
#define PERFRING_STORE(at, value) __atomic_store_n(at, value, __ATOMIC_RELAXED)
#define PERFRING_STORE_RELEASE(at, value) __atomic_store_n(at, value, __ATOMIC_RELEASE)
#define PERFRING_FENCE_ACQUIRE() __atomic_thread_fence(__ATOMIC_ACQUIRE)
#define PERFRING_FENCE_RELEASE() __atomic_thread_fence(__ATOMIC_RELEASE)
#define PERFRING_FENCE_FULL() __atomic_thread_fence(__ATOMIC_SEQ_CST)

/* Of functions on a fast path: inlined, whatever the compiler's limit; and kept out of it. */
#define PERFRING_ALWAYS __attribute__((always_inline))
#define PERFRING_APART __attribute__((noinline, unused))

struct perfring_count {
	uint64_t records;
	uint64_t bytes; /* of the ring, headers and padding included */
};

/* An open, mapped ring. */
struct perfring {
	struct perfring_header *header;
	uint64_t *data;
	uint64_t data_size;
	struct perfring_header shape; /* as it was checked: what the creator wrote */
	struct perfring *next;	      /* handles of this process, for perfring_detach_child */
	void *base;
	size_t mapped;
	struct perfring_slot *slots; /* of a producer, the type table follows them; of a reader, read-only */
	size_t slots_mapped;	     /* of a reader 0: they are in `mapped` */
	int fd;
	int generation;
	int asymmetric; /* this process is registered for the heavy fences of others */
	int timed;
	int sample_id;
	uint32_t removed;   /* the file lost its name, or another has it now */
	int64_t check_next; /* when that is to be found out again: ns */
	char *path;	    /* absolute; NULL if it could not be had */
	char why[256];
};

static inline int64_t perfring_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static inline int perfring_io(struct perfring *ring, const char *step)
{
	snprintf(ring->why, sizeof(ring->why), "%s: %s", step, strerror(errno));
	return PERFRING_E_IO;
}

static inline int perfring_corrupt(struct perfring *ring, uint64_t pos)
{
	snprintf(ring->why, sizeof(ring->why), "the ring is damaged at position %llu: no record can stand there",
		 (unsigned long long)pos);
	return PERFRING_E_CORRUPT;
}

/* Forks. A child has its parent's mappings and, with its open file description, its lock: the handler
 * replaces both. Each source file has its own handles, and a list of them. No other thread forks from
 * before a ring is opened until its handle is in the list. */
static struct perfring *perfring_handles;
static pthread_mutex_t perfring_handles_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t perfring_handler = PTHREAD_ONCE_INIT;
static int perfring_generation;

static inline void perfring_before_fork(void)
{
	pthread_mutex_lock(&perfring_handles_lock);
}

static inline void perfring_in_parent(void)
{
	pthread_mutex_unlock(&perfring_handles_lock);
}

static inline void perfring_detach_child(void)
{
	struct perfring *ring;
	int none = open("/dev/null", O_RDWR | O_CLOEXEC);

	PERFRING_STORE(&perfring_generation, perfring_generation + 1);
	for (ring = perfring_handles; ring; ring = ring->next) {
		mmap(ring->base, ring->mapped, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
		if (ring->slots_mapped)
			mmap(ring->slots, ring->slots_mapped, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
		if (none < 0 || dup3(none, ring->fd, O_CLOEXEC) < 0) {
			close(ring->fd);
			ring->fd = -1; /* its number may be another file's by the time of perfring_close */
		}
	}
	if (none >= 0)
		close(none);
	pthread_mutex_unlock(&perfring_handles_lock);
}

static inline void perfring_install(void)
{
	pthread_atfork(perfring_before_fork, perfring_in_parent, perfring_detach_child);
}

static inline int perfring_is_forked(const struct perfring *ring)
{
	return ring->generation != PERFRING_LOAD(&perfring_generation);
}

/* Before a ring is opened; perfring_allow_forks after it is registered, or could not be. */
static inline void perfring_hold_off_forks(void)
{
	pthread_once(&perfring_handler, perfring_install);
	pthread_mutex_lock(&perfring_handles_lock);
}

static inline void perfring_allow_forks(void)
{
	pthread_mutex_unlock(&perfring_handles_lock);
}

/* While forks are held off. */
static inline void perfring_register_handle(struct perfring *ring)
{
	ring->generation = perfring_generation;
	ring->next = perfring_handles;
	perfring_handles = ring;
}

/* Releases the lock, unmaps and closes. The lock first: a child that another thread forks after the handle
 * has left the list inherits what is not closed yet, and would keep the lock. */
static inline void perfring_close(struct perfring *ring)
{
	struct perfring **at;
	struct flock all;

	if (ring->fd >= 0 && !perfring_is_forked(ring)) {
		memset(&all, 0, sizeof(all)); /* from 0 to the end */
		all.l_type = F_UNLCK;
		all.l_whence = SEEK_SET;
		fcntl(ring->fd, F_OFD_SETLK, &all);
	}
	pthread_mutex_lock(&perfring_handles_lock);
	for (at = &perfring_handles; *at; at = &(*at)->next) {
		if (*at == ring) {
			*at = ring->next;
			break;
		}
	}
	pthread_mutex_unlock(&perfring_handles_lock);
	if (ring->base)
		munmap(ring->base, ring->mapped);
	if (ring->slots_mapped)
		munmap(ring->slots, ring->slots_mapped);
	if (ring->fd >= 0)
		close(ring->fd);
	free(ring->path);
	ring->path = NULL;
	ring->base = NULL;
	ring->slots = NULL;
	ring->slots_mapped = 0;
	ring->fd = -1;
}

/* Opens and checks; nothing is mapped. */
static inline int perfring_open_checked(struct perfring *ring, const char *path, int role)
{
	int write = role != PERFRING_OBSERVER;
	struct stat meta;
	ssize_t got;

	memset(ring, 0, sizeof(*ring));
	/* Not blocking: a FIFO of that name must not block. */
	ring->fd = open(path, (write ? O_RDWR : O_RDONLY) | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (ring->fd < 0)
		return perfring_io(ring, "opening the ring");
	if (fstat(ring->fd, &meta) < 0)
		return perfring_io(ring, "examining the ring");
	if (!S_ISREG(meta.st_mode)) {
		snprintf(ring->why, sizeof(ring->why), "not a perfring file: it is not a regular file");
		return PERFRING_E_NOT_A_RING;
	}
	got = pread(ring->fd, &ring->shape, sizeof(ring->shape), 0);
	if (got < 0)
		return perfring_io(ring, "reading the ring's header");
	if ((size_t)got < sizeof(ring->shape)) {
		snprintf(ring->why, sizeof(ring->why), "not a perfring file: %lld bytes are fewer than a header page",
			 (long long)got);
		return PERFRING_E_NOT_A_RING;
	}
	ring->data_size = ring->shape.data_size;
	ring->path = realpath(path, NULL);
	ring->check_next = perfring_now() + PERFRING_REMOVED_NS;
	ring->timed = (ring->shape.features_required & PERFRING_FEATURE_TIME) != 0;
	ring->sample_id = (ring->shape.features_required & PERFRING_FEATURE_SAMPLE_ID) != 0;
	return perfring_check(&ring->shape, (uint64_t)meta.st_size, ring->why, sizeof(ring->why));
}

/* Maps the header, the data and the data once more, so that a record that wraps is in one piece, and the
 * slots, once all pages of the file are there. An observer copies: it maps the data once, and the ring's page size need not be
 * the host's. */
static inline int perfring_map(struct perfring *ring, int role)
{
	uint64_t host = (uint64_t)sysconf(_SC_PAGESIZE), page = ring->shape.page_size;
	uint64_t data = ring->data_size, control = page + (role == PERFRING_OBSERVER ? 1 : 2) * data;
	uint64_t len = control + (role == PERFRING_PRODUCER ? 0 : ring->shape.control_size);
	int prot = PROT_READ | (role == PERFRING_PRODUCER ? PROT_WRITE : 0), copy;
	uint8_t *base;
	void *got;
	int lacks = role == PERFRING_OBSERVER ? 0 : perfring_fill_holes(ring->fd, ring->shape.file_size);

	if (lacks == ENOSPC || lacks == EDQUOT) {
		snprintf(ring->why, sizeof(ring->why), "the ring lacks pages, as a sparse copy does, and its file system has no room for them: free some (for /dev/shm in a container: raise its size), and attach again");
		return PERFRING_E_NO_SPACE;
	}
	if (lacks) {
		errno = lacks;
		return perfring_io(ring, "allocating the pages that it lacks");
	}
	if (role != PERFRING_OBSERVER && page % host) {
		snprintf(ring->why, sizeof(ring->why), "the ring's pages of %llu bytes are smaller than this machine's, of %llu: copy its records with an observer",
			 (unsigned long long)page, (unsigned long long)host);
		return PERFRING_E_PAGE_SIZE;
	}
	if (len > SIZE_MAX || len > (uint64_t)PTRDIFF_MAX) {
		errno = ENOMEM;
		return perfring_io(ring, "mapping the ring");
	}
	got = role == PERFRING_OBSERVER
		      ? mmap(NULL, (size_t)len, PROT_READ, MAP_SHARED, ring->fd, 0)
		      : mmap(NULL, (size_t)len, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (got == MAP_FAILED)
		return perfring_io(ring, "mapping the ring");
	ring->base = got;
	ring->mapped = (size_t)len;
	base = (uint8_t *)got;
	if (role != PERFRING_OBSERVER) {
		if (mmap(base, (size_t)page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, ring->fd, 0) ==
		    MAP_FAILED)
			return perfring_io(ring, "mapping the ring's header");
		for (copy = 0; copy < 2; copy++)
			if (mmap(base + page + (uint64_t)copy * data, (size_t)data, prot,
				 MAP_SHARED | MAP_FIXED, ring->fd, (off_t)page) == MAP_FAILED)
				return perfring_io(ring, "mapping the ring's data");
	}
	if (role == PERFRING_CONSUMER &&
	    mmap(base + control, (size_t)ring->shape.control_size, PROT_READ, MAP_SHARED | MAP_FIXED, ring->fd,
		 (off_t)ring->shape.control_offset) == MAP_FAILED)
		return perfring_io(ring, "mapping the ring's slots");
	ring->slots = (struct perfring_slot *)(void *)(base + control);
	if (role == PERFRING_PRODUCER) {
		/* With the type table, which follows them. */
		len = ring->shape.control_size + ring->shape.types_size;
		got = mmap(NULL, (size_t)len, PROT_READ | PROT_WRITE, MAP_SHARED, ring->fd,
			   (off_t)ring->shape.control_offset);
		if (got == MAP_FAILED)
			return perfring_io(ring, "mapping the ring's slots");
		ring->slots = (struct perfring_slot *)got;
		ring->slots_mapped = (size_t)len;
	}
	ring->header = (struct perfring_header *)ring->base;
	ring->data = (uint64_t *)(void *)(base + page);
	return PERFRING_OK;
}

/* Locks a byte: 1 if that succeeded, 0 if another process holds it. */
static inline int perfring_lock_byte(struct perfring *ring, uint64_t byte)
{
	struct flock range;

	memset(&range, 0, sizeof(range));
	range.l_type = F_WRLCK;
	range.l_whence = SEEK_SET;
	range.l_start = (off_t)byte;
	range.l_len = 1;
	if (fcntl(ring->fd, F_OFD_SETLK, &range) == 0)
		return 1;
	return errno == EAGAIN || errno == EACCES ? 0 : perfring_io(ring, "locking the seat");
}

static inline void perfring_unlock_byte(struct perfring *ring, uint64_t byte)
{
	struct flock range;

	memset(&range, 0, sizeof(range));
	range.l_type = F_UNLCK;
	range.l_whence = SEEK_SET;
	range.l_start = (off_t)byte;
	range.l_len = 1;
	fcntl(ring->fd, F_OFD_SETLK, &range);
}

/* Whether another handle has a lock with which one of this type would conflict. */
static inline int perfring_conflicts(const struct perfring *ring, short type, uint64_t byte)
{
	struct flock range;

	memset(&range, 0, sizeof(range));
	range.l_type = type;
	range.l_whence = SEEK_SET;
	range.l_start = (off_t)byte;
	range.l_len = 1;
	return fcntl(ring->fd, F_OFD_GETLK, &range) == 0 && range.l_type != F_UNLCK;
}

/* Whether a process holds the byte, by another handle; read permission is enough. Queried as if for a read
 * lock: with that only a holder conflicts, and no process that may only read the file. */
static inline int perfring_is_held(const struct perfring *ring, uint64_t byte)
{
	return perfring_conflicts(ring, F_RDLCK, byte);
}

/* Takes a seat. Waits for a removal in progress to end, and checks that the ring still has its name. */
static inline int perfring_lock_seat(struct perfring *ring, const char *path, uint64_t byte)
{
	struct timespec pause = { 0, 1000000 };
	struct stat open_file, named;
	int checks = 1000, taken;

	for (;;) {
		taken = perfring_lock_byte(ring, byte);
		if (taken < 0)
			return taken;
		if (taken)
			break;
		if (checks == 0) {
			taken = PERFRING_E_BUSY;
			if (!perfring_is_held(ring, byte) && perfring_conflicts(ring, F_WRLCK, byte))
				taken = PERFRING_E_READ_LOCKED;
			snprintf(ring->why, sizeof(ring->why), "%s", perfring_error(taken));
			return taken;
		}
		/* Only a process that removes the ring locks byte 0. */
		if (perfring_is_held(ring, 0)) {
			checks--;
			nanosleep(&pause, NULL);
		} else {
			checks = 0; /* once more: it may have ended since the lock was tried */
		}
	}
	if (fstat(ring->fd, &open_file) < 0)
		return perfring_io(ring, "examining the ring");
	if (stat(path, &named) < 0 || named.st_dev != open_file.st_dev || named.st_ino != open_file.st_ino) {
		snprintf(ring->why, sizeof(ring->why), "%s", perfring_error(PERFRING_E_REMOVED));
		return PERFRING_E_REMOVED;
	}
	return PERFRING_OK;
}

/* Writes the owner info of a seat that the caller has locked. Relaxed: hints for people. */
static inline void perfring_write_owner_info(struct perfring_holder *holder, const char *name)
{
	struct timespec now;
	size_t at, len = strlen(name);

	/* Truncated between two characters. */
	if (len > PERFRING_NAME_LEN)
		for (len = PERFRING_NAME_LEN; len > 0 && ((unsigned char)name[len] & 0xc0) == 0x80;)
			len--;
	for (at = 0; at < PERFRING_NAME_LEN; at++)
		PERFRING_STORE(&holder->name[at], at < len ? name[at] : '\0');
	clock_gettime(CLOCK_REALTIME, &now);
	PERFRING_STORE(&holder->attached_ns, (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec);
	PERFRING_STORE(&holder->pid, (uint32_t)getpid());
	PERFRING_STORE(&holder->uid, (uint32_t)getuid());
	PERFRING_STORE(&holder->epoch, PERFRING_LOAD(&holder->epoch) + 1);
}

/* Says in the caller's seat that it detaches: the last thing that it writes. Relaxed: who finds the lock free
 * sees it. */
static inline void perfring_sign_off(struct perfring_holder *holder)
{
	PERFRING_STORE(&holder->uid, PERFRING_UID_DETACHED);
}

/* Registers this process with membarrier(2), so that a publish needs no full fence. Returns 0, or -1 if
 * the kernel refuses. With one thread it takes a microsecond, and the first attach does it. With more the
 * kernel waits for each processor, 9 to 20 ms: a program that has threads before it attaches calls this as
 * it starts, or its rings issue full fences. */
static inline int perfring_register_process(void)
{
	return syscall(SYS_membarrier, 4 /* REGISTER_GLOBAL_EXPEDITED */, 0, 0) == 0 ? 0 : -1;
}

/* Decides this ring's light fences, and registers this process if that takes no time. */
static inline void perfring_register_fences(struct perfring *ring)
{
	/* GET_REGISTRATIONS, since Linux 6.3; an older one has to be asked by the slow way, or not at all. */
	long registered = syscall(SYS_membarrier, 512, 0, 0);
	struct stat tasks; /* a directory's links are its subdirectories and two */

	ring->asymmetric = registered > 0 && (registered & 4) != 0;
	if (!ring->asymmetric && stat("/proc/self/task", &tasks) == 0 && tasks.st_nlink == 3)
		ring->asymmetric = perfring_register_process() == 0;
}

static inline void perfring_light_fence(const struct perfring *ring)
{
	if (ring->asymmetric)
		__atomic_signal_fence(__ATOMIC_SEQ_CST);
	else
		PERFRING_FENCE_FULL();
}

/* Returns for how long, in ns, the caller may sleep after it. */
static inline int64_t perfring_heavy_fence(void)
{
	int fenced = syscall(SYS_membarrier, 2 /* GLOBAL_EXPEDITED */, 0, 0) == 0;

	PERFRING_FENCE_FULL();
	return fenced ? PERFRING_LONG_NS : PERFRING_SLICE_NS;
}

/* Whether the ring's file was removed or replaced, found out at most once a second: no record of another
 * process will come. For one thread at a time. */
static inline int perfring_is_removed(struct perfring *ring)
{
	struct stat open_file, named;
	int64_t now = perfring_now();

	if (PERFRING_LOAD(&ring->removed))
		return 1;
	if (now < ring->check_next || perfring_is_forked(ring))
		return 0;
	ring->check_next = now + PERFRING_REMOVED_NS;
	if (fstat(ring->fd, &open_file) < 0)
		return 0;
	/* A file that was only renamed keeps its link, and its producers. */
	if (open_file.st_nlink == 0 || (ring->path && stat(ring->path, &named) == 0 &&
					(named.st_dev != open_file.st_dev || named.st_ino != open_file.st_ino)))
		PERFRING_STORE(&ring->removed, 1);
	return PERFRING_LOAD(&ring->removed) != 0;
}

/* The result of a reader that has read all of a removed ring. */
static inline int perfring_unlinked(struct perfring *ring)
{
	snprintf(ring->why, sizeof(ring->why), "%s", perfring_error(PERFRING_E_UNLINKED));
	return PERFRING_E_UNLINKED;
}

/* Not private: the word is in a file mapping that other processes wake by. */
static inline void perfring_sleep(uint32_t *word, uint32_t value, int64_t ns)
{
	struct timespec limit;

	limit.tv_sec = (time_t)(ns / 1000000000);
	limit.tv_nsec = (long)(ns % 1000000000);
	syscall(SYS_futex, word, FUTEX_WAIT, value, &limit, NULL, 0);
}

static inline void perfring_wake(uint32_t *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

#endif /* PERFRING_ATTACH_H */
