//! What lanes say: printed lines, and assertions that fail.
//!
//! Each call is a branch on its mask, whose lanes write a record into a buffer that the device keeps for this. Whoever waits
//! for the device takes the records out and gives them their words. Records are sorted by the outermost loop or branch that
//! they come from, in the order of the program; then by lane; then by a ticket that each record draws, which grows on one
//! lane.

use std::collections::{HashMap, VecDeque};
use std::panic::Location;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use jit_core::dtype::{DType, format_bits};
use jit_core::error::Error;
use jit_core::op::Op;
use jit_core::runtime::{self, is_host_sync_forbidden};
use jit_core::trace::{self, BufferVar, Var};

use crate::control::default_device;
use crate::{Array, Element, Mask};

/// What is given lines.
pub(crate) type Sink = Arc<dyn Fn(&str) + Send + Sync>;

/// What each lane where the mask is true prints: the text, with the lane's values of arrays for each `{}` (`{{` and `}}` are
/// braces), after the lane's number.
///
/// Lines appear when the host next waits: at [`sync`](crate::sync), at that of the device or a stream, at
/// [`Event::wait`](crate::Event::wait), or where an array of the device is read; what has not run for another reason runs then.
/// Inside a loop or branch every lane that gets there prints, each time. The lines of one outermost loop, branch or call
/// appear in the order of lanes, those of one lane in the order in which it printed them.
///
/// The lanes are those of the device of mask and arrays; of literals alone that which [`while_loop`](crate::while_loop()) takes
/// for such.
///
/// Of the calls with a certain number of arrays 1,024 lines appear from one wait to the next, and it is said how many are
/// left out.
///
/// ```
/// # use jit_frontend as jit;
/// # use jit::prelude::*;
/// # use std::sync::{Arc, Mutex};
/// # fn main() -> Result<(), jit::Error> {
/// let lines = Arc::new(Mutex::new(String::new()));
/// let into = lines.clone();
/// let dev = Device::builder(jit::DeviceKind::Interpreter)
///     .print_to(move |text| into.lock().unwrap().push_str(text))
///     .build()?;
/// let t = Array::<u32>::arange(4, &dev) * 10;
/// jit::print_lanes(&t.gt(15), "t = {}", &[&t]);
/// dev.sync()?;
/// assert_eq!(*lines.lock().unwrap(), "lane 2: t = 20\nlane 3: t = 30\n");
/// # Ok(())
/// # }
/// ```
///
/// # Panics
/// At the caller's line if there are not as many arrays as `{}`, or sizes or devices do not fit.
#[track_caller]
pub fn print_lanes(mask: &Mask, text: &str, arrays: &[&dyn Printed]) {
    let pieces = pieces(text);
    assert!(
        pieces.len() == arrays.len() + 1,
        "`print_lanes` of {} arrays with a text that has {} of {{}}",
        arrays.len(),
        pieces.len() - 1
    );
    let vars: Vec<Var> = arrays.iter().map(|array| array.printed().clone()).collect();
    say(Kind::Print, &mask.var, &vars, pieces, Location::caller());
}

/// That a mask is true on all lanes that get here. Where it is not, the host's next wait (see [`print_lanes`]) is
/// [`Error::LaneAssertion`], once.
///
/// Does nothing unless the library is compiled with debug assertions or the device is checked
/// ([`DeviceBuilder::checked`](crate::DeviceBuilder::checked)).
///
/// # Panics
/// At the caller's line if sizes or devices do not fit.
#[track_caller]
pub fn debug_assert_lanes(mask: &Mask, message: &str) {
    if cfg!(debug_assertions) || mask.var.device().is_some_and(|device| device.options().checked) {
        let fails = Var::apply(Op::Not, DType::Bool, &[&mask.var]);
        say(Kind::Assert, &fails, &[], vec![message.to_owned()], Location::caller());
    }
}

/// What [`print_lanes`] prints: an array of any element type.
pub trait Printed: sealed::Sealed {
    #[doc(hidden)]
    fn printed(&self) -> &Var;
}

mod sealed {
    pub trait Sealed {}
    impl<T: crate::Element> Sealed for crate::Array<T> {}
}

impl<T: Element> Printed for Array<T> {
    fn printed(&self) -> &Var {
        &self.var
    }
}

/// Gives lines to that sink from here on. For devices that have not printed yet.
pub(crate) fn print_to(device: runtime::Device, sink: Sink) {
    let _ = device.attached(|| Lines::new(sink));
}

/// Has what lanes of a device said told, after a wait of the host that had this result. An error of the wait comes before
/// theirs, which are then kept for the next one.
pub(crate) fn tell<T>(device: Option<runtime::Device>, result: Result<T, Error>) -> Result<T, Error> {
    let Some(lines) = device.map(lines) else { return result };
    lines.collect();
    let value = result?;
    lines.next_error().map_or(Ok(value), Err)
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    Print,
    Assert,
}

