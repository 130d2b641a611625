"""The cache on disk: who may write to it, and what is done with what is found there."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import re
import signal
import stat
import subprocess
import sys
import time
import warnings
from pathlib import Path

import pytest

from npcompile.backends import cache as cache_module
from npcompile.backends import cpu
from npcompile.backends.cache import (
    TEMPORARY,
    Cache,
    key_of,
    open_cache,
    seal,
    store,
    trim,
    wait_for_lock,
    why_unsafe_above,
)
from npcompile.tensor_core.events import COUNTS
from tests.runtime.units import INT64, constant, make_loader

FORK = multiprocessing.get_context("fork")
KEY = key_of("an entry")


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path)


# ---- where it is ----


def make_symlink(folder: Path) -> None:
    (folder.parent / "elsewhere").mkdir(mode=0o700)
    folder.symlink_to(folder.parent / "elsewhere")


def make_writable_by(bits: int):
    def make(folder: Path) -> None:
        folder.mkdir()
        folder.chmod(0o700 | bits)

    return make


UNSAFE = {
    "symbolic link": make_symlink,
    "not a directory": lambda folder: folder.write_text(""),
    "others may write": make_writable_by(0o020),
    "others may write ": make_writable_by(0o002),
}


@pytest.mark.parametrize("words", UNSAFE)
def test_unsafe_directory_is_refused_with_one_warning(words, tmp_path, monkeypatch):
    folder = tmp_path / "cache"
    UNSAFE[words](folder)
    monkeypatch.setenv("NPCOMPILE_CACHE_DIR", str(folder))
    with pytest.warns(RuntimeWarning, match=words.strip()) as caught:
        cache = open_cache()
        path = cache.write(KEY, ".so", b"payload")
    assert len(caught) == 1
    assert path is not None and folder not in path.parents
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert cache.read(KEY, ".so") == b"payload"


@pytest.mark.parametrize("bits", [0o002, 0o020, 0o022])
@pytest.mark.parametrize("depth", [1, 2])
def test_directory_that_others_may_replace_is_refused(bits, depth, tmp_path, monkeypatch):
    folder = tmp_path / "a" / "b" / "cache"
    folder.mkdir(mode=0o700, parents=True)
    above = folder.parents[depth - 1]
    above.chmod(0o700 | bits)
    monkeypatch.setenv("NPCOMPILE_CACHE_DIR", str(folder))
    monkeypatch.setattr(cache_module, "is_private_group", lambda group: False)
    with pytest.warns(RuntimeWarning, match=f"others may write to {above}$"):
        assert open_cache().folder is None
    (tmp_path / "link").symlink_to(folder.parent)
    monkeypatch.setenv("NPCOMPILE_CACHE_DIR", str(tmp_path / "link" / "cache"))
    with pytest.warns(RuntimeWarning, match=f"others may write to {above}$"):
        assert open_cache().folder is None
    above.chmod(0o1700 | bits)  # with the sticky bit
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert open_cache().folder is not None


def test_a_group_of_one_user_may_write_above(tmp_path, monkeypatch):
    (tmp_path / "above").mkdir()
    (tmp_path / "above").chmod(0o770)
    group = type("Group", (), {"gr_name": "somebody", "gr_mem": []})
    monkeypatch.setattr("grp.getgrgid", lambda number: group)
    monkeypatch.setattr("pwd.getpwuid", lambda number: type("User", (), {"pw_name": "somebody"}))
    assert why_unsafe_above(tmp_path / "above" / "cache") == ""
    group.gr_mem = ["another"]
    assert "others may write" in why_unsafe_above(tmp_path / "above" / "cache")


def test_folders_above_are_made_for_the_user_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("NPCOMPILE_CACHE_DIR", str(tmp_path / "a" / "b" / "c"))
    before = os.umask(0)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert open_cache().folder is not None
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o700


def make_pipe(path):
    os.mkfifo(path)


@pytest.mark.parametrize("make", [make_pipe, lambda path: path.mkdir(), lambda path: path.symlink_to("/dev/zero")])
def test_what_is_no_file_is_a_miss(cache, make):
    """Nobody waits for a pipe, or reads a device without end."""
    make(cache.folder / (KEY + ".so"))
    assert cache.read(KEY, ".so") is None
    assert cache.write(KEY, ".so", b"payload") is not None
    assert cache.read(KEY, ".so") == b"payload"


KILLED = """
import os, signal, sys
from pathlib import Path
from npcompile.backends.cache import Cache
cache = Cache(None)
with cache.scratch_directory() as folder:
    (folder / "unit.so").write_text("half")
    print(folder, cache.temporary(), flush=True)
    if sys.argv[1] == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    sys.stdin.read()
