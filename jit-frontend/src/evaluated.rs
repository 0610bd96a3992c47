//! Loops in evaluated mode: the closures run in each iteration, on the lanes that still go round.

use jit_core::dtype::DType;
use jit_core::error::Error;
use jit_core::op::Op;
use jit_core::runtime::Device;
use jit_core::trace::{self, ActiveLanes, EvaluatedLoop, Var, evaluated_lanes};

use crate::control::{default_device, same_structure};
use crate::leaves::{Leaves, with_arrays};
use crate::{Mask, Traverse};

/// Repeats the body while the condition holds; the final state.
#[track_caller]
pub(crate) fn run<S: Traverse>(
    state: S,
    name: Option<&str>,
    most: Option<u32>,
    condition: impl Fn(&S) -> Mask,
    body: impl Fn(S) -> S,
) -> Result<S, Error> {
    let leaves = Leaves::of(&state);
    let what = name.map_or_else(|| "the loop".to_owned(), |name| format!("the loop `{name}`"));
    let device = match leaves.device() {
        Some(device) => device,
        None => default_device(),
    };
    let mut lanes = Lanes::begin(device, &what, name, &leaves.arrays);
    let mut round = 0;
    loop {
        lanes.open.set_state(&lanes.state);
        let current = with_arrays(&state, lanes.state.iter().cloned());
        let test = condition(&current).as_var().clone();
        let test = lanes.joined(test);
        let stays = lanes.staying(&test, &leaves)?;
        if stays.is_empty() || most == Some(round) {
            break;
        }
        lanes.keep(&stays)?;
        lanes.open.set_state(&lanes.state);
        let next = body(with_arrays(&state, lanes.state.iter().cloned()));
        let after = Leaves::of(&next);
        if let Err(message) = same_structure(&format!("the body of {what}"), &state, &leaves, &next, &after) {
            panic!("{message}");
        }
        for (k, array) in after.arrays.into_iter().enumerate() {
            let (wanted, got) = (leaves.arrays[k].dtype(), array.dtype());
            assert!(
                wanted == got,
                "the body of {what} must return the state's types: {got} stands for {wanted}"
            );
            lanes.state[k] = lanes.joined(array);
        }
        round += 1;
    }
    let results = lanes.finish()?;
    Ok(with_arrays(&state, results))
}

/// The lanes of a loop, their state, and what has come of those that have stopped.
struct Lanes<'a> {
    device: Device,
    /// The loop, for messages.
    what: &'a str,
    open: EvaluatedLoop,
    /// Sizes at first and now.
    full: u64,
    width: u64,
    /// Which lanes of the full width are left, a companion included; none while all are.
    indices: Option<Vec<u32>>,
    /// Positions among these that have effects: not the companion.
    own: Vec<u32>,
    state: Vec<Var>,
    /// As wide as the loop was at first, once a lane has stopped.
    results: Vec<Var>,
}

impl<'a> Lanes<'a> {
    #[track_caller]
    fn begin(device: Device, what: &'a str, name: Option<&str>, state: &[Var]) -> Self {
        let outer = evaluated_lanes(device);
        let mut width = outer.as_ref().map_or(1, |(width, _)| *width);
        let open = EvaluatedLoop::begin(device, "a loop", name, width);
        // Values of their own: the array that a state starts from may also be captured.
        let state: Vec<Var> = state.iter().map(|array| open.seen(array).distinct().bind(device)).collect();
        for array in &state {
            if width == 1 {
                width = array.size();
            }
            let size = array.size();
            assert!(
                size == 1 || size == width,
                "{what} has arrays of {width} and of {size} elements in its state; sizes must be equal or 1"
            );
        }
        let mut lanes = Lanes {
            device,
            what,
            open,
            full: width,
            width,
            indices: None,
            own: Vec::new(),
            state,
            results: Vec::new(),
        };
        // Where only one lane of several is left in the loop around this one, the other one is a companion.
        let companion = outer.is_some_and(|(_, with_effects)| with_effects.is_some());
        lanes.widen(width);
        if companion {
            lanes.own.truncate(1);
        }
        lanes.tell(companion);
        lanes
    }

    /// All lanes are there, so many.
    fn widen(&mut self, width: u64) {
        (self.full, self.width) = (width, width);
        self.own = (0..width as u32).collect();
    }

    /// Tells the trace which lanes are left.
    fn tell(&self, companion: bool) {
        // Of a few bytes: there is memory, or the next evaluation says so.
        let indices = self.indices.as_ref().map(|indices| numbers(self.device, indices));
        let with_effects = companion.then(|| first_of(self.device, self.width, 1));
        match (indices.transpose(), with_effects.transpose()) {
            (Ok(indices), Ok(with_effects)) => {
                let (full, width) = (self.full, self.width);
                self.open.set_lanes(ActiveLanes { full, width, indices, with_effects });
            }
            (Err(error), _) | (_, Err(error)) => panic!("no memory for the lanes of {}: {error}", self.what),
        }
    }

    /// An array that joins the state: as wide as there are lanes, or of size 1.
    #[track_caller]
    fn joined(&mut self, array: Var) -> Var {
        // Literals belong to the device as placeholders do.
        let array = self.open.seen(&array).bind(self.device);
        let size = array.size();
        if self.width == 1 && size != 1 {
            self.widen(size);
            self.tell(false);
        }
        assert!(
            size == 1 || size == self.width,
            "{} has {} lanes and gets an array of {size} elements; sizes must be equal or 1",
            self.what,
            self.width
        );
        array
    }

