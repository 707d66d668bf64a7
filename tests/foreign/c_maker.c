/* Makes rings with proto/perfring_create.h, and attaches to rings, where the system does not go along.
 *
 * c_maker create WORDS RING  makes a ring; prints the code and the sentence
 * c_maker attach WORDS RING  attaches as a producer, then as a consumer; prints the code and the sentence of each
 *
 * WORDS are NAME=NUMBER, with commas between: size, types_size, policy, evict, report, mode (decimal) and time are
 * options of the ring. The others say what the system does:
 *
 * tmpfile=0       there are no files without a name
 * link=0 rename=0 there are no hard links; no rename that never replaces
 * random=0        there is no getrandom(2)
 * allocate=ERRNO  no space is allocated
 * interrupt=LEN   a signal interrupts each allocation of more than LEN bytes
 * limit=BYTES     RLIMIT_FSIZE
 * umask=BITS      the umask
 * unshare=1       it has made a time namespace for its children
 * die=N           it is killed before its system call number N, from 1
 * stop=N          it is stopped there
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

/* What the words say. */
static struct {
	long tmpfile, link, rename, random, allocate, interrupt, die, stop, calls;
} sys = { 1, 1, 1, 1, 0, 0, 0, 0, 0 };

/* Before each system call that changes anything. */
static void step(void)
{
	if (++sys.calls == sys.die)
		raise(SIGKILL);
	if (sys.calls == sys.stop)
		raise(SIGSTOP);
}

static int step_open(const char *path, int flags, ...)
{
	va_list more;
	int mode;

	va_start(more, flags);
	mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, int) : 0;
	va_end(more);
	step();
	if ((flags & O_TMPFILE) == O_TMPFILE && !sys.tmpfile) {
		errno = EOPNOTSUPP;
		return -1;
	}
	return open(path, flags, mode);
}

static int denied(off_t len)
{
	step();
	if (sys.interrupt && len > sys.interrupt)
		return EINTR;
	return (int)sys.allocate;
}

static int step_posix_fallocate(int fd, off_t at, off_t len)
{
	int error = denied(len);

	return error ? error : posix_fallocate(fd, at, len);
}

static int step_fallocate(int fd, int mode, off_t at, off_t len)
{
	errno = denied(len);
	return errno ? -1 : fallocate(fd, mode, at, len);
}

static ssize_t step_pwrite(int fd, const void *bytes, size_t len, off_t at)
{
	step();
	return pwrite(fd, bytes, len, at);
}

static int step_fchmod(int fd, mode_t mode)
{
	step();
	return fchmod(fd, mode);
}

static int step_flock(int fd, int how)
{
	step();
	return flock(fd, how);
}

static int step_linkat(int from_dir, const char *from, int to_dir, const char *to, int flags)
{
	step();
	if (sys.link)
		return linkat(from_dir, from, to_dir, to, flags);
	errno = EPERM;
	return -1;
}

static int step_unlink(const char *path)
{
	step();
	return unlink(path);
}

static long step_syscall(long number, long a, long b, long c, long d, long e, long f)
{
	if ((number == SYS_renameat2 && !sys.rename) || (number == SYS_getrandom && !sys.random)) {
		errno = number == SYS_getrandom ? EPERM : EINVAL;
		return -1;
	}
	step();
	return syscall(number, a, b, c, d, e, f);
}

#define open(...) step_open(__VA_ARGS__)
#define posix_fallocate step_posix_fallocate
#define fallocate step_fallocate
#define pwrite step_pwrite
#define fchmod step_fchmod
#define flock(fd, how) step_flock(fd, how)
#define linkat step_linkat
#define unlink step_unlink
/* Six arguments, whatever their types. */
#define PASSED(number, a, b, c, d, e, f, ...) \
	step_syscall(number, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))
#define syscall(...) PASSED(__VA_ARGS__, 0, 0, 0, 0, 0, 0, 0)
#include "perfring_create.h"
#include "perfring_producer.h"
#include "perfring_reader.h"

static void say(int code, const char *why)
{
	printf("%d %s\n", code, code ? why : "");
}

static void attach(const char *path)
{
	static struct perfring_producer producer;
	static struct perfring_consumer consumer;
	int code = perfring_producer_attach(&producer, path, "c_maker");

	say(code, producer.ring.why);
	if (!code)
		perfring_producer_detach(&producer);
	code = perfring_consumer_attach(&consumer, path, "c_maker");
	say(code, consumer.at.ring.why);
	if (!code)
		perfring_consumer_detach(&consumer);
}

int main(int argc, char **argv)
{
	struct perfring_options options = PERFRING_OPTIONS;
	struct rlimit limit;
	char why[4096], *word;
	long value;
	int code;

	if (argc != 4)
		return 2;
	for (word = strtok(argv[2], ","); word; word = strtok(NULL, ",")) {
		char *to = strchr(word, '=');

		if (!to)
			return 2;
		*to++ = '\0';
		value = strtol(to, NULL, 10);
		if (!strcmp(word, "size"))
			options.size = (uint64_t)value;
		else if (!strcmp(word, "types_size"))
			options.types_size = (uint64_t)value;
		else if (!strcmp(word, "policy"))
			options.policy = (uint32_t)value;
		else if (!strcmp(word, "evict"))
			options.evict = (uint32_t)value;
		else if (!strcmp(word, "report"))
			options.report = (uint32_t)value;
		else if (!strcmp(word, "mode"))
			options.mode = (uint32_t)value;
		else if (!strcmp(word, "time"))
			options.time = (int)value;
		else if (!strcmp(word, "tmpfile"))
			sys.tmpfile = value;
		else if (!strcmp(word, "link"))
			sys.link = value;
		else if (!strcmp(word, "rename"))
			sys.rename = value;
		else if (!strcmp(word, "random"))
			sys.random = value;
		else if (!strcmp(word, "allocate"))
			sys.allocate = value;
		else if (!strcmp(word, "interrupt"))
			sys.interrupt = value;
		else if (!strcmp(word, "die"))
			sys.die = value;
		else if (!strcmp(word, "stop"))
			sys.stop = value;
		else if (!strcmp(word, "umask"))
			umask((mode_t)value);
		else if (!strcmp(word, "unshare")) {
			if (unshare(0x80 /* CLONE_NEWTIME */))
				return 3;
		} else if (!strcmp(word, "limit")) {
			limit.rlim_cur = limit.rlim_max = (rlim_t)value;
			if (setrlimit(RLIMIT_FSIZE, &limit))
				return 3;
		} else {
			return 2;
		}
	}
	if (!strcmp(argv[1], "attach")) {
		attach(argv[3]);
		return 0;
	}
	code = perfring_create(argv[3], &options, why, sizeof(why));
	say(code, why);
	return 0;
}
