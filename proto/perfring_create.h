/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * perfring_create.h: creates a ring for one producer from C11 or C++17. See perfring_attach.h for its
 * requirements, perfring_producer.h to publish into the ring, and "Creating a ring" of ABI.md.
 *
 *     struct perfring_options options = PERFRING_OPTIONS;
 *     char why[512];
 *     int error;
 *
 *     options.size = 4 << 20;
 *     options.policy = PERFRING_POLICY_OVERWRITE;
 *     options.time = 1;
 *     error = perfring_create("/dev/shm/ticks", &options, why, sizeof(why));
 *     if (error && error != PERFRING_E_EXISTS)     // a ring that exists is attached to as it is
 *             die(why);
 *
 * In a directory in which any user may make files, such as /dev/shm, a ring that exists may be another user's.
 * The file is, byte for byte, the one that the same options make in Rust. No process sees half a ring, and a
 * failure leaves no file behind. The space is allocated: a full disk is an error here and not a SIGBUS later,
 * except on file systems that copy on write. Shared rings, rings per CPU, AUX areas and named consumers are not made:
 * these headers do not publish into them. `perfring create` and Rust make all of these.
 */
#ifndef PERFRING_CREATE_H
#define PERFRING_CREATE_H

#include "perfring_time.h"

#include <dirent.h>
#include <stdarg.h>
#include <sys/file.h>
#include <sys/resource.h>

/* The shape of a new ring. */
struct perfring_options {
	uint64_t size;	     /* bytes of the data area: a power of two, at least a page */
	uint64_t types_size; /* bytes of the type table, rounded up to whole pages: up to 16 MiB, or 0 for none */
	uint32_t policy;     /* PERFRING_POLICY_*: what a full ring does */
	uint32_t evict;	     /* PERFRING_EVICT_*: how an overwrite ring makes room */
	uint32_t report;     /* PERFRING_REPORT_*: where losses are reported */
	uint32_t mode;	     /* the file's mode bits, whatever the umask; 0640 lets a group observe */
	int time;	     /* not 0: each record gets a timestamp */
};

/* The defaults, as in Rust: 1 MiB, a type table of 64 KiB, drop, losses in the stream, mode 0600, no timestamps. */
#define PERFRING_OPTIONS { 1 << 20, 1 << 16, PERFRING_POLICY_DROP, PERFRING_EVICT_EXACT, PERFRING_REPORT_IN_STREAM, 0600, 0 }

/* A younger draft counts as being made, with or without a lock: a process locks the file after it has made it. */
#define PERFRING_DRAFT_YOUNG_S 60

/* A ring in the making: a file without a name, or with a temporary one beside its final name. */
struct perfring_draft {
	const char *path; /* the final one */
	char from[PATH_MAX]; /* what can be linked */
	char dir[PATH_MAX];
	int named;
	int fd;
	char *why;
	size_t len;
};

__attribute__((format(printf, 3, 4))) static inline int perfring_draft_fails(struct perfring_draft *draft, int error,
									     const char *format, ...)
{
	va_list values;

	va_start(values, format);
	vsnprintf(draft->why, draft->len, format, values);
	va_end(values);
	return error;
}

static inline int perfring_draft_io(struct perfring_draft *draft, const char *step, int error)
{
	return perfring_draft_fails(draft, PERFRING_E_IO, "cannot make %s: %s: %s", draft->path, step, strerror(error));
}

static inline int perfring_draft_exists(struct perfring_draft *draft)
{
	return perfring_draft_fails(draft, PERFRING_E_EXISTS, "%s exists already: remove it first, or attach to it",
				    draft->path);
}

static inline int perfring_check_options(struct perfring_draft *draft, const struct perfring_options *options)
{
	uint64_t least = (uint64_t)sysconf(_SC_PAGESIZE);

	if (least < PERFRING_DATA_SIZE_MIN)
		least = PERFRING_DATA_SIZE_MIN;
	if (!perfring_is_power(options->size) || options->size < least || options->size > PERFRING_DATA_SIZE_MAX)
		return perfring_draft_fails(draft, PERFRING_E_OPTIONS, "a data area of %llu bytes cannot be used: it must be a power of two from %llu bytes to 1 TiB",
					    (unsigned long long)options->size, (unsigned long long)least);
	if (options->mode & ~(uint32_t)0777)
		return perfring_draft_fails(draft, PERFRING_E_OPTIONS, "mode 0o%o has bits beyond 0777", options->mode);
	if (options->types_size > PERFRING_TYPES_SIZE_MAX)
		return perfring_draft_fails(draft, PERFRING_E_OPTIONS, "a type table of %llu bytes is too large: up to 16 MiB",
					    (unsigned long long)options->types_size);
	if (options->policy > PERFRING_POLICY_OVERWRITE || options->evict > PERFRING_EVICT_HALF ||
	    options->report > PERFRING_REPORT_COUNTERS_ONLY)
		return perfring_draft_fails(draft, PERFRING_E_OPTIONS, "policy %u, evict %u, report %u: give 0 or 1 for each, see PERFRING_POLICY_*, _EVICT_* and _REPORT_*",
					    options->policy, options->evict, options->report);
	return PERFRING_OK;
}

