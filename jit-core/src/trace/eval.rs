//! Evaluating arrays and buffers together.

use super::var::or_panic;
use super::{BufferVar, NodeId, Var, region};
use crate::error::Error;
use crate::runtime::{Device, Event, Stream, evaluate};

/// Launches whatever these arrays and the current versions of these buffers still need, as one plan on the thread's current
/// stream. Does not wait; the event completes when all of them are there.
///
/// # Errors
/// [`Error::MixedDevices`], or what compiling and allocating run into; the arrays are then as before.
///
/// # Panics
/// Inside a region.
#[track_caller]
pub fn eval(values: &[&Var], buffers: &[&BufferVar]) -> Result<Event, Error> {
    region::forbid("evaluating");
    let Some(device) = common_device(None, values, buffers)? else { return Ok(Event::complete()) };
    run(device, values, buffers, &Stream::current(device))
}

/// What is still to be computed for these arrays and the current versions of these buffers, as a graph in Graphviz's
/// language. Computes nothing.
///
/// # Errors
/// [`Error::MixedDevices`].
pub fn graphviz(values: &[&Var], buffers: &[&BufferVar]) -> Result<String, Error> {
    let Some(device) = common_device(None, values, buffers)? else {
        return Ok("digraph trace {\n}\n".to_owned());
    };
    let snapshots: Vec<Var> = buffers.iter().map(|buffer| buffer.value()).collect();
    let bound = values.iter().filter(|value| value.device().is_some()).map(|value| value.id());
    let roots: Vec<NodeId> = bound.chain(snapshots.iter().map(Var::id)).collect();
    Ok(device.with_trace(|t| t.graphviz(&roots)))
}

/// As [`eval`], on that stream.
///
/// # Errors
/// As [`eval`]; [`Error::MixedDevices`] also for arrays of another device than the stream's.
///
/// # Panics
/// Inside a region.
#[track_caller]
pub fn eval_on(stream: &Stream, values: &[&Var], buffers: &[&BufferVar]) -> Result<Event, Error> {
    region::forbid("evaluating");
    common_device(Some(stream.device()), values, buffers)?;
    run(stream.device(), values, buffers, stream)
}

/// The one device of all that has a device.
fn common_device(
    mut device: Option<Device>,
    values: &[&Var],
    buffers: &[&BufferVar],
) -> Result<Option<Device>, Error> {
    let devices = values.iter().filter_map(|v| v.device()).chain(buffers.iter().map(|b| b.device()));
    for d in devices {
        let first = *device.get_or_insert(d);
        if d != first {
            return Err(Error::MixedDevices { op: "eval", first: first.name(), second: d.name() });
        }
    }
    Ok(device)
}

#[track_caller]
fn run(device: Device, values: &[&Var], buffers: &[&BufferVar], stream: &Stream) -> Result<Event, Error> {
    let snapshots: Vec<Var> = buffers.iter().map(|b| b.current()).collect();
    let roots: Vec<NodeId> = values
        .iter()
        .filter(|v| v.device().is_some())
        .map(|v| v.id())
        .chain(snapshots.iter().map(Var::id))
        .collect();
    or_panic(device.with_trace(|t| roots.iter().try_for_each(|&r| t.check_top_level("evaluating", r))));
    evaluate(device, &roots, stream)?;
    let events: Vec<Event> =
        device.with_trace(|t| roots.iter().filter_map(|&r| t.storage(r)?.written()).collect());
    Ok(Event::all(device, events))
}
