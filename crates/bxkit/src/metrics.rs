//! Metrics of this process in Prometheus' text format.

use axum::http::header;
use axum::response::IntoResponse;
use axum::{Router, routing};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use std::sync::OnceLock;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How often recorded values are put into their buckets; until then each takes memory.
pub const UPKEEP_SECS: u64 = 10;

/// The upper bounds of every histogram, in seconds: from a socket round trip to a long prefill.
const BUCKETS_SECS: &[f64] = &[
    0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5,
    5.0, 10.0, 30.0, 60.0, 300.0,
];

const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

static HANDLE: OnceLock<Metrics> = OnceLock::new();

/// What this process has counted.
#[derive(Debug, Clone)]
pub struct Metrics(PrometheusHandle);

impl Metrics {
    /// Makes this process record metrics; a second call gives the same handle.
    ///
    /// Until it is called, and where another recorder was installed before, the macros of `metrics`
    /// record nothing that is seen here.
    pub fn install() -> Self {
        HANDLE
            .get_or_init(|| {
                let builder = PrometheusBuilder::new();
                // Fails only for an empty list.
                let builder = builder.set_buckets(BUCKETS_SECS).unwrap_or_default();
                let recorder = builder.build_recorder();
                let handle = recorder.handle();
                if metrics::set_global_recorder(recorder).is_err() {
                    tracing::warn!("another recorder of metrics is installed");
                }
                Self(handle)
            })
            .clone()
    }

    /// Everything counted so far, as text.
    pub fn render(&self) -> String {
        self.0.render()
    }

    /// The route `GET /v1/metrics`, for a role's router to merge.
    pub fn routes(&self) -> Router {
        let metrics = self.clone();
        let show = async move || ([(header::CONTENT_TYPE, TEXT)], metrics.render()).into_response();
        Router::new().route("/v1/metrics", routing::get(show))
    }

    /// Keeps the memory of histograms bounded, until `shutdown`.
    pub(crate) async fn upkeep(self, shutdown: CancellationToken) {
        let mut tick = tokio::time::interval(Duration::from_secs(UPKEEP_SECS));
        loop {
            tokio::select! {
                _ = tick.tick() => self.0.run_upkeep(),
                () = shutdown.cancelled() => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_recorded_is_rendered() {
        let metrics = Metrics::install();
        metrics::counter!("boxmaker_test_total", "kind" => "a").increment(2);
        metrics::histogram!("boxmaker_test_seconds").record(0.003);
        let text = Metrics::install().render();
        assert!(text.contains("boxmaker_test_total{kind=\"a\"} 2"), "{text}");
        assert!(
            text.contains("boxmaker_test_seconds_bucket{le=\"0.005\"} 1"),
            "{text}"
        );
        assert!(
            text.contains("boxmaker_test_seconds_bucket{le=\"0.0025\"} 0"),
            "{text}"
        );
        assert_eq!(metrics.render(), text);
    }
}
