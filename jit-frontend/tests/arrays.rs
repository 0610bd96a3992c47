//! Making, describing and reading arrays.

use jit_frontend as jit;
use jit_frontend::prelude::*;
use jit_frontend::{Element, Error, f16};

use crate::support::{array, fresh, on_each, panic_of, values};

#[test]
fn elements_of_every_type_go_there_and_back() {
    fn check<T: Element>(dev: &Device, elements: &[T]) {
        let a = Array::from_slice(elements, dev).expect("memory");
        assert_eq!(a.len(), elements.len());
        assert_eq!((a.dtype(), a.device()), (T::DTYPE, Some(*dev)));
        assert_eq!(values(&a), elements);
        assert_eq!(values(&Array::from_vec(elements.to_vec(), dev).expect("memory")), elements);
        assert_eq!(values(&a.gather(1)), &elements[1..2]);
    }
    on_each(|dev| {
        check(dev, &[true, false, true]);
        check(dev, &[i8::MIN, -1, 0, i8::MAX]);
        check(dev, &[0, 1, u8::MAX]);
        check(dev, &[i16::MIN, -1, i16::MAX]);
        check(dev, &[0, 1, u16::MAX]);
        check(dev, &[i32::MIN, -1, i32::MAX]);
        check(dev, &[0, 1, u32::MAX]);
        check(dev, &[i64::MIN, -1, i64::MAX]);
        check(dev, &[0, 1, u64::MAX]);
        check(dev, &[f16::MIN, f16::from_f32(-0.5), f16::INFINITY]);
        check(dev, &[-0.0f32, f32::MIN_POSITIVE / 2.0, f32::MAX]);
        check(dev, &[-0.0f64, 0.1, f64::INFINITY]);
        assert_eq!(values(&Array::<f32>::from_slice(&[], dev).expect("memory")), [] as [f32; 0]);
    });
}

#[test]
fn constant_arrays_take_no_memory() {
    let dev = fresh();
    let a = Array::<f32>::full(2.5, 1 << 40, &dev);
    assert_eq!((a.len(), dev.memory().bytes), (1 << 40, 0));
    assert_eq!(values(&Array::<u8>::zeros(3, &dev)), [0; 3]);
    let three = Array::full(7i64, 3, &dev);
    assert_eq!(values(&three.zeros_like()), [0; 3]);
    assert_eq!(values(&three.full_like(-1)), [-1; 3]);
    assert_eq!(Array::from(7i64).full_like(9).item().expect("a literal"), 9);
    assert_eq!(Array::<f32>::default().item().expect("a literal"), 0.0);
}

#[test]
fn sequences() {
    on_each(|dev| {
        assert_eq!(values(&Array::<u32>::arange(4, dev)), [0, 1, 2, 3]);
        assert_eq!(values(&Array::<u64>::arange(3, dev)), [0, 1, 2]);
        assert_eq!(values(&Array::<i8>::arange(3, dev)), [0, 1, 2]);
        assert_eq!(values(&Array::<f64>::arange(3, dev)), [0.0, 1.0, 2.0]);
        assert_eq!(values(&Array::linspace(-1.0f32, 1.0, 5, dev)), [-1.0, -0.5, 0.0, 0.5, 1.0]);
        assert_eq!(values(&Array::linspace(3.0f64, 9.0, 1, dev)), [3.0]);
        assert_eq!(values(&Array::linspace(3.0f64, 9.0, 0, dev)), [] as [f64; 0]);
        // The end is exact, also where the steps add up to something else.
        let tenths = values(&Array::linspace(0.0f32, 0.7, 8, dev));
        assert_eq!((tenths[0], tenths[7]), (0.0, 0.7));
        // Indices above 2048 are no f16.
        let halves = values(&Array::linspace(f16::ZERO, f16::ONE, 4097, dev));
        assert_eq!((halves[2048], halves[4096]), (f16::from_f32(0.5), f16::ONE));
        assert!(halves.is_sorted());
    });
}

#[test]
fn single_elements() {
    on_each(|dev| {
        let a = Array::from_slice(&[1.5f32, 2.5, 3.5], dev).expect("memory") * 2.0;
        assert!(!a.is_evaluated());
        assert_eq!(a.get(2).expect("in range"), 7.0);
        assert!(matches!(a.get(3), Err(Error::OutOfBounds { op: "get", index: 3, size: 3, .. })));
        assert!(matches!(a.item(), Err(Error::NotScalar { size: 3, .. })));
        assert_eq!(a.sum().item().expect("evaluation"), 15.0);
        jit::sync(&a).expect("evaluation");
        assert!(a.is_evaluated());
    });
}

