"""What the runtime gives to generated units: arrays, scalars, numbers, errors, BLAS."""

from __future__ import annotations

import ctypes
import gc
import itertools
import os
import resource
import subprocess
import sys
import threading
import time
import tracemalloc

import numpy as np
import pytest

import npcompile as npc
from npcompile.backends.cpu.blas import capsule_pointer
from npcompile.backends.cpu.loader import release_memory
from tests.runtime.units import INT64, returning

MIB = 1 << 20

# args: dimensions and strides as int64 arrays (strides may be None) -> an empty array of npc_dtypes[0]
EMPTY = returning("""
  npc_array *dimensions = (npc_array*)args[0], *strides = (npc_array*)args[1];
  result = rt->empty(npc_dtypes[0], (int)dimensions->dimensions[0], (int64_t*)dimensions->data,
                     nargs > 1 ? (int64_t*)strides->data : 0);
""")


def empty(loader, dtype, shape, strides=None):
    arguments = [np.array(s, np.int64) for s in (shape, strides) if s is not None]
    return loader.load(EMPTY, [np.dtype(dtype)]).call(*arguments)[0]


def same_layout(ours: np.ndarray, theirs: np.ndarray) -> bool:
    facts = [(a.shape, a.strides, a.dtype, a.flags.num, a.base, type(a)) for a in (ours, theirs)]
    return facts[0] == facts[1]


@pytest.mark.parametrize("dtype", "? i1 u2 f4 f8 c16 g".split())
@pytest.mark.parametrize("shape", [(), (0,), (5,), (3, 0, 2), (2, 3, 4), (1, 7, 1), (1024, 1025)])
@pytest.mark.parametrize("order", "CF")
def test_arrays_are_as_numpy_makes_them(dtype, shape, order, loader):
    theirs = np.empty(shape, dtype, order)
    assert same_layout(empty(loader, dtype, shape, theirs.strides), theirs)
    if order == "C":
        assert same_layout(empty(loader, dtype, shape), theirs)


@pytest.mark.parametrize("shape", [(2, 3, 4), (64, 65, 66)])
def test_permuted_strides(shape, loader):
    for axes in itertools.permutations(range(3)):
        theirs = np.empty([shape[a] for a in axes], "f8").transpose(np.argsort(axes)).copy(order="K")
        assert same_layout(empty(loader, "f8", shape, theirs.strides), theirs)


