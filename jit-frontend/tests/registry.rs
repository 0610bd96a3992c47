//! Registries: values of several types behind a trait.

use std::cell::Cell;

use jit_frontend as jit;
use jit_frontend::prelude::*;
use jit_frontend::{Error, Registry};

use crate::support::{array, fresh, on_each, panic_of, values};

/// Something with a height at each place.
trait Field: Send + Sync {
    fn at(&self, x: &Array<f32>) -> Array<f32>;
}

#[derive(Clone, Traverse)]
struct Constant {
    value: Array<f32>,
}

#[derive(Clone, Traverse)]
struct Line {
    slope: Array<f32>,
    offset: Array<f32>,
}

/// Heights of whole places, shared or not; how often they are asked for is counted.
#[derive(Clone, Traverse)]
struct Grid {
    heights: Array<f32>,
    scale: Array<f32>,
    asked: Buffer<u32>,
    #[traverse(skip)]
    shift: u32,
}

impl Field for Constant {
    fn at(&self, _x: &Array<f32>) -> Array<f32> {
        self.value.clone()
    }
}

impl Field for Line {
    fn at(&self, x: &Array<f32>) -> Array<f32> {
        &self.slope * x + &self.offset
    }
}

impl Field for Grid {
    fn at(&self, x: &Array<f32>) -> Array<f32> {
        self.asked.scatter_add(1, 0u32);
        self.heights.gather(x.cast::<u32>() + self.shift) * &self.scale
    }
}

fn heights(fields: &Registry<dyn Field>, ids: &Array<u32>, x: &Array<f32>) -> Array<f32> {
    fields.call(ids, x.clone(), |field, x| field.at(&x))
}

fn line(slope: f32, offset: f32) -> Line {
    Line { slope: slope.into(), offset: offset.into() }
}

#[test]
fn lanes_call_the_values_that_they_name() {
    for n in [0, 1, 3, 4, 5, 7, 8, 9, 15, 16, 17, 1000usize] {
        on_each(|dev| {
            let fields = Registry::<dyn Field>::new(dev);
            let asked = Buffer::<u32>::zeros(1, dev).expect("memory");
            let table = Array::from_slice(&[1.0f32, 2.0, 4.0, 8.0], dev).expect("memory");
            let grid =
                |scale: Array<f32>| Grid { heights: table.clone(), scale, asked: asked.clone(), shift: 1 };
            // In memory, lazy, and a number.
            let evaluated = Array::from_slice(&[3.0f32], dev).expect("memory");
            let ids = [
                fields.add(Constant { value: 5.0.into() }, |f| f),
                fields.add(line(2.0, 1.0), |f| f),
                fields.add(grid(10.0.into()), |f| f),
                fields.add(Line { slope: &evaluated + 1.0, offset: evaluated.clone() }, |f| f),
                fields.add(grid(evaluated), |f| f),
            ];
            assert_eq!((ids, fields.len()), ([1, 2, 3, 4, 5], 5));
            let which: Vec<u32> =
                (0..n as u32).map(|i| [0, 1, 2, 3, 4, 5, 6, u32::MAX][(i * 3 % 8) as usize]).collect();
            let place = |i: usize| (i % 5) as f32;
            let x: Vec<f32> = (0..n).map(place).collect();
            let twin = |(&id, &x): (&u32, &f32)| match id {
                1 => 5.0,
                2 => 2.0 * x + 1.0,
                3 => [2.0, 4.0, 8.0, 0.0, 0.0][x as usize] * 10.0,
                4 => 4.0 * x + 3.0,
                5 => [2.0, 4.0, 8.0, 0.0, 0.0][x as usize] * 3.0,
                _ => 0.0,
            };
            let expected: Vec<f32> = which.iter().zip(&x).map(twin).collect();
            let y = heights(
                &fields,
                &Array::from_slice(&which, dev).expect("memory"),
                &Array::from_slice(&x, dev).expect("memory"),
            );
            assert_eq!(values(&y), expected, "{n} lanes");
            let of_grids = which.iter().filter(|id| [3, 5].contains(id)).count() as u32;
            assert_eq!(values(&asked.value()), [of_grids], "{n} lanes");
        });
    }
}

