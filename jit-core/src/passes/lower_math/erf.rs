//! The error function and its complement. Polynomials by Remez (see `approximations.py`).
//!
//! erf x = x + x P(x^2) up to a limit, and 1 - exp(x Q(x)) beyond it: the logarithm of the complement is smooth, and its
//! error counts less the nearer the result is to 1.
//!
//! erfc x = exp(-x^2) F(t) / (1 + 2 x) for x >= 0, with t = (x - k) / (x + k): Shepherd and Laframboise, Chebyshev
//! approximation of (1 + 2 x) exp(x^2) erfc x in 0 <= x < infinity, Mathematics of Computation 36 (1981). It is
//! 2 - erfc(-x) for the others.

use super::emit::Expr;
use super::exp::{exp_moderate, exp_sum_times};
use crate::dtype::DType;

/// Up to this erf has the form x + x P(x^2).
const NEAR: f64 = 0.92;

/// P: relative error of erf 2^-26 in f32 ...
const NEAR_F32: [f64; 6] = [
    0.128_379_151_225_090_03,
    -0.376_125_007_867_813_1,
    0.112_818_770_110_607_15,
    -0.026_768_580_079_078_674,
    0.004_995_853_174_477_816,
    -0.000_600_379_426_032_304_8,
];

/// ... and 2^-56.1.
const NEAR_F64: [f64; 12] = [
    0.128_379_167_095_512_6,
    -0.376_126_389_031_837_15,
    0.112_837_916_709_529_45,
    -0.026_866_170_644_654_862,
    0.005_223_977_620_052_622,
    -0.000_854_832_666_276_215_3,
    0.000_120_553_176_362_983_05,
    -1.492_521_909_035_789_8e-5,
    1.645_398_974_634_196_7e-6,
    -1.626_395_986_077_636_4e-7,
    1.398_493_161_349_906_7e-8,
    -8.342_016_047_686_242e-10,
];

/// Q: relative error of erf 2^-32 up to 3.95 ...
const FAR_F32: [f64; 8] = [
    -1.128_551_244_735_717_8,
    -0.635_627_567_768_096_9,
    -0.105_258_315_801_620_48,
    0.022_669_598_460_197_45,
    -0.002_927_407_156_676_054,
    4.861_264_824_285_172e-5,
    4.576_778_157_551_526e-5,
    -4.953_117_240_802_385e-6,
];

/// ... and 2^-56.5 up to 5.95.
const FAR_F64: [f64; 20] = [
    -1.128_379_203_209_958_4,
    -0.636_619_344_402_724_6,
    -0.102_774_989_766_325_44,
    0.019_136_774_685_126_8,
    0.000_188_797_761_157_284_79,
    -0.001_658_935_832_366_584_3,
    0.000_537_431_381_082_159,
    3.308_034_550_720_358e-5,
    -0.000_117_379_068_276_419_01,
    6.792_895_614_859_459e-5,
    -2.550_690_456_814_050_4e-5,
    7.165_410_703_964_574e-6,
    -1.563_965_823_433_742_3e-6,
    2.663_964_566_781_426e-7,
    -3.489_962_347_135_784_5e-8,
    3.403_217_835_101_717_3e-9,
    -2.327_266_411_301_959_8e-10,
    9.942_404_538_929_58e-12,
    -1.979_087_214_549_033_4e-13,
    -1.284_599_747_299_402e-16,
];

/// F for k = 2: relative error 2^-25.1 up to 10.2 ...
const F_F32: [f64; 10] = [
    1.276_978_373_527_526_9,
    -0.092_764_131_724_834_44,
    -0.166_030_049_324_035_64,
    0.164_057_523_012_161_25,
    -0.054_217_126_220_464_706,
    -0.008_071_504_533_290_863,
    0.008_669_536_560_773_85,
    0.001_343_801_035_545_766_4,
    -0.001_265_596_947_632_73,
    -0.000_430_578_307_714_313_27,
];

