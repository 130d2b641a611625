"""The calls that are measured: small inputs, as in tests and scripts, where what is around NumPy's work counts most.

A function of `CALLS` returns what is called, with inputs made before. Its name begins with the package that is compiled.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

Call = Callable[[], Any]
CALLS: dict[str, list[tuple[str, Callable[[], Call]]]] = {}  # package -> names and makers of calls


def of(package: str, **made: Callable[[Any], Call]) -> None:
    """Calls of a package, made of it."""
    rows = CALLS.setdefault(package, [])
    rows += [(name, lambda make=make: make(importlib.import_module(package))) for name, make in made.items()]


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def given(function: Callable[..., Any], *arguments: Any, **named: Any) -> Call:
    return lambda: function(*arguments, **named)


X = rng(1).normal(size=50)
Y = rng(2).normal(loc=0.3, size=50)
POSITIVE = np.abs(X) + 0.1
TABLE = rng(3).integers(1, 30, (3, 4))
MATRIX = rng(4).normal(size=(8, 8))
DEFINITE = MATRIX @ MATRIX.T + 8 * np.eye(8)
VECTOR = rng(5).normal(size=8)
TIMES = np.linspace(0, 1, 60)
WAVE = np.sin(20 * TIMES) + 0.1 * rng(6).normal(size=60)
POINTS = np.linspace(0, 10, 15)
VALUES = np.sin(POINTS)
BETWEEN = np.linspace(0.5, 9.5, 40)


def cubic(x: float) -> float:
    return (x - 1.3) * (x * x + 1)


def parabola(x: float) -> float:
    return (x - 2) ** 2 + 1


def rosenbrock(x: Any) -> Any:
    return 100 * (x[1] - x[0] ** 2) ** 2 + (1 - x[0]) ** 2


def decay(t: float, y: Any) -> Any:
    return -0.5 * y


def swing(t: float, y: Any) -> Any:
    return np.array([y[1], -np.sin(y[0])])


def line(x: Any, a: float, b: float) -> Any:
    return a * np.exp(-b * x)


of(
    "scipy.optimize",
    brentq=lambda m: given(m.brentq, cubic, 0, 3),
    bisect=lambda m: given(m.bisect, cubic, 0, 3),
    newton=lambda m: given(m.newton, cubic, 1.0),
    root_scalar=lambda m: given(m.root_scalar, cubic, bracket=(0, 3)),
    minimize_scalar=lambda m: given(m.minimize_scalar, parabola),
    minimize_scalar_bounded=lambda m: given(m.minimize_scalar, parabola, bounds=(0, 5), method="bounded"),
    golden=lambda m: given(m.golden, parabola),
    bracket=lambda m: given(m.bracket, parabola),
    minimize_bfgs=lambda m: given(m.minimize, rosenbrock, np.array([-1.0, 1.0]), method="BFGS"),
    minimize_cg=lambda m: given(m.minimize, rosenbrock, np.array([0.5, 0.4]), method="CG", options={"maxiter": 10}),
    minimize_powell=lambda m: given(m.minimize, rosenbrock, np.array([-1.0, 1.0]), method="Powell"),
    minimize_nelder_mead=lambda m: given(m.minimize, rosenbrock, np.array([0.5, 0.4]), method="Nelder-Mead"),
    minimize_lbfgsb=lambda m: given(m.minimize, rosenbrock, np.array([-1.0, 1.0]), method="L-BFGS-B"),
    minimize_slsqp=lambda m: given(m.minimize, rosenbrock, np.array([-1.0, 1.0]), method="SLSQP"),
    least_squares=lambda m: given(m.least_squares, lambda p: line(TIMES, *p) - line(TIMES, 2, 3), [1.0, 1.0]),
    curve_fit=lambda m: given(m.curve_fit, line, TIMES, line(TIMES, 2.0, 3.0), [1.0, 1.0]),
    root_hybr=lambda m: given(m.root, lambda v: [v[0] ** 2 + v[1] - 3, v[0] - v[1]], [1.0, 1.0]),
    nnls=lambda m: given(m.nnls, np.abs(MATRIX), np.abs(VECTOR)),
    linear_sum_assignment=lambda m: given(m.linear_sum_assignment, np.abs(MATRIX)),
    linprog=lambda m: given(m.linprog, [-1, 4], A_ub=[[-3, 1], [1, 2]], b_ub=[6, 4], bounds=[(None, None), (-3, None)]),
    approx_fprime=lambda m: given(m.approx_fprime, np.array([0.5, 0.4]), rosenbrock),
)
of(
    "scipy.integrate",
    quad=lambda m: given(m.quad, cubic, 0, 2),
    dblquad=lambda m: given(m.dblquad, lambda y, x: x * y, 0, 1, 0, 1),
    simpson=lambda m: given(m.simpson, WAVE, x=TIMES),
    trapezoid=lambda m: given(m.trapezoid, WAVE, TIMES),
    cumulative_trapezoid=lambda m: given(m.cumulative_trapezoid, WAVE, TIMES),
    cumulative_simpson=lambda m: given(m.cumulative_simpson, WAVE, x=TIMES),
    romb=lambda m: given(m.romb, WAVE[:33]),
    fixed_quad=lambda m: given(m.fixed_quad, lambda x: x * x, 0, 1),
    odeint=lambda m: given(m.odeint, lambda y, t: -0.5 * y, 1.0, TIMES),
    solve_ivp_rk45=lambda m: given(m.solve_ivp, swing, (0, 2), [1.0, 0.0]),
    solve_ivp_rk23=lambda m: given(m.solve_ivp, decay, (0, 2), [1.0]),
    solve_ivp_dop853=lambda m: given(m.solve_ivp, swing, (0, 2), [1.0, 0.0], method="DOP853"),
    solve_ivp_radau=lambda m: given(m.solve_ivp, decay, (0, 2), [1.0], method="Radau"),
    solve_ivp_bdf=lambda m: given(m.solve_ivp, decay, (0, 2), [1.0], method="BDF"),
    solve_ivp_lsoda=lambda m: given(m.solve_ivp, swing, (0, 2), [1.0, 0.0], method="LSODA"),
)
of(
    "scipy.linalg",
    solve=lambda m: given(m.solve, DEFINITE, VECTOR),
    solve_triangular=lambda m: given(m.solve_triangular, np.tril(DEFINITE), VECTOR, lower=True),
    inv=lambda m: given(m.inv, DEFINITE),
    det=lambda m: given(m.det, DEFINITE),
    lu=lambda m: given(m.lu, DEFINITE),
    lu_solve=lambda m: given(m.lu_solve, m.lu_factor(DEFINITE), VECTOR),
    qr=lambda m: given(m.qr, MATRIX),
    svd=lambda m: given(m.svd, MATRIX),
    eigh=lambda m: given(m.eigh, DEFINITE),
    eig=lambda m: given(m.eig, MATRIX),
    cholesky=lambda m: given(m.cholesky, DEFINITE),
    cho_solve=lambda m: given(m.cho_solve, m.cho_factor(DEFINITE), VECTOR),
    lstsq=lambda m: given(m.lstsq, MATRIX, VECTOR),
    pinv=lambda m: given(m.pinv, MATRIX),
    expm=lambda m: given(m.expm, MATRIX),
    logm=lambda m: given(m.logm, DEFINITE),
    norm=lambda m: given(m.norm, MATRIX),
    toeplitz=lambda m: given(m.toeplitz, VECTOR),
    block_diag=lambda m: given(m.block_diag, MATRIX, DEFINITE),
    hilbert=lambda m: given(m.hilbert, 6),
)
of(
    "scipy.signal",
    butter=lambda m: given(m.butter, 4, 0.2),
    lfilter=lambda m: given(m.lfilter, [0.1, 0.2], [1.0, -0.5], WAVE),
    filtfilt=lambda m: given(m.filtfilt, [0.1, 0.2], [1.0, -0.5], WAVE),
    sosfilt=lambda m: given(m.sosfilt, m.butter(4, 0.2, output="sos"), WAVE),
    firwin=lambda m: given(m.firwin, 21, 0.3),
    freqz=lambda m: given(m.freqz, [0.1, 0.2], [1.0, -0.5], 64),
    welch=lambda m: given(m.welch, WAVE, nperseg=32),
    spectrogram=lambda m: given(m.spectrogram, WAVE, nperseg=16),
    find_peaks=lambda m: given(m.find_peaks, WAVE, height=0.2, distance=3),
    savgol_filter=lambda m: given(m.savgol_filter, WAVE, 7, 2),
    detrend=lambda m: given(m.detrend, WAVE),
    hilbert=lambda m: given(m.hilbert, WAVE),
    resample=lambda m: given(m.resample, WAVE, 40),
    convolve=lambda m: given(m.convolve, WAVE, WAVE[:9]),
    correlate=lambda m: given(m.correlate, WAVE, WAVE[:9]),
    chirp=lambda m: given(m.chirp, TIMES, 1, 1, 10),
    square=lambda m: given(m.square, 20 * TIMES),
    tukey=lambda m: given(m.get_window, ("tukey", 0.5), 64),
    medfilt=lambda m: given(m.medfilt, WAVE, 5),
    tf2zpk=lambda m: given(m.tf2zpk, [0.1, 0.2], [1.0, -0.5]),
)
of(
    "scipy.stats",
    norm_pdf=lambda m: given(m.norm.pdf, X),
    norm_cdf=lambda m: given(m.norm.cdf, X),
    norm_fit=lambda m: given(m.norm.fit, X),
    gamma_ppf=lambda m: given(m.gamma.ppf, np.linspace(0.1, 0.9, 20), 2.0),
    t_sf=lambda m: given(m.t.sf, X, 5),
    poisson_pmf=lambda m: given(m.poisson.pmf, np.arange(20), 3.0),
    ttest_ind=lambda m: given(m.ttest_ind, X, Y),
    ttest_1samp=lambda m: given(m.ttest_1samp, X, 0.0),
    mannwhitneyu=lambda m: given(m.mannwhitneyu, X, Y),
    wilcoxon=lambda m: given(m.wilcoxon, X, Y),
    pearsonr=lambda m: given(m.pearsonr, X, Y),
    spearmanr=lambda m: given(m.spearmanr, X, Y),
    kendalltau=lambda m: given(m.kendalltau, X, Y),
    linregress=lambda m: given(m.linregress, X, Y),
    ks_2samp=lambda m: given(m.ks_2samp, X, Y),
    kruskal=lambda m: given(m.kruskal, X, Y),
    f_oneway=lambda m: given(m.f_oneway, X, Y, POSITIVE),
    chi2_contingency=lambda m: given(m.chi2_contingency, TABLE),
    shapiro=lambda m: given(m.shapiro, X),
    skew=lambda m: given(m.skew, X),
    describe=lambda m: given(m.describe, X),
    zscore=lambda m: given(m.zscore, X),
    gmean=lambda m: given(m.gmean, POSITIVE),
    iqr=lambda m: given(m.iqr, X),
    entropy=lambda m: given(m.entropy, POSITIVE),
    rankdata=lambda m: given(m.rankdata, X),
    gaussian_kde=lambda m: given(lambda: m.gaussian_kde(X)(Y)),
    multivariate_normal=lambda m: given(m.multivariate_normal.pdf, MATRIX, VECTOR, DEFINITE),
)
of(
    "scipy.interpolate",
    interp1d=lambda m: given(lambda: m.interp1d(POINTS, VALUES)(BETWEEN)),
    cubic_spline=lambda m: given(lambda: m.CubicSpline(POINTS, VALUES)(BETWEEN)),
    pchip=lambda m: given(lambda: m.PchipInterpolator(POINTS, VALUES)(BETWEEN)),
    akima=lambda m: given(lambda: m.Akima1DInterpolator(POINTS, VALUES)(BETWEEN)),
    make_interp_spline=lambda m: given(lambda: m.make_interp_spline(POINTS, VALUES)(BETWEEN)),
    univariate_spline=lambda m: given(lambda: m.UnivariateSpline(POINTS, VALUES)(BETWEEN)),
    barycentric=lambda m: given(lambda: m.BarycentricInterpolator(POINTS[:8], VALUES[:8])(BETWEEN)),
    rbf=lambda m: given(lambda: m.RBFInterpolator(POINTS[:, None], VALUES)(BETWEEN[:, None])),
    regular_grid=lambda m: given(m.RegularGridInterpolator((np.arange(8), np.arange(8)), MATRIX), rng(7).random((20, 2)) * 7),
    griddata=lambda m: given(m.griddata, rng(8).random((20, 2)), X[:20], rng(9).random((10, 2))),
    splev=lambda m: given(m.splev, BETWEEN, m.splrep(POINTS, VALUES)),
)

LABELS, GUESSES = rng(10).integers(0, 2, 60), rng(11).integers(0, 2, 60)
SCORES = rng(12).random(60)
of(
    "sklearn.metrics",
    accuracy_score=lambda m: given(m.accuracy_score, LABELS, GUESSES),
    confusion_matrix=lambda m: given(m.confusion_matrix, LABELS, GUESSES),
    f1_score=lambda m: given(m.f1_score, LABELS, GUESSES),
    roc_auc_score=lambda m: given(m.roc_auc_score, LABELS, SCORES),
    roc_curve=lambda m: given(m.roc_curve, LABELS, SCORES),
    log_loss=lambda m: given(m.log_loss, LABELS, SCORES),
    mean_squared_error=lambda m: given(m.mean_squared_error, X, Y),
    r2_score=lambda m: given(m.r2_score, X, Y),
    cohen_kappa_score=lambda m: given(m.cohen_kappa_score, LABELS, GUESSES),
    silhouette_score=lambda m: given(m.silhouette_score, rng(13).random((60, 2)), LABELS),
    pairwise_distances=lambda m: given(m.pairwise_distances, MATRIX),
)
of(
    "pywt",
    dwt=lambda m: given(m.dwt, WAVE, "db2"),
    wavedec=lambda m: given(m.wavedec, WAVE, "db2"),
    waverec=lambda m: given(m.waverec, m.wavedec(WAVE, "db2"), "db2"),
    dwt2=lambda m: given(m.dwt2, MATRIX, "haar"),
    cwt=lambda m: given(m.cwt, WAVE, np.arange(1, 6), "morl"),
    threshold=lambda m: given(m.threshold, WAVE, 0.3),
)
of(
    "astropy.stats",
    sigma_clip=lambda m: given(m.sigma_clip, X),
    sigma_clipped_stats=lambda m: given(m.sigma_clipped_stats, X),
    mad_std=lambda m: given(m.mad_std, X),
    biweight_location=lambda m: given(m.biweight_location, X),
    circmean=lambda m: given(m.circmean, X),
    bayesian_blocks=lambda m: given(m.bayesian_blocks, np.sort(POSITIVE)),
)
of(
    "statsmodels",
    ols=lambda m: given(lambda: importlib.import_module("statsmodels.api").OLS(Y, np.vander(X, 2)).fit().params),
    acf=lambda m: given(importlib.import_module("statsmodels.tsa.stattools").acf, WAVE, nlags=10),
    durbin_watson=lambda m: given(importlib.import_module("statsmodels.stats.stattools").durbin_watson, X),
    lowess=lambda m: given(importlib.import_module("statsmodels.api").nonparametric.lowess, Y, X),
)


def graph(m: Any) -> Any:
    return m.gnp_random_graph(30, 0.2, seed=4)


of(
    "networkx",
    shortest_path=lambda m: given(m.shortest_path_length, graph(m), 0),
    pagerank=lambda m: given(m.pagerank, graph(m)),
    betweenness=lambda m: given(m.betweenness_centrality, graph(m)),
    clustering=lambda m: given(m.clustering, graph(m)),
    connected_components=lambda m: given(lambda g: list(m.connected_components(g)), graph(m)),
    spanning_tree=lambda m: given(m.minimum_spanning_tree, graph(m)),
    laplacian=lambda m: given(m.laplacian_matrix, graph(m)),
)
of(
    "colour",
    xyz_to_srgb=lambda m: given(m.XYZ_to_sRGB, np.array([0.2, 0.12, 0.05])),
    xyz_to_lab=lambda m: given(m.XYZ_to_Lab, np.array([0.2, 0.12, 0.05])),
    delta_e=lambda m: given(m.delta_E, np.array([100.0, 21.6, 272.5]), np.array([100.0, 426.7, 72.4])),
)
