//! Answers requests.

use super::assets;
use super::body::Body;
use super::clock::Clock;
use super::filter::{Filter, Wrong};
use super::freeze;
use super::frozen::{self, Format};
use super::guard::Guard;
use super::lane::Span;
use super::measure;
use super::records::{self, Asked};
use super::sample::{Kind, Metric};
use super::seen::Seen;
use super::series;
use super::shared::Shared;
use super::timeline;
use super::traces::{self, Trace, Traces};
use super::walk::{self, Which};
use bytes::Bytes;
use hyper::body::Incoming;
use hyper::header::{
    ALLOW, CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName,
    HeaderValue, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use hyper::{Method, Request, Response, StatusCode};
use serde::Serialize;
use std::io::Read as _;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// Scripts, styles and data from this server only, and nothing in a frame of another page.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
                      connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
const OPENER: HeaderName = HeaderName::from_static("cross-origin-opener-policy");
const RESOURCE: HeaderName = HeaderName::from_static("cross-origin-resource-policy");
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const PLAIN: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const BINARY: HeaderValue = HeaderValue::from_static("application/octet-stream");
const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream");
/// Between two signs of life to a page that has nothing new.
const ALIVE: Duration = Duration::from_secs(10);
/// Bytes of a file that are sent at once.
const PIECE: usize = 64 << 10;
/// Rings of one question, at most; and of one for their history, of which the page asks for fewer at once.
const RINGS: usize = 1_000;
const HISTORIES: usize = 200;

const NO_SPAN: &str = "from= and to= are times, one after the other\n";

/// What is served, and to whom.
#[derive(Debug)]
pub(super) struct Site {
    pub(super) guard: Guard,
    pub(super) shared: Arc<Shared>,
}

/// The part of an address after `?`.
struct Query<'a>(&'a str);

impl Query<'_> {
    fn get(&self, name: &str) -> Option<String> {
        let mut pairs = form_urlencoded::parse(self.0.as_bytes());
        pairs.find(|(its, _)| its == name).map(|(_, value)| value.into_owned())
    }

    fn number<T: std::str::FromStr>(&self, name: &str) -> Option<T> {
        self.get(name)?.parse().ok()
    }

    fn rings(&self) -> Vec<u32> {
        let text = self.get("rings").unwrap_or_default();
        text.split(',').filter_map(|id| id.parse().ok()).take(RINGS + 1).collect()
    }

    /// Returns the live rings that are asked for.
    fn live(&self, shared: &Shared) -> Vec<u32> {
        match self.get("rings").as_deref() {
            Some("all") => shared.model().rings(),
            _ => self.rings(),
        }
    }

    fn span(&self) -> Option<Span> {
        let bins = self.number("bins").unwrap_or(1_000);
        Span::new(self.number("from")?, self.number("to")?, bins)
    }
}

fn plain(status: StatusCode, text: &'static str) -> Response<Body> {
    answer(status, PLAIN, Body::of(text))
}

fn answer(status: StatusCode, kind: HeaderValue, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

fn json(value: &impl Serialize) -> Response<Body> {
    match serde_json::to_vec(value) {
        Ok(text) => answer(StatusCode::OK, JSON, Body::of(text)),
        Err(_) => plain(StatusCode::INTERNAL_SERVER_ERROR, "this cannot be written as JSON\n"),
    }
}

fn said(status: StatusCode, text: String) -> Response<Body> {
    answer(status, PLAIN, Body::of(text + "\n"))
}

/// Sends a recording as a file, piece by piece.
fn download(recording: &frozen::Recording, format: Format) -> Response<Body> {
    let mut file = match recording.convert(format) {
        Ok(file) => file,
        Err(why) => return said(StatusCode::CONFLICT, why),
    };
    let (sender, pieces) = mpsc::channel(2);
    tokio::task::spawn_blocking(move || {
        let mut piece = vec![0; PIECE];
        while let Ok(len @ 1..) = file.read(&mut piece) {
            // Who has gone does not want the rest.
            if sender.blocking_send(Bytes::copy_from_slice(&piece[..len])).is_err() {
                return;
            }
        }
    });
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' || c == '.' { c } else { '-' };
    let name: String = recording.about.name.chars().map(plain).take(60).collect();
    let name = name.strip_suffix(".perfrec").unwrap_or(&name);
    let name = format!("attachment; filename=\"{name}.{}\"", format.ending());
    let mut response = answer(StatusCode::OK, BINARY, Body::Pieces(pieces));
    if let Ok(name) = HeaderValue::from_str(&name) {
        response.headers_mut().insert(CONTENT_DISPOSITION, name);
    }
    response
}

/// What a stream of events begins with: the beginning of the page's time, ns since 1970, and what is watched.
#[derive(Serialize)]
struct Begin<'a> {
    wall: String,
    paths: &'a [String],
}

