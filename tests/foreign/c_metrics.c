/* Shows what perfring_metrics.h finds in a ring's metrics area: a line for each block, then "end" or "damaged". */
#include "perfring_metrics.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static void show(const struct perfring_metric *metric)
{
	static uint64_t counts[PERFRING_METRIC_BUCKETS_MAX];
	struct perfring_measured measured;
	uint32_t bucket;
	printf("%" PRIu64 " %u %u %u ", metric->at, metric->type, metric->kind, metric->pid);
	switch (metric->kind) {
	case PERFRING_METRIC_COUNTER_U64:
	case PERFRING_METRIC_UP_DOWN_I64:
		printf("%" PRId64 "\n", (int64_t)perfring_metric_u64(metric));
		break;
	case PERFRING_METRIC_COUNTER_F64:
	case PERFRING_METRIC_UP_DOWN_F64:
		printf("%.3f\n", perfring_metric_f64(metric));
		break;
	case PERFRING_METRIC_GAUGE_I64:
	case PERFRING_METRIC_GAUGE_F64:
		if (!perfring_metric_is_set(metric))
			printf("unset\n");
		else if (metric->kind == PERFRING_METRIC_GAUGE_I64)
			printf("%" PRId64 "\n", (int64_t)perfring_metric_u64(metric));
		else
			printf("%.3f\n", perfring_metric_f64(metric));
		break;
	case PERFRING_METRIC_HISTOGRAM:
		perfring_metric_histogram(metric, counts, &measured);
		printf("%" PRIu64 " %" PRIu64 " %" PRIu64 " %.3f", measured.count, measured.zeros, metric->refused, measured.sum);
		if (measured.least <= measured.greatest)
			printf(" %.3f %.3f", measured.least, measured.greatest);
		for (bucket = 0; bucket < metric->buckets; bucket++)
			if (counts[bucket])
				printf(" %d:%" PRIu64, metric->first + (int32_t)bucket, counts[bucket]);
		printf("\n");
		break;
	default:
		printf("record\n");
	}
}

int main(int argc, char **argv)
{
	struct perfring_metric metric;
	uint64_t size, at = 0;
	struct stat stat;
	const void *file, *area;
	int fd = argc == 2 ? open(argv[1], O_RDONLY) : -1, found;
	if (fd < 0 || fstat(fd, &stat) || stat.st_size < PERFRING_HEADER_PAGE_LEN)
		return 2;
	file = mmap(NULL, (size_t)stat.st_size, PROT_READ, MAP_SHARED, fd, 0);
	if (file == MAP_FAILED)
		return 2;
	area = perfring_metrics_area(file, (uint64_t)stat.st_size, &size);
	while ((found = perfring_metrics_next(area, size, &at, &metric)) > 0)
		show(&metric);
	puts(found ? "damaged" : "end");
	return 0;
}
