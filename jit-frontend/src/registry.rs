//! [`Registry`]: values of several types behind one trait, called lane by lane.

use std::any::{Any, TypeId, type_name};
use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;

use jit_core::dtype::DType;
use jit_core::error::Error;
use jit_core::op::Op;
use jit_core::runtime;
use jit_core::trace::{self, BufferVar, Case, Var};
use parking_lot::Mutex;

use crate::control::same_structure;
use crate::leaves::{Leaves, structure, with_arrays};
use crate::{Array, Device, Traverse};

/// The most calls of one registry that may be open in each other on a thread.
const MAX_DEPTH: usize = 32;

/// Values of several types that implement one trait `D`, each known by a number; lanes hold numbers and
/// [`call`](Registry::call) a method of the values that these name.
///
/// A call traces its closure once for each *class* of values, however many values there are. Values are of one class if
/// they have one type, one [`static_key`](Traverse::static_key), and the same large leaves. Leaves of size 1 are what values of a
/// class differ in: they stand in tables, one for each leaf, from which a lane gathers those of its value. All other leaves,
/// arrays of other sizes and [`Buffer`](crate::Buffer)s, belong to the class: values that share them (clones of one array, one
/// buffer) share a class, others do not. Tables are made when a call first needs them: leaves that are plain numbers are copied,
/// each other one is written there by a small kernel.
///
/// Numbers start at 1; for number 0 and for those that nothing has a call gives zeros (false) and has no effects. Numbers that
/// nothing has, other than 0, are reported as indices outside on a checked device. A clone is the same registry.
///
/// ```
/// # use jit_frontend as jit;
/// # use jit::prelude::*;
/// # use jit::Registry;
/// # fn main() -> Result<(), jit::Error> {
/// trait Shape {
///     fn area(&self) -> Array<f32>;
/// }
///
/// #[derive(Traverse)]
/// struct Square(Array<f32>);
///
/// #[derive(Traverse)]
/// struct Circle(Array<f32>);
///
/// impl Shape for Square {
///     fn area(&self) -> Array<f32> {
///         &self.0 * &self.0
///     }
/// }
///
/// impl Shape for Circle {
///     fn area(&self) -> Array<f32> {
///         3.0 * &self.0 * &self.0
///     }
/// }
///
/// let device = Device::interpreter();
/// let shapes = Registry::<dyn Shape>::new(&device);
/// let small = shapes.add(Square(1.0.into()), |s| s);
/// let large = shapes.add(Square(5.0.into()), |s| s);
/// let round = shapes.add(Circle(2.0.into()), |s| s);
/// let ids = Array::from_slice(&[large, 0, round, small], &device)?;
/// let areas: Array<f32> = shapes.call(&ids, (), |shape, ()| shape.area());
/// assert_eq!(areas.to_vec()?, [25.0, 0.0, 12.0, 1.0]);
///
/// shapes.update(small, &Square(3.0.into()))?;
/// let later: Array<f32> = shapes.call(&ids, (), |shape, ()| shape.area());
/// assert_eq!(later.to_vec()?, [25.0, 0.0, 12.0, 9.0]);
/// # Ok(())
/// # }
/// ```
pub struct Registry<D: ?Sized> {
    device: runtime::Device,
    values: Arc<Mutex<Values<D>>>,
}

