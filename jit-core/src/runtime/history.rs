//! What a device has launched: a ring of records, public so that users see what was fused, cached, compiled.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::backend::DeviceKind;
use crate::trace::LoopMode;

/// Where a kernel's code came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CacheOutcome {
    /// It was there.
    Hit,
    /// Its code was compiled before, and was loaded from disk.
    Disk,
    /// It was compiled: why.
    Miss(String),
}

/// One launch.
#[derive(Clone, Debug)]
pub struct KernelRecord {
    /// The structure's number on its device: equal for launches of one structure.
    pub kernel: u64,
    /// The backend.
    pub backend: DeviceKind,
    /// Whether a loop or switch in evaluated mode asked for it, part by part.
    pub mode: LoopMode,
    /// The names of the loops and switches that are part of it, or else of the innermost named loop or switch in evaluated
    /// mode that asked for it.
    pub name: Option<Arc<str>>,
    /// Number of lanes.
    pub lanes: u64,
    /// Number of instructions of the program as compiled.
    pub ops: usize,
    /// Memory parameters that are read.
    pub inputs: usize,
    /// Memory parameters that are written.
    pub outputs: usize,
    /// Bytes of the memory parameters (each once).
    pub bytes: u64,
    /// Whether it had to be loaded or compiled.
    pub cache: CacheOutcome,
    /// Time to load or compile; zero on a hit.
    pub compile_time: Duration,
    /// When it was submitted, since the device was made.
    pub submitted: Duration,
    /// The number of its stream on the device.
    pub stream: u32,
    /// When it ran, if the device measures that.
    pub(crate) run: Option<Arc<Run>>,
}

impl KernelRecord {
    /// When it started to run, since the device was made, and how long it took. `None` on a device that does not measure
    /// that, and before it has run.
    pub fn run_time(&self) -> Option<(Duration, Duration)> {
        self.run.as_ref()?.get()
    }
}

/// When a kernel ran, written by the thread that ran it.
#[derive(Debug)]
pub(crate) struct Run {
    epoch: Instant,
    /// Nanoseconds since the epoch.
    begin: AtomicU64,
    /// The same, plus one; 0 while it has not ended.
    end: AtomicU64,
}

impl Run {
    pub(crate) fn new(epoch: Instant) -> Run {
        Run { epoch, begin: AtomicU64::new(0), end: AtomicU64::new(0) }
    }

    /// Runs the kernel and notes when.
    pub(crate) fn measure<T>(&self, kernel: impl FnOnce() -> T) -> T {
        let now = || self.epoch.elapsed().as_nanos() as u64;
        // Relaxed: who reads it has seen `end`.
        self.begin.store(now(), Ordering::Relaxed);
        let result = kernel();
        // Release: makes `begin` visible with it.
        self.end.store(now() + 1, Ordering::Release);
        result
    }

    fn get(&self) -> Option<(Duration, Duration)> {
        // Acquire: pairs with the store of `end`.
        let end = self.end.load(Ordering::Acquire).checked_sub(1)?;
        let begin = self.begin.load(Ordering::Relaxed);
        Some((Duration::from_nanos(begin), Duration::from_nanos(end - begin)))
    }
}

/// The most recent launches of a device, oldest first.
#[derive(Clone, Debug, Default)]
pub struct KernelHistory(Vec<KernelRecord>);

