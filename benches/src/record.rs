//! The records of a run, as JSON.

use serde::Serialize;

use crate::timing::Samples;

/// One line of the result.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Record {
    /// What ran.
    Info { peer: String, info: Info },
    /// A measurement.
    Row(Row),
    /// What was left out, and why.
    Skip { peer: String, workload: &'static str, name: String, note: String },
    /// What failed.
    Error { peer: String, workload: &'static str, name: String, note: String },
}

/// What ran.
#[derive(Clone, Debug, Serialize)]
pub struct Info {
    pub device: String,
    pub float_mode: String,
    pub profile: &'static str,
}

/// A measurement.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    pub peer: String,
    pub workload: &'static str,
    /// With the workload's name in front.
    pub name: String,
    pub size: String,
    pub metric: Metric,
    pub unit: &'static str,
    pub median: f64,
    pub min: f64,
    pub max: f64,
    /// Number of samples.
    pub n: usize,
    /// What the result came to; `None` if nothing is checked.
    pub check: Option<Vec<f64>>,
    /// Relative tolerance of the check values; 0 is exact.
    pub tol: Option<f64>,
    pub note: String,
}

/// What a row measures.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    Time,
    Latency,
    Throughput,
    Bandwidth,
    MaxError,
    Growth,
    Bytes,
}

/// What a workload says about a row; the suite knows the rest.
#[derive(Clone, Debug)]
pub struct Measured {
    pub(crate) name: String,
    pub(crate) size: String,
    pub(crate) metric: Metric,
    pub(crate) unit: &'static str,
    pub(crate) samples: Samples,
    pub(crate) check: Option<(Vec<f64>, f64)>,
    pub(crate) note: String,
}

impl Measured {
    /// A row without check values. The name is that within the workload.
    pub fn new(
        name: impl Into<String>,
        size: impl ToString,
        metric: Metric,
        unit: &'static str,
        samples: Samples,
    ) -> Measured {
        let (name, size) = (name.into(), size.to_string());
        Measured { name, size, metric, unit, samples, check: None, note: String::new() }
    }

    /// What the result came to, and how far from the others' results it may be.
    #[must_use]
    pub fn check(self, values: impl Into<Vec<f64>>, tolerance: f64) -> Measured {
        Measured { check: Some((values.into(), tolerance)), ..self }
    }

    /// What a reader of the row should know.
    #[must_use]
    pub fn note(self, note: impl Into<String>) -> Measured {
        Measured { note: note.into(), ..self }
    }
}
