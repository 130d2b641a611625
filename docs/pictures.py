"""The pictures of the site, made by the examples' own functions."""

import sys
from pathlib import Path

import matplotlib as mpl
import numpy as np

import npcompile as npc

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))

import heat
import mandelbrot

mpl.use("Agg")
import matplotlib.pyplot as plt


def make_pictures(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    times = npc.compile(mandelbrot.escape_times)(-0.6 + 0j, 3.0, 300, 400, 200)
    plt.imsave(folder / "mandelbrot.png", np.log(times), cmap="magma")
    plate = npc.compile(heat.spread)(heat.plate(256), 2_000, 0.2)
    plt.imsave(folder / "heat.png", plate, cmap="inferno", vmin=0, vmax=2)