/// What a device keeps for what its lanes say.
struct Lines {
    sink: Sink,
    /// Whether there may be something to tell.
    pending: AtomicBool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    sites: Vec<Arc<Site>>,
    numbers: HashMap<Site, u64>,
    /// What numbers records in the order in which they are written.
    tickets: Option<BufferVar>,
    /// What nobody has been told.
    errors: VecDeque<Error>,
    /// Records, by kind and number of values.
    buffers: HashMap<(Kind, usize), BufferVar>,
}

/// One call in the program, with types.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Site {
    kind: Kind,
    /// The text around the values.
    pieces: Vec<String>,
    types: Vec<DType>,
    location: &'static Location<'static>,
}

/// What a record begins with: region, lane, ticket, site. The values come after these.
const HEADER: usize = 4;

/// Records that a buffer has room for.
const ROOM: u64 = 1024;

struct Record {
    order: [u64; 3],
    site: Arc<Site>,
    values: Vec<u64>,
}

#[expect(clippy::print_stdout, reason = "what the user asked to be printed")]
fn lines(device: runtime::Device) -> &'static Lines {
    device.attached(|| Lines::new(Arc::new(|text| print!("{text}"))))
}

/// Has each lane where the mask is true write a record.
#[track_caller]
fn say(kind: Kind, mask: &Var, values: &[Var], pieces: Vec<String>, location: &'static Location<'static>) {
    let own = mask.device().or_else(|| values.iter().find_map(Var::device));
    let device = match own {
        Some(device) => device,
        None => default_device(),
    };
    let types = values.iter().map(Var::dtype).collect();
    let lines = lines(device);
    let (site, tickets, buffer) = lines.place(device, Site { kind, pieces, types, location });
    let nothing = |_| Ok(Vec::new());
    trace::checked_if(
        device,
        mask,
        values,
        |values| {
            let number = |n: u64| Var::literal(DType::U64, n);
            let op = |op: Op, args: [&Var; 2]| Var::apply(op, DType::U64, &args);
            let region = trace::open_serial().expect("inside of a branch");
            let ticket = tickets.atomic_inc(&number(0), None);
            let slot = buffer.atomic_inc(&number(0), None);
            let fits = op(Op::Lt, [&slot, &number(ROOM)]);
            let size = (HEADER + values.len()) as u64;
            let first = Var::apply(Op::MulAdd, DType::U64, &[&slot, &number(size), &number(1)]);
            let header = [number(region), trace::lane_index(device), ticket, number(site)];
            for (k, word) in header.into_iter().chain(values.iter().map(bits)).enumerate() {
                let at = op(Op::Add, [&first, &number(k as u64)]);
                buffer.scatter(Op::Scatter, &word, &at, Some(&fits));
            }
            Ok(Vec::new())
        },
        nothing,
    );
    // Release: who sees it set finds the records in the trace.
    lines.pending.store(true, Ordering::Release);
}

/// A value's bits as a u64.
#[track_caller]
fn bits(value: &Var) -> Var {
    let dtype = value.dtype();
    let unsigned = match dtype {
        DType::F16 | DType::I16 => DType::U16,
        DType::F32 | DType::I32 => DType::U32,
        DType::F64 | DType::I64 => DType::U64,
        DType::I8 => DType::U8,
        other => other,
    };
    let bits = if unsigned == dtype { value.clone() } else { Var::apply(Op::Bitcast, unsigned, &[value]) };
    if unsigned == DType::U64 { bits } else { Var::apply(Op::Cast, DType::U64, &[&bits]) }
}

/// The text around each `{}`.
#[track_caller]
fn pieces(text: &str) -> Vec<String> {
    let mut pieces = vec![String::new()];
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let next = chars.peek().copied();
        match (c, next) {
            ('{', Some('}')) => pieces.push(String::new()),
            ('{', Some('{')) | ('}', Some('}')) => pieces.last_mut().expect("a piece").push(c),
            ('{' | '}', _) => panic!("`{text}`: braces are {{}} for a value, or doubled"),
            _ => {
                pieces.last_mut().expect("a piece").push(c);
                continue;
            }
        }
        chars.next();
    }
    pieces
}

impl Lines {
    fn new(sink: Sink) -> Lines {
        Lines { sink, pending: AtomicBool::new(false), state: Mutex::default() }
    }

