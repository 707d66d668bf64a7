#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "provider.h"

/* What the sender calls for each record. */
void perfring_record(const uint64_t *words)
{
    lttng_ust_tracepoint(perfring_compare, record, words);
}

/* Whether anybody records it. */
int perfring_enabled(void)
{
    return lttng_ust_tracepoint_enabled(perfring_compare, record);
}
