"""Makes reference.txt: arguments and values of the functions in f64, for the tests of `lower_math`.

A line is a function, the bits of its arguments, the bits of the nearest float, and those of the distance from it to
the value, in units of its last place. Needs mpmath.
Usage: reference.py [values per kind of argument, default 40] > reference.txt
"""

import random
import struct
import sys

import mpmath
from mpmath import mp, mpf

mp.prec = 1400  # enough for 2/pi under the largest float
COUNT = int(sys.argv[1]) if len(sys.argv) > 1 else 40
rng = random.Random(1)


FUNCTIONS = {
    "recip": lambda x: 1 / x,
    "rsqrt": lambda x: 1 / mpmath.sqrt(x),
    "sin": mpmath.sin,
    "cos": mpmath.cos,
    "exp": mpmath.exp,
    "ln": mpmath.log,
    "pow": mpmath.power,
    "tan": mpmath.tan,
    "asin": mpmath.asin,
    "acos": mpmath.acos,
    "atan": mpmath.atan,
    "atan2": mpmath.atan2,
    "sinh": mpmath.sinh,
    "cosh": mpmath.cosh,
    "tanh": mpmath.tanh,
    "asinh": mpmath.asinh,
    "acosh": mpmath.acosh,
    "atanh": mpmath.atanh,
    "exp2": lambda x: mpf(2) ** x,
    "exp_m1": mpmath.expm1,
    "log2": lambda x: mpmath.log(x) / mpmath.ln2,
    "log10": mpmath.log10,
    "ln_1p": mpmath.log1p,
    "cbrt": lambda x: mpmath.sign(x) * mpmath.cbrt(abs(x)),
    "hypot": mpmath.hypot,
    "erf": mpmath.erf,
    "erfc": mpmath.erfc,
}


def bits(value):
    return struct.unpack("<Q", struct.pack("<d", value))[0]


def from_bits(word):
    return struct.unpack("<d", struct.pack("<Q", word))[0]


def log_uniform(low, high):
    """A float whose bits are uniform between those of two positive floats."""
    return from_bits(rng.randint(bits(low), bits(high)))


def signed(value):
    return rng.choice((-1, 1)) * value


def emit(name, *args):
    value = FUNCTIONS[name](*map(mpf, args))
    if value == 0:
        return
    exponent = max(int(mpmath.floor(mpmath.log(abs(value), 2))), -1022)
    scaled = mpmath.ldexp(value, 52 - exponent)
    nearest = mpmath.nint(scaled)
    if nearest == 0 or abs(value) >= mpf(2) ** 1024:
        return
    high = float(mpmath.ldexp(nearest, exponent - 52))
    print(name, *(f"{bits(v):016x}" for v in (*args, high, float(scaled - nearest))))


def many(name, *makers):
    for make in makers:
        for _ in range(COUNT):
            args = make()
            emit(name, *(args if isinstance(args, tuple) else (args,)))


def near_multiple():
    return signed(float(rng.randint(1, 1 << rng.randint(1, 34)) * mp.pi / 2))


def pow_of_result():
    """Arguments for which the power lies anywhere in the range of f64."""
    x = log_uniform(1e-300, 1e300)
    log_result = rng.uniform(-745, 709.7)
    return x, float(log_result / mpmath.log(mpf(x)))


def pow_near_one():
    x = 1.0 + signed(rng.uniform(1, 2) * 2.0 ** -rng.randint(3, 51))
    log_result = rng.uniform(-745, 709.7)
    return x, float(log_result / mpmath.log(mpf(x)))


for name in ("sin", "cos"):
    many(
        name,
        lambda: signed(rng.uniform(0, 0.8)),
        lambda: signed(rng.uniform(0, 100)),
        lambda: signed(log_uniform(1e-300, 1.0)),
        lambda: signed(log_uniform(1.0, 2.0**30)),
        lambda: signed(log_uniform(2.0**30, 1.79e308)),
        near_multiple,
    )
    # The float that is nearest to a multiple of pi/2 (Muller, Elementary Functions, table 9.1), and neighbours.
    for offset in range(-2, 3):
        emit(name, (6381956970095103.0 + offset) * 2.0**797)

