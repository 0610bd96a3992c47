//! Textures against the same arithmetic on plain numbers.

use jit_frontend::prelude::*;
use jit_frontend::{Error, Filter, Texture1, Texture2, Texture3, Wrap, f16};

use crate::support::{on_each, values};

const WRAPS: [Wrap; 3] = [Wrap::Repeat, Wrap::Clamp, Wrap::Mirror];
const COORDINATES: [f32; 20] = [
    0.0,
    -0.0,
    0.124,
    0.125,
    0.25,
    0.5,
    0.999_999_94,
    1.0,
    1.1,
    1.875,
    2.0,
    -0.3,
    -1.0,
    -1e-20,
    7.3,
    1e9,
    -1e30,
    f32::INFINITY,
    f32::NEG_INFINITY,
    f32::NAN,
];

/// The texels on one axis and the weight of the second.
fn site(at: f32, n: usize, filter: Filter, wrap: Wrap) -> (usize, usize, f32) {
    let (count, last) = (n as f32, n as f32 - 1.0);
    let defined = if at.is_finite() { at } else { 0.0 };
    let at = match wrap {
        Wrap::Clamp => {
            if at.is_nan() {
                0.0
            } else {
                at
            }
        }
        Wrap::Repeat => defined - defined.floor(),
        Wrap::Mirror => {
            let at = defined - 2.0 * (defined * 0.5).floor();
            if at > 1.0 { 2.0 - at } else { at }
        }
    };
    if filter == Filter::Nearest {
        let texel = (at * count).floor().max(0.0).min(last) as usize;
        return (texel, texel, 0.0);
    }
    let at = at.mul_add(count, -0.5);
    if wrap == Wrap::Repeat {
        let low = at.floor() as i64;
        let around = |texel: i64| texel.rem_euclid(n as i64) as usize;
        return (around(low), around(low + 1), at - at.floor());
    }
    let at = at.max(0.0).min(last);
    let low = at.floor() as usize;
    (low, (low + 1).min(n - 1), at - at.floor())
}

fn lerp(a: f32, b: f32, t: f32) -> f32 {
    t.mul_add(b, (-t).mul_add(a, a))
}

fn texel(k: usize) -> f32 {
    (k as f32 * 0.37).sin()
}

#[test]
fn pictures_on_every_device() {
    on_each(|dev| {
        for (w, h) in [(1, 1), (4, 4), (5, 3), (1, 7)] {
            let data: Vec<f32> = (0..w * h * 3).map(texel).collect();
            let array = Array::from_slice(&data, dev).expect("memory");
            let u = Array::from_slice(&COORDINATES, dev).expect("memory");
            let reversed: Vec<f32> = COORDINATES.iter().rev().copied().collect();
            let v = Array::from_slice(&reversed, dev).expect("memory");
            for (filter, wrap) in
                [Filter::Nearest, Filter::Linear].into_iter().flat_map(|f| WRAPS.map(|w| (f, w)))
            {
                let texture = Texture2::from_data(w, h, 3, &array, filter, wrap).expect("it fits");
                let channels = texture.eval(&Vec2::new(u.clone(), v.clone()));
                assert_eq!(channels.len(), 3);
                for (c, channel) in channels.iter().enumerate() {
                    for (lane, &got) in values(channel).iter().enumerate() {
                        let (x0, x1, s) = site(COORDINATES[lane], w, filter, wrap);
                        let (y0, y1, t) = site(reversed[lane], h, filter, wrap);
                        let at = |x: usize, y: usize| data[(y * w + x) * 3 + c];
                        let expected = match filter {
                            Filter::Nearest => at(x0, y0),
                            Filter::Linear => {
                                lerp(lerp(at(x0, y0), at(x1, y0), s), lerp(at(x0, y1), at(x1, y1), s), t)
                            }
                        };
                        assert_eq!(
                            got.to_bits(),
                            expected.to_bits(),
                            "{w} x {h}, {filter:?}, {wrap:?}, lane {lane}"
                        );
                    }
                }
            }
        }
    });
}