/* Draws a random id: a UUID of version 4. Returns 0 or an errno. */
static inline int perfring_draw_id(uint8_t id[16])
{
	ssize_t got;
	int fd, error = 0;

	do
		got = syscall(SYS_getrandom, id, 16, 0);
	while (got < 0 && errno == EINTR);
	if (got != 16) {
		/* A kernel without the call, or a filter of system calls. */
		fd = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			return errno;
		got = read(fd, id, 16);
		error = got == 16 ? 0 : got < 0 ? errno : EIO;
		close(fd);
	}
	id[6] = (uint8_t)((id[6] & 0x0f) | 0x40);
	id[8] = (uint8_t)((id[8] & 0x3f) | 0x80);
	return error;
}

/* The header page of a ring that this process makes now, without the magic. */
static inline int perfring_make_page(struct perfring_draft *draft, const struct perfring_options *options,
				     struct perfring_header *page)
{
	uint64_t host = (uint64_t)sysconf(_SC_PAGESIZE);
	int error;

	memset(page, 0, sizeof(*page));
	error = perfring_draw_id(page->uuid);
	if (error)
		return perfring_draft_fails(draft, PERFRING_E_IO, "cannot make %s: drawing its id: the system gives no random bytes: allow getrandom(2), or have a /dev/urandom (%s)",
					    draft->path, strerror(error));
	perfring_boot_id(page->boot_id);
	page->capabilities = PERFRING_PERF_CAPABILITIES;
	page->size = PERFRING_PERF_HEADER_SIZE;
	page->data_offset = host;
	page->data_size = options->size;
	page->abi_version = PERFRING_ABI_VERSION;
	page->abi_compat = PERFRING_ABI_COMPAT;
	page->features_required = options->time ? PERFRING_FEATURE_TIME : 0;
	page->time_clock = options->time ? PERFRING_TIME_CLOCK : 0;
	page->page_size = (uint32_t)host;
	page->endian = PERFRING_ENDIAN_MARK;
	page->policy = options->policy;
	page->producers = PERFRING_PRODUCERS_ONE;
	page->evict = options->evict;
	page->report = options->report;
	page->slot_count = 1;
	page->slot_size = PERFRING_SLOT_SIZE;
	page->control_offset = page->data_offset + page->data_size;
	page->control_size = host; /* one slot, in whole pages */
	page->types_size = (options->types_size + host - 1) & ~(host - 1);
	page->types_offset = page->types_size ? page->control_offset + page->control_size : 0;
	page->file_size = page->control_offset + page->control_size + page->types_size;
	page->created_ns = perfring_read_clock(CLOCK_REALTIME);
	page->creator_pid = (uint32_t)getpid();
	page->creator_uid = (uint32_t)getuid();
	return PERFRING_OK;
}

