//! The body of an answer that accepts a request.

use super::answer::{Answer, Verdict, shown};
use crate::mapping::Lane;
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceResponse;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceResponse;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use prost::Message as _;

/// Returns how much an answer accepts. One that is not a message (as of a proxy) accepts all.
pub(super) fn taken(lane: Lane, answer: &[u8]) -> Answer {
    let partial = match lane {
        Lane::Logs => ExportLogsServiceResponse::decode(answer).ok().and_then(|answer| {
            answer.partial_success.map(|part| (part.rejected_log_records, part.error_message))
        }),
        Lane::Metrics => ExportMetricsServiceResponse::decode(answer).ok().and_then(|answer| {
            answer.partial_success.map(|part| (part.rejected_data_points, part.error_message))
        }),
        Lane::Traces => ExportTraceServiceResponse::decode(answer).ok().and_then(|answer| {
            answer.partial_success.map(|part| (part.rejected_spans, part.error_message))
        }),
    };
    let (rejected, why) = partial.unwrap_or_default();
    let rejected = u64::try_from(rejected).unwrap_or(0);
    Answer::Final(Verdict::Taken { rejected, why: shown(&why) })
}