impl<D: ?Sized + 'static> Registry<D> {
    /// A registry without values.
    pub fn new(device: &Device) -> Registry<D> {
        let values = Values { classes: Vec::new(), places: Vec::new(), directory: None };
        Registry { device: device.core(), values: Arc::new(Mutex::new(values)) }
    }

    /// Adds a value; its number. `view` shows it as the trait, which is always written `|value| value`; of the values of
    /// one type the first one's counts.
    ///
    /// # Panics
    /// If an array or buffer of it lives on another device; if an array of it is a local one; inside the closure of a loop or
    /// branch.
    #[track_caller]
    pub fn add<B: Traverse + Send + Sync + 'static>(&self, value: B, view: fn(&B) -> &D) -> u32 {
        let parts = Parts::of(&value, self.device, "Registry::add");
        let mut values = self.values.lock();
        let id = u32::try_from(values.places.len() + 1).expect("fewer values than u32 counts");
        values.places.push(Place::default());
        values.insert(id, value, view, parts);
        id
    }

    /// Replaces the value of a number. What was computed from the earlier one, or will be by calls that were traced before,
    /// keeps it. The value may be of another type, of which some value is in the registry.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`] if nothing has that number.
    ///
    /// # Panics
    /// As [`add`](Self::add); if no value of its type is in the registry.
    #[track_caller]
    pub fn update<B: Traverse + Send + Sync + 'static>(&self, id: u32, value: &B) -> Result<(), Error> {
        let parts = Parts::of(value, self.device, "Registry::update");
        // The same leaves.
        let copy = with_arrays(value, Leaves::of(value).arrays);
        let mut values = self.values.lock();
        let size = values.places.len();
        if id == 0 || id as usize > size {
            return Err(Error::OutOfBounds {
                op: "Registry::update",
                location: String::new(),
                index: i128::from(id),
                size: size as u64,
            });
        }
        let view = values.classes.iter().find_map(|class| class.as_any().downcast_ref::<Typed<D, B>>());
        let Some(view) = view.map(|class| class.view) else {
            drop(values);
            panic!(
                "`Registry::update` with a {}, of which the registry has no value; add one",
                type_name::<B>()
            );
        };
        let last = values.remove(id);
        values.insert(id, copy, view, parts);
        drop(values);
        // What the class of the earlier value holds may end here, and that may be anybody's code.
        drop(last);
        Ok(())
    }

    /// The number of values.
    pub fn len(&self) -> usize {
        self.values.lock().places.len()
    }

    /// Whether there is no value.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Calls the closure, lane by lane, with the value that a number names and the arguments; zeros (false) for numbers
    /// that name none.
    ///
    /// Arguments and result are any [`Traverse`] values; the closure must return one structure and the same element types for
    /// all classes of values. It is traced once for each class, and runs as the closures of a [`switch`](crate::switch()) do; it may
    /// stand in loops and branches, and call registries in turn.
    ///
    /// # Panics
    /// At the caller's line if there are no values; if structures, types, sizes or devices do not fit; if calls of this registry
    /// are open in each other more than 32 deep, as by a method that calls itself; if there is no memory for the tables. A panic of
    /// the closure goes through and leaves everything as it was.
    #[track_caller]
    pub fn call<A: Traverse, R: Traverse>(
        &self,
        ids: &Array<u32>,
        arguments: A,
        closure: impl Fn(&D, A) -> R,
    ) -> R {
        let Some(_call) = OpenCall::enter(Arc::as_ptr(&self.values).addr()) else {
            panic!(
                "calls of Registry<{}> are open in each other more than {MAX_DEPTH} deep; a method that calls the registry again for itself never ends while it is traced",
                type_name::<D>()
            );
        };
        let (directory, classes) = match self.values.lock().prepare(self.device) {
            Ok(prepared) => prepared,
            Err(error) => panic!("no tables for the values of a registry: {error}"),
        };
        assert!(
            !classes.is_empty(),
            "`Registry::call` of a registry without values; there is nothing that it could return"
        );
        let leaves = Leaves::of(&arguments);
        let mut operands = vec![ids.as_var().clone()];
        operands.extend(leaves.arrays.iter().cloned());
        let one = Var::literal(DType::U32, 1);
        // From 1 on; what is out of range reads 0, which is no class either.
        let class = directory.classes.gather(ids.as_var(), None);
        let mut class = Var::apply(Op::Sub, DType::U32, &[&class, &one]);
        let first: RefCell<Option<(R, Leaves)>> = RefCell::new(None);
        let (arguments, first_result, closure, slots) = (&arguments, &first, &closure, &directory.slots);
        let calls = classes.iter().map(|class| -> Case<'_> {
            Box::new(move |mut placeholders| {
                let ids = placeholders.remove(0);
                let mut outcome = Ok(Vec::new());
                class.with_value(&|| slots.gather(&ids, None), &mut |value| {
                    let result = closure(value, with_arrays(arguments, placeholders.iter().cloned()));
                    let leaves = Leaves::of(&result);
                    outcome = Ok(leaves.arrays.clone());
                    let mut first = first_result.borrow_mut();
                    match first.as_ref() {
                        None => *first = Some((result, leaves)),
                        Some((expected, before)) => {
                            let what = format!("the call of a {}", class.type_name());
                            if let Err(message) = same_structure(&what, expected, before, &result, &leaves) {
                                outcome = Err(message);
                            }
                        }
                    }
                });
                outcome
            })
        });
        let mut cases: Vec<Case<'_>> = calls.collect();
        if self.device.options().checked {
            // Number 0 is no mistake that the switch should report.
            let nobody = Var::literal(DType::U32, cases.len() as u64);
            class = Var::apply(Op::Min, DType::U32, &[&class, &nobody]);
            cases.push(Box::new(|_| {
                let first = first_result.borrow();
                let (_, leaves) = first.as_ref().expect("another case comes first");
                Ok(leaves.arrays.iter().map(zero).collect())
            }));
        }
        let results = trace::checked_switch(self.device, &class, &operands, cases);
        let (like, _) = first.into_inner().expect("a closure has run");
        with_arrays(&like, results)
    }
}

