//! The metrics of the process, named as by the client libraries of Prometheus
//! (<https://prometheus.io/docs/instrumenting/writing_clientlibs/#process-metrics>).

use prometheus_client::metrics::MetricType;

use super::encode::{Metrics, Value, seconds};
use crate::telemetry::process::Process;

pub(super) fn process(out: &mut Metrics, process: &Process) {
    if let Some(spent) = process.cpu {
        let help = "User and system CPU time that the agent has spent.";
        out.head("process_cpu_seconds", MetricType::Counter, help);
        out.sample(&[], Value::Seconds(spent.as_secs_f64()));
    }
    let gauges = [
        (
            "process_resident_memory_bytes",
            "Resident memory of the agent.",
            process.resident_bytes,
        ),
        (
            "process_virtual_memory_bytes",
            "Virtual memory of the agent.",
            process.virtual_bytes,
        ),
        (
            "process_open_fds",
            "Open file descriptors of the agent.",
            process.open_fds,
        ),
        (
            "process_max_fds",
            "The most file descriptors that the agent may open.",
            process.max_fds,
        ),
        ("process_threads", "Threads of the agent.", process.threads),
    ];
    for (name, help, value) in gauges {
        if let Some(value) = value {
            out.one(name, help, value);
        }
    }
    if let Some(at) = process.started_at {
        let help = "When the agent was started.";
        out.head("process_start_time_seconds", MetricType::Gauge, help);
        out.sample(&[], seconds(at.0));
    }
}
