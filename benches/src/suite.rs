//! One run of the suite: where it runs and what came out.

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;

use clap::ValueEnum;
use jit_frontend::{Device, DeviceBuilder, DeviceKind, Error, FloatMode};
use serde::Serialize;

use crate::expected::Expected;
use crate::profile::{Profile, Sizes};
use crate::record::{Info, Measured, Record, Row};
use crate::timing::Timing;

/// Where to run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Backend {
    /// The host's processors.
    Cpu,
    /// The reference interpreter; slow.
    Interp,
}

/// What to run on what.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    pub backend: Backend,
    pub profile: Profile,
    pub float_mode: FloatMode,
    /// Samples for each row.
    pub repeat: u32,
}

/// A run under way.
pub struct Suite {
    options: Options,
    peer: String,
    device: Device,
    workload: &'static str,
    expected: Expected,
    records: Vec<Record>,
    failures: Vec<String>,
}

impl Suite {
    /// A run without records.
    ///
    /// # Errors
    /// [`Error::NoDevice`].
    pub fn new(options: Options) -> Result<Suite, Error> {
        let device = new_device(options)?;
        let peer = peer_name(options);
        let info = Info {
            device: device.info().name,
            float_mode: format!("{:?}", options.float_mode),
            profile: options.profile.name(),
        };
        let records = vec![Record::Info { peer: peer.clone(), info }];
        let expected = Expected::of(options.profile);
        Ok(Suite { options, peer, device, workload: "", expected, records, failures: Vec::new() })
    }

    /// The device.
    pub fn device(&self) -> Device {
        self.device
    }

    /// Another device with the same options, whose caches are empty. It is never freed.
    ///
    /// # Errors
    /// [`Error::NoDevice`].
    pub fn new_device(&self) -> Result<Device, Error> {
        new_device(self.options)
    }

    /// The arguments with which a process of the same program has the same options.
    pub fn arguments(&self) -> Vec<String> {
        fn argument(name: &str, value: &impl ValueEnum) -> String {
            let value = value.to_possible_value().expect("no value is left out");
            format!("--{name}={}", value.get_name())
        }
        let Options { backend, profile, float_mode, .. } = self.options;
        let mut arguments = vec![argument("backend", &backend), argument("profile", &profile)];
        if float_mode == FloatMode::Contract {
            arguments.push("--contract".to_owned());
        }
        arguments
    }

    /// The sizes.
    pub fn sizes(&self) -> &'static Sizes {
        self.options.profile.sizes()
    }

    /// The timing of most rows.
    pub fn timing(&self) -> Timing {
        Timing::new(self.options.repeat)
    }

    /// Runs a workload; what it records carries its name.
    pub fn workload(&mut self, name: &'static str, run: impl FnOnce(&mut Suite)) {
        self.workload = name;
        run(self);
    }

    /// Runs the part of the workload that makes the row of that name. An error costs that part alone.
    pub fn part(&mut self, name: &str, run: impl FnOnce(&mut Suite) -> Result<(), Error>) {
        if let Err(error) = run(self) {
            let name = self.full_name(name);
            let note = error.to_string();
            self.failures.push(format!("{name}: {note}"));
            self.push(Record::Error { peer: self.peer.clone(), workload: self.workload, name, note });
        }
    }

    /// Records a row, and a failure where its check values are wrong.
    pub fn row(&mut self, measured: Measured) {
        let name = self.full_name(&measured.name);
        let (check, tol) = measured.check.unzip();
        if let (Some(values), Some(tolerance)) = (&check, tol)
            && let Some(complaint) = self.expected.complaint(&name, values, tolerance)
        {
            self.failures.push(format!("{name}: {complaint}"));
        }
        let samples = &measured.samples;
        self.push(Record::Row(Row {
            peer: self.peer.clone(),
            workload: self.workload,
            name,
            size: measured.size,
            metric: measured.metric,
            unit: measured.unit,
            median: samples.median(),
            min: samples.min(),
            max: samples.max(),
            n: samples.0.len(),
            check,
            tol,
            note: measured.note,
        }));
    }

    /// Records that a row, or with an empty name the workload, is left out.
    pub fn skip(&mut self, name: &str, why: &str) {
        let name = self.full_name(name);
        let note = why.to_owned();
        self.push(Record::Skip { peer: self.peer.clone(), workload: self.workload, name, note });
    }

    /// Errors and wrong check values.
    pub fn failures(&self) -> &[String] {
        &self.failures
    }

    /// Writes the records, with what is known of the run.
    ///
    /// # Errors
    /// Those of the file.
    pub fn write_json(&self, path: &Path) -> std::io::Result<()> {
        #[derive(Serialize)]
        struct Run<'a> {
            version: u32,
            repeat: u32,
            records: &'a [Record],
        }
        let run = Run { version: 1, repeat: self.options.repeat, records: &self.records };
        serde_json::to_writer_pretty(BufWriter::new(File::create(path)?), &run)?;
        Ok(())
    }

    fn full_name(&self, name: &str) -> String {
        if name.is_empty() { self.workload.to_owned() } else { format!("{}.{name}", self.workload) }
    }

    #[expect(clippy::print_stdout, reason = "rows are shown as they come")]
    fn push(&mut self, record: Record) {
        match &record {
            Record::Info { peer, info } => println!("# {peer}: {info:?}"),
            Record::Row(row) => println!(
                "{:36} {:14} {:12.5} [{:.5} .. {:.5}] {} {:?}",
                row.name,
                row.size,
                row.median,
                row.min,
                row.max,
                row.unit,
                row.check.as_deref().unwrap_or_default()
            ),
            Record::Skip { name, note, .. } => println!("{name:36} skipped: {note}"),
            Record::Error { name, note, .. } => println!("{name:36} error: {note}"),
        }
        self.records.push(record);
    }
}

/// With no disk cache: what is measured must not depend on earlier runs.
fn new_device(options: Options) -> Result<Device, Error> {
    builder(options).disk_cache(None).build()
}

/// A device that keeps its kernels where the environment says.
///
/// # Errors
/// [`Error::NoDevice`].
pub fn device_with_disk_cache(options: Options) -> Result<Device, Error> {
    builder(options).build()
}

fn builder(options: Options) -> DeviceBuilder {
    let kind = match options.backend {
        Backend::Cpu => DeviceKind::Cpu,
        Backend::Interp => DeviceKind::Interpreter,
    };
    Device::builder(kind).float_mode(options.float_mode)
}

/// `jit-cpu` and the like; rows of other float modes are another peer.
fn peer_name(options: Options) -> String {
    let backend = match options.backend {
        Backend::Cpu => "cpu",
        Backend::Interp => "interp",
    };
    match options.float_mode {
        FloatMode::Strict => format!("jit-{backend}"),
        FloatMode::Contract => format!("jit-{backend}-contract"),
        FloatMode::Fast => format!("jit-{backend}-fast"),
    }
}