many(
    "exp",
    lambda: rng.uniform(-708, 709.7),
    lambda: rng.uniform(-745.1, -708),
    lambda: rng.uniform(-1, 1),
    lambda: signed(log_uniform(1e-20, 1.0)),
)
many(
    "ln",
    lambda: log_uniform(2.3e-308, 1.79e308),
    lambda: log_uniform(5e-324, 2.2e-308),
    lambda: rng.uniform(0.5, 2),
    lambda: 1.0 + signed(rng.uniform(1, 2) * 2.0 ** -rng.randint(3, 51)),
)
many(
    "pow",
    lambda: (rng.uniform(0, 10), rng.uniform(-10, 10)),
    pow_of_result,
    pow_near_one,
    lambda: (log_uniform(5e-324, 2.2e-308), rng.uniform(-0.9, 1)),
    lambda: (rng.uniform(0.5, 2), signed(log_uniform(1e-300, 1.0))),
)
many("rsqrt", lambda: log_uniform(5e-324, 1.79e308), lambda: rng.uniform(0.5, 4))
many("recip", lambda: log_uniform(5e-309, 1.79e308), lambda: rng.uniform(0.5, 4))

many(
    "tan",
    lambda: signed(rng.uniform(0, 0.8)),
    lambda: signed(rng.uniform(0, 100)),
    lambda: signed(log_uniform(1e-300, 1.0)),
    lambda: signed(log_uniform(1.0, 2.0**30)),
    lambda: signed(log_uniform(2.0**30, 1.79e308)),
    near_multiple,
)
for offset in range(-2, 3):
    emit("tan", (6381956970095103.0 + offset) * 2.0**797)


def near_one():
    return 1.0 - rng.uniform(1, 2) * 2.0 ** -rng.randint(3, 51)


def small():
    return signed(log_uniform(5e-324, 0.1))


def two_of_similar_size():
    x = signed(log_uniform(1e-307, 1e307))
    return x, signed(abs(x) * 2.0 ** rng.uniform(-3, 3))


for name in ("asin", "acos", "atanh"):
    many(name, lambda: rng.uniform(-1, 1), lambda: rng.uniform(-0.6, 0.6), lambda: signed(near_one()), small)
many("atan", lambda: rng.uniform(-1, 1), lambda: rng.uniform(-8, 8), lambda: signed(log_uniform(1, 1e300)), small)
for name in ("atan2", "hypot"):
    many(
        name,
        lambda: (rng.uniform(-4, 4), rng.uniform(-4, 4)),
        two_of_similar_size,
        lambda: (signed(log_uniform(5e-324, 1e-307)), signed(log_uniform(5e-324, 1e-307))),
        lambda: (signed(log_uniform(1e300, 1.7e308)), signed(log_uniform(1e300, 1.7e308))),
        lambda: (signed(log_uniform(1e-300, 1e300)), signed(log_uniform(1e-300, 1e300))),
    )
for name in ("sinh", "cosh"):
    many(name, lambda: rng.uniform(-710.4, 710.4), lambda: rng.uniform(-1.5, 1.5), lambda: rng.uniform(-25, 25), small)
many("tanh", lambda: rng.uniform(-1, 1), lambda: rng.uniform(-20, 20), lambda: rng.uniform(-0.4, 0.4), small)
many("asinh", lambda: rng.uniform(-3, 3), lambda: signed(log_uniform(1e-3, 1e12)), lambda: signed(log_uniform(1, 1.7e308)), small)
many(
    "acosh",
    lambda: rng.uniform(1, 3),
    lambda: 1.0 + rng.uniform(1, 2) * 2.0 ** -rng.randint(3, 51),
    lambda: log_uniform(1, 1e12),
    lambda: log_uniform(1, 1.7e308),
)
many("exp2", lambda: rng.uniform(-1022, 1024), lambda: rng.uniform(-1075, -1022), lambda: rng.uniform(-1, 1), small)
many("exp_m1", lambda: rng.uniform(-40, 709.7), lambda: rng.uniform(-1, 1), lambda: rng.uniform(30, 45), small)
for name in ("log2", "log10"):
    many(
        name,
        lambda: log_uniform(2.3e-308, 1.79e308),
        lambda: log_uniform(5e-324, 2.2e-308),
        lambda: rng.uniform(0.5, 2),
        lambda: 1.0 + signed(rng.uniform(1, 2) * 2.0 ** -rng.randint(3, 51)),
    )
