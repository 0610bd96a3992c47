//! The random number generator against the C library's published output.

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