    /// The positions of the lanes for which a condition holds. Waits.
    fn staying(&self, test: &Var, leaves: &Leaves) -> Result<Vec<u32>, Error> {
        let roots: Vec<&Var> = self.state.iter().chain([test]).collect();
        trace::eval(&roots, &leaves.buffers.iter().collect::<Vec<_>>())?;
        // What lanes did wrong is told to whoever waits for the results, as in a symbolic loop.
        let holds = test.read_untold()?;
        Ok(match &holds[..] {
            [all] if test.size() == 1 => {
                if *all == 0 {
                    Vec::new()
                } else {
                    self.own.clone()
                }
            }
            each => self.own.iter().copied().filter(|&lane| each[lane as usize] != 0).collect(),
        })
    }

    /// Goes on with these lanes alone.
    fn keep(&mut self, stays: &[u32]) -> Result<(), Error> {
        if stays.len() == self.own.len() {
            return Ok(());
        }
        let stops: Vec<u32> =
            self.own.iter().copied().filter(|lane| stays.binary_search(lane).is_err()).collect();
        self.store(&stops)?;
        let companion = stays.len() == 1;
        let mut positions = stays.to_vec();
        if companion {
            positions.resize(self.open.companion_width() as usize, stays[0]);
        }
        let at = numbers(self.device, &positions)?;
        let Lanes { open, state, device, .. } = self;
        for state in state.iter_mut().filter(|state| state.size() != 1) {
            *state = match state.local_len() {
                Some(len) => open.paused(|| state.flattened(*device).unflattened(*device, len, &at)),
                None => state.gather(&at, None),
            };
        }
        let lane = |&at: &u32| self.indices.as_ref().map_or(at, |indices| indices[at as usize]);
        self.indices = Some(positions.iter().map(lane).collect());
        self.width = positions.len() as u64;
        self.own = (0..stays.len() as u32).collect();
        self.tell(companion);
        Ok(())
    }

    /// Notes the state of lanes at these positions as their result.
    fn store(&mut self, positions: &[u32]) -> Result<(), Error> {
        if self.results.is_empty() {
            // As long as all lanes are left.
            let Lanes { open, device, full, state, .. } = &*self;
            let whole = |state: &Var| {
                let state = spread(*device, state, *full);
                if state.local_len().is_some() { state.flattened(*device) } else { state }
            };
            self.results = open.paused(|| state.iter().map(whole).collect());
            if self.indices.is_none() {
                return Ok(());
            }
        }
        let lane = |&at: &u32| self.indices.as_ref().map_or(at, |indices| indices[at as usize]);
        let lanes: Vec<u32> = positions.iter().map(lane).collect();
        let (at, lanes) = (numbers(self.device, positions)?, numbers(self.device, &lanes)?);
        let Lanes { open, state, results, device, width, .. } = self;
        open.paused(|| {
            for (result, state) in results.iter_mut().zip(state) {
                let Some(len) = state.local_len() else {
                    let value = if state.size() == 1 { state.clone() } else { state.gather(&at, None) };
                    result.scatter(Op::Scatter, &value, &lanes, None);
                    continue;
                };
                let flat = spread(*device, state, *width).flattened(*device);
                let value = flat.gather(&elements(*device, &at, len), None);
                result.scatter(Op::Scatter, &value, &elements(*device, &lanes, len), None);
            }
        });
        Ok(())
    }

    /// What has come of all lanes.
    fn finish(mut self) -> Result<Vec<Var>, Error> {
        if self.indices.is_some() {
            let own = self.own.clone();
            self.store(&own)?;
            let Lanes { device, full, open, state, results, .. } = self;
            let all = Var::counter(device, DType::U64, full);
            let shaped = |(result, state): (Var, Var)| match state.local_len() {
                Some(len) => result.unflattened(device, len, &all),
                None => result,
            };
            return Ok(open.paused(|| results.into_iter().zip(state).map(shaped).collect()));
        }
        let Lanes { device, full, open, state, .. } = self;
        Ok(open.paused(|| state.iter().map(|state| spread(device, state, full)).collect()))
    }
}

/// A mask of so many lanes that holds for the first ones.
pub(crate) fn first_of(device: Device, width: u64, count: u64) -> Result<Var, Error> {
    let bytes: Vec<u8> = (0..width).map(|lane| u8::from(lane < count)).collect();
    Var::upload(device, DType::Bool, width, &bytes)
}

/// An array of these numbers.
pub(crate) fn numbers(device: Device, numbers: &[u32]) -> Result<Var, Error> {
    let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_ne_bytes()).collect();
    Var::upload(device, DType::U32, numbers.len() as u64, &bytes)
}

/// An array as wide as that.
pub(crate) fn spread(device: Device, array: &Var, width: u64) -> Var {
    if array.size() == width {
        return array.clone();
    }
    match (array.local_len(), array.literal_bits()) {
        (Some(len), _) => {
            array.flattened(device).unflattened(device, len, &Var::full(device, DType::U32, 0, width))
        }
        (None, Some(bits)) => Var::full(device, array.dtype(), bits, width),
        (None, None) => array.gather(&Var::full(device, DType::U32, 0, width), None),
    }
}

/// The positions of the elements of these lanes of a local array among those of all.
fn elements(device: Device, lanes: &Var, len: u32) -> Var {
    let op = |op: Op, args: &[&Var]| Var::apply(op, DType::U64, args);
    let of = Var::counter(device, DType::U64, lanes.size() * u64::from(len));
    let len = Var::literal(DType::U64, u64::from(len));
    let lane = op(Op::Cast, &[&lanes.gather(&op(Op::Div, &[&of, &len]), None)]);
    op(Op::MulAdd, &[&lane, &len, &op(Op::Rem, &[&of, &len])])
}