/* Whether a file is a ring in the making whose process was killed: it is old, and no process has it locked. */
static inline int perfring_is_dead_draft(int dir, const char *name)
{
	size_t len = strlen(name);
	struct stat meta;
	int fd, held;

	if (len < 14 || strncmp(name, ".perfring-", 10) != 0 || strcmp(name + len - 4, ".tmp") != 0)
		return 0;
	if (fstatat(dir, name, &meta, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(meta.st_mode) ||
	    time(NULL) - meta.st_mtime <= PERFRING_DRAFT_YOUNG_S)
		return 0;
	/* The clock may have been set since the file was made: a process that still makes it has the lock. */
	fd = openat(dir, name, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	held = fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK;
	if (fd >= 0)
		close(fd);
	return !held;
}

/* Removes what killed processes left in a directory. Files that this user may not remove stay. */
static inline void perfring_remove_dead_drafts(const char *path)
{
	struct dirent *entry;
	DIR *dir = opendir(path);

	while (dir && (entry = readdir(dir)) != NULL)
		if (perfring_is_dead_draft(dirfd(dir), entry->d_name))
			unlinkat(dirfd(dir), entry->d_name, 0);
	if (dir)
		closedir(dir);
}

/* Makes a file without a name, of which a process that dies leaves nothing. Returns 0 where there are no such
 * files, or nothing to link one by: a file system without O_TMPFILE, or no /proc. */
static inline int perfring_draft_unnamed(struct perfring_draft *draft)
{
	struct stat meta;

	draft->named = 0;
	draft->fd = open(draft->dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (draft->fd < 0)
		return 0;
	snprintf(draft->from, sizeof(draft->from), "/proc/self/fd/%d", draft->fd);
	if (stat(draft->from, &meta) == 0)
		return 1;
	close(draft->fd);
	draft->fd = -1;
	return 0;
}

/* Makes a file with a temporary name, and locks it: so no process takes it for one that was left behind. */
static inline int perfring_draft_named(struct perfring_draft *draft, const struct perfring_header *page)
{
	const char *slash = strrchr(draft->path, '/');
	int dir = slash ? (int)(slash + 1 - draft->path) : 0, at, len;

	perfring_remove_dead_drafts(draft->dir);
	len = snprintf(draft->from, sizeof(draft->from), "%.*s.perfring-", dir, draft->path);
	for (at = 0; at < 16 && len < PATH_MAX; at++)
		len += snprintf(draft->from + len, sizeof(draft->from) - (size_t)len, "%02x", page->uuid[at]);
	if (len < PATH_MAX)
		len += snprintf(draft->from + len, sizeof(draft->from) - (size_t)len, ".tmp");
	if (len >= PATH_MAX)
		return perfring_draft_io(draft, "creating its file", ENAMETOOLONG);
	draft->fd = open(draft->from, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (draft->fd < 0)
		return perfring_draft_io(draft, "creating its file", errno);
	draft->named = 1;
	/* On a file system without such locks, the time of the last change decides. */
	flock(draft->fd, LOCK_EX | LOCK_NB);
	return PERFRING_OK;
}

/* Closes a draft, and removes its temporary name. After a rename there is nothing to remove. */
static inline void perfring_draft_close(struct perfring_draft *draft)
{
	if (draft->named)
		unlink(draft->from);
	close(draft->fd);
	draft->fd = -1;
	draft->named = 0;
}

static inline int perfring_draft_allocate(struct perfring_draft *draft, uint64_t size)
{
	unsigned long long needed = size;
	struct rlimit limit;
	int error;

	/* Beyond the limit the kernel sends SIGXFSZ, which ends the process. */
	if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < size)
		return perfring_draft_fails(draft, PERFRING_E_FILE_SIZE, "%s needs %llu bytes, and this process may write files of %llu: raise that limit (`ulimit -f`), or make a smaller ring",
					    draft->path, needed, (unsigned long long)limit.rlim_cur);
	error = perfring_allocate(draft->fd, size, PERFRING_ALLOCATE_NEW);
	if (error == ENOSPC || error == EDQUOT)
		return perfring_draft_fails(draft, PERFRING_E_NO_SPACE, "no room for %s: it needs %llu bytes; free some (for /dev/shm in a container: raise its size), or make a smaller ring",
					    draft->path, needed);
	if (error == EFBIG)
		return perfring_draft_fails(draft, PERFRING_E_FILE_SIZE, "cannot make %s: allocating its space: this file system has no files of %llu bytes: make a smaller ring, or choose another",
					    draft->path, needed);
	return error ? perfring_draft_io(draft, "allocating its space", error) : PERFRING_OK;
}

/* Writes all of these bytes. Returns 0 or an errno. */
static inline int perfring_write_all(int fd, const void *bytes, size_t len, uint64_t offset)
{
	size_t done = 0;
	ssize_t wrote;

	while (done < len) {
		wrote = pwrite(fd, (const uint8_t *)bytes + done, len - done, (off_t)(offset + done));
		if (wrote > 0)
			done += (size_t)wrote;
		else if (wrote == 0)
			return EIO;
		else if (errno != EINTR)
			return errno;
	}
	return 0;
}

/* Writes everything except zeros, the magic last. */
static inline int perfring_draft_write(struct perfring_draft *draft, struct perfring_header *page,
				       const struct perfring_clock *clock)
{
	uint64_t used = PERFRING_TYPES_FIRST;
	int error = page->types_size ? perfring_write_all(draft->fd, &used, sizeof(used), page->types_offset) : 0;

	if (error)
		return perfring_draft_io(draft, "writing its type table", error);
	if (page->time_clock) {
		page->time_boot = clock->boot;
		page->anchors_written = 1;
		perfring_read_anchor(clock, 0, page->anchors[0]);
	}
	page->magic = 0;
	error = perfring_write_all(draft->fd, page, sizeof(*page), 0);
	memcpy(&page->magic, PERFRING_MAGIC_BYTES, sizeof(page->magic));
	if (!error)
		error = perfring_write_all(draft->fd, page, sizeof(*page), 0);
	return error ? perfring_draft_io(draft, "writing its header", error) : PERFRING_OK;
}

/* Sets its mode and gives it its name: by a hard link, or by a rename that never replaces. A plain rename would
 * replace the ring of a process that was quicker. *unlinked says that neither could be done. */
static inline int perfring_draft_publish(struct perfring_draft *draft, uint32_t mode, int *unlinked)
{
	int error;

	if (fchmod(draft->fd, (mode_t)mode) < 0)
		return perfring_draft_io(draft, "setting its mode", errno);
	/* No lock is on a file that has its name: on some file systems such a lock conflicts with a ring's. */
	flock(draft->fd, LOCK_UN);
	/* The path of a file without a name is a link to it. */
	if (linkat(AT_FDCWD, draft->from, AT_FDCWD, draft->path, AT_SYMLINK_FOLLOW) == 0)
		return PERFRING_OK;
	if (errno == EEXIST)
		return perfring_draft_exists(draft);
	if (syscall(SYS_renameat2, AT_FDCWD, draft->from, AT_FDCWD, draft->path, 1 /* RENAME_NOREPLACE */) == 0)
		return PERFRING_OK;
	error = errno;
	if (error == EEXIST)
		return perfring_draft_exists(draft);
	*unlinked = 1;
	if (error == EINVAL || error == ENOSYS || error == EOPNOTSUPP)
		return perfring_draft_fails(draft, PERFRING_E_IO, "cannot make %s: giving it its name: this file system has neither hard links nor a rename that never replaces (%s): choose another",
					    draft->path, strerror(error));
	return perfring_draft_io(draft, "giving it its name", error);
}

/* The steps of a creation after the draft was opened. */
static inline int perfring_draft_finish(struct perfring_draft *draft, const struct perfring_options *options,
					struct perfring_header *page, const struct perfring_clock *clock,
					int *unlinked)
{
	int error = perfring_draft_allocate(draft, page->file_size);

	*unlinked = 0;
	if (!error)
		error = perfring_draft_write(draft, page, clock);
	if (!error)
		error = perfring_draft_publish(draft, options->mode, unlinked);
	perfring_draft_close(draft);
	return error;
}

/* Creates a ring. No process is attached to it yet. Returns 0 or a negative PERFRING_E_*, and then a sentence in
 * `why`, which has `len` bytes (512 are enough for most paths): PERFRING_E_EXISTS if anything has that name,
 * PERFRING_E_OPTIONS, PERFRING_E_NO_SPACE, PERFRING_E_FILE_SIZE, PERFRING_E_CLOCK, or PERFRING_E_IO. */
static inline int perfring_create(const char *path, const struct perfring_options *options, char *why, size_t len)
{
	const char *slash = strrchr(path, '/'), *unclear = NULL;
	struct perfring_clock clock;
	struct perfring_header page;
	struct perfring_draft draft;
	struct stat meta;
	int error, unlinked;

	memset(&clock, 0, sizeof(clock));
	draft.path = path;
	draft.why = why;
	draft.len = len;
	error = perfring_check_options(&draft, options);
	if (!error)
		error = perfring_make_page(&draft, options, &page);
	if (error)
		return error;
	if (options->time)
		unclear = perfring_find_clock(&clock);
	if (unclear)
		return perfring_draft_fails(&draft, PERFRING_E_CLOCK, "%s cannot have timestamps: %s", path, unclear);
	if (lstat(path, &meta) == 0)
		return perfring_draft_exists(&draft);
	/* A root's directory is its slash. */
	error = snprintf(draft.dir, sizeof(draft.dir), "%.*s", slash ? (int)(slash - path) + (slash == path) : 1,
			 slash ? path : ".");
	if (error >= PATH_MAX)
		return perfring_draft_io(&draft, "creating its file", ENAMETOOLONG);
	if (perfring_draft_unnamed(&draft)) {
		error = perfring_draft_finish(&draft, options, &page, &clock, &unlinked);
		if (!unlinked)
			return error;
	}
	/* It could not be linked, or there is no such draft here. */
	error = perfring_draft_named(&draft, &page);
	return error ? error : perfring_draft_finish(&draft, options, &page, &clock, &unlinked);
}

#endif /* PERFRING_CREATE_H */
