//! The random number generator against the C library's published output.

use jit_frontend::Philox4x32;
use jit_frontend::prelude::*;

use crate::support::{on_each, panic_of, values};

/// Lane 54 of seed 42 is the generator that the C library's demonstration program `pcg32-demo` seeds.
const LANE: usize = 54;
const SEED: u64 = 42;

/// The demonstration's first round.
const NUMBERS: [u32; 6] = [0xa15c02b7, 0x7b47f409, 0xba1d3330, 0x83d2f293, 0xbfa4784b, 0xcbed606e];
const COINS: &str = "HHTTTHTHHHTHTTTHHHHHTTTHHHTHTHTHTTHTTTHHHHHHTTTTHHTTTTTHTTTTTTTHT";
const ROLLS: &str = "3 4 1 1 2 2 3 2 4 3 2 4 3 3 5 2 3 1 3 1 5 1 4 1 5 6 4 6 6 2 6 3 3";

#[test]
fn numbers_coins_and_rolls_are_those_of_the_c_library() {
    on_each(|dev| {
        let mut rng = Pcg32::new(LANE + 1, SEED, dev);
        let numbers = NUMBERS.map(|_| values(&rng.next_u32())[LANE]);
        assert_eq!(numbers, NUMBERS);
        let coins: String =
            COINS.chars().map(|_| if values(&rng.bounded(2))[LANE] == 1 { 'H' } else { 'T' }).collect();
        assert_eq!(coins, COINS);
        let rolls: Vec<String> =
            ROLLS.split(' ').map(|_| (values(&rng.bounded(6))[LANE] + 1).to_string()).collect();
        assert_eq!(rolls.join(" "), ROLLS);
    });
}

#[test]
fn generators_are_carried_through_loops() {
    on_each(|dev| {
        let (rng, last, _) = while_loop(
            (Pcg32::new(LANE + 1, SEED, dev), Array::from(0u32), Array::from(0u32)),
            |(_, _, i)| i.lt(NUMBERS.len() as u32),
            |(mut rng, _, i)| {
                let number = rng.next_u32();
                (rng, number, i + 1)
            },
        );
        assert_eq!(values(&last)[LANE], NUMBERS[5]);
        assert!(values(&rng.clone().next_u32()) != values(&last));
        let one =
            Pcg32::from_streams(&Array::full(SEED, 1, dev), &Array::full(LANE as u64, 1, dev)).next_u32();
        assert_eq!(values(&one), [NUMBERS[0]]);
    });
}

#[test]
fn floats_lie_below_one() {
    on_each(|dev| {
        let mut rng = Pcg32::new(10_000, 7, dev);
        let bits = values(&rng.clone().next_u32());
        let floats = values(&rng.next_f32());
        assert!(floats.iter().zip(&bits).all(|(&f, &b)| f == (b >> 8) as f32 / 16_777_216.0));
        assert!(floats.iter().all(|f| (0.0..1.0).contains(f)));
        assert_eq!((u32::MAX >> 8) as f32 / 16_777_216.0, 1.0 - f32::EPSILON / 2.0);
        let mut twice = rng.clone();
        let (high, low) = (values(&twice.next_u32())[3], values(&twice.next_u32())[3]);
        let expected = ((u64::from(high) << 32 | u64::from(low)) >> 11) as f64 / (1u64 << 53) as f64;
        assert_eq!(values(&rng.next_f64())[3], expected);
        assert_eq!(values(&rng.next_u32()), values(&twice.next_u32()));
    });
}

#[test]
fn bounds_that_reject_much_are_fair() {
    on_each(|dev| {
        // Just above 2^31: almost every second draw is rejected, in some lanes several in a row.
        let bound = (1 << 31) + 1;
        let mut rng = Pcg32::new(4096, 1, dev);
        let mut twin = rng.clone();
        let numbers = values(&rng.bounded(bound));
        assert!(numbers.iter().all(|&n| n < bound));
        let first = values(&twin.next_u32());
        let kept = first.iter().filter(|&&n| n >= bound.wrapping_neg() % bound).count();
        assert!((1800..2300).contains(&kept), "{kept} of 4096 draws kept");
    });
    let (message, ..) = panic_of(|| Pcg32::new(1, 1, &Device::interpreter()).bounded(0));
    assert!(message.contains("above 0"), "{message}");
}

/// The known answers of Random123's `kat_vectors` for philox4x32 of 10 rounds: counter, key, numbers.
const PHILOX: [([u32; 4], [u32; 2], [u32; 4]); 3] = [
    ([0; 4], [0; 2], [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]),
    ([u32::MAX; 4], [u32::MAX; 2], [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]),
    (
        [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344],
        [0xa409_3822, 0x299f_31d0],
        [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1],
    ),
];

#[test]
fn philox_gives_the_known_answers() {
    let join = |low: u32, high: u32| u64::from(high) << 32 | u64::from(low);
    on_each(|dev| {
        for (counter, key, expected) in PHILOX {
            let one = |bits| Array::full(bits, 1, dev);
            let [position, stream] = [join(counter[0], counter[1]), join(counter[2], counter[3])];
            let mut rng = Philox4x32::at(&one(join(key[0], key[1])), &one(stream), &one(position));
            assert_eq!(rng.next_u32x4().map(|n| values(&n)[0]), expected);
        }
        // The position carries into its high half, streams differ, loops carry the state.
        let start = Array::full(u64::from(u32::MAX), 1, dev);
        let mut rng = Philox4x32::at(&7u64.into(), &Array::arange(3, dev), &start);
        let (looped, _) = while_loop(
            (rng.clone(), Array::from(0u32)),
            |(_, i)| i.lt(1),
            |(mut rng, i)| {
                rng.next_u32x4();
                (rng, i + 1)
            },
        );
        rng.next_u32x4();
        let mut high = Philox4x32::at(&7u64.into(), &Array::arange(3, dev), &(1u64 << 32).into());
        let numbers = high.next_u32x4().map(|n| values(&n));
        assert_eq!(rng.clone().next_u32x4().map(|n| values(&n)), numbers);
        assert_eq!(looped.clone().next_u32x4().map(|n| values(&n)), numbers);
        assert!(numbers[0][0] != numbers[0][1]);
        let floats = rng.clone().next_f32x4().map(|n| values(&n));
        assert_eq!(floats[1][2], (numbers[1][2] >> 8) as f32 / 16_777_216.0);
        let doubles = rng.next_f64x2().map(|n| values(&n));
        let bits = join(numbers[3][1], numbers[2][1]);
        assert_eq!(doubles[1][1], (bits >> 11) as f64 / (1u64 << 53) as f64);
    });
}