impl<D: ?Sized> Clone for Registry<D> {
    fn clone(&self) -> Self {
        Registry { device: self.device, values: self.values.clone() }
    }
}

impl<D: ?Sized> fmt::Debug for Registry<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let values = self.values.lock();
        let (len, classes) = (values.places.len(), values.classes.len());
        write!(f, "Registry<{}> of {len} values in {classes} classes", type_name::<D>())
    }
}

/// The values of a registry.
struct Values<D: ?Sized> {
    classes: Vec<Box<dyn Class<D>>>,
    /// Where the value of each number is, from number 1 on.
    places: Vec<Place>,
    directory: Option<Directory>,
}

/// The position of a value's class, and of the value in it.
#[derive(Clone, Copy, Default)]
struct Place {
    class: usize,
    slot: usize,
}

/// [`Place`]s as tables by number: classes from 1 on, slots; 0 for number 0.
#[derive(Clone)]
struct Directory {
    classes: Var,
    slots: Var,
}

/// The classes as calls see them.
type Prepared<D> = Vec<Arc<dyn Prepare<D>>>;

impl<D: ?Sized + 'static> Values<D> {
    fn insert<B: Traverse + Send + Sync + 'static>(
        &mut self,
        id: u32,
        value: B,
        view: fn(&B) -> &D,
        parts: Parts,
    ) {
        self.directory = None;
        let found = self.classes.iter_mut().enumerate().find_map(|(at, class)| {
            let class = class.as_any_mut().downcast_mut::<Typed<D, B>>()?;
            class.shape.same(&parts.shape).then_some((at, class))
        });
        let (class, slot) = match found {
            Some((at, class)) => {
                class.add(id, parts.scalars);
                (at, class.ids.len() - 1)
            }
            None => {
                let scalars = vec![parts.scalars];
                let class = Typed {
                    like: Arc::new(value),
                    view,
                    shape: parts.shape,
                    ids: vec![id],
                    scalars,
                    prepared: None,
                };
                self.classes.push(Box::new(class));
                (self.classes.len() - 1, 0)
            }
        };
        self.places[id as usize - 1] = Place { class, slot };
    }

    /// Takes a value out of its class, where the last one gets its place; the class, if it was the only one.
    fn remove(&mut self, id: u32) -> Option<Box<dyn Class<D>>> {
        let Place { class, slot } = self.places[id as usize - 1];
        if let Some(moved) = self.classes[class].remove(slot) {
            self.places[moved as usize - 1].slot = slot;
        }
        if !self.classes[class].ids().is_empty() {
            return None;
        }
        let last = self.classes.swap_remove(class);
        if let Some(moved) = self.classes.get(class) {
            for &id in moved.ids() {
                self.places[id as usize - 1].class = class;
            }
        }
        Some(last)
    }

    fn prepare(&mut self, device: runtime::Device) -> Result<(Directory, Prepared<D>), Error> {
        let directory = match &self.directory {
            Some(directory) => directory.clone(),
            None => {
                let table = |of: &dyn Fn(&Place) -> usize| {
                    let numbers = std::iter::once(0).chain(self.places.iter().map(of));
                    upload(device, DType::U32, numbers.map(|number| number as u64))
                };
                let directory = Directory {
                    classes: table(&|place| place.class + 1)?,
                    slots: table(&|place| place.slot)?,
                };
                self.directory.insert(directory).clone()
            }
        };
        let classes: Result<_, Error> = self.classes.iter_mut().map(|class| class.prepare(device)).collect();
        Ok((directory, classes?))
    }
}