    /// The number of a site, and the buffers that its lanes write to.
    #[track_caller]
    fn place(&self, device: runtime::Device, site: Site) -> (u64, BufferVar, BufferVar) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let State { sites, numbers, tickets, buffers, .. } = &mut *state;
        let tickets = tickets.get_or_insert_with(|| BufferVar::zeros(device, DType::U64, 1)).clone();
        let count = site.types.len();
        let words = 1 + ROOM * (HEADER + count) as u64;
        let buffer =
            buffers.entry((site.kind, count)).or_insert_with(|| BufferVar::zeros(device, DType::U64, words));
        let number = numbers.get(&site).copied().unwrap_or_else(|| {
            sites.push(Arc::new(site.clone()));
            numbers.insert(site, sites.len() as u64 - 1);
            sites.len() as u64 - 1
        });
        (number, tickets, buffer.clone())
    }

    /// The first error that is kept.
    fn next_error(&self) -> Option<Error> {
        // Acquire: pairs with the store of who keeps one.
        if !self.pending.load(Ordering::Acquire) {
            return None;
        }
        self.state.lock().unwrap_or_else(PoisonError::into_inner).errors.pop_front()
    }

    /// Takes out what lanes wrote, prints lines, and keeps the first assertion that failed.
    fn collect(&self) {
        // Acquire: see `say`. Two threads that collect at once take different records.
        let may_wait = !is_host_sync_forbidden() && trace::open_device().is_none();
        if !may_wait || !self.pending.swap(false, Ordering::Acquire) {
            return;
        }
        let buffers: Vec<((Kind, usize), BufferVar)> = {
            let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.buffers.iter().map(|(&key, buffer)| (key, buffer.clone())).collect()
        };
        let taken: Vec<((Kind, usize), Var)> =
            buffers.into_iter().map(|(key, buffer)| (key, buffer.take())).collect();
        let written: Vec<&Var> = taken.iter().map(|(_, var)| var).collect();
        let mut errors: Vec<Error> = trace::eval(&written, &[]).err().into_iter().collect();
        let (mut records, mut left_out) = (Vec::new(), 0);
        for &((kind, count), ref var) in &taken {
            let words = words(var, &mut errors);
            let Some((&written, rest)) = words.split_first() else { continue };
            let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            let all = rest.chunks_exact(HEADER + count).take(usize::try_from(written).unwrap_or(usize::MAX));
            records.extend(all.map(|record| Record {
                order: [record[0], record[1], record[2]],
                site: Arc::clone(&state.sites[record[3] as usize]),
                values: record[HEADER..].to_vec(),
            }));
            if kind == Kind::Print {
                left_out += written.saturating_sub(ROOM);
            }
        }
        records.sort_unstable_by_key(|record| record.order);
        let (text, failed) = told(&records, left_out);
        errors.extend(failed);
        if !errors.is_empty() {
            self.state.lock().unwrap_or_else(PoisonError::into_inner).errors.extend(errors);
            // Release: pairs with the load of who asks for it.
            self.pending.store(true, Ordering::Release);
        }
        if !text.is_empty() {
            (self.sink)(&text);
        }
    }
}

/// The elements of a buffer's version; none, and why, if it could not be computed.
fn words(var: &Var, errors: &mut Vec<Error>) -> Vec<u64> {
    loop {
        match var.read() {
            Ok(bytes) => return as_words(&bytes),
            // Told once; what lanes wrote is there.
            Err(error @ Error::OutOfBounds { .. }) => errors.push(error),
            Err(error) => {
                errors.push(error);
                return Vec::new();
            }
        }
    }
}

fn as_words(bytes: &[u8]) -> Vec<u64> {
    let word = |bytes: &[u8]| u64::from_ne_bytes(bytes.try_into().expect("eight bytes"));
    bytes.chunks_exact(size_of::<u64>()).map(word).collect()
}

/// The text of sorted records, and the first failed assertion among them.
fn told(records: &[Record], left_out: u64) -> (String, Option<Error>) {
    let mut text = String::new();
    let mut failed = None;
    for record in records {
        match record.site.kind {
            Kind::Print => record.print(&mut text),
            Kind::Assert => failed = failed.or(Some(record)),
        }
    }
    if left_out > 0 {
        text.push_str(&format!("... {left_out} more lines\n"));
    }
    let failed = failed.map(|record| Error::LaneAssertion {
        message: record.site.pieces[0].clone(),
        location: record.site.location.to_string(),
        lane: record.order[1],
    });
    (text, failed)
}

impl Record {
    fn print(&self, text: &mut String) {
        let Record { order: [_, lane, _], site, values } = self;
        text.push_str(&format!("lane {lane}: "));
        for (k, piece) in site.pieces.iter().enumerate() {
            text.push_str(piece);
            if let (Some(&bits), Some(&dtype)) = (values.get(k), site.types.get(k)) {
                text.push_str(&format_bits(dtype, bits));
            }
        }
        text.push('\n');
    }
}
