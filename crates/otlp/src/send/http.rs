//! One request and its answer.

use super::answer::{Answer, of_status, shown};
use super::options::Route;
use super::secrets::Secrets;
use super::taken::taken;
use super::unix::{NoResolver, UnixConnector};
use crate::mapping::Lane;
use flate2::write::GzEncoder;
use perfring_events::OutputError;
use prost::Message;
use prost::bytes::Bytes;
use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, SystemTime};
use ureq::http::{HeaderMap, header};
use ureq::tls::{Certificate, ClientCert, PemItem, PrivateKey, RootCerts, TlsConfig};

/// The limit of bytes that are read of an answer.
const ANSWER: u64 = 1 << 16;

/// A client for one signal.
#[derive(Debug)]
pub(super) struct Client {
    output: String,
    route: Route,
    agent: ureq::Agent,
    secrets: Secrets,
}

impl Client {
    pub(super) fn new(output: &str, route: Route) -> Result<Self, OutputError> {
        route.headers.read().map_err(|why| OutputError::new(output, why))?;
        let secrets = Secrets::of(&route);
        let agent = agent(output, &route)?;
        Ok(Client { output: output.to_owned(), route, agent, secrets })
    }

    pub(super) fn has_other_secrets(&self) -> bool {
        self.secrets.are_other(&self.route)
    }

    pub(super) fn lane(&self) -> Lane {
        self.route.lane
    }

    /// Returns the body in its form for the wire.
    pub(super) fn body(&self, message: &Bytes) -> Bytes {
        if !self.route.gzip {
            return message.clone();
        }
        let mut to = GzEncoder::new(Vec::new(), flate2::Compression::fast());
        let packed = to.write_all(message).and_then(|()| to.finish());
        packed.unwrap_or_default().into() // writing to memory cannot fail
    }

    /// Sends it once, within this time.
    pub(super) fn send(&mut self, body: &[u8], within: Duration) -> Answer {
        let (route, output) = (&self.route, &self.output);
        let renew = || {
            self.agent = agent(output, route).map_err(|error| error.sentence)?;
            Ok(())
        };
        let headers = match self.secrets.read(route, renew) {
            Ok(headers) => headers,
            Err(answer) => return answer,
        };
        let limit = self.route.timeout.min(within);
        let mut request = self
            .agent
            .post(&self.route.uri)
            .config()
            .timeout_global(Some(limit.max(Duration::from_millis(1))))
            .build()
            .header(header::CONTENT_TYPE, "application/x-protobuf");
        if self.route.gzip {
            request = request.header(header::CONTENT_ENCODING, "gzip");
        }
        for (name, value) in &headers {
            request = request.header(name, value);
        }
        let whom = &self.route.whom();
        let mut response = match request.send(body) {
            Ok(response) => response,
            Err(bad) => {
                let why = format!("{whom} does not answer: {bad}; retrying");
                return Answer::Later { after: None, why };
            }
        };
        let status = response.status();
        let after = retry_after(response.headers());
        let answer = response.body_mut().with_config().limit(ANSWER).read_to_vec();
        if status.is_success() {
            return match answer {
                Ok(answer) => taken(self.route.lane, &answer),
                // It may have been accepted or not.
                Err(bad) => {
                    let why = format!("{whom} broke off its answer: {bad}; retrying");
                    Answer::Later { after: None, why }
                }
            };
        }
        let said = format!("{status}{}", said(&answer.unwrap_or_default()));
        of_status(status.as_u16(), whom, &said, after)
    }
}

fn agent(output: &str, route: &Route) -> Result<ureq::Agent, OutputError> {
    let mut tls = TlsConfig::builder();
    if let Some(file) = &route.certificate {
        tls = tls.root_certs(RootCerts::new_with_certs(&certificates(output, file)?));
    }
    if let Some((certificate, key)) = &route.client {
        let chain = certificates(output, certificate)?;
        let mut own: Option<PrivateKey<'static>> = None;
        for item in pem(output, key)? {
            if let PemItem::PrivateKey(key) = item {
                own = Some(key);
            }
        }
        let none = || {
            let sentence = format!("{}: it has no private key", key.display());
            OutputError::new(output, sentence)
        };
        tls = tls.client_cert(Some(ClientCert::new_with_certs(&chain, own.ok_or_else(none)?)));
    }
    let config = ureq::Agent::config_builder()
        .http_status_as_error(false)
        // A redirected POST would arrive without its body.
        .max_redirects(0)
        .max_redirects_will_error(false)
        .user_agent(concat!("perfring/", env!("CARGO_PKG_VERSION")))
        .tls_config(tls.build());
    let Some(socket) = &route.socket else { return Ok(config.build().new_agent()) };
    let config = config.proxy(None).build();
    Ok(ureq::Agent::with_parts(config, UnixConnector(socket.clone()), NoResolver))
}

fn certificates(output: &str, file: &Path) -> Result<Vec<Certificate<'static>>, OutputError> {
    let certificate = |item| match item {
        PemItem::Certificate(certificate) => Some(certificate),
        _ => None,
    };
    Ok(pem(output, file)?.into_iter().filter_map(certificate).collect())
}

fn pem(output: &str, file: &Path) -> Result<Vec<PemItem<'static>>, OutputError> {
    let fault = |why: String| OutputError::new(output, format!("{}: {why}", file.display()));
    let read = std::fs::read(file).map_err(|bad| fault(bad.to_string()))?;
    let items: Result<Vec<_>, _> = ureq::tls::parse_pem(&read).collect();
    let items = items.map_err(|bad| fault(format!("it is not a PEM file: {bad}")))?;
    if items.is_empty() {
        Err(fault("it is not a PEM file: it is empty".into()))
    } else {
        Ok(items)
    }
}

/// Returns the delay in seconds, or until a date.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let reported = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = reported.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = httpdate::parse_http_date(reported).ok()?;
    Some(date.duration_since(SystemTime::now()).unwrap_or_default())
}

/// `google.rpc.Status`: the error message of servers.
#[derive(Message)]
struct Status {
    #[prost(string, tag = "2")]
    message: String,
}

fn said(answer: &[u8]) -> String {
    let message = Status::decode(answer).map(|status| status.message);
    let message = message.unwrap_or_else(|_| String::from_utf8_lossy(answer).into_owned());
    let message = shown(message.trim());
    if message.is_empty() { message } else { format!(" ({message})") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let of = |reported: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::RETRY_AFTER, reported.parse().unwrap());
            retry_after(&headers)
        };
        assert_eq!(of("7"), Some(Duration::from_secs(7)));
        let date = httpdate::fmt_http_date(SystemTime::now() + Duration::from_secs(3600));
        assert!(of(&date).is_some_and(|after| after > Duration::from_secs(1800)));
        assert_eq!(of("Sun, 06 Nov 1994 08:49:37 GMT"), Some(Duration::ZERO));
        assert_eq!(of("soon"), None);
    }

    #[test]
    fn what_a_server_says_is_made_quiet() {
        assert_eq!(said(&Status { message: "no\u{1b}[2J".into() }.encode_to_vec()), " (no [2J)");
        assert_eq!(said(b"<html>"), " (<html>)");
        assert_eq!(said(b""), "");
    }
}
