/* A tracepoint that takes a record of PAYLOAD bytes. LTTng's macros read this file several times. */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER perfring_compare

#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "./provider.h"

#if !defined(PROVIDER_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define PROVIDER_H

#include <lttng/tracepoint.h>
#include <stdint.h>

LTTNG_UST_TRACEPOINT_EVENT(
    perfring_compare,
    record,
    LTTNG_UST_TP_ARGS(const uint64_t *, words),
    LTTNG_UST_TP_FIELDS(lttng_ust_field_array(uint64_t, w, words, PAYLOAD / 8))
)

#endif

#include <lttng/tracepoint-event.h>
