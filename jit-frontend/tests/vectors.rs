//! Short vectors.

use jit_frontend::prelude::*;

use crate::support::{array, values};

fn vector(x: &[f32], y: &[f32], z: &[f32]) -> Vec3<Array<f32>> {
    Vec3::new(array(x), array(y), array(z))
}

fn components(v: &Vec3<Array<f32>>) -> [Vec<f32>; 3] {
    [values(&v.x), values(&v.y), values(&v.z)]
}

#[test]
fn operators_in_all_forms() {
    let (u, v) = (vector(&[1.0], &[2.0], &[3.0]), vector(&[4.0], &[0.5], &[2.0]));
    let sum = [vec![5.0], vec![2.5], vec![5.0]];
    assert_eq!(components(&(&u + &v)), sum);
    assert_eq!(components(&(u.clone() + v.clone())), sum);
    assert_eq!(components(&(&u + v.clone())), sum);
    assert_eq!(components(&(u.clone() + &v)), sum);
    assert_eq!(components(&(&u - &v)), [vec![-3.0], vec![1.5], vec![1.0]]);
    assert_eq!(components(&(&u * &v)), [vec![4.0], vec![1.0], vec![6.0]]);
    assert_eq!(components(&(&u / &v)), [vec![0.25], vec![4.0], vec![1.5]]);
    assert_eq!(components(&-&u), components(&-u.clone()));
    let two = array(&[2.0f32]);
    let twice = [vec![2.0], vec![4.0], vec![6.0]];
    assert_eq!(components(&(&u * 2.0)), twice);
    assert_eq!(components(&(u.clone() * 2.0)), twice);
    assert_eq!(components(&(2.0 * &u)), twice);
    assert_eq!(components(&(2.0 * u.clone())), twice);
    assert_eq!(components(&(&two * &u)), twice);
    assert_eq!(components(&(two.clone() * u.clone())), twice);
    assert_eq!(components(&(&u * &two)), twice);
    assert_eq!(components(&(u.clone() * two.clone())), twice);
    assert_eq!(components(&(6.0 / &u)), [vec![6.0], vec![3.0], vec![2.0]]);
    assert_eq!(components(&(1.0 - &u)), [vec![0.0], vec![-1.0], vec![-2.0]]);
    let mut w = u.clone();
    w += &v;
    w -= v;
    w *= 4.0;
    w /= &two;
    assert_eq!(components(&w), twice);
    assert_eq!(2.0 * Vec2::new(1.0, 2.0) - Vec2::splat(1.0) / 2.0, Vec2::new(1.5, 3.5));
    assert_eq!(Vec2::new(1, 2) + 3, Vec2::new(4, 5));
}

#[test]
fn geometry() {
    let (u, v) =
        (vector(&[1.0, 0.0], &[2.0, 3.0], &[2.0, 4.0]), vector(&[0.0, 1.0], &[1.0, 0.0], &[0.0, 0.0]));
    assert_eq!(values(&u.dot(&v)), [2.0, 0.0]);
    assert_eq!(values(&u.length_squared()), [9.0, 25.0]);
    assert_eq!(values(&u.length()), [3.0, 5.0]);
    assert_eq!(components(&u.cross(&v)), [vec![-2.0, 0.0], vec![0.0, 4.0], vec![1.0, -3.0]]);
    let unit = u.normalize();
    assert!(values(&unit.length()).iter().all(|l| (l - 1.0).abs() < 1e-6));
    assert_eq!(components(&u.min(&v)), [vec![0.0, 0.0], vec![1.0, 0.0], vec![0.0, 0.0]]);
    assert_eq!(components(&u.max(&v)), [vec![1.0, 1.0], vec![2.0, 3.0], vec![2.0, 4.0]]);
    assert_eq!(values(&(-&u).abs().max_element()), [2.0, 4.0]);
    assert_eq!(values(&u.min_element()), [1.0, 0.0]);
    assert_eq!(components(&u.lerp(&v, &array(&[1.0]))), components(&v));
    let mask = array(&[true, false]);
    assert_eq!(values(&Vec3::select(&mask, u.clone(), v.clone()).x), [1.0, 1.0]);
    let down = Vec3::new(1.0f64, -1.0, 0.0);
    assert_eq!(down.reflect(&Vec3::new(0.0, 1.0, 0.0)), Vec3::new(1.0, 1.0, 0.0));
    assert_eq!(Vec4::new(1.0, 2.0, 3.0, 4.0).dot(&Vec4::splat(1.0)), 10.0);
    assert_eq!(
        Vec3::from([1, 2, 3]).map(|x| x * 2).zip(Vec3::splat(1), |a, b| a + b).into_array(),
        [3, 5, 7]
    );
}

#[test]
fn dot_is_a_chain_of_mul_add() {
    let v = Vec3::new(1.1f32, 2.3, 3.7);
    assert_eq!(v.dot(&v), 3.7f32.mul_add(3.7, 2.3f32.mul_add(2.3, 1.1 * 1.1)));
}