#[test]
fn many_values_cost_no_more_tracing_than_few() {
    let traced = |count: u32| {
        let dev = fresh();
        let fields = Registry::<dyn Field>::new(&dev);
        let table = array(&[1.0f32, 2.0]).to_device(&dev).expect("memory");
        let asked = Buffer::<u32>::zeros(1, &dev).expect("memory");
        for i in 0..count {
            let k = i as f32;
            match i % 3 {
                0 => fields.add(Constant { value: k.into() }, |f| f),
                1 => fields.add(line(k, 1.0), |f| f),
                _ => {
                    let (heights, asked) = (table.clone(), asked.clone());
                    fields.add(Grid { heights, scale: k.into(), asked, shift: 0 }, |f| f)
                }
            };
        }
        let ids = Array::<u32>::arange(20_000, &dev);
        let x = Array::full(1.0f32, 20_000, &dev);
        let calls = Cell::new(0);
        let y: Array<f32> = fields.call(&ids, x, |field, x| {
            calls.set(calls.get() + 1);
            field.at(&x)
        });
        let lines = y.trace().lines().count();
        let y = values(&y);
        for id in [1, 2, 3, count - 2, count - 1, count] {
            let k = (id - 1) as f32;
            let expected = [k, k + 1.0, 2.0 * k][(id as usize - 1) % 3];
            assert_eq!(y[id as usize], expected, "value {id} of {count}");
        }
        assert_eq!((y[0], y[count as usize + 1]), (0.0, 0.0));
        (calls.get(), lines)
    };
    let few = traced(6);
    assert_eq!(few.0, 3);
    assert_eq!(traced(10_000), few);
}

#[test]
fn classes_differ_in_structure_and_large_leaves() {
    on_each(|dev| {
        let asked = Buffer::<u32>::zeros(1, dev).expect("memory");
        let upload = |values: &[f32]| Array::from_slice(values, dev).expect("memory");
        let (short, long) = (upload(&[1.0, 2.0]), upload(&[10.0, 20.0, 30.0]));
        let fields = Registry::<dyn Field>::new(dev);
        for (heights, shift) in [(&short, 0), (&short, 1), (&long, 0), (&short, 0), (&long, 2)] {
            let (heights, asked) = (heights.clone(), asked.clone());
            fields.add(Grid { heights, scale: 1.0.into(), asked, shift }, |f| f);
        }
        assert!(format!("{fields:?}").contains("5 values in 4 classes"), "{fields:?}");
        let ids = Array::from_slice(&[1u32, 2, 3, 4, 5], dev).expect("memory");
        let y = heights(&fields, &ids, &Array::from(0.0));
        assert_eq!(values(&y), [1.0, 2.0, 10.0, 1.0, 30.0]);
    });
}

#[test]
fn updates_are_seen_by_later_calls_alone() {
    on_each(|dev| {
        let fields = Registry::<dyn Field>::new(dev);
        let ids: Vec<u32> = (0..4).map(|k| fields.add(line(k as f32, 0.0), |f| f)).collect();
        let flat = fields.add(Constant { value: 100.0.into() }, |f| f);
        let lanes = Array::from_slice(&[ids[0], ids[1], ids[2], ids[3], flat], dev).expect("memory");
        let x = Array::from(2.0f32);
        let before = heights(&fields, &lanes, &x);
        fields.update(ids[1], &line(10.0, 1.0)).expect("a value");
        let between = heights(&fields, &lanes, &x);
        // To another type: the last line gets its place among lines; then there is no constant at first.
        fields.update(ids[0], &Constant { value: 7.0.into() }).expect("a value");
        fields.update(flat, &line(0.0, -1.0)).expect("a value");
        let after = heights(&fields, &lanes, &x);
        let added = fields.add(Constant { value: 8.0.into() }, |f| f);
        fields.update(ids[0], &line(3.0, 3.0)).expect("a value");
        let last = heights(&fields, &(&lanes + 1), &x);
        assert_eq!(added, flat + 1);
        assert_eq!(values(&before), [0.0, 2.0, 4.0, 6.0, 100.0]);
        assert_eq!(values(&between), [0.0, 21.0, 4.0, 6.0, 100.0]);
        assert_eq!(values(&after), [7.0, 21.0, 4.0, 6.0, -1.0]);
        assert_eq!(values(&last), [21.0, 4.0, 6.0, -1.0, 8.0]);
        assert_eq!(values(&heights(&fields, &lanes, &x)), [9.0, 21.0, 4.0, 6.0, -1.0]);
        for id in [0, 7, u32::MAX] {
            let error = fields.update(id, &line(0.0, 0.0)).expect_err("nothing has that number");
            assert!(matches!(error, Error::OutOfBounds { size: 6, .. }), "{error}");
        }
    });
}

#[test]
fn calls_stand_in_loops_and_loops_in_calls() {
    struct Stepper {
        times: Array<u32>,
    }
    impl Traverse for Stepper {
        fn visit(&self, visitor: &mut dyn jit::traverse::Visitor) {
            self.times.visit(visitor);
        }
        fn rebuild(&self, rebuilder: &mut dyn jit::traverse::Rebuilder) -> Self {
            Stepper { times: self.times.rebuild(rebuilder) }
        }
        fn static_key(&self, _state: &mut dyn std::hash::Hasher) {}
    }
    impl Field for Stepper {
        fn at(&self, x: &Array<f32>) -> Array<f32> {
            let start = (x.clone(), Array::from(0u32));
            while_loop(start, |(_, i)| i.lt(&self.times), |(x, i)| (x + 1.0, i + 1)).0
        }
    }
    on_each(|dev| {
        let fields = Registry::<dyn Field>::new(dev);
        // Lazy leaves, so that tables are made of more than numbers, inside of a loop.
        let one = Array::from_slice(&[1u32], dev).expect("memory");
        fields.add(Stepper { times: &one + 1 }, |f| f);
        fields.add(Stepper { times: one }, |f| f);
        fields.add(line(2.0, 0.0), |f| f);
        let ids = Array::<u32>::arange(100, dev) % 5;
        let x = Array::<u32>::arange(100, dev).cast::<f32>();
        let (x, _) = while_loop(
            (x, Array::from(0u32)),
            |(_, i)| i.lt(3),
            |(x, i)| (heights(&fields, &ids, &x), i + 1),
        );
        let twin = |i: usize| {
            (0..3).fold(i as f32, |x, _| match i % 5 {
                1 => x + 2.0,
                2 => x + 1.0,
                3 => x * 2.0,
                _ => 0.0,
            })
        };
        assert_eq!(values(&x), (0..100).map(twin).collect::<Vec<_>>());
    });
}