#[test]
fn lines_and_volumes() {
    on_each(|dev| {
        let line = Array::from_slice(&[0.0, 1.0, 2.0, 3.0].map(f16::from_f32), dev).expect("memory");
        let mut texture = Texture1::from_data(4, 1, &line, Filter::Linear, Wrap::Clamp).expect("it fits");
        let u = Array::from_slice(&[0.125, 0.25, 0.5, 9.0], dev).expect("memory");
        let read =
            |t: &Texture1<f16>| values(&t.eval::<f32>(&u)[0]).iter().map(|v| v.to_f32()).collect::<Vec<_>>();
        let before = texture.eval(&u);
        assert_eq!(read(&texture), [0.0, 0.5, 1.5, 3.0]);
        texture.set_data(&line.full_like(f16::from_f32(7.0))).expect("it fits");
        assert_eq!(read(&texture), [7.0; 4]);
        assert_eq!(values(&before[0])[1].to_f32(), 0.5);
        let mask = Mask::from_slice(&[true, false, false, true], dev).expect("memory");
        let masked = values(&texture.eval_masked(&u, &mask)[0]);
        assert_eq!(masked, [7.0, 0.0, 0.0, 7.0].map(f16::from_f32));

        // Element x + 10 y + 100 z: interpolation gives the coordinates in texels.
        let data: Vec<f64> = (0..24).map(|k| f64::from(k % 2 + k / 2 % 3 * 10 + k / 6 * 100)).collect();
        let data = Array::from_slice(&data, dev).expect("memory");
        let volume = Texture3::from_data(2, 3, 4, 1, &data, Filter::Linear, Wrap::Clamp).expect("it fits");
        let one = |value: f64| Array::full(value, 1, dev);
        let at = Vec3::new(one(0.5), one(0.5), one(0.5));
        assert_eq!(values(&volume.eval(&at)[0]), [160.5]);
        // In a loop, at a coordinate that the loop makes.
        let (sum, _) = while_loop(
            (one(0.0), one(0.0)),
            |(_, x)| x.lt(1.0),
            |(sum, x)| {
                let channels = volume.eval(&Vec3::new(x.clone(), Array::from(0.0), Array::from(0.0)));
                (sum + &channels[0], x + 0.25)
            },
        );
        assert_eq!(values(&sum), [1.5]);
    });
}

#[test]
fn bytes_and_16_bit_numbers_stand_for_0_to_1() {
    on_each(|dev| {
        let coordinates: Vec<f32> = (0..256).map(|k| (k as f32 + 0.5) / 256.0).collect();
        let at = Vec2::new(Array::from_slice(&coordinates, dev).expect("memory"), Array::from(0.5));
        let bytes: Vec<u8> = (0..=255).collect();
        let data = Array::from_slice(&bytes, dev).expect("memory");
        for filter in [Filter::Nearest, Filter::Linear] {
            let mut texture = Texture2::from_data(256, 1, 1, &data, filter, Wrap::Clamp).expect("it fits");
            let expected: Vec<f32> = bytes.iter().map(|&b| f32::from(b) / 255.0).collect();
            assert_eq!(values(&texture.eval(&at)[0]), expected, "{filter:?}");
            assert_eq!(values(texture.data())[7], 7);
            texture.set_data(&Array::full(255u8, 256, dev)).expect("it fits");
            assert_eq!(values(&texture.eval(&at)[0]), [1.0; 256]);
        }
        // Between texels of four channels, as pictures have them.
        let rgba = Array::from_slice(&[0u8, 51, 255, 255, 102, 51, 0, 255], dev).expect("memory");
        let texture = Texture2::from_data(2, 1, 4, &rgba, Filter::Linear, Wrap::Clamp).expect("it fits");
        let channels = texture.eval(&Vec2::new(Array::full(0.5f32, 1, dev), Array::from(0.5)));
        let channels: Vec<f32> = channels.iter().map(|channel| values(channel)[0]).collect();
        assert_eq!(channels, [51.0 / 255.0, 51.0 / 255.0, 0.5, 1.0]);
        let mask = Mask::from_slice(&[false], dev).expect("memory");
        let masked = texture.eval_masked(&Vec2::new(Array::full(0.5f32, 1, dev), Array::from(0.5)), &mask);
        assert_eq!(values(&masked[3]), [0.0]);
        let depths = Array::from_slice(&[0u16, 65_535, 13_107], dev).expect("memory");
        let line = Texture1::from_data(3, 1, &depths, Filter::Nearest, Wrap::Repeat).expect("it fits");
        let at = Array::from_slice(&[0.1f64, 0.5, 0.9, 1.5], dev).expect("memory");
        assert_eq!(values(&line.eval(&at)[0]), [0.0f32, 1.0, 0.2, 1.0]);
    });
}

#[test]
fn wrong_numbers_of_elements_are_errors() {
    let data = Array::<f32>::zeros(11, &Device::interpreter());
    let made = Texture2::from_data(2, 2, 3, &data, Filter::Linear, Wrap::Clamp);
    assert!(matches!(made, Err(Error::Config(message)) if message.contains("takes 12 elements, got 11")));
    let made = Texture1::from_data(0, 1, &data, Filter::Linear, Wrap::Clamp);
    assert!(matches!(made, Err(Error::Config(_))));
    let mut fits = Texture1::from_data(11, 1, &data, Filter::Linear, Wrap::Clamp).expect("it fits");
    assert!(fits.set_data(&Array::zeros(12, &Device::interpreter())).is_err());
}
