//! Events: points in the work of a device that can be waited for.

use std::time::Duration;

use jit_core::error::Error;
use jit_core::runtime;

use crate::prints;

/// A point in a device's work: complete once everything that it stands for is. Cheap to clone.
#[derive(Clone)]
pub struct Event {
    event: runtime::Event,
    /// Whose lanes are asked what they said.
    device: Option<runtime::Device>,
}

impl Event {
    /// An event that has happened.
    pub fn complete() -> Event {
        Event::from_core(runtime::Event::complete())
    }

    /// Whether it has happened. Never waits, and tells nothing of what lanes did wrong or printed.
    ///
    /// # Errors
    /// The error of the work before it.
    pub fn is_complete(&self) -> Result<bool, Error> {
        self.event.is_complete()
    }

    /// Makes the host wait until it has happened. The calling thread helps with the work that this event needs, and with
    /// no other. As any wait of the host it tells what lanes of the device printed
    /// ([`print_lanes`](crate::print_lanes)).
    ///
    /// # Errors
    /// The error of the work before it; what its lanes did wrong and nobody has been told, on checked devices;
    /// [`Error::LaneAssertion`]; [`Error::HostSyncForbidden`] if it would have to wait inside
    /// [`forbid_host_sync`](crate::forbid_host_sync).
    pub fn wait(&self) -> Result<(), Error> {
        prints::tell(self.device, self.event.wait())
    }

    /// The time between two events, both made by [`Stream::record_timed`](crate::Stream::record_timed), this one
    /// being the later; zero if it was not.
    ///
    /// # Errors
    /// [`Error::Config`] if either measures no time, or has not happened.
    pub fn elapsed_since(&self, earlier: &Event) -> Result<Duration, Error> {
        self.event.elapsed_since(&earlier.event)
    }

    /// An event of the runtime, whatever it is of.
    pub fn from_core(event: runtime::Event) -> Event {
        Event { event, device: None }
    }

    /// An event of the runtime, of that device's work.
    pub(crate) fn of(device: Option<runtime::Device>, event: runtime::Event) -> Event {
        Event { event, device }
    }

    /// The event as the runtime knows it.
    pub(crate) fn core(&self) -> &runtime::Event {
        &self.event
    }
}

impl std::fmt::Debug for Event {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.event.fmt(f)
    }
}
