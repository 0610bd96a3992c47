//! `#[derive(Traverse)]` and the structures of values.

use std::hash::{DefaultHasher, Hasher};
use std::marker::PhantomData;

use jit_frontend as jit;
use jit_frontend::prelude::*;
use jit_frontend::traverse::Visitor;

use crate::support::{array, panic_of, values};

#[derive(Clone, Traverse)]
struct Particle<A> {
    position: Vec3<A>,
    mass: A,
    #[traverse(skip)]
    species: u8,
    #[traverse(ignore)]
    comment: &'static str,
}

#[derive(Clone, Traverse)]
struct Pair<A, B>(A, #[traverse(skip)] u32, Option<B>)
where
    B: Clone;

#[derive(Clone, Traverse)]
struct Nothing;

#[derive(Clone, Traverse)]
struct Sizes<A, const N: usize> {
    rows: [A; N],
    unit: Nothing,
    boxed: Box<A>,
    list: Vec<Pair<A, Array<u32>>>,
    kind: PhantomData<A>,
    place: Buffer<u32>,
}

/// Number of arrays and buffers.
fn count(tree: &impl Traverse) -> (usize, usize) {
    struct Count(usize, usize);
    impl Visitor for Count {
        fn array(&mut self, _: &jit::traverse::Var) {
            self.0 += 1;
        }
        fn buffer(&mut self, _: &jit::traverse::BufferVar) {
            self.1 += 1;
        }
    }
    let mut count = Count(0, 0);
    tree.visit(&mut count);
    (count.0, count.1)
}

fn key(tree: &impl Traverse) -> u64 {
    let mut hasher = DefaultHasher::new();
    tree.static_key(&mut hasher);
    hasher.finish()
}

fn particle(x: f32, species: u8, comment: &'static str) -> Particle<Array<f32>> {
    Particle { position: Vec3::splat(array(&[x, x + 1.0])), mass: array(&[1.0, 2.0]), species, comment }
}

#[test]
fn fields_are_leaves_keys_or_nothing() {
    let p = particle(1.0, 3, "a");
    assert_eq!(count(&p), (4, 0));
    assert_eq!(key(&p), key(&particle(9.0, 3, "b")), "leaves and ignored fields are not in the key");
    assert_ne!(key(&p), key(&particle(1.0, 4, "a")), "skipped fields are");
    let gathered = jit::gather(&p, Array::from(1u32));
    assert_eq!((gathered.species, gathered.comment), (3, "a"));
    assert_eq!((values(&gathered.position.y), values(&gathered.mass)), (vec![2.0], vec![2.0]));
}

#[test]
fn all_shapes_are_derived() {
    let place = Buffer::<u32>::zeros(1, &Device::interpreter()).expect("memory");
    let pair = |b: Option<Array<u32>>| Pair(array(&[1.0f64]), 7, b);
    let tree = Sizes {
        rows: [array(&[1.0f64]), array(&[2.0])],
        unit: Nothing,
        boxed: Box::new(array(&[3.0])),
        list: vec![pair(None), pair(Some(array(&[4])))],
        kind: PhantomData,
        place: place.clone(),
    };
    assert_eq!(count(&tree), (6, 1));
    let mut other = tree.clone();
    assert_eq!(key(&tree), key(&other));
    other.list.pop();
    assert_ne!(key(&tree), key(&other));
    other.list.push(pair(None));
    assert_ne!(key(&tree), key(&other), "variants are in the key");
    assert_eq!(count(&Nothing), (0, 0));
    jit::sync(&tree).expect("evaluation");
}

#[test]
fn tuples_and_plain_numbers() {
    let a = || Array::from(1u8);
    let tree = (a(), a(), a(), a(), a(), a(), a(), a(), a(), a(), a(), (a(), 5u32, 1.5f32, true, ()));
    assert_eq!(count(&tree), (12, 0));
    assert_eq!(key(&(1u32, 2.0f32)), key(&(1u32, 2.0f32)));
    assert_ne!(key(&(1u32, 0.0f32)), key(&(1u32, -0.0f32)));
}

#[test]
fn different_structures_do_not_mix() {
    let m = array(&[true, false]);
    let (message, file, line) = panic_of(|| jit::select(&m, particle(1.0, 1, ""), particle(1.0, 2, "")));
    assert!(message.contains("structure") && file == file!() && line == line!() - 1, "{message}");
    let chosen = jit::select(&m, particle(1.0, 1, "x"), particle(5.0, 1, "y"));
    assert_eq!((values(&chosen.position.x), chosen.comment), (vec![1.0, 6.0], "x"));
    let buffer = Buffer::<u32>::zeros(1, &Device::interpreter()).expect("memory");
    let (message, ..) = panic_of(|| jit::gather(&buffer, 0));
    assert!(message.contains("buffers"), "{message}");
}