/// A field that is one of others, chosen by the place, and deeper by one.
struct Nested {
    fields: Registry<dyn Field>,
    inner: Array<u32>,
}

impl Traverse for Nested {
    fn visit(&self, visitor: &mut dyn jit::traverse::Visitor) {
        self.inner.visit(visitor);
    }
    fn rebuild(&self, rebuilder: &mut dyn jit::traverse::Rebuilder) -> Self {
        Nested { fields: self.fields.clone(), inner: self.inner.rebuild(rebuilder) }
    }
    fn static_key(&self, _state: &mut dyn std::hash::Hasher) {}
}

impl Field for Nested {
    fn at(&self, x: &Array<f32>) -> Array<f32> {
        heights(&self.fields, &self.inner, x) + 100.0
    }
}

#[test]
fn values_call_other_registries() {
    on_each(|dev| {
        let leaves = Registry::<dyn Field>::new(dev);
        leaves.add(line(1.0, 1.0), |f| f);
        leaves.add(line(2.0, 2.0), |f| f);
        leaves.add(Constant { value: 3.0.into() }, |f| f);
        let fields = Registry::<dyn Field>::new(dev);
        for inner in [1u32, 2, 3, 0] {
            fields.add(Nested { fields: leaves.clone(), inner: inner.into() }, |f| f);
        }
        let ids = Array::from_slice(&[1u32, 2, 3, 4, 5], dev).expect("memory");
        let y = heights(&fields, &ids, &Array::from(10.0));
        assert_eq!(values(&y), [111.0, 122.0, 103.0, 100.0, 0.0]);
    });
}

#[test]
fn a_value_that_calls_its_own_registry_is_an_error() {
    let dev = fresh();
    let fields = Registry::<dyn Field>::new(&dev);
    fields.add(line(1.0, 1.0), |f| f);
    fields.add(Nested { fields: fields.clone(), inner: 1.into() }, |f| f);
    let ids = Array::from_slice(&[1u32, 2], &dev).expect("memory");
    let (message, file, _) = panic_of(|| heights(&fields, &ids, &Array::from(10.0)));
    assert!(message.contains("dyn") && message.contains("Field") && message.contains("32 deep"), "{message}");
    assert!(file.ends_with("registry.rs"), "{file}");
    // Everything is as it was, and calls that are not open in each other are not counted.
    let lines = Registry::<dyn Field>::new(&dev);
    lines.add(line(1.0, 1.0), |f| f);
    for _ in 0..40 {
        assert_eq!(values(&heights(&lines, &ids, &Array::from(10.0))), [11.0, 0.0]);
    }
}

#[test]
fn misuse_is_reported() {
    let dev = fresh();
    let fields = Registry::<dyn Field>::new(&dev);
    let ids = Array::from_slice(&[1u32, 2], &dev).expect("memory");
    let message = |f: &dyn Fn()| panic_of(f).0;
    let got = message(&|| drop(heights(&fields, &ids, &Array::from(0.0))));
    assert!(got.contains("without values"), "{got}");
    assert!(fields.is_empty() && fields.update(1, &line(1.0, 1.0)).is_err());
    fields.add(line(1.0, 1.0), |f| f);
    let got = message(&|| drop(fields.update(1, &Constant { value: 1.0.into() })));
    assert!(got.contains("Constant") && got.contains("has no value"), "{got}");
    let elsewhere = Array::from_slice(&[1.0f32], &fresh()).expect("memory");
    let got = message(&|| {
        fields.add(Constant { value: elsewhere.clone() }, |f| f);
    });
    assert!(got.contains("registry on"), "{got}");
    let got = message(&|| {
        while_loop(
            ids.clone(),
            |i| i.lt(3),
            |i| {
                fields.add(line(1.0, 1.0), |f| f);
                i + 1
            },
        );
    });
    assert!(got.contains("Registry::add") && got.contains("inside a loop"), "{got}");
    assert_eq!(values(&heights(&fields, &ids, &Array::from(1.0))), [2.0, 0.0]);
}
