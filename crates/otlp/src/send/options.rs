//! Options of an OTLP output, from a file or the environment.

use super::headers::Sources;
use crate::mapping::{Lane, Mapping};
use perfring_events::{
    DeadLetterFile, OutputError, Terms, check_socket, duration::bounded, read_size,
    read_some_duration,
};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;
use ureq::http::Uri;

/// The beginning of the address of a Unix socket.
const UNIX: &str = "unix://";

/// Options of [`Otlp`](super::Otlp).
///
/// A field that is `None` (or empty) is taken from the environment, as OpenTelemetry's SDKs do:
/// `OTEL_EXPORTER_OTLP_ENDPOINT`, `_HEADERS`, `_TIMEOUT`, `_COMPRESSION`, `_CERTIFICATE`,
/// `_CLIENT_CERTIFICATE`, `_CLIENT_KEY`, each also as `OTEL_EXPORTER_OTLP_LOGS_…`, `_METRICS_…` and
/// `_TRACES_…`, which take precedence; otherwise it has OpenTelemetry's default.
///
/// ```
/// use perfring_otlp::Options;
/// let options: Options = toml::from_str(r#"
///     endpoint = "https://collector:4318"
///     headers = { authorization = "Bearer secret" }
///     metric_interval = "30s"
/// "#)?;
/// assert_eq!(options.endpoint.as_deref(), Some("https://collector:4318"));
/// assert!(!format!("{options:?}").contains("secret"));
/// # Ok::<(), toml::de::Error>(())
/// ```
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Options {
    /// The protocol. Default `http/protobuf`; `grpc` is in builds with the feature of that name.
    pub protocol: Option<Protocol>,
    /// The base URL of all signals: `/v1/logs` and so on are appended. Default
    /// `http://localhost:4318`. `unix:///run/otel.sock` is a Unix socket; a path of requests
    /// follows a colon, as in `unix:///run/otel.sock:/base`. With `grpc` nothing is appended, and
    /// the default is `http://localhost:4317`.
    pub endpoint: Option<String>,
    /// The URL for logs, used unchanged.
    pub logs_endpoint: Option<String>,
    /// The URL for metrics, used unchanged.
    pub metrics_endpoint: Option<String>,
    /// The URL for traces, used unchanged.
    pub traces_endpoint: Option<String>,
    /// Headers that are sent with each request.
    pub headers: Headers,
    /// A file with more headers, one `name: value` a line; lines that begin with `#` are left out.
    /// It is read again for each request, so that a secret may be replaced at any time, and so is
    /// `token_file`.
    pub headers_file: Option<PathBuf>,
    /// A file with a token: sent as the header `authorization: Bearer TOKEN`.
    pub token_file: Option<PathBuf>,
    /// The compression of requests. Default gzip, and none to a receiver on this machine: a Unix socket, `localhost` or a
    /// loopback address.
    pub compression: Option<Compression>,
    /// The timeout of a request and its answer. Default 10 s.
    #[serde(deserialize_with = "read_some_duration")]
    pub timeout: Option<Duration>,
    /// A PEM file with the certificates to trust, instead of Mozilla's. This and the following two
    /// are read again when they change.
    pub certificate: Option<PathBuf>,
    /// A PEM file with the client's certificate.
    pub client_certificate: Option<PathBuf>,
    /// A PEM file with its key.
    pub client_key: Option<PathBuf>,
    /// A file for what the receiver calls malformed: a JSON object a line, with the reason and the
    /// request in base64. Without one, such records are counted and reported alone.
    pub dead_letters: DeadLetterFile,
    /// The limit of that file's bytes: what would exceed it is counted and reported alone. The file
    /// may be moved away at any time.
    #[serde(deserialize_with = "read_size")]
    pub dead_letters_max_bytes: u64,
    /// The approximate limit of bytes before compression that wait to be sent: beyond it the output
    /// is busy.
    #[serde(deserialize_with = "read_size")]
    pub queue_bytes: usize,
    /// What it has in common with other outputs.
    #[serde(skip)]
    pub terms: Terms,
    /// How records become log records, data points and spans, and these requests: keys like all
    /// others.
    #[serde(flatten)]
    pub mapping: Mapping,
}

impl Options {
    /// All keys but those of [`Mapping`]: serde names neither in its errors.
    pub const KEYS: [&str; 16] = [
        "protocol",
        "endpoint",
        "logs_endpoint",
        "metrics_endpoint",
        "traces_endpoint",
        "headers",
        "headers_file",
        "token_file",
        "compression",
        "timeout",
        "certificate",
        "client_certificate",
        "client_key",
        "dead_letters",
        "dead_letters_max_bytes",
        "queue_bytes",
    ];
}

