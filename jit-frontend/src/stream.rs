//! Streams: work that runs in order, beside that of other streams.

use jit_core::error::Error;
use jit_core::runtime;
use jit_core::trace;

use crate::device::Device;
use crate::event::Event;
use crate::leaves::Leaves;
use crate::{Traverse, prints};

/// A stream of a device: what is submitted to it runs in order, and beside what other streams run. A clone is another handle
/// of it.
///
/// Evaluations go to the device's default stream, or to the stream that the thread is in ([`enter`](Self::enter)). Arrays
/// belong to no stream: one that is computed on a stream can be used on any other, which then waits for the work that makes
/// it. Events are needed only to order what no array shows.
///
/// ```
/// use jit_frontend as jit;
/// use jit::prelude::*;
/// # fn main() -> Result<(), jit::Error> {
/// let dev = Device::from_env()?;
/// let side = Stream::new(&dev)?;
/// let x = Array::<u32>::arange(1000, &dev) * 2;
/// side.eval(&x)?; // runs beside the default stream
/// let y = &x + 1;
/// jit::eval(&y)?; // on the default stream, after `x`
/// assert_eq!(y.get(999)?, 1999);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Stream(runtime::Stream);

impl Stream {
    /// A new stream.
    ///
    /// # Errors
    /// [`Error::Config`] if the device has 64 streams, the most it can have.
    pub fn new(device: &Device) -> Result<Stream, Error> {
        runtime::Stream::new(device.core()).map(Stream)
    }

    /// Its device.
    pub fn device(&self) -> Device {
        Device::from_core(self.0.device())
    }

    /// Runs `f`; evaluations and reads of this thread on the stream's device go to this stream meanwhile.
    ///
    /// # Errors
    /// None yet; entering a stream of a driver may fail.
    pub fn enter<R>(&self, f: impl FnOnce() -> R) -> Result<R, Error> {
        Ok(self.0.enter(f))
    }

    /// [`eval`](crate::eval()) on this stream.
    ///
    /// # Errors
    /// As [`eval`](crate::eval()); [`Error::MixedDevices`] also for a value of another device.
    ///
    /// # Panics
    /// Inside the closure of a loop or branch.
    #[track_caller]
    pub fn eval(&self, tree: &impl Traverse) -> Result<Event, Error> {
        let leaves = Leaves::of(tree);
        let (arrays, buffers) = leaves.by_reference();
        Ok(self.event(trace::eval_on(&self.0, &arrays, &buffers)?))
    }

    /// Makes the host wait for everything submitted to it so far.
    ///
    /// # Errors
    /// The first error of its work that no `sync` has told of, else what its lanes did wrong and nobody has been told, on
    /// checked devices; [`Error::LaneAssertion`]; [`Error::HostSyncForbidden`].
    pub fn sync(&self) -> Result<(), Error> {
        prints::tell(Some(self.0.device()), self.0.sync())
    }

    /// An event that completes when everything submitted to it so far has run.
    ///
    /// # Errors
    /// None yet; recording in a driver may fail.
    pub fn record(&self) -> Result<Event, Error> {
        Ok(self.event(self.0.record()))
    }

    /// As [`record`](Self::record), with the time at which it happens: see [`Event::elapsed_since`].
    ///
    /// # Errors
    /// As [`record`](Self::record).
    pub fn record_timed(&self) -> Result<Event, Error> {
        Ok(self.event(self.0.record_timed()))
    }

    /// Makes what is submitted to it from here on wait for an event, of any device. If the event fails, so does the next
    /// evaluation. The host does not wait.
    ///
    /// # Errors
    /// None yet; a driver may refuse.
    pub fn wait(&self, event: &Event) -> Result<(), Error> {
        self.0.wait(event.core());
        Ok(())
    }

    /// Makes what is submitted to it from here on wait for what has been submitted to another stream, of any device.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    pub fn wait_stream(&self, other: &Stream) -> Result<(), Error> {
        self.0.wait_stream(&other.0);
        Ok(())
    }

    /// The stream of the CUDA driver behind it; none on other devices.
    pub fn raw_cuda(&self) -> Option<usize> {
        None
    }

    fn event(&self, event: runtime::Event) -> Event {
        Event::of(Some(self.0.device()), event)
    }
}

impl Device {
    /// The stream that evaluations go to unless their thread has entered another one.
    pub fn default_stream(&self) -> Stream {
        Stream(self.core().default_stream())
    }
}

impl std::fmt::Debug for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}
