//! Switches in evaluated mode: each closure runs once, on the lanes that take it.

use jit_core::dtype::DType;
use jit_core::error::Error;
use jit_core::op::Op;
use jit_core::runtime::Device;
use jit_core::trace::{self, ActiveLanes, Case, EvaluatedLoop, Var, evaluated_lanes};

use crate::control::{default_device, same_structure};
use crate::element::Int;
use crate::evaluated::{first_of, numbers, spread};
use crate::leaves::{Leaves, with_arrays};
use crate::{Array, Traverse};

/// Runs, for each lane, the closure whose position is its index; zeros if there is none.
#[track_caller]
pub(crate) fn run<I: Int, A: Traverse, R: Traverse>(
    index: &Array<I>,
    name: Option<&str>,
    arguments: A,
    callables: &[&dyn Fn(A) -> R],
) -> Result<R, Error> {
    let what = name.map_or_else(|| "the switch".to_owned(), |name| format!("the switch `{name}`"));
    let leaves = Leaves::of(&arguments);
    let device = match index.as_var().device().or_else(|| leaves.device()) {
        Some(device) => device,
        None => default_device(),
    };
    let outer = evaluated_lanes(device);
    let width = outer.as_ref().map_or(1, |(width, _)| *width);
    // Where only one lane of several is left in the loop around this, the other one is a companion.
    let companion = outer.is_some_and(|(_, with_effects)| with_effects.is_some());
    let open = EvaluatedLoop::begin(device, "a switch", name, width);
    let index = open.seen(index.as_var());
    let arrays: Vec<Var> = leaves.arrays.iter().map(|array| open.seen(array)).collect();
    let sizes = arrays.iter().chain([&index]).map(Var::size);
    let width = sizes.clone().fold(width, |width, size| if width == 1 { size } else { width });
    for size in sizes {
        assert!(
            size == 1 || size == width,
            "{what} has {width} lanes and gets an array of {size} elements; sizes must be equal or 1"
        );
    }
    open.set_lanes(ActiveLanes { full: width, width, indices: None, with_effects: None });
    let mut tested = None;
    if device.options().checked {
        let zero = |_| -> Case<'_> { Box::new(|_| Ok(vec![Var::literal(DType::U32, 0)])) };
        tested = trace::checked_switch(device, &index, &[], callables.iter().map(zero)).pop();
    }
    let results = Vec::new();
    let mut parts = Parts { device, what: &what, open, width, companion, index, tested, results };
    parts.refuse_locals(&leaves);
    let mut like: Option<(R, Leaves)> = None;
    let mut of_callables = parts.by_callable(callables.len(), &arrays, &leaves)?;
    let effects = of_callables.iter().any(|lanes| !lanes.is_empty());
    if !effects {
        // What the results are is known once a closure has run: one does for a lane, without effects.
        of_callables[0] = if width == 0 { Vec::new() } else { vec![0] };
    }
    for (k, lanes) in of_callables.into_iter().enumerate() {
        if lanes.is_empty() && (effects || k > 0) {
            continue;
        }
        let (at, seen) = parts.narrow(lanes, &arrays, effects)?;
        let result = callables[k](with_arrays(&arguments, seen));
        let own = Leaves::of(&result);
        parts.refuse_locals(&own);
        match &like {
            None => parts.results = parts.zeros(&own),
            Some((first, before)) => {
                let of = format!("callable {k} of {what}");
                if let Err(message) = same_structure(&of, first, before, &result, &own) {
                    panic!("{message}");
                }
            }
        }
        if effects {
            parts.store(&own.arrays, at.as_ref());
            let results: Vec<&Var> = parts.results.iter().collect();
            trace::eval(&results, &own.buffers.iter().chain(&leaves.buffers).collect::<Vec<_>>())?;
        }
        like.get_or_insert((result, own));
    }
    let (like, _) = like.expect("a closure has run");
    Ok(with_arrays(&like, parts.results))
}

/// The lanes of a switch and what has come of them.
struct Parts<'a> {
    device: Device,
    /// The switch, for messages.
    what: &'a str,
    open: EvaluatedLoop,
    width: u64,
    /// Only the first lane is one, the others repeat what it does.
    companion: bool,
    index: Var,
    /// On checked devices 0, computed by a switch that tests the index.
    tested: Option<Var>,
    results: Vec<Var>,
}

