//! A receiver that answers on command.

use opentelemetry_proto::tonic::collector::logs::v1::logs_service_server::{
    LogsService, LogsServiceServer,
};
use opentelemetry_proto::tonic::collector::logs::v1::{
    ExportLogsPartialSuccess, ExportLogsServiceRequest, ExportLogsServiceResponse,
};
use opentelemetry_proto::tonic::collector::metrics::v1::metrics_service_server::{
    MetricsService, MetricsServiceServer,
};
use opentelemetry_proto::tonic::collector::metrics::v1::{
    ExportMetricsServiceRequest, ExportMetricsServiceResponse,
};
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use tokio::sync::oneshot;
use tonic::codec::CompressionEncoding::Gzip;
use tonic::metadata::MetadataMap;
use tonic::transport::server::Router;
use tonic::{Request, Response, Status};

/// An address.
#[derive(Clone, Debug)]
pub(crate) enum At {
    Port,
    Again(SocketAddr),
    Socket(PathBuf),
}

#[derive(Debug, Default)]
pub(crate) struct Got {
    pub(crate) logs: Vec<(ExportLogsServiceRequest, MetadataMap)>,
    pub(crate) metrics: Vec<ExportMetricsServiceRequest>,
    pub(crate) traces: Vec<ExportTraceServiceRequest>,
    /// The next answers to logs: so many rejected, or an error; then all succeed.
    pub(crate) replies: VecDeque<Result<i64, Status>>,
    /// The value of `authorization` without which the answer is an error, with a pause of ten
    /// minutes.
    pub(crate) token: Option<String>,
    /// So many requests are not answered.
    pub(crate) silent: usize,
}

/// A receiver. It ends when it is dropped.
pub(crate) struct Server {
    at: At,
    pub(crate) got: Arc<Mutex<Got>>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

#[derive(Clone, Debug)]
struct Services(Arc<Mutex<Got>>);

impl Server {
    pub(crate) fn start(at: At) -> Self {
        Server::with(at, 4 << 20)
    }

    /// Starts a receiver of messages of at most this many bytes.
    pub(crate) fn with(at: At, most: usize) -> Self {
        let got: Arc<Mutex<Got>> = Arc::default();
        let services = Services(Arc::clone(&got));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let logs = LogsServiceServer::new(services.clone()).accept_compressed(Gzip);
        let router = tonic::transport::Server::builder()
            .add_service(logs.max_decoding_message_size(most))
            .add_service(MetricsServiceServer::new(services.clone()).accept_compressed(Gzip))
            .add_service(TraceServiceServer::new(services).accept_compressed(Gzip));
        let (stop, stopped) = oneshot::channel();
        let (tell, told) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    () = serve(router, at, tell) => {}
                    _ = stopped => {}
                }
            });
        });
        let at = told.recv().unwrap();
        Server { at, got, stop: Some(stop), thread: Some(thread) }
    }

    pub(crate) fn endpoint(&self) -> String {
        match &self.at {
            At::Socket(path) => format!("unix://{}", path.display()),
            At::Again(address) => format!("http://{address}"),
            At::Port => unreachable!("it has one by now"),
        }
    }

    pub(crate) fn reply(&self, replies: impl IntoIterator<Item = Result<i64, Status>>) {
        self.got.lock().unwrap().replies.extend(replies);
    }

    /// Breaks all connections. Returns its address, and the numbers that it has seen.
    pub(crate) fn kill(mut self) -> (At, Vec<i64>) {
        self.end();
        (self.at.clone(), super::numbers(&self))
    }

    fn end(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
        if let At::Socket(path) = &self.at {
            let _ = std::fs::remove_file(path);
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

async fn serve(router: Router, at: At, tell: std::sync::mpsc::Sender<At>) {
    if let At::Socket(path) = &at {
        let listener = tokio::net::UnixListener::bind(path).unwrap();
        tell.send(at).unwrap();
        let incoming = futures_util::stream::unfold(listener, async |listener| {
            Some((listener.accept().await.map(|(stream, _)| stream), listener))
        });
        return router.serve_with_incoming(incoming).await.unwrap();
    }
    let address =
        if let At::Again(address) = at { address } else { "127.0.0.1:0".parse().unwrap() };
    let listener = tokio::net::TcpListener::bind(address).await.unwrap();
    tell.send(At::Again(listener.local_addr().unwrap())).unwrap();
    let incoming = futures_util::stream::unfold(listener, async |listener| {
        Some((listener.accept().await.map(|(stream, _)| stream), listener))
    });
    router.serve_with_incoming(incoming).await.unwrap();
}

/// `google.rpc.Status` with a `RetryInfo` of 600 s, in protobuf.
fn ten_minutes() -> Vec<u8> {
    let info = [b"\x0a\x03\x08\xd8\x04".as_slice()].concat();
    let url = b"type.googleapis.com/google.rpc.RetryInfo";
    let mut any = vec![0x0a, url.len() as u8];
    any.extend(url);
    any.extend([0x12, info.len() as u8]);
    any.extend(info);
    let mut status = vec![0x1a, any.len() as u8];
    status.extend(any);
    status
}

#[tonic::async_trait]
impl LogsService for Services {
    async fn export(
        &self,
        request: Request<ExportLogsServiceRequest>,
    ) -> Result<Response<ExportLogsServiceResponse>, Status> {
        let metadata = request.metadata().clone();
        let rejected = {
            let mut got = self.0.lock().unwrap();
            let authorization = metadata.get("authorization").map(|value| value.to_str().unwrap());
            if got.token.is_some() && got.token.as_deref() != authorization {
                let details = ten_minutes().into();
                return Err(Status::with_details(tonic::Code::Unauthenticated, "who?", details));
            }
            let silent = got.silent > 0;
            got.silent = got.silent.saturating_sub(1);
            if silent { None } else { Some(got.replies.pop_front().unwrap_or(Ok(0))?) }
        };
        let Some(rejected_log_records) = rejected else { return std::future::pending().await };
        self.0.lock().unwrap().logs.push((request.into_inner(), metadata));
        let error_message = "too old".to_owned();
        let partial = ExportLogsPartialSuccess { rejected_log_records, error_message };
        let partial_success = Some(partial).filter(|_| rejected_log_records > 0);
        Ok(Response::new(ExportLogsServiceResponse { partial_success }))
    }
}

#[tonic::async_trait]
impl MetricsService for Services {
    async fn export(
        &self,
        request: Request<ExportMetricsServiceRequest>,
    ) -> Result<Response<ExportMetricsServiceResponse>, Status> {
        self.0.lock().unwrap().metrics.push(request.into_inner());
        Ok(Response::new(ExportMetricsServiceResponse::default()))
    }
}

#[tonic::async_trait]
impl TraceService for Services {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        self.0.lock().unwrap().traces.push(request.into_inner());
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}