/// ... and for k = 4: 2^-54.2 up to 27.5.
const F_F64: [f64; 24] = [
    1.232_995_118_625_552_6,
    -0.139_621_116_840_562_53,
    0.015_379_652_102_619_65,
    0.068_097_054_254_695_41,
    -0.101_039_066_036_299_31,
    0.093_732_834_998_252_1,
    -0.066_330_365_812_324_58,
    0.037_167_515_539_065_67,
    -0.016_197_734_056_597_14,
    0.005_031_969_963_882_398,
    -0.000_757_773_296_931_606_9,
    -0.000_199_256_618_835_391_98,
    0.000_150_621_716_093_909_6,
    -2.439_946_956_768_651e-5,
    -1.122_217_323_889_184_3e-5,
    5.710_265_337_856_769e-6,
    2.941_717_052_628_775_6e-7,
    -8.260_675_862_860_535e-7,
    7.405_211_510_900_201e-8,
    1.104_087_214_641_225e-7,
    -1.740_008_330_476_979_7e-8,
    -1.408_450_336_766_286_7e-8,
    1.645_219_897_440_970_6e-9,
    1.188_931_868_300_974e-9,
];

/// The error function.
pub(super) fn erf(x: Expr<'_>) -> Expr<'_> {
    let single = x.dtype() == DType::F32;
    let near = x.mul_add(near_series(x), x);
    // Beyond this it is 1.
    let limit = if single { 3.95 } else { 5.95 };
    let size = x.abs();
    let clamped = size.gt(limit).select(limit, size);
    let q = if single { clamped.polynomial(&FAR_F32) } else { clamped.polynomial(&FAR_F64) };
    let far = x.float(1.0) - exp_moderate(clamped * q);
    size.lt(NEAR).select(near, far.copysign(x))
}

/// P(x^2).
fn near_series(x: Expr<'_>) -> Expr<'_> {
    let square = x * x;
    if x.dtype() == DType::F32 { square.polynomial(&NEAR_F32) } else { square.polynomial(&NEAR_F64) }
}

/// 1 - erf(x), to full relative accuracy where that is small. (Where it is not, it is the difference.)
pub(super) fn erfc(x: Expr<'_>) -> Expr<'_> {
    let one = x.float(1.0);
    let start = one - x;
    let lost = (one - start) - x;
    let near = start + (-x).mul_add(near_series(x), lost);
    let right = erfc_of_positive(x.abs());
    let far = x.lt(0.0).select(x.float(2.0) - right, right);
    x.abs().lt(0.65).select(near, far)
}

fn erfc_of_positive(x: Expr<'_>) -> Expr<'_> {
    let (k, limit) = if x.dtype() == DType::F32 { (2.0, 10.2) } else { (4.0, 27.5) };
    // Beyond the limit it is 0.
    let x = x.gt(limit).select(limit, x);
    let inverse = x.float(1.0) / (x + k);
    let t = (x - k) * inverse;
    // The residual x - k - t (x + k), in an order in which it nearly is exact.
    let t = (-t).mul_add(x, (t + 1.0).mul_add(-k, x)).mul_add(inverse, t);
    let coefficients: &[f64] = if x.dtype() == DType::F32 { &F_F32 } else { &F_F64 };
    let rest = t.polynomial(&coefficients[1..]);
    let f = t.mul_add(rest, coefficients[0]);
    let f_low = t.mul_add(rest, x.float(coefficients[0]) - f);
    // F / (1 + 2 x) as a sum of two floats.
    let inverse = x.float(0.5) / (x + 0.5);
    let factor = f * inverse;
    let residual = (factor * -2.0).mul_add(x, f) - factor + f_low;
    let minus_square = -(x * x);
    let minus_square_low = -x.mul_add(x, minus_square);
    exp_sum_times(minus_square, minus_square_low, factor, residual * inverse)
}
