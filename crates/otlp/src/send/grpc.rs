//! OTLP over gRPC.

use super::answer::{Answer, Verdict, held, shown};
use super::options::Route;
use super::secrets::Secrets;
use super::taken::taken;
use crate::mapping::Lane;
use perfring_events::OutputError;
use prost::bytes::{Buf, BufMut, Bytes};
use std::path::Path;
use std::time::Duration;
use tokio::runtime::Runtime;
use tonic::codec::{Codec, CompressionEncoding, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::metadata::MetadataMap;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};
use tonic::{Code, Request, Status};
use tonic_types::StatusExt;
use ureq::http::uri::PathAndQuery;

/// A client for one signal.
#[derive(Debug)]
pub(super) struct Client {
    output: String,
    route: Route,
    runtime: Runtime,
    /// Connects when there is something to send, and again when it must.
    channel: Channel,
    secrets: Secrets,
}

impl Client {
    pub(super) fn new(output: &str, route: Route) -> Result<Self, OutputError> {
        let fault = |why: String| OutputError::new(output, why);
        route.headers.read().map_err(fault)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|bad| fault(format!("a runtime cannot be made: {bad}")))?;
        let secrets = Secrets::of(&route);
        let channel = channel(&runtime, output, &route)?;
        Ok(Client { output: output.to_owned(), route, runtime, channel, secrets })
    }

    pub(super) fn lane(&self) -> Lane {
        self.route.lane
    }

    pub(super) fn has_other_secrets(&self) -> bool {
        self.secrets.are_other(&self.route)
    }

    /// Sends a message once, within this time.
    pub(super) fn send(&mut self, message: &Bytes, within: Duration) -> Answer {
        let (route, runtime, output) = (&self.route, &self.runtime, &self.output);
        let renew = || {
            self.channel = channel(runtime, output, route).map_err(|error| error.sentence)?;
            Ok(())
        };
        let headers = match self.secrets.read(route, renew) {
            Ok(headers) => headers,
            Err(answer) => return answer,
        };
        let mut request = Request::new(message.clone());
        *request.metadata_mut() = MetadataMap::from_headers(headers);
        let mut client = tonic::client::Grpc::new(self.channel.clone());
        if route.gzip {
            client = client.send_compressed(CompressionEncoding::Gzip);
        }
        client = client.accept_compressed(CompressionEncoding::Gzip);
        let limit = route.timeout.min(within).max(Duration::from_millis(1));
        let whom = route.whom();
        let answer = runtime.block_on(async {
            let call = async {
                client.ready().await.map_err(|bad| Status::unavailable(deepest(&bad)))?;
                client.unary(request, PathAndQuery::from_static(path(route.lane)), Raw).await
            };
            tokio::time::timeout(limit, call).await
        });
        match answer {
            Ok(Ok(response)) => taken(route.lane, response.get_ref()),
            Ok(Err(status)) => of_status(&whom, &status),
            Err(_) => {
                let why = format!("{whom} does not answer within {limit:?}; retrying");
                Answer::Later { after: None, why }
            }
        }
    }
}

fn path(lane: Lane) -> &'static str {
    match lane {
        Lane::Logs => "/opentelemetry.proto.collector.logs.v1.LogsService/Export",
        Lane::Metrics => "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
        Lane::Traces => "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
    }
}

fn channel(runtime: &Runtime, output: &str, route: &Route) -> Result<Channel, OutputError> {
    let fault = |why: String| OutputError::new(output, why);
    let wrong =
        |bad: tonic::transport::Error| fault(format!("{}: {}", route.whom(), deepest(&bad)));
    let address = match &route.socket {
        Some(socket) => format!("unix://{}", socket.display()),
        None => route.uri.to_string(),
    };
    let mut endpoint = Endpoint::from_shared(address).map_err(wrong)?;
    endpoint =
        endpoint.user_agent(concat!("perfring/", env!("CARGO_PKG_VERSION"))).map_err(wrong)?;
    if route.socket.is_none() && route.uri.scheme_str() == Some("https") {
        let read = |file: &Path| {
            std::fs::read(file).map_err(|bad| fault(format!("{}: {bad}", file.display())))
        };
        let mut tls = ClientTlsConfig::new();
        tls = match &route.certificate {
            Some(file) => tls.ca_certificate(Certificate::from_pem(read(file)?)),
            None => tls.with_enabled_roots(),
        };
        if let Some((certificate, key)) = &route.client {
            tls = tls.identity(Identity::from_pem(read(certificate)?, read(key)?));
        }
        endpoint = endpoint.tls_config(tls).map_err(wrong)?;
    }
    let _entered = runtime.enter(); // its tasks run there
    Ok(endpoint.connect_lazy())
}