/// Values of one class, whatever their type.
trait Class<D: ?Sized>: Send + Sync {
    /// The numbers of the values.
    fn ids(&self) -> &[u32];

    /// Removes a value; the number of the one that is now in its place.
    fn remove(&mut self, slot: usize) -> Option<u32>;

    fn prepare(&mut self, device: runtime::Device) -> Result<Arc<dyn Prepare<D>>, Error>;

    fn as_any(&self) -> &dyn Any;

    fn as_any_mut(&mut self) -> &mut dyn Any;
}

/// A class as calls see it: later changes of the registry do not change it.
trait Prepare<D: ?Sized>: Send + Sync {
    /// Calls the closure with the value of a lane, whose slot another one gives if that is needed.
    fn with_value(&self, slot: &dyn Fn() -> Var, use_value: &mut dyn FnMut(&D));

    fn type_name(&self) -> &'static str;
}

struct Typed<D: ?Sized, B> {
    /// Gives values their structure and their shared leaves.
    like: Arc<B>,
    view: fn(&B) -> &D,
    shape: Shape,
    ids: Vec<u32>,
    /// The leaves of size 1, by value.
    scalars: Vec<Vec<Var>>,
    prepared: Option<Arc<View<D, B>>>,
}

impl<D: ?Sized, B> Typed<D, B> {
    fn add(&mut self, id: u32, scalars: Vec<Var>) {
        self.ids.push(id);
        self.scalars.push(scalars);
        self.prepared = None;
    }
}

impl<D: ?Sized + 'static, B: Traverse + Send + Sync + 'static> Class<D> for Typed<D, B> {
    fn ids(&self) -> &[u32] {
        &self.ids
    }

    fn remove(&mut self, slot: usize) -> Option<u32> {
        self.ids.swap_remove(slot);
        self.scalars.swap_remove(slot);
        self.prepared = None;
        self.ids.get(slot).copied()
    }

    fn prepare(&mut self, device: runtime::Device) -> Result<Arc<dyn Prepare<D>>, Error> {
        if let Some(prepared) = &self.prepared {
            return Ok(prepared.clone());
        }
        let scalars = match &self.scalars[..] {
            // One value needs no table.
            [only] => only.iter().cloned().map(Scalar::Same).collect(),
            many => {
                let column = |k: usize| many.iter().map(|scalars| &scalars[k]).collect::<Vec<_>>();
                let tables = (0..many[0].len()).map(|k| table(device, &column(k)).map(Scalar::Table));
                tables.collect::<Result<_, Error>>()?
            }
        };
        let shared = self.shape.arrays.iter().map(|(_, shared)| shared.clone()).collect();
        let view = Arc::new(View { like: self.like.clone(), view: self.view, shared, scalars });
        Ok(self.prepared.insert(view).clone())
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

struct View<D: ?Sized, B> {
    like: Arc<B>,
    view: fn(&B) -> &D,
    /// For each array among the leaves the one that all values share; none of size 1.
    shared: Vec<Option<Var>>,
    scalars: Vec<Scalar>,
}

/// A leaf of size 1.
enum Scalar {
    Same(Var),
    /// By slot.
    Table(Var),
}

impl<D: ?Sized, B: Traverse + Send + Sync> Prepare<D> for View<D, B> {
    fn with_value(&self, slot: &dyn Fn() -> Var, use_value: &mut dyn FnMut(&D)) {
        let tables = self.scalars.iter().any(|scalar| matches!(scalar, Scalar::Table(_)));
        let slot = tables.then(slot);
        let mut scalars = self.scalars.iter().map(|scalar| match scalar {
            Scalar::Same(value) => value.clone(),
            Scalar::Table(table) => table.gather(slot.as_ref().expect("a slot for tables"), None),
        });
        let arrays = self.shared.iter().map(|shared| match shared {
            Some(shared) => shared.clone(),
            None => scalars.next().expect("as many as there are arrays of size 1"),
        });
        let value = with_arrays(&*self.like, arrays.collect::<Vec<_>>());
        use_value((self.view)(&value));
    }

    fn type_name(&self) -> &'static str {
        type_name::<B>()
    }
}

/// An array of a value: its type and, unless its size is 1, itself.
type Member = (DType, Option<Var>);

/// What values of one class have in common.
struct Shape {
    of: TypeId,
    structure: u64,
    arrays: Vec<Member>,
    buffers: Vec<BufferVar>,
}

impl Shape {
    fn same(&self, other: &Shape) -> bool {
        let same_array = |(a, b): (&Member, &Member)| {
            a.0 == b.0
                && match (&a.1, &b.1) {
                    (Some(a), Some(b)) => a.same(b),
                    (a, b) => a.is_none() && b.is_none(),
                }
        };
        self.of == other.of
            && self.structure == other.structure
            && self.arrays.len() == other.arrays.len()
            && self.buffers.len() == other.buffers.len()
            && self.arrays.iter().zip(&other.arrays).all(same_array)
            && self.buffers.iter().zip(&other.buffers).all(|(a, b)| a.same(b))
    }
}

/// A value taken apart.
struct Parts {
    shape: Shape,
    scalars: Vec<Var>,
}

impl Parts {
    #[track_caller]
    fn of<B: Traverse + 'static>(value: &B, device: runtime::Device, what: &str) -> Parts {
        trace::forbid_inside_regions(what);
        let Leaves { arrays, buffers } = Leaves::of(value);
        let devices = arrays.iter().filter_map(Var::device).chain(buffers.iter().map(BufferVar::device));
        if let Some(other) = devices.into_iter().find(|&other| other != device) {
            panic!("`{what}` of a value on {} to a registry on {}", other.name(), device.name());
        }
        assert!(
            arrays.iter().all(|array| array.local_len().is_none()),
            "`{what}` of a value that holds a local array, which has no place in a table"
        );
        let (mut shapes, mut scalars) = (Vec::new(), Vec::new());
        for array in arrays {
            let dtype = array.dtype();
            if array.size() == 1 {
                shapes.push((dtype, None));
                scalars.push(array);
            } else {
                shapes.push((dtype, Some(array)));
            }
        }
        let shape = Shape { of: TypeId::of::<B>(), structure: structure(value), arrays: shapes, buffers };
        Parts { shape, scalars }
    }
}