many(
    "ln_1p",
    lambda: rng.uniform(-0.5, 1),
    lambda: log_uniform(1e-3, 1e20),
    lambda: -near_one(),
    lambda: log_uniform(1, 1.7e308),
    small,
)
many("cbrt", lambda: signed(log_uniform(5e-324, 1.7e308)), lambda: rng.uniform(-8, 8), lambda: signed(log_uniform(5e-324, 2.2e-308)))
many("erf", lambda: rng.uniform(-1, 1), lambda: rng.uniform(-6, 6), lambda: rng.uniform(-2, 2), small)
many("erfc", lambda: rng.uniform(-1, 1), lambda: rng.uniform(-6, 27.2), lambda: rng.uniform(26.5, 27.2), lambda: rng.uniform(0, 4), small)

# The arguments on which the functions erred most, of about 100,000 made as above.
HARD = {
    "recip": """
        40015e72d61f4a4a
        5974f4f727dd4ac5
        4006345268ac96ca
        03339234919331a6
        107bab13c125e936
        675b1949960ba12a
        400e5e7cca6cd9d2
        24a7ae1a149cb4bf
    """,
    "rsqrt": """
        68272fd6b3f78882
        4000f14c6e548070
        3feebd844f882c98
        3ffd8464143d6c0f
        6c21023607b94590
        6b483e7c3ff6587c
        4aabe8d6eaf71618
        3fe37da98d00c41a
    """,
    "sin": """
        7406e6381974a660
        e3111de31030963e
        68eea969b6a9066b
        d1d5a7d630c9bf23
        c1063795aec85937
        5eada7126e0da336
        790279143b881fd4
        c0ff4d8f4c76a629
        f93adc2bbaa5665a
    """,
    "cos": """
        6ed38b8eac210cd1
        40440d8f47f48dd7
        bfe8ff04854648a5
        6b5b5bd99cc898c0
        c071d2675477e222
        f7e7b2d2fbae9346
        c06cf6becb01c7af
        400edd28057fc5f5
        3fe8a6c98efcd00f
    """,
    "exp": """
        bfd89875ef999c24
        c08625e8f80329e9
        bfda6f7a12b5e2c4
        3fd733e3856f0490
        3fef56148a877bec
        bfd988c6c4f8456c
        3feea2d5afc96002
        bfef476e6ded303f
    """,
    "ln": """
        3fe446454d09179a
        3ff932d656c0904c
        3ffa5a2bfb02f5bd
        3ff69538b90c4d28
        3ffa210b8f9a494c
        3fe3fed5564377b2
        3ff9b4e9ed16d6cc
        3ff9caec4e4187ee
        3ff93fa6572832ed
    """,
    "pow": """
        3fe4b7c112ee445a c021afb1f7737394
        3ff0000056448e3e c1d088c8971349dc
        00049444bb46fba3 3fdc294d99e5a882
        6ce2f51af0dd8727 bff273de6be686ba
        40151e164413a3fe c0058a15748a8d14
        0003420135c58f41 3fed0964f5f2ea15
        0006d05f8fddbf8a 3fea20c4ed44ee63
        6ec80d0dc010c0b2 bfc7216b80058e6c
        3ff0000000009af3 42d186d7c86c595e
    """,
}

for name, lines in HARD.items():
    for line in lines.split("\n"):
        if line.strip():
            emit(name, *(from_bits(int(word, 16)) for word in line.split()))
