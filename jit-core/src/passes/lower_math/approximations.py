"""Makes the coefficients of the polynomials in this directory that come from no published source.

Remez' exchange algorithm in 200 bits, on Chebyshev nodes at first, with a weight: what is minimised is the largest
|weight (f - p)|. Coefficients are rounded one by one to the format, the others being fitted again each time.
Needs mpmath. Usage: approximations.py [part of a name ..]
"""

import struct
import sys

import mpmath
from mpmath import mp, mpf

mp.prec = 200


def rounded(value, single):
    value = float(value)
    return struct.unpack("<f", struct.pack("<f", value))[0] if single else value


def remez(f, weight, low, high, powers, rounds=12, grid=1200):
    """Coefficients of x^k for k in powers, and the largest weighted error."""
    low, high = mpf(low), mpf(high)
    n = len(powers)
    middle, radius = (low + high) / 2, (high - low) / 2
    nodes = [middle - radius * mpmath.cos(mp.pi * i / n) for i in range(n + 1)]
    xs = [middle - radius * mpmath.cos(mp.pi * i / grid) for i in range(grid + 1)]
    fs = [f(x) for x in xs]
    ws = [weight(x) for x in xs]
    best = None
    for _ in range(rounds):
        matrix = mpmath.matrix(n + 1, n + 1)
        right = mpmath.matrix(n + 1, 1)
        for i, x in enumerate(nodes):
            for j, k in enumerate(powers):
                matrix[i, j] = x**k
            matrix[i, n] = (-1) ** i / weight(x)
            right[i] = f(x)
        solution = mpmath.lu_solve(matrix, right)
        c = list(solution[:n])

        def error(x, fx, wx):
            return wx * (fx - sum(a * x**k for a, k in zip(c, powers)))

        errors = [error(x, fx, wx) for x, fx, wx in zip(xs, fs, ws)]
        worst = max(abs(e) for e in errors)
        if best is None or worst < best[1]:
            best = (c, worst)
        # One extremum in each run of errors of one sign.
        extrema = []
        for i, e in enumerate(errors):
            if extrema and (e > 0) == (errors[extrema[-1]] > 0):
                if abs(e) > abs(errors[extrema[-1]]):
                    extrema[-1] = i
            else:
                extrema.append(i)
        while len(extrema) > n + 1:
            extrema.pop(0 if abs(errors[extrema[0]]) < abs(errors[extrema[-1]]) else -1)
        if len(extrema) < n + 1:
            break
        nodes = [xs[i] for i in extrema]
        if worst < abs(solution[n]) * mpf("1.002"):
            break
    return best


def fit(name, single, f, weight, low, high, powers):
    if sys.argv[1:] and not any(part in name for part in sys.argv[1:]):
        return
    fixed = {}
    remaining = list(powers)
    if single:
        for k in powers[:-1]:
            known = dict(fixed)
            c, _ = remez(lambda x: f(x) - sum(a * x**j for j, a in known.items()), weight, low, high, remaining)
            fixed[k] = mpf(rounded(c[0], True))
            remaining.pop(0)
    known = dict(fixed)
    c, _ = remez(lambda x: f(x) - sum(a * x**j for j, a in known.items()), weight, low, high, remaining)
    for k, a in zip(remaining, c):
        fixed[k] = mpf(rounded(a, single))
    worst = mpf(0)
    at = 0
    for i in range(2001):
        x = mpf(low) + (mpf(high) - mpf(low)) * i / 2000
        e = abs(weight(x) * (f(x) - sum(a * x**k for k, a in fixed.items())))
        if e > worst:
            worst, at = e, x
    print(f"{name}: 2^{float(mpmath.log(worst, 2)):.1f} at {float(at):.4f}")
    for k in powers:
        print(f"    {float(fixed[k])!r},")
    sys.stdout.flush()


def limit_at_zero(g, value):
    """g, with its value at 0 given."""
    return lambda x: mpf(value) if x == 0 else g(x)


def small(x):
    return abs(x) < mpf(2) ** -60


LN2_HALF = mpmath.log(2) / 2 * mpf("1.0001")

