//! Answers that arrive piece by piece.

use crate::support::{PATIENCE, Served};
use axum::response::Response;
use axum::{Router, routing};
use bxcore::code::Code;
use bxkit::rpc::{ApiError, Break, CallError, Json, event_channel, event_stream};
use bxkit::sse::Event;
use futures_util::StreamExt;
use std::sync::Arc;
use tokio::sync::Notify;

fn event(event: &str, data: &str) -> Event {
    Event {
        event: event.to_owned(),
        data: data.to_owned(),
        id: None,
    }
}

#[tokio::test]
async fn events_arrive_as_they_were_sent_and_the_connection_is_used_again() {
    let handler = async |Json(count): Json<usize>| -> Response {
        event_stream(futures_util::stream::iter(
            (0..count).map(|n| event("delta", &format!("{n}\n{}", "é".repeat(n * 100)))),
        ))
    };
    let served = Served::new(Router::new().route("/events", routing::post(handler)));
    let client = served.client();
    for count in [0, 1, 300] {
        let stream = client.stream("/events", &count).await.unwrap();
        let events: Vec<Event> = stream.map(Result::unwrap).collect().await;
        assert_eq!(events.len(), count);
        for (n, got) in events.iter().enumerate() {
            assert_eq!(
                *got,
                event("delta", &format!("{n}\n{}", "é".repeat(n * 100)))
            );
        }
    }
}

#[tokio::test]
async fn an_event_arrives_before_the_next_is_made() {
    let go_on = Arc::new(Notify::new());
    let wait = Arc::clone(&go_on);
    let handler = async move || -> Response {
        let (sender, response) = event_channel();
        tokio::spawn(async move {
            sender.send("first", &1).await.unwrap();
            wait.notified().await;
            sender.send("second", &[2]).await.unwrap();
        });
        response
    };
    let served = Served::new(Router::new().route("/events", routing::get(handler)));
    let mut stream = served.client().get_stream("/events").await.unwrap();
    let first = tokio::time::timeout(PATIENCE, stream.next()).await.unwrap();
    assert_eq!(first.unwrap().unwrap(), event("first", "1"));
    go_on.notify_one();
    assert_eq!(
        stream.next().await.unwrap().unwrap(),
        event("second", "[2]")
    );
    assert!(stream.next().await.is_none());
}

#[tokio::test]
async fn a_writer_learns_that_its_reader_is_gone() {
    let gone = Arc::new(Notify::new());
    let noticed = Arc::clone(&gone);
    let handler = async move || -> Response {
        let (sender, response) = event_channel();
        tokio::spawn(async move {
            sender.send("first", &1).await.unwrap();
            sender.reader_gone().await;
            sender.send("late", &2).await.unwrap_err();
            noticed.notify_one();
        });
        response
    };
    let served = Served::new(Router::new().route("/events", routing::get(handler)));
    let mut stream = served.client().get_stream("/events").await.unwrap();
    stream.next().await.unwrap().unwrap();
    drop(stream);
    tokio::time::timeout(PATIENCE, gone.notified())
        .await
        .unwrap();
}

#[tokio::test]
async fn a_cut_stream_is_told_from_one_that_ended() {
    let handler = async || -> Response {
        let (sender, response) = event_channel();
        tokio::spawn(async move {
            sender.send("first", &1).await.unwrap();
            sender.reader_gone().await;
        });
        response
    };
    let served = Served::new(Router::new().route("/events", routing::get(handler)));
    let mut stream = served.client().get_stream("/events").await.unwrap();
    stream.next().await.unwrap().unwrap();
    served.task.abort();
    let error = stream.next().await.unwrap().unwrap_err();
    assert!(
        matches!(
            error,
            CallError::Broken {
                why: Break::CutOff(_),
                ..
            }
        ),
        "{error}"
    );
    assert!(stream.next().await.is_none());
}

#[tokio::test]
async fn a_refusal_in_place_of_a_stream_is_a_refusal() {
    let handler = async || ApiError::new(Code::SessionHeld, "Held");
    let routes = Router::new()
        .route("/refused", routing::get(handler))
        .route("/json", routing::get(async || Json(1)));
    let served = Served::new(routes);
    let error = served.client().get_stream("/refused").await.unwrap_err();
    assert_eq!(error.code(), Code::SessionHeld);
    let error = served.client().get_stream("/json").await.unwrap_err();
    assert!(
        matches!(
            error,
            CallError::Broken {
                why: Break::Garbled(_),
                ..
            }
        ),
        "{error}"
    );
}

#[tokio::test]
async fn an_endless_event_is_refused() {
    let handler = async || -> Response {
        let piece = bytes::Bytes::from("x".repeat(1024 * 1024));
        let endless =
            futures_util::stream::repeat_with(move || Ok::<_, std::io::Error>(piece.clone()));
        Response::builder()
            .header("content-type", "text/event-stream")
            .body(axum::body::Body::from_stream(endless))
            .unwrap()
    };
    let served = Served::new(Router::new().route("/events", routing::get(handler)));
    let mut stream = served.client().get_stream("/events").await.unwrap();
    let error = stream.next().await.unwrap().unwrap_err();
    assert!(
        matches!(
            error,
            CallError::Broken {
                why: Break::TooLarge { .. },
                ..
            }
        ),
        "{error}"
    );
}