/// Zero (false), or zeros of a local array, of that type.
fn zero(like: &Var) -> Var {
    match like.local_len() {
        Some(len) => Var::local_zeros(like.dtype(), len as usize),
        None => Var::literal(like.dtype(), 0),
    }
}

/// An array of these values of size 1.
fn table(device: runtime::Device, values: &[&Var]) -> Result<Var, Error> {
    let dtype = values[0].dtype();
    let literals: Vec<Option<u64>> = values.iter().map(|value| value.literal_bits()).collect();
    let mut table = upload(device, dtype, literals.iter().map(|bits| bits.unwrap_or(0)))?;
    // The values are of the top level, and so is their table, though a region may be open where it is first needed.
    trace::outside_regions(|| {
        for (slot, (value, literal)) in values.iter().zip(&literals).enumerate() {
            if literal.is_none() {
                table.scatter(Op::Scatter, value, &Var::literal(DType::U32, slot as u64), None);
            }
        }
    });
    Ok(table)
}

/// An array of these bits.
fn upload(device: runtime::Device, dtype: DType, bits: impl Iterator<Item = u64>) -> Result<Var, Error> {
    let mut bytes = Vec::new();
    let mut len = 0;
    let size = dtype.size();
    for element in bits {
        // In the host's order, the bytes of a number of that size.
        match cfg!(target_endian = "little") {
            true => bytes.extend_from_slice(&element.to_ne_bytes()[..size]),
            false => bytes.extend_from_slice(&element.to_ne_bytes()[8 - size..]),
        }
        len += 1;
    }
    Var::upload(device, dtype, len, &bytes)
}

thread_local! {
    /// The registries that this thread is calling, outermost first.
    static CALLS: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// A call that is being traced.
struct OpenCall;

impl OpenCall {
    /// None if there are too many of that registry already.
    fn enter(registry: usize) -> Option<OpenCall> {
        CALLS.with_borrow_mut(|calls| {
            if calls.iter().filter(|&&open| open == registry).count() >= MAX_DEPTH {
                return None;
            }
            calls.push(registry);
            Some(OpenCall)
        })
    }
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        CALLS.with_borrow_mut(|calls| {
            calls.pop();
        });
    }
}
