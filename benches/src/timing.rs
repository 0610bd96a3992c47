//! How calls are timed: wall clock around a call and the wait for it, after warming up.

use std::time::{Duration, Instant};

use jit_frontend::{Device, Error};

/// What one row asks of the clock.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// Calls before the first sample.
    pub warm: u32,
    /// Samples.
    pub repeat: u32,
    /// No further sample is begun after that long.
    pub cap: Duration,
    /// Whether several short calls make one sample.
    pub batch: bool,
}

impl Timing {
    /// Two calls to warm up, that many samples, eight seconds, batches.
    pub fn new(repeat: u32) -> Timing {
        Timing { warm: 2, repeat, cap: Duration::from_secs(8), batch: true }
    }

    /// Other calls before the first sample.
    #[must_use]
    pub fn warm(self, warm: u32) -> Timing {
        Timing { warm, ..self }
    }

    /// At least that many samples.
    #[must_use]
    pub fn at_least(self, repeat: u32) -> Timing {
        Timing { repeat: self.repeat.max(repeat), ..self }
    }

    /// Another bound on the time.
    #[must_use]
    pub fn cap(self, seconds: u64) -> Timing {
        Timing { cap: Duration::from_secs(seconds), ..self }
    }

    /// One call for each sample, however short.
    #[must_use]
    pub fn unbatched(self) -> Timing {
        Timing { batch: false, ..self }
    }

    /// Times calls that enqueue work on a device, each sample with a wait at its end; the last result.
    ///
    /// # Errors
    /// Those of the call and of the device.
    pub fn run<R>(
        self,
        device: &Device,
        call: impl FnMut() -> Result<R, Error>,
    ) -> Result<(Samples, R), Error> {
        self.run_with(call, || device.sync())
    }

    /// Times calls on the host, without a device to wait for.
    ///
    /// # Errors
    /// Those of the call.
    pub fn run_on_host<R>(self, call: impl FnMut() -> Result<R, Error>) -> Result<(Samples, R), Error> {
        self.run_with(call, || Ok(()))
    }

    fn run_with<R>(
        self,
        mut call: impl FnMut() -> Result<R, Error>,
        wait: impl Fn() -> Result<(), Error>,
    ) -> Result<(Samples, R), Error> {
        let begin = Instant::now();
        let mut single = Duration::ZERO;
        for _ in 0..self.warm.max(1) {
            let start = Instant::now();
            let result = call()?;
            wait()?;
            single = start.elapsed();
            drop(result);
            if begin.elapsed() > self.cap {
                break;
            }
        }
        let calls = if self.batch && single < Duration::from_millis(2) {
            (0.004 / single.as_secs_f64().max(1e-6)).clamp(1.0, 32.0) as u32
        } else {
            1
        };
        let mut seconds = Vec::new();
        loop {
            let start = Instant::now();
            let mut result = call()?;
            for _ in 1..calls {
                result = call()?;
            }
            wait()?;
            seconds.push(start.elapsed().as_secs_f64() / f64::from(calls));
            if seconds.len() >= self.repeat as usize || begin.elapsed() > self.cap {
                return Ok((Samples(seconds), result));
            }
        }
    }
}

/// What the samples of a row measured: seconds for each call, or what was made of them.
#[derive(Clone, Debug)]
pub struct Samples(pub Vec<f64>);

impl Samples {
    /// Amount for each second, of calls that take care of that amount.
    #[must_use]
    pub fn rate(&self, amount: f64) -> Samples {
        Samples(self.0.iter().map(|s| amount / s).collect())
    }

    /// Each multiplied by a factor.
    #[must_use]
    pub fn scaled(&self, factor: f64) -> Samples {
        Samples(self.0.iter().map(|s| s * factor).collect())
    }

    /// The middle one, or the mean of the two in the middle.
    pub fn median(&self) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let n = sorted.len();
        if n % 2 == 1 { sorted[n / 2] } else { (sorted[n / 2 - 1] + sorted[n / 2]) / 2.0 }
    }

    /// The smallest one.
    pub fn min(&self) -> f64 {
        self.0.iter().copied().fold(f64::INFINITY, f64::min)
    }

    /// The largest one.
    pub fn max(&self) -> f64 {
        self.0.iter().copied().fold(f64::NEG_INFINITY, f64::max)
    }
}