impl Parts<'_> {
    #[track_caller]
    fn refuse_locals(&self, leaves: &Leaves) {
        assert!(
            leaves.arrays.iter().all(|array| array.local_len().is_none()),
            "{} takes or gives a local array, which evaluated mode cannot do; use `Mode::Symbolic`",
            self.what
        );
    }

    /// The lanes that take each closure. Waits.
    fn by_callable(&self, count: usize, arrays: &[Var], leaves: &Leaves) -> Result<Vec<Vec<u32>>, Error> {
        // A negative index, read as unsigned, is past any number of closures.
        let wide = Var::apply(Op::Cast, DType::U64, &[&self.index]);
        let which = Var::apply(Op::Min, DType::U64, &[&wide, &Var::literal(DType::U64, count as u64)]);
        let which = Var::apply(Op::Cast, DType::U32, &[&which]);
        let roots: Vec<&Var> = arrays.iter().chain([&which]).chain(&self.tested).collect();
        trace::eval(&roots, &leaves.buffers.iter().collect::<Vec<_>>())?;
        let bytes = which.read_untold()?;
        let mut lanes = vec![Vec::new(); count];
        let taken = bytes
            .chunks_exact(size_of::<u32>())
            .map(|bytes| u32::from_ne_bytes(bytes.try_into().expect("four bytes")));
        let taken: Vec<u32> = taken.collect();
        for lane in 0..self.width as u32 {
            let which = if which.size() == 1 { taken[0] } else { taken[lane as usize] };
            if let Some(lanes) = lanes.get_mut(which as usize) {
                lanes.push(lane);
            }
        }
        Ok(lanes)
    }

    /// Goes on with these lanes: where they are, unless they are all, and the arrays as they see them.
    fn narrow(
        &self,
        mut lanes: Vec<u32>,
        arrays: &[Var],
        effects: bool,
    ) -> Result<(Option<Var>, Vec<Var>), Error> {
        let Parts { device, open, width: full, .. } = self;
        let mut companion = self.companion;
        if lanes.len() == 1 && *full > 1 {
            lanes.resize(open.companion_width() as usize, lanes[0]);
            companion = true;
        }
        let width = lanes.len() as u64;
        let at = if width == *full { None } else { Some(numbers(*device, &lanes)?) };
        let with_effects = match (effects, companion) {
            (true, false) => None,
            _ => Some(first_of(*device, width, u64::from(effects))?),
        };
        open.set_lanes(ActiveLanes { full: *full, width, indices: at.clone(), with_effects });
        let seen = arrays.iter().map(|array| match &at {
            Some(at) if array.size() != 1 => array.gather(at, None),
            // Values of their own: the array may also be captured. Literals belong to the device as placeholders do.
            _ => array.distinct().bind(*device),
        });
        let seen: Vec<Var> = seen.collect();
        open.set_state(&seen);
        Ok((at, seen))
    }

    /// Results as no lane has them that takes a closure.
    #[track_caller]
    fn zeros(&self, like: &Leaves) -> Vec<Var> {
        self.open.paused(|| {
            let zeros = like.arrays.iter().map(|array| {
                let width = if self.width == 1 { array.size() } else { self.width };
                match &self.tested {
                    Some(zero) => spread(self.device, &Var::apply(Op::Cast, array.dtype(), &[zero]), width),
                    None => Var::full(self.device, array.dtype(), 0, width),
                }
            });
            zeros.collect()
        })
    }

    /// Puts what a closure gave at its lanes.
    #[track_caller]
    fn store(&mut self, values: &[Var], at: Option<&Var>) {
        let Parts { device, what, open, width, results, .. } = self;
        for (result, value) in results.iter_mut().zip(values) {
            let value = open.seen(value);
            let (wanted, got) = (result.dtype(), value.dtype());
            assert!(
                wanted == got,
                "all callables of {what} must return the same types: {got} stands for {wanted}"
            );
            let (size, lanes) = (value.size(), at.map_or(*width, Var::size));
            assert!(
                size == 1 || size == lanes || *width == 1,
                "a callable of {what} has {lanes} lanes and gives an array of {size} elements; sizes must be equal or 1"
            );
            open.paused(|| match at {
                Some(at) => result.scatter(Op::Scatter, &value, at, None),
                None if *width == 1 => *result = value.clone(),
                None => *result = spread(*device, &value, *width),
            });
        }
    }
}