impl KernelHistory {
    /// Writes it as a timeline in the format of Chrome's trace viewer and of Perfetto: a track of the host with what was
    /// compiled, and one for each stream with what ran, or where that is not measured an instant for each submission.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn chrome_trace(&self, writer: impl Write) -> io::Result<()> {
        let mut events = Events { out: writer, empty: true };
        events.out.write_all(b"[")?;
        events.track(0, "host: compiling")?;
        let mut streams: Vec<u32> = self.0.iter().map(|record| record.stream).collect();
        streams.sort_unstable();
        streams.dedup();
        for stream in streams {
            events.track(stream + 1, &format!("stream {stream}"))?;
        }
        for record in &self.0 {
            let name = match &record.name {
                Some(name) => format!("kernel {} ({name})", record.kernel),
                None => format!("kernel {}", record.kernel),
            };
            let cache = match &record.cache {
                CacheOutcome::Hit => "hit".to_owned(),
                CacheOutcome::Disk => "disk".to_owned(),
                CacheOutcome::Miss(why) => format!("miss: {why}"),
            };
            let args = format!(
                r#"{{"backend":"{}","lanes":{},"ops":{},"inputs":{},"outputs":{},"bytes":{},"cache":{}}}"#,
                record.backend,
                record.lanes,
                record.ops,
                record.inputs,
                record.outputs,
                record.bytes,
                quoted(&cache)
            );
            if record.cache != CacheOutcome::Hit {
                let begin = record.submitted.saturating_sub(record.compile_time);
                events.span(0, &format!("compile {name}"), begin, record.compile_time, &args)?;
            }
            match record.run_time() {
                Some((begin, time)) => events.span(record.stream + 1, &name, begin, time, &args)?,
                None => events.instant(record.stream + 1, &name, record.submitted, &args)?,
            }
        }
        events.out.write_all(b"\n]\n")?;
        events.out.flush()
    }
}

impl Deref for KernelHistory {
    type Target = [KernelRecord];

    fn deref(&self) -> &[KernelRecord] {
        &self.0
    }
}

impl IntoIterator for KernelHistory {
    type Item = KernelRecord;
    type IntoIter = std::vec::IntoIter<KernelRecord>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'a> IntoIterator for &'a KernelHistory {
    type Item = &'a KernelRecord;
    type IntoIter = std::slice::Iter<'a, KernelRecord>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

/// Writes events, with commas between them.
struct Events<W> {
    out: W,
    empty: bool,
}

impl<W: Write> Events<W> {
    fn track(&mut self, track: u32, name: &str) -> io::Result<()> {
        let args = format!(r#"{{"name":{}}}"#, quoted(name));
        self.event("M", track, "thread_name", &[], &args)
    }

    fn span(
        &mut self,
        track: u32,
        name: &str,
        begin: Duration,
        time: Duration,
        args: &str,
    ) -> io::Result<()> {
        self.event("X", track, name, &[("ts", micros(begin)), ("dur", micros(time))], args)
    }

    fn instant(&mut self, track: u32, name: &str, at: Duration, args: &str) -> io::Result<()> {
        self.event("i", track, name, &[("ts", micros(at))], args)
    }

    fn event(
        &mut self,
        phase: &str,
        track: u32,
        name: &str,
        times: &[(&str, f64)],
        args: &str,
    ) -> io::Result<()> {
        let comma = if std::mem::replace(&mut self.empty, false) { "" } else { "," };
        let name = quoted(name);
        write!(self.out, "{comma}\n{{\"ph\":\"{phase}\",\"pid\":0,\"tid\":{track},\"name\":{name},")?;
        for (key, value) in times {
            write!(self.out, "\"{key}\":{value:.3},")?;
        }
        write!(self.out, "\"args\":{args}}}")
    }
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

/// A string of JSON.
fn quoted(text: &str) -> String {
    let mut out = String::from('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c < ' ' => out.push_str(&format!("\\u{:04x}", c as u32)),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// The ring that launches are noted in.
#[derive(Default)]
pub(crate) struct History {
    ring: VecDeque<KernelRecord>,
    total: u64,
}

const CAPACITY: usize = 4096;

impl History {
    pub(crate) fn push(&mut self, record: KernelRecord) {
        if self.ring.len() == CAPACITY {
            self.ring.pop_front();
        }
        self.ring.push_back(record);
        self.total += 1;
    }

    pub(crate) fn records(&self) -> KernelHistory {
        KernelHistory(self.ring.iter().cloned().collect())
    }

    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    pub(crate) fn clear(&mut self) {
        self.ring.clear();
    }
}
