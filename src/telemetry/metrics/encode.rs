//! Encodes metrics in the text format of Prometheus, or in `OpenMetrics`.

use std::fmt;
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet, prometheus_text, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

/// The format of an exposition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// The text format of Prometheus, version 0.0.4.
    Text,
    /// `OpenMetrics` 1.0.0
    /// (<https://github.com/prometheus/OpenMetrics/blob/v1.0.0/specification/OpenMetrics.md>).
    OpenMetrics,
}

impl Format {
    /// The `Content-Type` of an answer in this format.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Text => prometheus_text::CONTENT_TYPE,
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// Milliseconds as seconds.
pub(super) fn seconds(ms: u64) -> Value {
    Value::Seconds(Duration::from_millis(ms).as_secs_f64())
}

/// All metrics of one answer, in the order in which they are shown.
#[derive(Debug, Default)]
pub(super) struct Metrics(Vec<Metric>);

#[derive(Debug)]
struct Metric {
    name: &'static str,
    help: &'static str,
    kind: MetricType,
    samples: Vec<(Vec<(&'static str, String)>, Value)>,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Value {
    Integer(u64),
    Seconds(f64),
}

impl From<u64> for Value {
    fn from(value: u64) -> Self {
        Self::Integer(value)
    }
}

impl Metrics {
    /// Begins a metric. Its samples follow. A counter is named without `_total` and an info without `_info`: the
    /// encoder appends them.
    pub(super) fn head(&mut self, name: &'static str, kind: MetricType, help: &'static str) {
        self.0.push(Metric {
            name,
            help,
            kind,
            samples: Vec::new(),
        });
    }

    /// A sample of the metric that was begun last.
    pub(super) fn sample(&mut self, labels: &[(&'static str, &str)], value: impl Into<Value>) {
        let labels = labels.iter().map(|(key, value)| (*key, (*value).to_owned()));
        if let Some(metric) = self.0.last_mut() {
            metric.samples.push((labels.collect(), value.into()));
        }
    }

    pub(super) fn one(&mut self, name: &'static str, help: &'static str, value: u64) {
        self.head(name, MetricType::Gauge, help);
        self.sample(&[], value);
    }

    pub(super) fn encoded(self, format: Format) -> String {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(self));
        let mut body = String::with_capacity(16_384);
        // Writing to a string cannot fail.
        let _ = match format {
            Format::Text => prometheus_text::encode(&mut body, &registry),
            Format::OpenMetrics => text::encode(&mut body, &registry),
        };
        body
    }
}

impl Collector for Metrics {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        for metric in &self.0 {
            let mut family = encoder.encode_descriptor(metric.name, metric.help, None, metric.kind)?;
            for (labels, value) in &metric.samples {
                if metric.kind == MetricType::Info {
                    family.encode_info(labels)?;
                    continue;
                }
                let mut sample = family.encode_family(labels)?;
                match (metric.kind, value) {
                    (MetricType::Counter, Value::Integer(count)) => {
                        sample.encode_counter::<NoLabelSet, u64, u64>(count, None)?;
                    }
                    (MetricType::Counter, Value::Seconds(spent)) => {
                        sample.encode_counter::<NoLabelSet, f64, u64>(spent, None)?;
                    }
                    (_, Value::Integer(value)) => sample.encode_gauge(value)?,
                    (_, Value::Seconds(value)) => sample.encode_gauge(value)?,
                }
            }
        }
        Ok(())
    }
}