impl Default for Options {
    fn default() -> Self {
        Options {
            protocol: None,
            endpoint: None,
            logs_endpoint: None,
            metrics_endpoint: None,
            traces_endpoint: None,
            headers: Headers::default(),
            headers_file: None,
            token_file: None,
            compression: None,
            timeout: None,
            certificate: None,
            client_certificate: None,
            client_key: None,
            dead_letters: DeadLetterFile::Default,
            dead_letters_max_bytes: 64 << 20,
            queue_bytes: 16 << 20,
            terms: Terms::default(),
            mapping: Mapping::default(),
        }
    }
}

/// Names and values of headers. `Debug` hides the values, which are often secrets.
#[derive(Clone, Default, Deserialize, PartialEq, Eq)]
#[serde(transparent)]
pub struct Headers(pub BTreeMap<String, String>);

impl fmt::Debug for Headers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// The protocol of requests, named as in OpenTelemetry's environment.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.1.
    #[serde(rename = "http/protobuf")]
    Http,
    /// gRPC.
    #[serde(rename = "grpc")]
    Grpc,
}

/// The compression of requests.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Compression {
    /// With gzip.
    Gzip,
    /// None.
    None,
}

/// The address of a signal and how to send it, with all defaults resolved.
#[derive(Clone, Debug)]
pub(super) struct Route {
    pub(super) lane: Lane,
    pub(super) protocol: Protocol,
    /// For a Unix socket with `localhost` as its host.
    pub(super) uri: Uri,
    pub(super) socket: Option<PathBuf>,
    pub(super) headers: Sources,
    pub(super) gzip: bool,
    pub(super) timeout: Duration,
    pub(super) certificate: Option<PathBuf>,
    pub(super) client: Option<(PathBuf, PathBuf)>,
}

impl Route {
    /// Resolves these options with this environment.
    pub(super) fn new(
        output: &str,
        lane: Lane,
        options: &Options,
        env: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, OutputError> {
        let fault = |sentence: String| OutputError::new(output, sentence);
        let env = |key: &str| env(key).filter(|value| !value.is_empty());
        let own =
            |key: &str| env(&format!("OTEL_EXPORTER_OTLP_{}_{key}", lane.name().to_uppercase()));
        let both = |key: &str| own(key).or_else(|| env(&format!("OTEL_EXPORTER_OTLP_{key}")));

        let mine = match lane {
            Lane::Logs => &options.logs_endpoint,
            Lane::Metrics => &options.metrics_endpoint,
            Lane::Traces => &options.traces_endpoint,
        };
        let is_set = mine.is_some() || options.endpoint.is_some();
        let protocol = match (options.protocol, both("PROTOCOL").as_deref()) {
            (Some(protocol), _) => protocol,
            (None, Some("grpc")) if !is_set => Protocol::Grpc,
            _ => Protocol::Http,
        };
        // The address, and what the user wrote of it.
        let below = |written: String| {
            if protocol == Protocol::Grpc {
                return (written.clone(), written);
            }
            let base = written.trim_end_matches('/');
            // A socket's path ends with the colon.
            let is_bare = base.strip_prefix(UNIX).is_some_and(|path| !path.contains(':'));
            let colon = if is_bare { ":" } else { "" };
            (format!("{base}{colon}/v1/{}", lane.name()), written)
        };
        let whole = |written: String| (written.clone(), written);
        let default = match protocol {
            Protocol::Http => "http://localhost:4318",
            Protocol::Grpc => "http://localhost:4317",
        };
        let (address, written) = mine
            .clone()
            .map(whole)
            .or_else(|| options.endpoint.clone().map(below))
            .or_else(|| own("ENDPOINT").map(whole))
            .or_else(|| env("OTEL_EXPORTER_OTLP_ENDPOINT").map(below))
            .unwrap_or_else(|| below(default.into()));
        let (uri, socket) = target(&address).ok_or_else(|| {
            fault(format!(
                "{written:?} is not a valid address: it must begin with http:// or https://, and \
                 name a host, or be unix:// and the absolute path of a socket"
            ))
        })?;

        if let Some(socket) = &socket {
            check_socket(socket).map_err(fault)?;
        }

        let reported = if options.headers.0.is_empty() { both("HEADERS") } else { None };
        let (more, token) = (options.headers_file.clone(), options.token_file.clone());
        let headers = Sources::new(reported, &options.headers.0, more, token).map_err(fault)?;
        let gzip = match (options.compression, both("COMPRESSION").as_deref()) {
            (Some(reported), _) => reported == Compression::Gzip,
            (None, None) => socket.is_none() && !is_here(&uri),
            (None, Some("gzip")) => true,
            (None, Some("none")) => false,
            (None, Some(other)) => {
                return Err(fault(format!(
                    "the environment says OTEL_EXPORTER_OTLP_COMPRESSION={other}: gzip or none"
                )));
            }
        };
        let timeout = match (options.timeout, both("TIMEOUT")) {
            (Some(timeout), _) => timeout,
            (None, None) => Duration::from_secs(10),
            (None, Some(reported)) => {
                reported.parse().map(Duration::from_millis).map_err(|_| {
                    fault(format!(
                        "the environment says OTEL_EXPORTER_OTLP_TIMEOUT={reported}: not ms"
                    ))
                })?
            }
        };
        let file = |said: &Option<PathBuf>, key| said.clone().or_else(|| both(key).map(Into::into));
        let certificate = file(&options.certificate, "CERTIFICATE");
        let client = match (
            file(&options.client_certificate, "CLIENT_CERTIFICATE"),
            file(&options.client_key, "CLIENT_KEY"),
        ) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            _ => {
                return Err(fault("client_certificate and client_key must be set together".into()));
            }
        };
        let timeout = bounded(timeout).max(Duration::from_millis(1));
        Ok(Route { lane, protocol, uri, socket, headers, gzip, timeout, certificate, client })
    }
}