def test_large_arrays_own_their_memory(loader):
    array = empty(loader, "f8", (MIB,))
    array[:] = np.arange(MIB)
    assert array.flags.owndata and array.base is None and array.ctypes.data % 64 == 0
    array.resize(2 * MIB, refcheck=False)
    assert (array[:MIB] == np.arange(MIB)).all() and (array[MIB:] == 0).all()
    array.resize(MIB // 4, refcheck=False)
    assert (array == np.arange(MIB // 4)).all()
    copy = array.copy()
    view = array[::2]
    del array
    assert (view == copy[::2]).all()


def test_nothing_else_comes_from_our_allocator(loader):
    name = np._core.multiarray.get_handler_name
    before = name()
    assert name(empty(loader, "f8", (MIB,))) == "npcompile"
    assert name(empty(loader, "f8", (8,))) == before
    assert name() == before and name(np.empty(MIB)) == before


def test_small_arrays_come_from_the_allocator_that_somebody_has_set(loader):
    """NumPy's C functions by their places in its table (numpy/_core/include/numpy/__multiarray_api.h)."""
    table = (ctypes.c_void_p * 307).from_address(capsule_pointer(np._core._multiarray_umath._ARRAY_API))
    set_handler = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)(table[304])
    usual = capsule_pointer(ctypes.py_object.from_address(table[306]).value)
    other = ctypes.create_string_buffer(b"other".ljust(127, b"\0") + ctypes.string_at(usual + 127, 1 + 5 * 8))
    new_capsule = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    before = set_handler(new_capsule(("PyCapsule_New", ctypes.pythonapi))(ctypes.addressof(other), b"mem_handler", None))
    try:
        made = [empty(loader, "f8", (8,)), np.empty(8)]
        assert [np._core.multiarray.get_handler_name(array) for array in made] == ["other", "other"]
        del made
    finally:
        set_handler(before)


def test_freed_memory_is_used_again(loader):
    array = empty(loader, "f8", (4 * MIB,))
    address = array.ctypes.data
    del array
    assert empty(loader, "f8", (4 * MIB - 5,)).ctypes.data == address
    assert empty(loader, "f8", (2 * MIB,)).ctypes.data != address  # half of a block would be wasted


def test_arrays_of_one_size_do_not_share_the_low_bits_of_their_addresses(loader):
    arrays = [empty(loader, "f8", (3 * MIB,)) for _ in range(4)]
    assert len({array.ctypes.data % 4096 for array in arrays}) > 1
    assert len({array.ctypes.data for array in arrays}) == 4


def resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")


def lazily_freed() -> int:
    with open("/proc/self/smaps_rollup") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith("LazyFree:"))


def fill_and_free(loader, count: int) -> None:
    arrays = [empty(loader, "u1", (32 * MIB,)) for _ in range(count)]
    for array in arrays:
        array[::4096] = 1
    del arrays, array
    gc.collect()


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_kept_memory_is_bounded_by_what_was_in_use_a_moment_ago(loader):
    time.sleep(2.1)  # two moments: what other tests used is long ago
    release_memory()
    before = resident()
    fill_and_free(loader, 3)
    assert 90 * MIB < resident() - before < 110 * MIB  # more than 32 MiB: the next calls will want it
    time.sleep(2.1)
    fill_and_free(loader, 1)
    assert resident() - before < 50 * MIB
    fill_and_free(loader, 40)
    assert resident() - before < 530 * MIB


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_system_may_take_kept_memory_when_it_needs_it(loader):
    """As it says of a mapping how much of it that is."""
    release_memory()
    fill_and_free(loader, 3)
    assert lazily_freed() > 80 * MIB
    array = empty(loader, "u1", (32 * MIB,))
    array[:] = 7
    assert (array == 7).all()


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_system_may_take_what_was_freed_while_workers_were_awake(loader):
    """They look for the next loop for a millisecond."""
    release_memory()
    double = npc.compile(lambda x: x * 2)
    x = np.ones(8 * MIB)
    for _ in range(20):
        double(x)
    for _ in range(100):
        if lazily_freed() > 40 * MIB:
            break
        time.sleep(0.01)
    assert lazily_freed() > 40 * MIB
    assert (double(x) == 2).all()


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_kept_memory_returns_to_the_system_on_reset(loader):
    release_memory()
    before = resident()
    fill_and_free(loader, 3)
    assert resident() - before > 30 * MIB
    npc.reset()
    assert resident() - before < 10 * MIB
    assert empty(loader, "u1", (32 * MIB,)).size == 32 * MIB  # and there is memory for the next


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_kept_memory_makes_room_where_the_system_has_none(loader):
    release_memory()
    fill_and_free(loader, 3)
    kept = release_memory()
    assert kept > 60 * MIB
    fill_and_free(loader, 3)
    limits = resource.getrlimit(resource.RLIMIT_AS)
    with open("/proc/self/statm") as file:
        mapped = int(file.read().split()[0]) * os.sysconf("SC_PAGESIZE")
    resource.setrlimit(resource.RLIMIT_AS, (mapped + 16 * MIB, limits[1]))
    try:
        assert empty(loader, "u1", (60 * MIB,)).size == 60 * MIB
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)