/// What is wrong with a filter is an answer.
#[derive(Serialize)]
struct Bad {
    wrong: [Wrong; 1],
}

/// Takes what is found in a ring, with its number, its name and the clock of its times.
type Visit<'a> = &'a mut dyn FnMut(u32, &str, &Seen<'_>, &Clock);

/// Answers with the spans of the trace that is asked for, or with all traces.
fn traces(
    query: &Query<'_>,
    left_out: usize,
    each: impl FnOnce(Visit<'_>) -> Result<(), String>,
) -> Response<Body> {
    let Some(asked) = query.get("trace") else {
        let mut all = Traces::default();
        all.left_out = left_out;
        return match each(&mut |id, _, seen, clock| all.see(id, seen, clock)) {
            Ok(()) => json(&all.finish()),
            Err(why) => said(StatusCode::CONFLICT, why),
        };
    };
    let Some(id) = traces::id(&asked) else {
        let why = "the id of a trace is 32 hexadecimal digits\n";
        return plain(StatusCode::BAD_REQUEST, why);
    };
    let mut trace = Trace::new(id);
    trace.left_out = left_out;
    match each(&mut |id, name, seen, clock| trace.see(id, name, seen, clock)) {
        Ok(()) => json(&trace),
        Err(why) => said(StatusCode::CONFLICT, why),
    }
}

/// Answers with all metrics, and with the series of the one that is asked for.
fn metrics(
    query: &Query<'_>,
    left_out: usize,
    each: impl FnOnce(i64, Visit<'_>) -> Result<(), String>,
) -> Response<Body> {
    let filter = match Filter::parse(&query.get("where").unwrap_or_default(), "") {
        Ok(filter) => filter,
        Err(wrong) => return json(&Bad { wrong: [wrong] }),
    };
    let bins = query.number("bins").unwrap_or(series::BINS).min(series::BINS);
    let span = query.number("from").zip(query.number("to"));
    let Some(span) = span.and_then(|(from, to)| Span::new(from, to, bins)) else {
        return plain(StatusCode::BAD_REQUEST, NO_SPAN);
    };
    let kind = query.get("kind").and_then(|kind| Kind::of(&kind));
    let wanted = query.get("name").zip(kind).map(|(name, kind)| {
        let unit = query.get("unit").unwrap_or_default();
        Metric { name, unit, kind }
    });
    let mut answer = series::Answer::new(wanted, left_out);
    let found = each(span.from, &mut |id, name, seen, clock| {
        answer.see((id, name), seen, (&span, &filter, clock));
    });
    match found {
        Ok(()) => json(&answer.finish()),
        Err(why) => said(StatusCode::CONFLICT, why),
    }
}

impl perfring_http::Site for Site {
    type Body = Body;

    /// Returns whether a request has the token.
    fn is_known(&self, request: &Request<Incoming>) -> bool {
        self.guard.is_own(request.headers()) && self.guard.inside(request.uri().path()).is_some()
    }

    async fn answer(self: Arc<Self>, request: Request<Incoming>) -> Response<Body> {
        let mut response = self.choose(request).await;
        let headers = response.headers_mut();
        let lines = [
            (CONTENT_SECURITY_POLICY, POLICY),
            (X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (X_FRAME_OPTIONS, "DENY"),
            (REFERRER_POLICY, "no-referrer"),
            (CACHE_CONTROL, "no-store"),
            (OPENER, "same-origin"),
            (RESOURCE, "same-origin"),
        ];
        for (name, value) in lines {
            headers.insert(name, HeaderValue::from_static(value));
        }
        response
    }
}

impl Site {
    async fn choose(self: Arc<Self>, request: Request<Incoming>) -> Response<Body> {
        if !self.guard.is_own(request.headers()) {
            let why = "this server has another name: open it by an address, or by the name that `--listen` has\n";
            return plain(StatusCode::FORBIDDEN, why);
        }
        let uri = request.uri();
        let Some(path) = self.guard.inside(uri.path()).map(str::to_owned) else {
            let why = "open the address that `perfring view` printed: it has a token\n";
            return plain(StatusCode::NOT_FOUND, why);
        };
        let query = uri.query().unwrap_or_default().to_owned();
        // What makes or removes a snapshot is not done by following a link.
        let changes = matches!(&*path, "api/freeze" | "api/remove");
        let (is_right, methods) = match changes {
            true => (*request.method() == Method::POST, "POST"),
            false => (matches!(*request.method(), Method::GET | Method::HEAD), "GET, HEAD"),
        };
        if !is_right {
            let mut response = plain(StatusCode::METHOD_NOT_ALLOWED, "use another method\n");
            response.headers_mut().insert(ALLOW, HeaderValue::from_static(methods));
            return response;
        }
        if let Some((kind, text)) = assets::file(&path) {
            return answer(StatusCode::OK, kind, Body::of(text));
        }
        if path == "api/events" {
            return self.events();
        }
        // It reads rings, which takes a while.
        let asked = tokio::task::spawn_blocking(move || self.data(&path, &Query(&query)));
        asked.await.unwrap_or_else(|_| {
            plain(StatusCode::INTERNAL_SERVER_ERROR, "this question cannot be answered: a bug\n")
        })
    }

    /// Returns the stream of what changes.
    fn events(self: Arc<Self>) -> Response<Body> {
        let (sender, pieces) = mpsc::channel(2);
        let site = self;
        tokio::spawn(async move {
            let _client = site.shared.client();
            let mut changed = site.shared.changed.subscribe();
            let begin =
                Begin { wall: site.shared.clock.wall().to_string(), paths: &site.shared.paths };
            let begin = serde_json::to_string(&begin).unwrap_or_default();
            let begin = format!("retry: 500\nevent: begin\ndata: {begin}\n\n");
            if sender.send(Bytes::from(begin)).await.is_err() {
                return;
            }
            let mut version = 0;
            loop {
                let now = *changed.borrow_and_update();
                if now > version {
                    let (text, to) = site.shared.model().since(version);
                    version = to;
                    let event = format!("data: {text}\n\n");
                    if sender.send(Bytes::from(event)).await.is_err() {
                        return;
                    }
                }
                let news = tokio::time::timeout(ALIVE, changed.changed());
                match news.await {
                    Ok(Ok(())) => {}
                    Ok(Err(_)) => return,
                    Err(_) if sender.send(Bytes::from_static(b":\n\n")).await.is_err() => return,
                    Err(_) => {}
                }
            }
        });
        answer(StatusCode::OK, EVENTS, Body::Pieces(pieces))
    }

    fn data(&self, path: &str, query: &Query<'_>) -> Response<Body> {
        let shared = &self.shared;
        match path {
            "api/history" => {
                let rings = query.rings();
                let text = shared.model().history(&rings[..rings.len().min(HISTORIES)]);
                answer(StatusCode::OK, JSON, Body::of(text))
            }
            "api/records" => {
                let asked = Asked {
                    rings: query.live(shared),
                    filter: query.get("where").unwrap_or_default(),
                    kind: query.get("type").unwrap_or_default(),
                    after: query.number("after").unwrap_or(0),
                    limit: query.number("limit").unwrap_or(200),
                };
                match records::live(shared, &asked) {
                    Ok(records) => json(&records),
                    Err(wrong) => json(&Bad { wrong: [wrong] }),
                }
            }
            "api/record" => {
                let (ring, seq) = (query.number("ring"), query.number("seq"));
                let whole = ring.zip(seq).and_then(|(ring, seq)| records::whole(shared, ring, seq));
                match whole {
                    Some(whole) => json(&whole),
                    None => plain(StatusCode::NOT_FOUND, "the record is not kept any more\n"),
                }
            }
            "api/latency" => {
                match query.number("ring").and_then(|ring| measure::ask(shared, ring)) {
                    Some(answer) => json(&answer),
                    None => plain(StatusCode::NOT_FOUND, "the ring was removed\n"),
                }
            }
            "api/timeline" => match query.span() {
                Some(span) => json(&timeline::live(shared, &query.rings(), &span)),
                None => plain(StatusCode::BAD_REQUEST, NO_SPAN),
            },
            "api/traces" => {
                let rings = shared.model().rings();
                traces(query, rings.len().saturating_sub(walk::RINGS), |visit| {
                    walk::each(shared, &rings, Which::Newest, |id, name, seen| {
                        visit(id, name, &seen, &shared.clock);
                        true
                    });
                    Ok(())
                })
            }
            "api/metrics" => {
                let rings = query.live(shared);
                metrics(query, rings.len().saturating_sub(walk::RINGS), |from, visit| {
                    let mut pass = |id, name: &_, seen: Seen<'_>| {
                        (visit(id, name, &seen, &shared.clock), true).1
                    };
                    walk::each(shared, &rings, Which::From(from), &mut pass);
                    walk::samples(shared, &rings, &mut pass);
                    Ok(())
                })
            }
            "api/freeze" if query.rings().len() > RINGS => {
                let why = format!("a snapshot has at most {RINGS} rings: choose some of them");
                said(StatusCode::CONFLICT, why)
            }
            "api/freeze" => match freeze::freeze(shared, &query.rings()) {
                Ok(recording) => json(&recording.about),
                Err(why) => said(StatusCode::CONFLICT, why),
            },
            "api/remove" => {
                let is_there = query.number("id").is_some_and(|id| shared.frozen().remove(id));
                json(&is_there)
            }
            "api/recordings" => json(&shared.frozen().all().collect::<Vec<_>>()),
            _ => self.recording(path, query),
        }
    }

    /// Answers what is about one recording.
    fn recording(&self, path: &str, query: &Query<'_>) -> Response<Body> {
        let Some(asked) = path.strip_prefix("api/recording/") else {
            return plain(StatusCode::NOT_FOUND, "there is no such thing here\n");
        };
        let recording = query.number("id").and_then(|id| self.shared.frozen().get(id));
        let Some(recording) = recording else {
            return plain(StatusCode::NOT_FOUND, "the recording is not here any more\n");
        };
        match asked {
            "records" => {
                let asked = frozen::Asked {
                    rings: query.rings(),
                    filter: query.get("where").unwrap_or_default(),
                    kind: query.get("type").unwrap_or_default(),
                    before: query.number("before"),
                    limit: query.number("limit").unwrap_or(300),
                };
                match recording.records(&asked) {
                    Ok(Ok(records)) => json(&records),
                    Ok(Err(wrong)) => json(&Bad { wrong: [wrong] }),
                    Err(why) => said(StatusCode::CONFLICT, why),
                }
            }
            "record" => match query.number("seq").and_then(|seq| recording.whole(seq)) {
                Some(whole) => json(&whole),
                None => plain(StatusCode::NOT_FOUND, "there is no such record\n"),
            },
            "timeline" => match query.span() {
                Some(span) => match recording.timeline(&span) {
                    Ok(lanes) => json(&lanes),
                    Err(why) => said(StatusCode::CONFLICT, why),
                },
                None => plain(StatusCode::BAD_REQUEST, NO_SPAN),
            },
            "metrics" => metrics(query, 0, |_, visit| {
                recording.each(|id, name, seen| visit(id, name, seen, &recording.clock))
            }),
            "traces" => traces(query, 0, |visit| {
                recording.each(|id, name, seen| visit(id, name, seen, &recording.clock))
            }),
            name => match Format::of(name) {
                Some(format) => download(&recording, format),
                None => plain(StatusCode::NOT_FOUND, "there is no such thing here\n"),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_decoded() {
        let query = Query("rings=1,2,x,7&where=a%3D%22b+c%22&after=12&broken=%4");
        assert_eq!(query.rings(), [1, 2, 7]);
        assert_eq!(query.get("where").as_deref(), Some("a=\"b c\""));
        assert_eq!((query.number::<u64>("after"), query.get("none")), (Some(12), None));
        assert_eq!(query.get("broken").as_deref(), Some("%4"));
    }
}