impl Route {
    /// Names the receiver.
    pub(super) fn whom(&self) -> String {
        match &self.socket {
            Some(socket) if self.protocol == Protocol::Grpc => {
                format!("{UNIX}{}", socket.display())
            }
            Some(socket) => format!("{UNIX}{}:{}", socket.display(), self.uri.path()),
            None => self.uri.to_string(),
        }
    }
}

/// Returns whether the host is this machine: compression costs more than it saves there.
fn is_here(uri: &Uri) -> bool {
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
    host.eq_ignore_ascii_case("localhost") || host.parse().is_ok_and(|it: IpAddr| it.is_loopback())
}

/// Returns the URL of requests, and the socket that it is at, if it is at one.
fn target(address: &str) -> Option<(Uri, Option<PathBuf>)> {
    if let Some(at) = address.strip_prefix(UNIX) {
        let (socket, path) = at.split_once(':').unwrap_or((at, "/"));
        let uri = format!("http://localhost{path}").parse().ok()?;
        let is_valid = socket.starts_with('/') && path.starts_with('/');
        return is_valid.then(|| (uri, Some(PathBuf::from(socket))));
    }
    let uri = address.parse::<Uri>().ok()?;
    let is_valid = matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some();
    is_valid.then_some((uri, None))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(lane: Lane, options: &Options, env: &[(&str, &str)]) -> Result<Route, OutputError> {
        let find = |key: &str| env.iter().find(|(its, _)| *its == key).map(|(_, v)| v.to_string());
        Route::new("otlp", lane, options, &find)
    }

    #[test]
    fn addresses_are_as_the_specification_has_them() {
        let options = Options::default();
        let uri = |lane, env: &[_]| route(lane, &options, env).unwrap().uri.to_string();
        assert_eq!(uri(Lane::Logs, &[]), "http://localhost:4318/v1/logs");
        let general = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:1/base/");
        assert_eq!(uri(Lane::Metrics, &[general]), "http://c:1/base/v1/metrics");
        let own = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://t:2/as/it/stands");
        assert_eq!(uri(Lane::Traces, &[general, own]), "http://t:2/as/it/stands");
        assert_eq!(uri(Lane::Logs, &[general, own]), "http://c:1/base/v1/logs");
        let reported = Options { endpoint: Some("https://o".into()), ..Options::default() };
        let reported = route(Lane::Traces, &reported, &[general, own]).unwrap();
        assert_eq!(reported.uri, "https://o/v1/traces");
    }

    #[test]
    fn all_keys_are_named() {
        let shown = format!("{:#?}", Options::default());
        let field = |line: &'_ str| -> Option<String> {
            let name = line.strip_prefix("    ")?.split_once(':')?.0;
            (!name.starts_with(' ')).then(|| name.to_owned())
        };
        let fields: Vec<String> = shown.lines().filter_map(field).collect();
        assert_eq!(fields, [&Options::KEYS[..], &["terms", "mapping"]].concat());
    }

    #[test]
    fn a_unix_socket_has_a_path_of_its_own_and_one_of_requests() {
        let of = |endpoint: &str| {
            let options = Options { endpoint: Some(endpoint.into()), ..Options::default() };
            route(Lane::Logs, &options, &[])
                .map(|route| (route.socket.unwrap(), route.uri.to_string(), route.gzip))
        };
        let plain = ("/run/otel.sock".into(), "http://localhost/v1/logs".into(), false);
        assert_eq!(of("unix:///run/otel.sock").unwrap(), plain);
        let based = ("/run/otel.sock".into(), "http://localhost/base/v1/logs".into(), false);
        assert_eq!(of("unix:///run/otel.sock:/base/").unwrap(), based);
        assert!(of("unix://run/otel.sock").is_err() && of("unix:/run/otel.sock").is_err());
    }

    #[test]
    fn the_rest_of_the_environment_is_honoured() {
        let env = [
            ("OTEL_EXPORTER_OTLP_HEADERS", "a=b%20c, x=y"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "1500"),
            ("OTEL_EXPORTER_OTLP_METRICS_TIMEOUT", "99"),
            ("OTEL_EXPORTER_OTLP_COMPRESSION", "none"),
        ];
        let options = Options::default();
        let logs = route(Lane::Logs, &options, &env).unwrap();
        let metrics = route(Lane::Metrics, &options, &env).unwrap();
        let headers = logs.headers.read().unwrap();
        assert_eq!(
            (headers.len(), &headers["a"], &headers["x"]),
            (2, &"b c".parse().unwrap(), &"y".parse().unwrap())
        );
        assert_eq!((logs.timeout.as_millis(), metrics.timeout.as_millis()), (1500, 99));
        assert!(!logs.gzip);
    }

    #[test]
    fn requests_to_another_machine_are_compressed() {
        let gzip = |endpoint: &str, compression| {
            let endpoint = Some(endpoint.to_owned());
            let options = Options { endpoint, compression, ..Options::default() };
            route(Lane::Logs, &options, &[]).unwrap().gzip
        };
        for here in ["http://localhost:4318", "http://127.0.0.2", "https://[::1]:1", "unix:///s"] {
            assert!(!gzip(here, None) && gzip(here, Some(Compression::Gzip)), "{here}");
        }
        for there in ["http://collector:4318", "https://10.0.0.1", "http://localhost.example"] {
            assert!(gzip(there, None) && !gzip(there, Some(Compression::None)), "{there}");
        }
    }

    #[test]
    fn the_protocol_is_from_the_options_or_goes_with_the_environments_address() {
        let env = [("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")];
        let of = |options: Options, env: &[(&str, &str)]| {
            let route = route(Lane::Logs, &options, env).unwrap();
            (route.protocol, route.uri.to_string())
        };
        let base = Options::default;
        let grpc = (Protocol::Grpc, "http://localhost:4317/".to_owned());
        assert_eq!(of(base(), &env), grpc);
        let protocol = Some(Protocol::Grpc);
        assert_eq!(of(Options { protocol, ..base() }, &[]), grpc);
        let endpoint = Some("http://c:4318".to_owned());
        let http = (Protocol::Http, "http://c:4318/v1/logs".to_owned());
        assert_eq!(of(Options { endpoint, ..base() }, &env), http);
        let options: Options = toml::from_str("protocol = \"grpc\"").unwrap();
        assert_eq!(options.protocol, protocol);
        assert!(toml::from_str::<Options>("protocol = \"http/json\"").is_err());
    }

    #[test]
    fn invalid_options_have_a_message() {
        let reported = |endpoint: &str| {
            let options = Options { endpoint: Some(endpoint.into()), ..Options::default() };
            route(Lane::Logs, &options, &[]).unwrap_err().to_string()
        };
        assert!(reported("collector:4317").contains("must begin with http://"));
        assert!(reported("ftp://x").contains("must begin with http://"));
        // The sentence has what the user wrote, and not the path that is added to it.
        let says = "\"127.0.0.1:4318\" is not a valid address";
        assert!(reported("127.0.0.1:4318").contains(says));
        let logs_endpoint = Some("127.0.0.1:4318/v1/logs".to_owned());
        let whole = route(Lane::Logs, &Options { logs_endpoint, ..Options::default() }, &[]);
        let says_whole = "\"127.0.0.1:4318/v1/logs\" is not a valid address";
        assert!(whole.unwrap_err().to_string().contains(says_whole));
        let env = [("OTEL_EXPORTER_OTLP_ENDPOINT", "127.0.0.1:4318")];
        let general = route(Lane::Logs, &Options::default(), &env).unwrap_err().to_string();
        assert!(general.contains(says), "{general}");
        let headers = Headers([("a".into(), "secret\n".into())].into());
        let bad = route(Lane::Logs, &Options { headers, ..Options::default() }, &[]).unwrap_err();
        assert!(!bad.to_string().contains("secret") && bad.to_string().contains("\"a\""), "{bad}");
    }
}
