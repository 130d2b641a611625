"""`python -m benchmarks.cuda [NAME...]`: programs on a GPU by every side, checked against each other, interleaved."""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import statistics
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import machine
from benchmarks.cuda import first_call, training
from benchmarks.cuda.clock import Timed, Times, interleave
from benchmarks.cuda.programs import PROGRAMS, Program, relu
from benchmarks.cuda.sides import SIDES

FEW = 10  # elements of a tiny call
LARGE = (64 << 20) // 4  # float32 elements of what comes from the host


def line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def table(columns: list[str], rows: list[list[str]]) -> str:
    return "\n".join([line(columns), line(["---"] * len(columns)), *map(line, rows)])


def verdict(text: str, got: float, most: float) -> str:
    return f"{text} ≤ {most:.3g} / **{got:.3g}** {'met' if got <= most else 'MISSED'}"


def failure(error: Exception) -> str:
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0][:60] if text else ''}".replace("|", "/")


def ready(program: Program, rng: np.random.Generator) -> tuple[dict[str, Timed], dict[str, str]]:
    """The sides that give the first one's answer, and why the others have no time."""
    inputs = program.inputs(rng)
    timed: dict[str, Timed] = {}
    absent: dict[str, str] = {}
    expected: np.ndarray | None = None
    for side in SIDES:
        if not side.is_installed():
            absent[side.name] = "not installed"
            continue
        try:
            made, read = side.prepare(program, inputs)
            result = made.call()
            made.wait(result)
        except Exception as error:
            absent[side.name] = failure(error)
            continue
        if read is not None:
            got = read(result)
            expected = np.asarray(program.function(*inputs)) if expected is None else expected
            allowed = program.relative_error * np.max(np.abs(expected))
            if got.dtype != expected.dtype or got.shape != expected.shape or not np.max(np.abs(got - expected)) <= allowed:
                absent[side.name] = f"WRONG by {np.max(np.abs(got - expected)):.3g}"
                continue
        timed[side.name] = made
    return timed, absent


def row(program: Program, times: dict[str, Times], absent: dict[str, str]) -> list[str]:
    cells = [f"{t.device:.4f} ({t.wall:.4f})" if (t := times.get(s.name)) else absent.get(s.name, "-") for s in SIDES]
    own, peers = times.get("npcompile"), [times[s.name].device for s in SIDES if s.is_peer and s.name in times]
    found = []
    for bound in program.bounds:
        against = times["copy"].device if bound.side == "copy" else min(peers, default=0)
        if own and against:
            found.append(verdict("a copy" if bound.side == "copy" else "best peer", own.device / against, bound.most))
    return [program.title, *cells, "; ".join(found)]


def measure_programs(programs: list[Program], repetitions: int) -> str:
    rows = []
    for program in programs:
        print(f"{program.name} ...", file=sys.stderr, flush=True)
        timed, absent = ready(program, np.random.default_rng(0))
        rows.append(row(program, interleave(timed, repetitions), absent))
    return table(["milliseconds by the device (by the wall)", *(s.name for s in SIDES), "target / got"], rows)


def measure_tiny(repetitions: int) -> str:
    """Microseconds until a call on few elements has returned; the device is not waited for."""
    program = Program("tiny", "", relu, lambda torch, x: torch.relu(x + 1) * 2, lambda rng: (np.arange(float(FEW)),), ())
    timed, absent = ready(program, np.random.default_rng(0))
    timed |= tensor_calls()
    samples: dict[str, list[float]] = {name: [] for name in timed}
    for _ in range(repetitions):
        for name, side in timed.items():
            side.call()
            side.clock.synchronize()
            began = time.perf_counter()
            for _ in range(300):
                side.call()
            samples[name].append((time.perf_counter() - began) / 300 * 1e6)
            side.clock.synchronize()
    medians = {name: statistics.median(found) for name, found in samples.items()}
    rows = [[name, f"{value:.1f}"] for name, value in medians.items()] + [[k, v] for k, v in absent.items()]
    text = table([f"relu(x + 1) * 2 on {FEW} elements", "microseconds a call"], rows)
    found = [verdict(n, medians[n], most) for n, most in (("npcompile", 12), ("npcompile, reduce-overhead", 5)) if n in medians]
    return f"{text}\n\n{'; '.join(found)}"


def tensor_calls() -> dict[str, Timed]:
    """The same with Tensors of the device, by wrap_numpy."""
    import cupy

    import npcompile as npc
    from benchmarks.cuda.clock import cupy_clock

    clock = cupy_clock(cupy)
    x = npc.tensor(np.arange(float(FEW)), device="cuda")
    call = npc.compile(npc.wrap_numpy(relu))
    return {"npcompile, Tensors": Timed(lambda: call(x), clock, lambda _: clock.synchronize())}


