//! Serves connections: each request is recorded, treated as the rules say, and answered.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE, ETAG, HeaderValue};
use hyper::http::request::Parts;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

use super::forward::{Body, Closed, Stored, cut, full};
use super::plan::{Delivery, Edit, Plan, Reply};
use super::rule::{Answer, S3Error};
use super::{MAX_BODY, Shared, lock};

/// Accepts connections until it is told to stop.
pub(super) async fn accept(shared: Arc<Shared>, listener: std::net::TcpListener, mut stopped: oneshot::Receiver<()>) {
    let Ok(listener) = TcpListener::from_std(listener) else { return };
    loop {
        let stream = tokio::select! {
            _ = &mut stopped => return,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                // A client that has given up, or no file descriptor left: the next one may do better.
                Err(_) => {
                    tokio::task::yield_now().await;
                    continue;
                }
            },
        };
        tokio::spawn(connection(shared.clone(), stream));
    }
}

async fn connection(shared: Arc<Shared>, stream: TcpStream) {
    let _ = stream.set_nodelay(true);
    let service = service_fn(|request: Request<Incoming>| {
        let (head, body) = request.into_parts();
        let number = shared.begin(&head);
        // A task of its own: a client that goes away takes nothing back of what it has sent.
        let handled = tokio::spawn(handle(shared.clone(), number, head, body));
        async { handled.await.unwrap_or(Err(Closed)) }
    });
    // An error here is a closed connection, as planned or by the client.
    let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

async fn handle(shared: Arc<Shared>, number: u64, head: Parts, body: Incoming) -> Result<Response<Body>, Closed> {
    let body = match Limited::new(body, MAX_BODY).collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) if error.is::<LengthLimitError>() => {
            shared.end(number, Some(413), 0);
            return Ok(error_answer(S3Error { status: 413, code: "EntityTooLarge" }).map(full));
        }
        // The client went away before it had sent all.
        Err(_) => {
            shared.end(number, None, 0);
            return Err(Closed);
        }
    };
    let mut plan = shared.plan(number, &head, &body);
    pause(plan.delay_request).await;
    for active in plan.waits.drain(..) {
        let (go, released) = oneshot::channel();
        lock(&active.progress).waiting.push(go);
        // Nobody can release it any more: it goes on.
        let _ = released.await;
    }
    let mut request = Stored::new(head, body);
    for name in &plan.strip {
        request.strip(name, shared.secret_key.as_deref());
    }
    let answer = deliver(&shared, number, request, plan.delivery.take()).await;
    for active in &plan.lands {
        // An answer that does not come is seen in the record, which then lacks its status.
        let _ = shared.land(active).await;
    }
    pause(plan.delay_reply).await;
    reply(&shared, number, answer, plan)
}

/// A sleep of no length would still last until the timer's next tick, a millisecond later.
async fn pause(delay: Duration) {
    if !delay.is_zero() {
        tokio::time::sleep(delay).await;
    }
}

/// Gives the request to the server as planned, and returns the answer meant for the client.
async fn deliver(shared: &Shared, number: u64, request: Stored, delivery: Option<Delivery>) -> Option<Response<Bytes>> {
    let send = async || {
        let answer = request.send(shared.upstream).await.ok()?;
        shared.record(number, |request| request.forwarded.push(answer.status().as_u16()));
        Some(answer)
    };
    match delivery {
        None | Some(Delivery::Once) => send().await,
        Some(Delivery::Twice(which)) => {
            let (first, second) = (send().await, send().await);
            match which {
                Answer::First => first,
                Answer::Second => second,
            }
        }
        Some(Delivery::Cut(length)) => {
            request.send_cut(shared.upstream, length).await;
            None
        }
        Some(Delivery::Late(active)) => {
            lock(&active.progress).held.push((number, request));
            None
        }
        Some(Delivery::Again(active)) => {
            let answer = send().await;
            lock(&active.progress).held.push((number, request));
            answer
        }
        Some(Delivery::Never) => None,
    }
}

/// Answers the client as planned.
fn reply(shared: &Shared, number: u64, answer: Option<Response<Bytes>>, plan: Plan) -> Result<Response<Body>, Closed> {
    let mut answer = match (plan.reply, answer) {
        (Some(Reply::Error(error)), _) => error_answer(error),
        (Some(Reply::Cut(length)), Some(mut answer)) => {
            edit(&mut answer, plan.edits);
            let whole = answer.body().len();
            answer.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(whole));
            shared.end(number, Some(answer.status().as_u16()), length.min(whole));
            return Ok(answer.map(|body| cut(&body, length)));
        }
        (None, Some(answer)) => answer,
        (Some(Reply::Nothing), _) | (_, None) => {
            shared.end(number, None, 0);
            return Err(Closed);
        }
    };
    edit(&mut answer, plan.edits);
    shared.end(number, Some(answer.status().as_u16()), answer.body().len());
    Ok(answer.map(full))
}

fn edit(answer: &mut Response<Bytes>, edits: Vec<Edit>) {
    let headers = answer.headers_mut();
    for edit in edits {
        match edit {
            Edit::Strip(name) => {
                headers.remove(name);
            }
            Edit::Set(name, value) => {
                if let Ok(value) = HeaderValue::from_str(&value) {
                    headers.insert(name, value);
                }
            }
            Edit::WeakETag => {
                let weak = headers.get(ETAG).and_then(|tag| tag.to_str().ok()).map(|tag| format!("W/{}", tag.trim_start_matches("W/")));
                if let Some(weak) = weak.and_then(|weak| HeaderValue::from_str(&weak).ok()) {
                    headers.insert(ETAG, weak);
                }
            }
        }
    }
}

fn error_answer(error: S3Error) -> Response<Bytes> {
    let S3Error { status, code } = error;
    let body = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?><Error><Code>{code}</Code><Message>injected by the proxy</Message><RequestId>0</RequestId></Error>"
    );
    let mut answer = Response::new(Bytes::from(body));
    *answer.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/xml"));
    answer
}