# sinh r = r + r^3 S(r^2), cosh r = 1 + r^2 C(r^2), in powers of z = r^2 up to (ln2 / 2)^2; errors of sinh r and cosh r.
Z = LN2_HALF**2


def sinh_rest(z):
    r = mpmath.sqrt(z)
    return mpf(1) / 6 if z < mpf(2) ** -60 else (mpmath.sinh(r) - r) / r**3


def cosh_rest(z):
    return mpf(1) / 2 if z < mpf(2) ** -60 else (mpmath.cosh(mpmath.sqrt(z)) - 1) / z


for single, ns, nc in ((True, 3, 3), (False, 6, 6)):
    kind = "f32" if single else "f64"
    fit(f"sinh {kind}", single, sinh_rest, lambda z: z, Z / 1000, Z, range(ns))
    fit(f"cosh {kind}", single, cosh_rest, lambda z: z, Z / 1000, Z, range(nc))


# 2^r = 1 + r E(r) on |r| <= 1/2.
def exp2_rest(r):
    return mpmath.log(2) if small(r) else (mpf(2) ** r - 1) / r


for single, n in ((True, 7), (False, 12)):
    fit(f"exp2 {'f32' if single else 'f64'}", single, exp2_rest, lambda r: max(abs(r), mpf("0.001")) / mpf(2) ** r, "-0.5001", "0.5001", range(n))


# atan t = t + t^3 A(t^2).
def atan_rest(z):
    t = mpmath.sqrt(z)
    return -mpf(1) / 3 if z < mpf(2) ** -60 else (mpmath.atan(t) - t) / t**3


def atan_weight(z):
    t = mpmath.sqrt(z)
    return z if z < mpf(2) ** -60 else t**3 / mpmath.atan(t)


fit("atan f32", True, atan_rest, atan_weight, "0.001", 1, range(9))
fit("atan f64", False, atan_rest, atan_weight, "0.0003", "0.2501", range(12))


# asin t = t + t^3 A(t^2) for t^2 <= 1/4.
def asin_rest(z):
    t = mpmath.sqrt(z)
    return mpf(1) / 6 if z < mpf(2) ** -60 else (mpmath.asin(t) - t) / t**3


for single, n in ((True, 5), (False, 12)):
    fit(f"asin {'f32' if single else 'f64'}", single, asin_rest, lambda z: z, "0.0003", "0.2501", range(n))


# erf x = x + x P(x^2) for x < 0.92 ...
def erf_rest(z):
    x = mpmath.sqrt(z)
    return 2 / mpmath.sqrt(mp.pi) - 1 if z < mpf(2) ** -60 else mpmath.erf(x) / x - 1


for single, n in ((True, 6), (False, 12)):
    fit(f"erf_near {'f32' if single else 'f64'}", single, erf_rest, lambda z: 1 / (1 + erf_rest(z)), 0, "0.8465", range(n))


# ... and 1 - exp(x Q(x)) beyond, up to where erf rounds to 1.
def log_erfc_rest(x):
    return mpmath.log(mpmath.erfc(x)) / x


for single, high, n in ((True, "3.95", 8), (False, "5.95", 20)):
    fit(
        f"erf_far {'f32' if single else 'f64'}",
        single,
        log_erfc_rest,
        lambda x: x * mpmath.erfc(x) / mpmath.erf(x),
        "0.919",
        high,
        range(n),
    )


# erfc x = exp(-x^2) F(t) / (1 + 2 x) for x >= 0, with t = (x - K) / (x + K), after Shepherd and Laframboise (1981).
def scaled_erfc(k):
    def of(t):
        x = k * (1 + t) / (1 - t)
        return (1 + 2 * x) * mpmath.exp(x * x) * mpmath.erfc(x)

    return of


for single, k, high, n in ((True, 2, "10.2", 10), (False, 4, "27.5", 24)):
    k = mpf(k)
    high = mpf(high)
    f = scaled_erfc(k)
    fit(f"erfc {'f32' if single else 'f64'}", single, f, lambda t: 1 / f(t), -1, (high - k) / (high + k), range(n))