/// Returns what an error status means.
///
/// OTLP's specification calls some codes retryable and the rest final. As with HTTP, this departs
/// from it on purpose: UNAUTHENTICATED, PERMISSION_DENIED, NOT_FOUND, UNIMPLEMENTED, INTERNAL and
/// UNKNOWN say nothing about the records, and are mended by an operator. So records are held, and
/// only INVALID_ARGUMENT is final. A message that is too large for the receiver has no code of its
/// own: gRPC's implementations say RESOURCE_EXHAUSTED or OUT_OF_RANGE, and a text.
fn of_status(whom: &str, status: &Status) -> Answer {
    let said = shown(&said(status));
    let name = name(status.code());
    let answers = match said.is_empty() {
        true => format!("{whom} answers {name}"),
        false => format!("{whom} answers {name} ({said})"),
    };
    let after = status.get_details_retry_info().and_then(|info| info.retry_delay);
    let later = |after| Answer::Later { after, why: format!("{answers}; retrying") };
    let hold = |advice| Answer::Later { after, why: held(&answers, advice) };
    let is_large = after.is_none() && says_too_large(status.message());
    match status.code() {
        Code::InvalidArgument => {
            Answer::Final(Verdict::Malformed { cause: "INVALID_ARGUMENT", why: answers })
        }
        Code::ResourceExhausted | Code::OutOfRange if is_large => {
            Answer::Final(Verdict::TooLarge { why: answers })
        }
        Code::Unavailable
        | Code::Cancelled
        | Code::DeadlineExceeded
        | Code::Aborted
        | Code::OutOfRange
        | Code::DataLoss
        | Code::ResourceExhausted => later(after),
        Code::Unauthenticated | Code::PermissionDenied => {
            hold("set credentials in `headers`, `headers_file` or `token_file`")
        }
        Code::Unimplemented | Code::NotFound => hold(
            "is it the address of an OTLP receiver (grpc), and does it know this signal and gzip?",
        ),
        _ => hold("see the receiver's log"),
    }
}

/// Returns whether a text is one by which gRPC's implementations in C++ and Go, Java, or Rust say that
/// a message is too large. No other "exceeded" counts: a quota is waited for.
fn says_too_large(text: &str) -> bool {
    let texts =
        ["larger than max", "exceeds maximum size", "length too large", "while decompressing"];
    let text = text.to_ascii_lowercase();
    texts.iter().any(|one| text.contains(one))
}

/// Returns the status's text, and below it that of the system.
fn said(status: &Status) -> String {
    match std::error::Error::source(status) {
        Some(source) => deepest(source),
        None => status.message().to_owned(),
    }
}

fn deepest(error: &dyn std::error::Error) -> String {
    let mut deepest = error;
    while let Some(source) = deepest.source() {
        deepest = source;
    }
    deepest.to_string()
}

/// Returns a code as gRPC's documentation spells it.
fn name(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "CANCELLED",
        Code::Unknown => "UNKNOWN",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::NotFound => "NOT_FOUND",
        Code::AlreadyExists => "ALREADY_EXISTS",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::Aborted => "ABORTED",
        Code::OutOfRange => "OUT_OF_RANGE",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Internal => "INTERNAL",
        Code::Unavailable => "UNAVAILABLE",
        Code::DataLoss => "DATA_LOSS",
        Code::Unauthenticated => "UNAUTHENTICATED",
    }
}

/// Messages that are encoded already, or not decoded here.
#[derive(Clone, Copy, Debug)]
struct Raw;

impl Codec for Raw {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Raw;
    type Decoder = Raw;

    fn encoder(&mut self) -> Raw {
        Raw
    }

    fn decoder(&mut self) -> Raw {
        Raw
    }
}

impl Encoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, message: Bytes, to: &mut EncodeBuf<'_>) -> Result<(), Status> {
        to.put(message);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(from.copy_to_bytes(from.remaining())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tonic_types::ErrorDetails;

    #[test]
    fn only_invalid_arguments_are_final() {
        for code in (1..=16).map(Code::from_i32) {
            let answer = of_status("it", &Status::new(code, "no"));
            let is_later = matches!(answer, Answer::Later { .. });
            assert_eq!(is_later, code != Code::InvalidArgument, "{code:?}: {answer:?}");
        }
        let answer = of_status("it", &Status::resource_exhausted("quota exceeded"));
        assert!(matches!(answer, Answer::Later { .. }), "{answer:?}");
        for (code, text) in [
            (Code::ResourceExhausted, "grpc: received message larger than max (5 vs. 4)"),
            (Code::ResourceExhausted, "gRPC message exceeds maximum size 4: 5"),
            (Code::OutOfRange, "Error, decoded message length too large: found 5 bytes"),
            (
                Code::ResourceExhausted,
                "size limit, of 4 bytes, exceeded while decompressing message",
            ),
        ] {
            let answer = of_status("it", &Status::new(code, text));
            assert!(matches!(answer, Answer::Final(Verdict::TooLarge { .. })), "{answer:?}");
        }
    }

    #[test]
    fn the_receiver_may_ask_for_a_pause() {
        let pause = ErrorDetails::with_retry_info(Some(Duration::from_millis(3500)));
        let status = Status::with_error_details(Code::ResourceExhausted, "too large", pause);
        let after = Some(Duration::from_millis(3500));
        assert!(
            matches!(of_status("it", &status), Answer::Later { after: its, .. } if its == after)
        );
        for details in [&b""[..], b"\xff", &[0x1a, 0x7f]] {
            let status = Status::with_details(Code::Unavailable, "no", details.to_vec().into());
            assert!(matches!(of_status("it", &status), Answer::Later { after: None, .. }));
        }
    }
}
