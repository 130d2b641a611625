"""scipy.stats: summaries of samples."""

import numpy as np

from tests.scipy_functions.corpus import call, data, nan_at, sample

T = "scipy.stats."
x, y = data(12), data(12, seed=1)
rows = data(5, 4)

SAMPLES_OF_NUMBERS = (
    call(x),
    call(rows),
    call(rows, axis=1),
    call(rows, axis=None),
    call([1, 2, 3, 4, 7]),
    call(x.astype(np.float32)),
    call(data(20)),
)
for _name in ("gmean", "hmean", "skew", "kurtosis", "variation", "sem", "iqr", "moment", "median_abs_deviation", "describe"):
    sample(T + _name, *SAMPLES_OF_NUMBERS, ulp=1024)

for _name in ("circmean", "circvar", "circstd", "mode"):
    sample(T + _name, call(x), call(rows, axis=1), call(rows, axis=None), call(data(20)), ulp=1024)

sample(T + "pmean", call(x, 2), call(rows, 1.5, axis=1), call([1, 2, 3], -1), call(data(20), 2), call(x, 0), ulp=1024)
sample(T + "zscore", call(x), call(rows, axis=1), call(rows, ddof=1), call(data(20)), call([1, 2, 3, 4]), ulp=1024)
sample(T + "gzscore", call(x), call(rows, axis=1), call(rows, ddof=1), call(data(20)), ulp=1024)
sample(
    T + "zmap",
    call(x, y),
    call(rows, data(5, 4, seed=1), axis=1),
    call([1, 2], [3, 4, 5.0]),
    call(data(20), data(20, seed=1)),
    ulp=1024,
)
sample(
    T + "tmean",
    call(x),
    call(x, (2, 8)),
    call(rows, axis=1),
    call(rows, (2, None), (True, False), axis=0),
    call(data(20)),
    ulp=1024,
)
sample(T + "tvar", call(x), call(x, (2, 8)), call(rows, axis=1), call(data(20)), ulp=1024)
sample(T + "tstd", call(x), call(x, (2, 8)), call(rows, axis=1), call(data(20)), ulp=1024)
sample(T + "tsem", call(x), call(x, (2, 8)), call(data(20)), ulp=1024)
sample(T + "tmin", call(x), call(x, 3.0), call(rows, axis=1), call(data(20)), call(nan_at(x, 3)))
sample(T + "tmax", call(x), call(x, 8.0), call(rows, axis=1), call(data(20)), call(nan_at(x, 3)))
sample(T + "trim_mean", call(x, 0.1), call(rows, 0.25, axis=1), call(data(20), 0.1), call(x, 0.6), ulp=1024)
sample(T + "trimboth", call(x, 0.1), call(rows, 0.25, axis=1), call(data(20), 0.1), call(x, 0.6))
sample(T + "trim1", call(x, 0.1), call(x, 0.25, "left"), call(data(20), 0.1), call(x, 1.0))
sample(T + "sigmaclip", call(x), call(x, 1.0, 1.0), call(data(20), low=1.0, high=1.5))
sample(T + "rankdata", call(x), call([0, 2, 3, 2]), call([0, 2, 3, 2], method="min"), call(rows, "dense", axis=1), call(data(20)))
sample(T + "tiecorrect", call([1.0, 2.5, 2.5, 4.0]), call(np.arange(1.0, 8.0)), call(data(20)))
sample(
    T + "percentileofscore",
    call(x, 5.0),
    call([1, 2, 3, 3, 4], 3, kind="strict"),
    call(data(20), data(3)),
    call([1, 2], 2, "mean"),
)
sample(T + "scoreatpercentile", call(x, 50), call(x, [25, 75]), call(rows, 30, axis=0), call(data(20), 50), call(x, 101))
sample(T + "entropy", call(x), call(rows), call(rows, axis=1), call(x, y), call(x, base=2), call(data(20)), ulp=1024)
sample(T + "differential_entropy", call(x), call(rows, axis=1), call(x, method="vasicek"), call(data(20)), ulp=1024)
sample(T + "pearsonr", call(x, y), call(data(20), data(20, seed=1)), ulp=1024)
sample(T + "linregress", call(x, y), call([1, 2, 3, 4], [2, 4, 5, 9]), call(data(20), data(20, seed=1)), ulp=1024)
sample(T + "theilslopes", call(x, y), call(y), call(data(20), data(20, seed=1), 0.9), ulp=1024)
sample(T + "siegelslopes", call(x, y), call(y), call(data(20), data(20, seed=1), "separate"), ulp=1024)
sample(T + "kstat", call(x), call(x, 3), call(rows, 2, axis=1), call(data(20)), call(x, 5), ulp=1024)
sample(T + "kstatvar", call(x), call(x, 1), call(data(20)), call(x, 3), ulp=1024)
sample(T + "power_divergence", call([16, 18, 16, 14, 12, 12]), call(x, ddof=1), call(rows, axis=1), call(data(20)), ulp=1024)
sample(T + "cumfreq", call(x), call(x, 4), call(data(20), numbins=5, defaultreallimits=(0, 10)), call(x, weights=y))
sample(T + "relfreq", call(x), call(x, 4), call(data(20), numbins=5, defaultreallimits=(0, 10)))
sample(T + "obrientransform", call(x, y), call(data(20), data(20, seed=1)), call([1, 2, 3], [4, 5, 7]), ulp=1024)
sample(
    T + "wasserstein_distance", call(x, y), call([0, 1, 3], [5, 6, 8]), call([0, 1, 3], [5, 6, 8], [3, 1, 0]), call(data(20), y)
)
sample(T + "energy_distance", call(x, y), call([0, 1, 3], [5, 6, 8]), call(data(20), y), ulp=1024)
sample(T + "quantile_test", call(x, q=5), call(x, q=3, p=0.4), call(data(20), q=5.0))
sample(T + "contingency.margins", call(rows), call(data(2, 3, 4)), call(data(6, 4)))
sample(T + "contingency.expected_freq", call([[10, 10, 20], [20, 20, 20]]), call(rows), call(data(6, 4)), ulp=256)
sample(T + "f_oneway", call(x, y), call(x, y, data(9)), call(rows, data(5, 4, seed=1), axis=1), call(data(20), y), ulp=1024)
sample(
    T + "ttest_ind", call(x, y), call(x, y, equal_var=False), call(rows, data(5, 4, seed=1), axis=1), call(data(20), y), ulp=1024
)
sample(T + "ttest_1samp", call(x, 5.0), call(rows, 4.0, axis=1), call(data(20), 5.0, alternative="less"), ulp=1024)
sample(T + "weightedtau", call(x, y), call([1, 2, 3], [3, 1, 2]))
sample(T + "qmc.scale", call(data(4, 2) / 10, [0, 0], [2, 3]), call(data(6, 3) / 10, -1, 1), call(data(4, 2), 0, 1))
