//! Starts batches until the time is up, and adds up what they say.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::Options;
use crate::batch::{AT, COVERED, FOUND};

/// Runs batches. Fails if any program did.
pub(crate) fn run(options: &Options) -> ExitCode {
    std::fs::create_dir_all(&options.corpus).expect("the corpus is a folder");
    let log = options.log.as_ref().map(|path| File::create(path).expect("the log can be written"));
    let supervisor = Supervisor {
        options,
        next: AtomicU64::new(options.first),
        end: Instant::now() + Duration::from_secs(options.seconds),
        log: Mutex::new(log),
        totals: Mutex::default(),
    };
    supervisor.say(&format!("seed {}, {} at a time", options.seed, options.threads));
    std::thread::scope(|scope| {
        for _ in 0..options.threads {
            scope.spawn(|| supervisor.batches());
        }
    });
    let totals = supervisor.totals.lock().expect("no panic while locked");
    for (name, count) in &totals.covered {
        supervisor.say(&format!("  {name} {count}"));
    }
    let Totals { programs, found, .. } = *totals;
    supervisor.say(&format!("seed {}: {programs} programs, {found} failures", options.seed));
    if found == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

struct Supervisor<'a> {
    options: &'a Options,
    /// The first program of the next batch.
    next: AtomicU64,
    end: Instant,
    log: Mutex<Option<File>>,
    totals: Mutex<Totals>,
}

#[derive(Default)]
struct Totals {
    programs: u64,
    found: u64,
    /// Live uses of each op.
    covered: BTreeMap<String, u64>,
}

impl Supervisor<'_> {
    fn batches(&self) {
        while Instant::now() < self.end {
            // Only the number matters, nothing is published with it.
            let first = self.next.fetch_add(self.options.batch, Ordering::Relaxed);
            let (mut from, end) = (first, first + self.options.batch);
            while from < end && Instant::now() < self.end {
                from = self.batch(from, end - from);
            }
        }
    }

    /// Runs programs from a number on in one process, and gives the number to go on with.
    fn batch(&self, first: u64, count: u64) -> u64 {
        let Options { seed, corpus, .. } = self.options;
        let program = std::env::current_exe().expect("this program has a path");
        let mut process = Command::new(program)
            .args(["--worker", "--seed", &seed.to_string(), "--first", &first.to_string()])
            .args(["--batch", &count.to_string(), "--corpus"])
            .arg(corpus)
            .stdout(Stdio::piped())
            .spawn()
            .expect("a process");
        let mut at = first;
        let out = BufReader::new(process.stdout.take().expect("it is piped"));
        for line in out.lines().map_while(Result::ok) {
            let mut totals = self.totals.lock().expect("no panic while locked");
            if let Some(number) = line.strip_prefix(AT) {
                at = number.parse().expect("a number");
                totals.programs += 1;
                if Instant::now() >= self.end {
                    let _ = process.kill();
                    break;
                }
            } else if let Some(what) = line.strip_prefix(FOUND) {
                totals.found += 1;
                self.say(what);
            } else if let Some(covered) = line.strip_prefix(COVERED) {
                for (name, count) in covered.split_whitespace().filter_map(|pair| pair.split_once('=')) {
                    let count: u64 = count.parse().expect("a number");
                    *totals.covered.entry(name.to_owned()).or_default() += count;
                }
            }
        }
        let status = process.wait().expect("the process ends");
        if status.success() || Instant::now() >= self.end {
            self.say(&format!("up to program {}", first + count));
            return first + count;
        }
        self.totals.lock().expect("no panic while locked").found += 1;
        self.say(&format!("program {at} of seed {seed} ends its process: {status}"));
        at + 1
    }

    fn say(&self, line: &str) {
        let _ = writeln!(std::io::stdout(), "{line}");
        if let Some(log) = self.log.lock().expect("no panic while locked").as_mut() {
            writeln!(log, "{line}").expect("the log can be written");
        }
    }
}
