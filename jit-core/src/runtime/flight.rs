//! Evaluations between planning and commit.
//!
//! Planning marks the nodes that a plan evaluates and the effects that it runs; whoever plans with a marked node waits until
//! that evaluation has committed or failed, and then looks again. Only evaluations that planned earlier are waited for, so
//! nobody waits in a circle.

use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

use crate::runtime::Device;
use crate::trace::{IN_FLIGHT, NodeId, Trace};

/// What waits for an evaluation's commit waits here.
#[derive(Default)]
pub(crate) struct Landing {
    landed: Mutex<bool>,
    changed: Condvar,
}

impl Landing {
    /// Waits until the evaluation has committed or failed.
    pub(crate) fn wait(&self) {
        let mut landed = self.landed.lock();
        while !*landed {
            self.changed.wait(&mut landed);
        }
    }

    fn land(&self) {
        *self.landed.lock() = true;
        self.changed.notify_all();
    }
}

/// The evaluations of a device that are under way.
#[derive(Default)]
pub(crate) struct Flights(Vec<Mark>);

struct Mark {
    landing: Arc<Landing>,
    /// Retained, so that a concurrent drop cannot free them.
    nodes: Vec<NodeId>,
    /// Whether the plan overwrites memory.
    effects: bool,
}

impl Flights {
    /// The evaluation that marked a node.
    fn of(&self, node: NodeId) -> Option<Arc<Landing>> {
        self.0.iter().find(|f| f.nodes.contains(&node)).map(|f| Arc::clone(&f.landing))
    }
}

/// An evaluation under way. Dropping it ends it, whether that is by its commit, an error, or a panic of the backend.
pub(crate) struct Flight {
    device: Device,
    landing: Arc<Landing>,
}

impl Trace {
    /// The evaluation that one of these nodes is part of.
    pub(crate) fn flight_among(&self, nodes: &[NodeId]) -> Option<Arc<Landing>> {
        if self.flights.0.is_empty() {
            return None;
        }
        let marked = nodes.iter().find(|&&id| self.node(id).flags & IN_FLIGHT != 0)?;
        self.flights.of(*marked)
    }

    /// Marks the nodes of a plan.
    pub(crate) fn take_off(&mut self, device: Device, nodes: Vec<NodeId>, effects: bool) -> Flight {
        for &id in &nodes {
            self.retain(id);
            self.slab.get_mut(id).flags |= IN_FLIGHT;
        }
        let landing = Arc::<Landing>::default();
        self.flights.0.push(Mark { landing: Arc::clone(&landing), nodes, effects });
        self.in_flight |= effects;
        Flight { device, landing }
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        self.device.with_trace(|trace| {
            let flights = &mut trace.flights.0;
            let at = flights.iter().position(|f| Arc::ptr_eq(&f.landing, &self.landing)).expect("a flight");
            let nodes = flights.swap_remove(at).nodes;
            trace.in_flight = flights.iter().any(|f| f.effects);
            for id in nodes {
                trace.slab.get_mut(id).flags &= !IN_FLIGHT;
                trace.release(id);
            }
        });
        self.landing.land();
    }
}