"""


def test_what_killed_processes_left_is_removed_later(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    processes = [
        subprocess.Popen([sys.executable, "-c", KILLED, how], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for how in ("killed", "alive")
    ]
    left, used = (process.stdout.readline().split() for process in processes)
    processes[0].wait()
    young = tmp_path / "npcompile-young"
    young.mkdir()
    others = tmp_path / "npcompiled"
    others.mkdir()
    for folder in (*left, *used, others):
        os.utime(folder, (1, 1))
    with Cache(None).scratch_directory():
        assert {f.name for f in tmp_path.iterdir()} > {Path(f).name for f in used} | {"npcompile-young", "npcompiled"}
        assert not any(os.path.exists(f) for f in left)
    processes[1].communicate("")
    assert not any(os.path.exists(f) for f in used)


def test_directory_of_another_user_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("NPCOMPILE_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: tmp_path.stat().st_uid + 1)
    with pytest.warns(RuntimeWarning, match="another user"):
        assert open_cache().folder is None


def test_directory_is_made_for_its_owner_only(tmp_path, monkeypatch):
    monkeypatch.setenv("NPCOMPILE_CACHE_DIR", str(tmp_path / "a" / "b"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cache = open_cache()
    assert cache.folder == tmp_path / "a" / "b"
    path = cache.write(KEY, ".so", b"payload")
    assert stat.S_IMODE(cache.folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


HOMELESS = """
import pwd
def nobody(*_): raise KeyError("no such user")
pwd.getpwuid = pwd.getpwnam = nobody
from npcompile.backends.cache import open_cache
cache = open_cache()
path = cache.write("key", ".so", b"payload")
assert cache.folder is None and path.is_absolute() and cache.read("key", ".so") == b"payload"
print(path)
"""


def test_works_without_home_and_passwd_entry(tmp_path):
    environment = {k: v for k, v in os.environ.items() if k not in ("HOME", "XDG_CACHE_HOME", "NPCOMPILE_CACHE_DIR")}
    command = [sys.executable, "-W", "error", "-c", HOMELESS]
    done = subprocess.run(command, env=environment, cwd=os.getcwd(), capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert not Path(done.stdout.strip()).parent.exists()  # removed at exit


# ---- what is in it ----


def test_an_entry_is_what_was_written(cache):
    assert cache.read(KEY, ".so") is None
    cache.write(KEY, ".so", b"payload")
    assert cache.read(KEY, ".so") == b"payload"
    assert cache.find(KEY, ".so").read_bytes().startswith(b"payload")


def damaged(content: bytes) -> list[bytes]:
    cut = [content[:n] for n in range(0, len(content), 7)]
    flipped = [content[:i] + bytes([content[i] ^ 1]) + content[i + 1 :] for i in range(len(content))]
    return [*cut, *flipped, content + b"\0", content + content]


def test_a_damaged_entry_is_a_miss(cache):
    path = cache.write(KEY, ".so", b"payload")
    whole = path.read_bytes()
    for content in damaged(whole):
        path.write_bytes(content)
        assert cache.read(KEY, ".so") is None
        assert not path.exists()
    cache.write(KEY, ".so", b"payload")
    assert cache.read(KEY, ".so") == b"payload"


def test_a_planted_entry_is_a_miss(cache):
    (cache.folder / f"{KEY}.so").write_bytes(b"\x80\x04cposix\nsystem\n")
    assert cache.read(KEY, ".so") is None
    other = key_of("another entry")
    (cache.folder / f"{KEY}.so").write_bytes(b"payload" + seal(b"payload", other))
    assert cache.read(KEY, ".so") is None


def test_a_forged_library_is_compiled_again(tmp_path):
    path = make_loader(tmp_path).load(constant(1), [INT64]).path  # the library is unloaded: nobody has the function
    path.write_bytes(b"\x7fELF" + os.urandom(1000))
    second = make_loader(tmp_path).load(constant(1), [INT64])
    assert not second.was_cached and second.call() == (1,)
    assert make_loader(tmp_path).load(constant(1), [INT64]).was_cached


def test_a_sealed_file_that_is_no_library_is_compiled_again(tmp_path):
    path = make_loader(tmp_path).load(constant(2), [INT64]).path
    store(tmp_path, path.stem, ".so", b"not a library")
    again = make_loader(tmp_path).load(constant(2), [INT64])
    assert not again.was_cached and again.call() == (2,)


def test_nothing_in_the_cache_is_a_program_of_python():
    sources = set(Path(cpu.__file__).parent.glob("*.py"))
    sources -= {path for path in sources if path.name == "host.py"}  # runs the text that it has made, and keeps it nowhere
    for path in sources:
        assert not re.search(r"\b(pickle|marshal|shelve|dill|joblib|exec|eval)\b\s*[.(]", path.read_text()), path


def test_equal_parts_cut_differently_have_different_keys():
    assert len({key_of("ab", "c"), key_of("a", "bc"), key_of("abc"), key_of("abc", "")}) == 4


# ---- many processes ----


def write_for_ever(folder: Path, seed: int) -> None:
    cache, generator = Cache(folder), random.Random(seed)
    while True:
        key = key_of(str(generator.randrange(4)))
        cache.write(key, ".so", key.encode() * generator.randrange(1, 2000))


def test_writers_killed_at_random_leave_whole_entries(cache):
    generator = random.Random(0)
    writers = [FORK.Process(target=write_for_ever, args=(cache.folder, i), daemon=True) for i in range(16)]
    for writer in writers:
        writer.start()
    found = 0
    for writer in writers:
        time.sleep(generator.random() * 0.05)
        os.kill(writer.pid, signal.SIGKILL)
        writer.join()
        for number in range(4):
            key = key_of(str(number))
            path = cache.folder / f"{key}.so"
            existed = path.exists()
            payload = cache.read(key, ".so")
            assert (payload is not None) == existed
            if payload is not None:
                found += 1
                assert payload == key.encode() * (len(payload) // len(key))
    assert found > 16


def hold(folder: Path, key: str, ready, seconds: float) -> None:
    with Cache(folder).locked(key):
        ready.set()
        time.sleep(seconds)


def test_a_lock_dies_with_its_holder(cache):
    ready = FORK.Event()
    holder = FORK.Process(target=hold, args=(cache.folder, KEY, ready, 60), daemon=True)
    holder.start()
    assert ready.wait(10)
    began = time.monotonic()
    assert not wait_for_lock(cache._open_lock_file(), int(KEY[:8], 16), timeout=0.1)  # as for one that is stuck
    with cache.locked(key_of("another")):
        pass
    assert time.monotonic() - began < 2
    os.kill(holder.pid, signal.SIGKILL)
    holder.join()
    with cache.locked(KEY):
        pass
    assert time.monotonic() - began < 5


def load_and_report(folder: Path, value: int, start, results) -> None:
    loader, before = make_loader(folder), COUNTS["units_compiled"]
    start.wait()
    unit = loader.load(constant(value), [INT64])
    results.put((int(unit.call()[0]), COUNTS["units_compiled"] - before))


def test_processes_compile_a_unit_once(tmp_path):
    make_loader(tmp_path).load(constant(0), [INT64])  # the runtime
    start, results = FORK.Barrier(4), FORK.Queue()
    workers = [FORK.Process(target=load_and_report, args=(tmp_path, 77, start, results)) for _ in range(4)]
    for worker in workers:
        worker.start()
    answers = [results.get(timeout=30) for _ in workers]
    for worker in workers:
        worker.join()
    assert [value for value, _ in answers] == [77] * 4
    assert sum(compiled for _, compiled in answers) == 1


# ---- full and read-only disks ----


def test_the_least_recently_used_go_first(cache):
    for age in range(10):
        path = cache.write(key_of(str(age)), ".so", bytes(1000))
        os.utime(path, (time.time() - 1000 * age,) * 2)
    (cache.folder / f"{TEMPORARY}left").write_bytes(b"")
    os.utime(cache.folder / f"{TEMPORARY}left", (0, 0))
    (cache.folder / f"{TEMPORARY}fresh").write_bytes(b"")
    (cache.folder / "notes.txt").write_text("somebody's own")
    trim(cache.folder, 5000)
    kept = [age for age in range(10) if cache.find(key_of(str(age)), ".so")]
    assert kept == [0, 1, 2, 3]
    assert not (cache.folder / f"{TEMPORARY}left").exists()
    assert (cache.folder / f"{TEMPORARY}fresh").exists()
    assert (cache.folder / "notes.txt").exists()


def test_use_counts(cache):
    for age in range(4):
        path = cache.write(key_of(str(age)), ".so", bytes(1000))
        os.utime(path, (time.time() - 100000 * (age + 1),) * 2)
    cache.find(key_of("3"), ".so")
    trim(cache.folder, 1500)
    assert [age for age in range(4) if cache.find(key_of(str(age)), ".so")] == [3]


def test_the_cap_is_kept(tmp_path):
    cache = Cache(tmp_path, most_bytes=20_000)
    for number in range(100):
        cache.write(key_of(str(number)), ".so", bytes(1000))
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 60_000


ON_A_SMALL_DISK = """
import json, sys
from pathlib import Path
from tests.runtime.units import INT64, constant, make_loader
loader = make_loader(Path(sys.argv[1]))
print(json.dumps([int(loader.load(constant(5), [INT64]).call()[0]), len(list(Path(sys.argv[1]).glob("*.so")))]))
"""


@pytest.mark.parametrize("options", ["size=16k", "nr_inodes=2", "ro", "noexec"])
def test_full_and_read_only_disks(options, tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = [
        "unshare",
        "-m",
        "sh",
        "-c",
        'mount -t tmpfs -o "mode=700,$1" tmpfs "$2" && shift 2 && exec "$@"',
        "sh",
        options,
        str(disk),
    ]
    if sys.platform != "linux" or subprocess.run([*mount, "true"], capture_output=True).returncode != 0:
        pytest.skip("mounting a disk needs root and Linux")
    command = [*mount, sys.executable, "-c", ON_A_SMALL_DISK, str(disk)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env={**os.environ, "PYTHONPATH": os.getcwd()})
    assert done.returncode == 0, done.stderr
    value, kept = json.loads(done.stdout)
    assert value == 5
    assert (kept == 2) == (options == "noexec")