def test_threads_never_get_the_same_memory(loader):
    def work(number: int) -> None:
        for _ in range(200):
            array = empty(loader, "i8", (MIB // 4,))
            array[::512] = number
            wrong.extend([number] * int((array[::512] != number).sum()))

    wrong: list[int] = []
    empty(loader, "i8", (1,))
    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_tracemalloc_counts_the_arrays(loader):
    def counted() -> int:
        """Bytes of arrays: other memory of the process is in other domains."""
        arrays = tracemalloc.DomainFilter(True, np.lib.tracemalloc_domain)
        return sum(trace.size for trace in tracemalloc.take_snapshot().filter_traces([arrays]).traces)

    empty(loader, "f8", (8,))
    tracemalloc.start()
    try:
        array = empty(loader, "f8", (MIB,))
        assert counted() >= 8 * MIB
        del array
        assert counted() < MIB
        before = counted()
        arrays = [empty(loader, "f8", (1000,)) for _ in range(100)]
        assert counted() - before == 800_000
        del arrays
        assert counted() - before < 400_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("shape", [(2**62,), (2**40, 2**40), (2**45,)])
def test_too_large_arrays_raise_as_numpy_does(shape, loader):
    with pytest.raises((ValueError, MemoryError)) as theirs:
        np.empty(shape)
    with pytest.raises(theirs.type):
        empty(loader, "f8", shape)


def test_dtypes_are_not_leaked(loader):
    dtype = np.dtype("f8")
    empty(loader, dtype, (8,))
    gc.collect()
    before = sys.getrefcount(dtype)
    for shape in [(8,), (MIB,)] * 50:
        empty(loader, dtype, shape)
    assert sys.getrefcount(dtype) == before


# ---- scratch memory ----

SCRATCH = returning("""
  int64_t bytes, errors = 0;
  if (rt->as_int64(args[0], &bytes)) return 0;
  char* memory[20];
  for (int i = 0; i < 20; i++) {
    if (!(memory[i] = rt->scratch(bytes))) return 0;
    errors += ((uintptr_t)memory[i]) % 64 != 0;
    for (int64_t j = 0; j < bytes; j += 100) memory[i][j] = i;
  }
  for (int i = 0; i < 20; i++) {
    for (int64_t j = 0; j < bytes; j += 100) errors += memory[i][j] != i;
    rt->release(memory[i]);
  }
  rt->release(0);
  result = rt->box(npc_dtypes[0], &errors);
""")


@pytest.mark.parametrize("size", [0, 1, 1000, MIB - 1, MIB, 3 * MIB])
def test_scratch_memory(size, loader):
    assert loader.load(SCRATCH, [INT64]).call(size) == (0,)


def test_scratch_memory_that_is_not_there(loader):
    with pytest.raises(MemoryError):
        loader.load(SCRATCH, [INT64]).call(2**62)  # more than there are addresses


# ---- numbers ----


def reader(c_type: str, function: str) -> str:
    return returning(f"{c_type}; if (rt->{function}) return 0; result = rt->box(npc_dtypes[0], &value);")


READERS = {
    "i8": reader("int64_t value", "as_int64(args[0], &value)"),
    "u8": reader("uint64_t value", "as_uint64(args[0], &value)"),
    "f8": reader("double value", "as_double(args[0], &value)"),
    "c16": returning(
        "double value[2]; if (rt->as_complex(args[0], value)) return 0; result = rt->box(npc_dtypes[0], value);",
    ),
}
NUMBERS = {
    "i8": [0, -1, True, 2**63 - 1, -(2**63), np.int8(-5), np.uint64(7), np.array(3)],
    "u8": [0, 2**64 - 1, True, np.uint64(2**64 - 1), np.int8(5), np.array(3)],
    "f8": [0, -1, -0.0, 1.5, float("inf"), 5e-324, np.float32(0.1), np.int8(-1), np.array(2.5), 2**70],
    "c16": [1j, -1, 2.5, np.complex64(1 - 2j), np.float32(0.5), np.array(1j), complex(-0.0, -1.0)],
}
BAD_NUMBERS = {"i8": [2**63, "1", 1.5, None], "u8": [-1, 2**64, 1.5], "f8": ["1", None, 10**400], "c16": ["1", None]}


@pytest.mark.parametrize(("code", "number"), [(code, number) for code in NUMBERS for number in NUMBERS[code]])
def test_numbers_are_read(code, number, loader):
    (value,) = loader.load(READERS[code], [np.dtype(code)]).call(number)
    expected = np.dtype(code).type(number)
    assert type(value) is type(expected) and value.tobytes() == expected.tobytes()


@pytest.mark.parametrize(("code", "number"), [(code, number) for code in BAD_NUMBERS for number in BAD_NUMBERS[code]])
def test_what_is_no_such_number_raises(code, number, loader):
    with pytest.raises((TypeError, OverflowError)):
        loader.load(READERS[code], [np.dtype(code)]).call(number)


SCALAR_DATA = returning("""
  char element[32];
  if (rt->scalar_data(args[0], npc_dtypes[0], element)) return 0;
  result = rt->box(npc_dtypes[0], element);
""")


@pytest.mark.parametrize("code", "? i1 i4 u8 f2 f4 f8 g c8 c16".split())
@pytest.mark.parametrize("source", "? i1 i8 f4 f8".split())
def test_elements_are_read(code, source, loader):
    call = loader.load(SCALAR_DATA, [np.dtype(code)]).call
    for number in (np.dtype(source).type(1), np.array(1, source), 1):
        (value,) = call(number)
        assert value.dtype == code and value == 1


BOX = returning("""
  PyObject* array = rt->empty(npc_dtypes[0], 0, 0, 0);
  if (!array || rt->scalar_data(args[0], npc_dtypes[0], ((npc_array*)array)->data)) return 0;
  result = rt->scalar(array);
""")


@pytest.mark.parametrize("code", "? i1 i4 u8 f2 f4 f8 g c8 c16".split())
def test_scalars(code, loader):
    (value,) = loader.load(BOX, [np.dtype(code)]).call(1)
    assert type(value) is np.dtype(code).type and value == 1


# ---- errors ----


@pytest.mark.parametrize(("index", "axis", "size"), [(10, 0, 10), (-11, 1, 10), (0, 2, 0), (2**40, 0, 3)])
def test_index_errors_are_numpys(index, axis, size, loader):
    with pytest.raises(IndexError) as theirs:
        np.empty((1,) * axis + (size,))[(0,) * axis + (index,)]
    unit = loader.load(returning(f"rt->index_error({index}, {axis}, {size}); if (!rt->error()) result = args[0];"), [])
    with pytest.raises(IndexError) as ours:
        unit.call()
    assert str(ours.value) == str(theirs.value)


def test_value_errors(loader):
    with pytest.raises(ValueError, match=r"^no such axis$"):
        loader.load(returning('rt->value_error("no such axis");'), []).call()


# ---- integers ----

PAIRS = """
  npc_array *a = (npc_array*)args[0], *b = (npc_array*)args[1];
  result = rt->empty(npc_dtypes[0], 1, a->dimensions, 0);
  if (!result) return 0;
  int64_t* out = (int64_t*)((npc_array*)result)->data;
  for (int64_t i = 0; i < a->dimensions[0]; i++)
    out[i] = %s(((int64_t*)a->data)[i], ((int64_t*)b->data)[i]);
"""
FUNCTIONS = {"npc_floordiv": np.floor_divide, "npc_mod": np.remainder, "npc_max": np.maximum, "npc_min": np.minimum}


@pytest.mark.parametrize("function", FUNCTIONS)
def test_integer_functions_are_numpys(function, loader):
    edges = [-(2**63), -(2**63) + 1, -(2**32), *range(-20, 21), 2**31, 2**63 - 1]
    a, b = map(np.array, zip(*itertools.product(edges, edges)))
    (ours,) = loader.load(returning(PAIRS % function), [INT64]).call(a, b)
    with np.errstate(all="ignore"):
        assert (ours == FUNCTIONS[function](a, b)).all()


# ---- BLAS ----

PRODUCT = returning("""
  npc_array *a = (npc_array*)args[0], *b = (npc_array*)args[1];
  int64_t m = a->dimensions[0], k = a->dimensions[1], n = b->dimensions[1], shape[2] = {m, n};
  if (!rt->blas_limit) return 0;
  result = rt->empty(npc_dtypes[0], 2, shape, 0);
  TYPE one[2] = {1, 0}, zero[2] = {0, 0};
  rt->ROUTINE("N", "N", &n, &m, &k, one, b->data, &n, a->data, &k, zero, ((npc_array*)result)->data, &n);
""")


@pytest.mark.parametrize(("code", "routine"), [("f4", "sgemm"), ("f8", "dgemm"), ("c8", "cgemm"), ("c16", "zgemm")])
def test_products_are_bitwise_numpys(code, routine, loader):
    real = "float" if code in ("f4", "c8") else "double"
    call = loader.load(PRODUCT.replace("TYPE", real).replace("ROUTINE", routine), [np.dtype(code)]).call
    generator = np.random.default_rng(0)
    for m, k, n in [(1, 1, 1), (3, 4, 5), (64, 65, 66), (200, 100, 300)]:
        a, b = ((generator.random(s) + 1j * generator.random(s)) for s in ((m, k), (k, n)))
        a, b = (a.astype(code), b.astype(code)) if code[0] == "c" else (a.real.astype(code), b.real.astype(code))
        (ours,) = call(a, b)
        theirs = a @ b
        if min(m, n, k) > 1:  # NumPy has gemv and dot for the others
            assert ours.tobytes() == theirs.tobytes()
        np.testing.assert_allclose(ours, theirs, rtol=1e-5 if real == "float" else 1e-13)


def test_libraries_do_not_share_names(loader):
    first = loader.load(
        returning("int64_t v = helper(); result = rt->box(npc_dtypes[0], &v);", "int64_t helper(void) { return 1; }"), [INT64]
    )
    second = loader.load(
        returning("int64_t v = helper(); result = rt->box(npc_dtypes[0], &v);", "int64_t helper(void) { return 2; }"), [INT64]
    )
    assert (first.call(), second.call()) == ((1,), (2,))


def test_same_source_with_other_dtypes_is_another_library(loader):
    source = returning("char element[16] = {0}; result = rt->box(npc_dtypes[0], element);")
    units = [loader.load(source, [np.dtype(code)]) for code in ("f4", "i8", "f4")]
    assert [unit.call()[0].dtype for unit in units] == ["f4", "i8", "f4"]
    assert units[0].call is units[2].call


def test_keywords_are_refused(loader):
    with pytest.raises(TypeError, match="npc_run"):
        loader.load(SCRATCH, [INT64]).call(bytes=1)


CYCLES = """
import gc
from npcompile.backends.cpu.loader import load
from tests.runtime.units import INT64, constant

class Caller:
    def __init__(self, function):
        self.function, self.me = function, self
    def __del__(self):
        print(*self.function())

for number in range(3):
    call = load(constant(number), [INT64]).call
    cycle = Caller(call)
    del call, cycle
    gc.collect()
last = [load(constant(3), [INT64]).call]
last.append(last)
"""


def test_functions_in_cycles_go_last():
    """Whatever the collector clears first: what CPython reads of a function, and its code, stay until nothing can call it."""
    environment = {**os.environ, "PYTHONMALLOC": "debug"}  # memory that is freed is overwritten
    for _ in range(2):  # with an empty cache, and from it
        done = subprocess.run([sys.executable, "-c", CYCLES], capture_output=True, text=True, env=environment)
        assert (done.returncode, done.stdout.split()) == (0, ["0", "1", "2"]), done.stderr