def measure_from_host(repetitions: int) -> str:
    """A call under `device("cuda")` with arrays of the host, beside the bare transfers."""
    import cupy

    import npcompile as npc

    x = np.random.default_rng(0).standard_normal(LARGE, dtype=np.float32)
    call = npc.compile(relu)
    target = cupy.empty_like(x)

    def ours() -> Any:
        with npc.device("cuda"):
            return call(x)

    def bare() -> Any:
        target.set(x)
        return target.get()

    def pinned() -> None:
        target.set(source)
        target.get(out=back)

    source, back = (cupy.cuda.alloc_pinned_memory(x.nbytes) for _ in range(2))
    source, back = (np.frombuffer(m, x.dtype, x.size) for m in (source, back))
    assert np.array_equal(ours(), relu(x))
    calls: dict[str, Callable[[], Any]] = {"npcompile": ours, "bare transfers": bare, "bare transfers, pinned": pinned}
    samples: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(repetitions):
        for name, each in calls.items():
            began = time.perf_counter()
            each()
            cupy.cuda.get_current_stream().synchronize()
            samples[name].append((time.perf_counter() - began) * 1e3)
    medians = {name: statistics.median(found) for name, found in samples.items()}
    text = table(["relu(x + 1) * 2, 64 MiB of the host and back", "milliseconds"], [[n, f"{v:.2f}"] for n, v in medians.items()])
    return f"{text}\n\n{verdict('of the bare transfers', medians['npcompile'] / medians['bare transfers'], 1.2)}"


def measure_first_calls() -> str:
    found = first_call.in_new_processes()
    text = table(["", "first kernel", "second", "third"], [[name, *(f"{s:.3f}" for s in seconds)] for name, seconds in found])
    (_, new), (_, kept) = found
    verdicts = [verdict("first", new[0], 2), verdict("later", max(new[1:]), 0.4), verdict("from the disk cache", max(kept), 0.1)]
    return f"Seconds until the device has the result of a first call, in new processes.\n\n{text}\n\n{'; '.join(verdicts)}"


def measure_training(repetitions: int) -> str:
    from benchmarks.training.__main__ import disagreement

    rows = []
    for program in training.PROGRAMS:
        print(f"{program.name} ...", file=sys.stderr, flush=True)
        timed: dict[str, Timed] = {}
        absent: dict[str, str] = {}
        first = None
        for name, requires, prepare, as_timed in training.SIDES:
            if importlib.util.find_spec(requires) is None:
                absent[name] = "not installed"
                continue
            try:
                rng = np.random.default_rng(20240229)
                step = prepare(program, program.parameters(rng), program.data(rng))
                for _ in range(3):
                    step.run()
                first = step if first is None else first
                wrong = disagreement(program, step, first)
            except Exception as error:
                traceback.print_exc()
                absent[name] = failure(error)
                continue
            if wrong:
                absent[name] = f"WRONG: {wrong}"
            else:
                timed[name] = as_timed(step)
        times = interleave(timed, repetitions)
        cells = [f"{t.device:.4f} ({t.wall:.4f})" if (t := times.get(n)) else absent.get(n, "-") for n, *_ in training.SIDES]
        peers = [times[n].device for n in times if n.startswith("torch.compile")]
        owns = [n for n in ("npcompile", "npcompile, reduce-overhead") if n in times and peers]
        text = "; ".join(verdict(n, times[n].device / min(peers), program.torch_bound) for n in owns)
        rows.append([program.title, *cells, text])
    return table(["milliseconds by the device (by the wall)", *(n for n, *_ in training.SIDES), "target / got"], rows)


PARTS: dict[str, Callable[[int], str]] = {
    "tiny": measure_tiny,
    "from_host": measure_from_host,
    "first_call": lambda repetitions: measure_first_calls(),
    "training": measure_training,
}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cuda", description=__doc__)
    names = [*(p.name for p in PROGRAMS), *PARTS]
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"what to measure, all by default: {', '.join(names)}")
    parser.add_argument("--repeat", type=int, default=11, help="samples per side")
    parser.add_argument("--out", type=Path, help="a file to write the tables to")
    chosen = parser.parse_args(arguments)
    if unknown := set(chosen.names) - set(names):
        parser.error(f"no such program: {', '.join(sorted(unknown))}")
    import cupy

    about = machine.describe()
    about["device"] = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
    about["versions"] += f", triton {importlib.metadata.version('triton')}, cupy {cupy.__version__}"
    parts = ["# On a GPU", "\n".join(f"- {name}: {value}" for name, value in about.items())]
    parts.append("Medians; all sides of a row interleaved in one run, results compared with NumPy's on the host.")
    print("\n\n".join(parts), flush=True)
    programs = [p for p in PROGRAMS if not chosen.names or p.name in chosen.names]
    wanted: list[Callable[[], str]] = [lambda: measure_programs(programs, chosen.repeat)] if programs else []
    for name, part in PARTS.items():
        if not chosen.names or name in chosen.names:
            wanted.append(lambda part=part: part(chosen.repeat))  # type: ignore[misc]
    failed = 0
    for each in wanted:
        try:
            parts.append(each())
        except Exception:  # the other parts are still worth their time
            failed = 1
            parts.append(f"```\n{traceback.format_exc(limit=-6)}```")
        print(f"\n{parts[-1]}", flush=True)
    if chosen.out:
        chosen.out.write_text("\n\n".join(parts) + "\n")
    return failed


if __name__ == "__main__":
    raise SystemExit(main())