#[test]
fn arrays_move_between_devices() {
    let (here, there) = (fresh(), fresh());
    let a = Array::from_slice(&[1u32, 2], &here).expect("memory");
    let b = Array::from_slice(&[10u32, 20], &there).expect("memory");
    let (message, file, line) = (panic_of(|| &a + &b), file!(), line!());
    assert_eq!((message.1.as_str(), message.2), (file, line));
    assert!(message.0.contains("to_device"), "{}", message.0);
    assert!(matches!(jit::eval(&(a.clone(), b.clone())), Err(Error::MixedDevices { .. })));
    assert_eq!(values(&((&a + 1).to_device(&there).expect("memory") + b)), [12, 23]);
    assert_eq!(Array::from(3u8).to_device(&there).expect("a literal").device(), Some(there));
}

#[test]
fn debug_says_what_and_display_says_how_much() {
    let a = array(&[1.0f32, -0.5]) * 2.0;
    let text = format!("{a:?}");
    assert!(text.starts_with("f32[2] lazy mul on interp#"), "{text}");
    assert!(!a.is_evaluated(), "Debug evaluates nothing");
    assert_eq!(a.to_string(), "[2.0, -1.0]");
    assert_eq!(format!("{:?}", Array::from(2.5f32)), "f32[1] literal 2.5");
    assert_eq!(Array::from(true).to_string(), "[true]");
    assert_eq!(Array::<u8>::zeros(0, &Device::interpreter()).to_string(), "[]");
    let twenty = (0..20).map(|i| i.to_string()).collect::<Vec<_>>().join(", ");
    assert_eq!(Array::<u32>::arange(20, &Device::interpreter()).to_string(), format!("[{twenty}]"));
    assert_eq!(
        Array::<u32>::arange(1000, &Device::interpreter()).to_string(),
        "[0, 1, 2, 3, 4, 5, 6, 7, ... 984 more, 992, 993, 994, 995, 996, 997, 998, 999]"
    );
}

#[test]
fn display_writes_errors_instead_of_failing() {
    let a = array(&[1.0f32]);
    if_else(
        &a.gt(0.0),
        a.clone(),
        |x| {
            let text = (&x + 1.0).to_string();
            assert!(text.starts_with("[error: reading an array inside a branch opened at"), "{text}");
            x
        },
        |x| x,
    );
    // A device that is held still: reading would have to wait.
    let dev = fresh();
    let b = Array::from_slice(&[1.0f32], &dev).expect("memory") + 2.0;
    let (open, gate) = std::sync::mpsc::channel::<()>();
    dev.core().submit_call(move || gate.recv().unwrap_or_default());
    let text = jit::forbid_host_sync(|| b.to_string());
    assert!(text.starts_with("[error:") && text.contains("forbid_host_sync"), "{text}");
    drop(open);
    assert_eq!(b.to_string(), "[3.0]");
}

#[test]
fn labels_are_seen_in_traces() {
    let a = array(&[1.0f32, 2.0]);
    let b = (&a + 1.0).label("albedo") * 3.0;
    assert!(b.trace().contains("\"albedo\""), "{}", b.trace());
    drop(b);
    let c = &a + 1.0;
    assert!(!c.trace().contains("albedo"), "a name goes with its value: {}", c.trace());
    assert_eq!(c.programs().len(), 1);
    jit::sync(&c).expect("evaluation");
    assert_eq!(c.programs().len(), 0);
}

#[test]
fn casts_convert_values_and_bitcasts_keep_bits() {
    on_each(|dev| {
        let a = Array::from_slice(&[-1.5f32, 300.0, f32::NAN], dev).expect("memory");
        assert_eq!(values(&a.cast::<u8>()), [0, 255, 0]);
        assert_eq!(values(&a.cast::<i16>()), [-1, 300, 0]);
        assert_eq!(values(&a.cast::<bool>()), [true, true, true]);
        assert_eq!(values(&a.cast::<f64>())[..2], [-1.5, 300.0]);
        assert_eq!(values(&a.bitcast::<u32>())[0], (-1.5f32).to_bits());
        assert_eq!(values(&Array::from_slice(&[true, false], dev).expect("memory").cast::<i64>()), [1, 0]);
    });
}

#[test]
fn handles_are_shared_between_threads() {
    fn is_shared<T: Send + Sync + Clone>() {}
    is_shared::<Array<f32>>();
    is_shared::<Buffer<u8>>();
    is_shared::<Device>();
    is_shared::<jit::Event>();
    let dev = fresh();
    let a = Array::<u32>::arange(100, &dev);
    std::thread::scope(|scope| {
        let handles: Vec<_> = (0..4u32)
            .map(|i| {
                scope.spawn({
                    let a = &a;
                    move || values(&(a + i))[99]
                })
            })
            .collect();
        let sums: Vec<u32> = handles.into_iter().map(|h| h.join().expect("no panic")).collect();
        assert_eq!(sums, [99, 100, 101, 102]);
    });
}
