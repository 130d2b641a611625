"""Array statements of native loops as C: each is a function of its own, with real loops and no temporaries but where it must.

A statement is a tree: `Read`s of parts of arrays, `Number`s, `Gather`s by arrays of indices, and `Apply`s of the backend's
scalar primitives, which have NumPy's exact meaning in loops over arrays. It is stored into a part of an array, or reduced.
Memory that the tree reads, or that could not be written a second time, is written only when all is computed and no
floating-point error was noted: before that the program can leave, and Python does the statement again, and reports.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from npcompile.backends.cpu.array_expressions import (
    Apply,
    Number,
    Part,
    Read,
    Tree,
    flat,
    flat_tree,
    has_one_rank,
    is_flat,
    is_same,
    may_fail,
    may_note,
    parts_of,
    takes_long,
)
from npcompile.backends.cpu.cost_model import elements_of_a_grain, nanoseconds
from npcompile.backends.cpu.loops import fp_status
from npcompile.backends.cpu.loops.dependence import OWN
from npcompile.backends.cpu.loops.extents import Extent, bounds_of
from npcompile.backends.cpu.loops.loop_nest import Function, Nest, dense_strides, known_product, with_narrow_rows
from npcompile.backends.cpu.loops.scalar_loops import Fail, NoForm, ScalarLoops
from npcompile.backends.cpu.loops.side_exits import Handed
from npcompile.backends.cpu.primitives import c_type
from npcompile.backends.native_profiling import with_directives

HELPERS = r"""
#define NPC_FOLDED 256 /* numbers that are combined at once */
#define NPC_STORED 128 /* of those that are computed and stored before: the next ones are read meanwhile */
/* Have rows that follow each other by these strides no byte in common, however many rows there are? */
static inline int npc_are_other_columns(const char* low, const char* high, int64_t stride, const char* low2, const char* high2,
                                        int64_t stride2) {
  const int64_t step = stride < 0 ? -stride : stride, step2 = stride2 < 0 ? -stride2 : stride2;
  if (!step || step != step2) return 0;
  const int64_t gap = ((low2 - low) % step + step) % step;
  return high - low <= gap && high2 - low2 <= step - gap;
}
static inline int npc_has_shape(PyObject* object, int nd, const int64_t* sizes) {
  const npc_array* a = (npc_array*)object;
  for (int k = 0; k < nd; k++)
    if (a->dimensions[k] != sizes[k]) return 0;
  return 1;
}
#define NPC_FEW_BYTES 4096 /* so little memory may lie idle */
/* Give an array in C order another shape, if its memory of `most` elements is not too small and not much too large. Nobody else
   has it. */
static inline int npc_reshape(npc_array* a, int64_t most, int64_t itemsize, int nd, const int64_t* sizes) {
  int64_t count = 1;
  int longer = 0; /* axes than 1: of one, or none, the order is that of Fortran too */
  for (int k = 0; k < nd; k++) {
    if (sizes[k] <= 0 || a->dimensions[k] <= 0 || __builtin_mul_overflow(count, sizes[k], &count)) return 0;
    longer += sizes[k] > 1;
  }
  if (count > most || (count < most / 2 && most * itemsize > NPC_FEW_BYTES)) return 0;
  a->flags = longer > 1 ? a->flags & ~2 : a->flags | 2;
  for (int k = nd; k--; itemsize *= sizes[k]) {
    a->dimensions[k] = sizes[k];
    if (a->strides) a->strides[k] = itemsize;
  }
  return 1;
}
/* Before it is handed over: an array that `npc_place` gave. */
static __attribute__((noinline, cold)) PyObject* npc_shaped(PyObject* made, int64_t itemsize, int nd, const int64_t* sizes) {
  if (!npc_has_shape(made, nd, sizes)) npc_reshape((npc_array*)made, INT64_C(1) << 62, itemsize, nd, sizes);
  return made;
}
/* An array of this shape: the one that `slot` holds when nobody else does. */
static inline int npc_room(PyObject** slot, int64_t* most, PyObject* dtype, int64_t itemsize, int nd, const int64_t* sizes) {
  npc_array* const a = (npc_array*)*slot;
  if (a && a->ob_refcnt == 1 && (npc_has_shape(*slot, nd, sizes) || npc_reshape(a, *most, itemsize, nd, sizes))) return 0;
  rt->decref(*slot);
  if (!(*slot = rt->empty(dtype, nd, sizes, 0))) return -1;
  *most = 1;
  for (int k = 0; k < nd; k++) *most *= sizes[k];
  return 0;
}
static __attribute__((noinline)) int npc_other_room(PyObject** slot, int64_t* most, PyObject* dtype, int64_t itemsize, int nd,
                                                    const int64_t* sizes) {
  return npc_room(slot, most, dtype, itemsize, nd, sizes);
}
/* The same where most iterations only ask for the memory: the array may still have the shape of another iteration. */
static inline int npc_place(PyObject** slot, int64_t* most, PyObject* dtype, int64_t itemsize, int nd, const int64_t* sizes) {
  int64_t count = 1;
  int fits = *slot && ((npc_array*)*slot)->ob_refcnt == 1;
  for (int k = 0; k < nd; k++) fits &= sizes[k] > 0 && !__builtin_mul_overflow(count, sizes[k], &count);
  fits = fits && count <= *most && (count >= *most / 2 || *most * itemsize <= NPC_FEW_BYTES);
  return fits ? 0 : npc_other_room(slot, most, dtype, itemsize, nd, sizes);
}
/* The array in `slot` for a variable. What that had becomes the slot's, for the next such array, when nobody else has it. */
static inline void npc_hand_over(PyObject** variable, PyObject** slot, int64_t* most) {
  const npc_array *const made = (npc_array*)*slot, *const old = (npc_array*)*variable;
  const int own = 1 | 4 | 256 | 1024; /* in C order, owner of its memory, aligned, writeable */
  PyObject* const left = *variable;
  *variable = *slot;
  if (!old || old == made || old->ob_refcnt != 1 || old->ob_type != made->ob_type || old->descr != made->descr ||
      old->nd != made->nd || old->base || (old->flags & own) != own) {
    rt->incref(*variable);
    rt->decref(left);
    return;
  }
  *slot = left;
  *most = 1;
  for (int k = 0; k < old->nd; k++) *most *= old->dimensions[k];
}
/* A small array that nobody else has waits in `*kept` for the next call, whose first shape may be another that its memory has
   room for. */
static inline void npc_keep_room(PyObject* made, int64_t most, int64_t itemsize, PyObject** kept, int64_t* kept_most) {
  if (made && !*kept && ((npc_array*)made)->ob_refcnt == 1 && most <= NPC_FEW_BYTES / itemsize) *kept = made, *kept_most = most;
  else rt->discard(made);
}
"""
PARALLEL_FROM = 1 << 15  # elements
SCATTERED_FROM = 1 << 21  # bytes of the lines of a cache in which single elements are set to a number
GRAIN = 1 << 13
STACK_BYTES = 4096
IN_FOURS = "#pragma GCC ivdep\n#pragma GCC unroll 4"  # of stores that are apart: they take the time, not what is between them
# Of fewer elements each thread keeps its share, whose memory is in its cache, rather than take pieces of what others have.
SHARED_FROM, SHARES = 1 << 20, 4
ALONE_FROM = 1 << 18  # elements that threads write although one thread goes over them too: they leave its cache in any case
LITTLE = 2  # nanoseconds: what takes no longer is computed twice rather than written twice
FAR_BYTES = 1 << 21  # of memory that is far enough to divide twice
SEEN = {"f8": "npc_bits_double({})", "f4": "npc_bits_float({})"}  # what can be looked at of a number, as an integer


@dataclass(slots=True)
class Store:
    """The function that writes a tree's elements to a part of an array."""

    function: Function
    target: Part
    tree: Tree
    fewest: str = "0"  # elements that are worth other threads' caches, as C
    tasks: list[str] = field(default_factory=list)

    @property
    def notes(self) -> bool:
        return may_note(self.tree)

    @property
    def can_leave(self) -> bool:
        return self.notes or may_fail(self.tree)

    def lines(self, are_apart: Sequence[str], needs_room: bool) -> list[str]:
        """The text. Through memory of its own if it has to be, or where not all of `are_apart` hold."""
        f, target = self.function, self.target
        to, itemsize = f.take(target.data, "char*"), target.dtype.itemsize
        sizes, strides = [f.take(n) for n in target.sizes], [f.take(s) for s in target.strides]
        nest = Nest(f, target.sizes)
        value = nest.stored(self.tree) if self.notes else nest.value(self.tree)
        fill = nest.loops([f"{self.place(nest)} = {value};"], "begin", "end", "#pragma GCC ivdep")
        begin = [*nest.begins, "int bad = 0;"]
        noted = ["bad |= npc_noted() != 0;"] * self.notes
        filling = self.range("range", fill)
        direct = [*self.run("range", [to, *strides], sizes), "return bad;"]
        head = f"static int {f.name}({f.signature}) {{"
        if not are_apart and not needs_room:
            return [*filling, *self.tasks, head, *begin, *direct, "}"]
        main = [] if needs_room else [f"if ({' && '.join(are_apart)}) {{", *direct, "}"]
        if needs_room and (checking := self.checking()):
            filling += checking
            least = FAR_BYTES if takes_long(self.tree) else STACK_BYTES
            conditions = [f"({known_product(sizes)}) * {itemsize} > {least}", *are_apart]
            main += [
                f"if ({' && '.join(conditions)}) {{",
                *self.run("check", [to, *strides], sizes),
                *noted,
                "if (bad) return bad;",
            ]
            main += [*self.run("range", [to, *strides], sizes), "return bad;", "}"]
        main += [
            f"const int64_t bytes = ({known_product(sizes)}) * {itemsize};",
            f"char small[{STACK_BYTES}] __attribute__((aligned(64)));",
            f"char* const room = bytes <= {STACK_BYTES} ? small : rt->scratch(bytes);",
            "if (!room) return -1;",
            *self.run("range", ["room", *dense_strides(sizes, itemsize)], sizes),
            *noted,
            "if (!bad) {",
        ]
        f.parameters["room"] = "char*", "room"
        index = "0" if not sizes else "i0"
        for k, n in enumerate(sizes[1:], 1):
            index = f"({index} * {n} + i{k})"
        moved = Nest(f, target.sizes)
        copy = moved.loops([f"{self.place(moved)} = (({c_type(target.dtype)}*)room)[{index}];"], "begin", "end", IN_FOURS)
        copying = self.range("back", copy)
        main += [*self.run("back", [to, *strides], sizes), "}", "if (room != small) rt->release(room);", "return bad;"]
        del f.parameters["room"]
        return [*filling, *copying, *self.tasks, head, *begin, *main, "}"]

    def checking(self) -> list[str]:
        """The function that computes the elements and writes none, to note errors; nothing where they take long."""
        f, dtype, sizes = self.function, self.target.dtype, self.target.sizes
        is_small = all(n.isdigit() for n in sizes) and math.prod(map(int, sizes)) * dtype.itemsize <= STACK_BYTES
        text = SEEN.get(dtype.str[1:], "{}" if dtype.kind in "iub" else "")
        if is_small or not text or may_fail(self.tree) or nanoseconds(self.tree) > LITTLE:
            return []
        nest = Nest(f, sizes)
        loops = nest.loops([f"seen |= {text.format(nest.stored(self.tree))};"], "begin", "end")
        body = ["int bad = 0;", "uint64_t seen = 0;", *loops, '__asm__ volatile("" : : "r"(seen));', "return bad;"]
        return [f"static int {f.name}_check({self.parameters}) {{", *body, "}"]

    @property
    def parameters(self) -> str:
        """Of a function of some items of the outermost loop."""
        steps = [f"int64_t to_s{k}" for k in range(self.target.ndim)]
        return ", ".join(filter(None, [self.function.signature, "char* to", *steps, "int64_t begin", "int64_t end"]))

    def place(self, nest: Nest) -> str:
        """The element that is written, where `to` and the strides `to_s0`, ... are."""
        last, c = self.target.ndim - 1, c_type(self.target.dtype)
        nest.rows.append(f"char* const to_row = to{''.join(f' + i{k} * to_s{k}' for k in range(last))};")
        return f"*({c}*)(to_row + i{last} * to_s{last})" if last >= 0 else f"*({c}*)to_row"

    def range(self, name: str, body: Sequence[str]) -> list[str]:
        """The function of some items of the outermost loop."""
        f, parts = self.function, [self.target, *parts_of(self.tree)]
        to = {f"to_s{k}": f.take(s) for k, s in enumerate(self.target.strides)}
        return with_narrow_rows(f"{f.name}_{name}", self.parameters, ["int bad = 0;", *body, "return bad;"], f, parts, to)

    def where_far(self, sizes: Sequence[str], strides: Sequence[str]) -> str:
        """A condition more where single elements are set to a number: so little work is worth less than memory near a thread."""
        if not isinstance(self.tree, Number) or strides[-1] == str(self.target.dtype.itemsize):
            return ""
        lines = f"({known_product(sizes)}) * npc_min(__builtin_llabs({strides[-1]}), 64)"
        return f" && ({strides[-1]} == {self.target.dtype.itemsize} || {lines} >= {SCATTERED_FROM})"

    def run(self, name: str, where: Sequence[str], sizes: Sequence[str]) -> list[str]:
        """That function for all items, on all threads when there is enough to do."""
        f = self.function
        given = [n for _, n in f.parameters.values()]
        all_items = f"bad |= {f.name}_{name}({', '.join([*given, *where])}, 0, {sizes[0] if sizes else 1});"
        if all(n.isdigit() for n in sizes):
            return [all_items]
        task = f"{f.name}_{name}_{len(self.tasks)}"
        fields = [*(f"{c} {n};" for c, n in f.parameters.values()), "char* to;", *(f"int64_t s{k};" for k in range(len(sizes)))]
        passed = [*(f"a->{n}" for n in given), "a->to", *(s if s.isdigit() else f"a->s{k}" for k, s in enumerate(where[1:]))]
        self.tasks += [
            f"struct {task} {{ {' '.join(fields)} int bad; }};",
            f"static void {task}_run(void* context, int64_t begin, int64_t end, int thread) {{",
            f"struct {task}* const a = context;",
            f"if ({f.name}_{name}({', '.join(passed)}, begin, end)) NPC_TELL(a->bad, 1);",
            "}",
        ]
        release = "if (room != small) rt->release(room); " if where[0] == "room" or name == "back" else ""
        grain, pieces = elements_of_a_grain(self.tree, self.target.dtype)
        fewest = max(2 * (grain // pieces), PARALLEL_FROM if nanoseconds(self.tree) <= LITTLE else 0)
        return [
            f"if (({known_product(sizes)}) >= npc_max({fewest}, {self.fewest})",
            f"{self.where_far(sizes, where[1:])} && {sizes[0]} > 1) {{",
            f"struct {task} c = {{{', '.join([*given, *where, '0'])}}};",
            f"const int64_t each = npc_max(1, {known_product(sizes[1:])}), grain = npc_max(1, {grain} / each);",
            f"const int64_t share = {share_text(self.tree, f'{sizes[0]} * each', sizes[0])};",
            f"const int64_t piece = npc_max({grain // pieces} / each, share);",
            "rt->hold(1);",  # a statement is done as a whole; signals are looked for between statements
            f"const int failed = rt->parallel_in_pieces({task}_run, &c, {sizes[0]}, npc_max(grain, share), piece);",
            "rt->hold(0);",
            f"if (failed) {{ {release}return -1; }}",
            "bad |= c.bad;",
            f"}} else {all_items}",
        ]


def share_text(tree: Tree, elements: str, items: str) -> str:
    """Of items that have so many elements together, those that a thread takes at once; 0 where others may take them as well."""
    if nanoseconds(tree) > LITTLE:  # a thread that the system has not scheduled would be waited for
        return "0"
    return f"{elements} < {SHARED_FROM} ? ({items} - 1) / ({SHARES} * rt->threads()) + 1 : 0"


def briefly(line: str) -> str:
    """The line; of a function's head, that of one whose compilation is worth less time."""
    for head in ("static inline __attribute__((always_inline)) ", "static "):
        if line.startswith(head) and line.endswith(") {"):
            return f"static BRIEF {line.removeprefix(head)}"
    return line


@dataclass(slots=True)
class ArrayLoops:
    """Writes the statements of a program: the functions, and their calls where the program is."""

    code: ScalarLoops
    functions: list[str] = field(default_factory=list)
    folds: dict[str, str] = field(default_factory=dict)
    owners: dict[tuple[str, int], int] = field(default_factory=dict)  # arrays that statements store in, axes: to numbers
    read_alone: dict[str, int] = field(default_factory=dict)  # arrays that one thread goes over, to the most axes at once
    far: set[tuple[str, str]] = field(default_factory=set)  # inputs that have to be apart
    instructions: set[tuple[int, int]] = field(default_factory=set)  # that are loops over arrays: (loop around, instruction)
    writes_before_it_knows: bool = False  # that NumPy may have an error to report
    extents: list[Extent] = field(default_factory=list)  # of statements, but for those outside of loops that copy
    rooms: dict[str, int] = field(default_factory=dict)  # variables of arrays that it makes, to bytes of an element
    made: int = 0

    def name(self) -> str:
        self.made += 1
        return f"part{self.made}"

    def call(
        self,
        function: Function,
        extra: str,
        fail: Fail,
        can_leave: bool,
        work: Sequence[str],
        is_plain: bool = False,
        matrix: str = "",
        notes: bool = False,
        looks: bool = False,
        is_new: bool = False,
    ) -> None:
        """Run it. It gives 0, 1 to leave before the statement, -1 with an exception set. A plain one copies, or sets one number.

        `notes`: it may set flags of floating-point errors. They are to leave as well: it `looks` at them itself, or they are
        looked at after it. `is_new`: it writes only what it makes itself.
        The product of `work` is about how many numbers it computes: as many iterations nearer is the next look for signals.
        """
        self.work(work, is_plain, matrix)
        if self.code.accesses is not None:
            for text, (c, _) in function.parameters.items():
                if c == "char*" and text != "rt":
                    self.code.accesses.memory(text)
        arguments = ", ".join(filter(None, [function.texts, extra]))
        exit_name = fail() if can_leave or notes else ""
        leave = f"goto {exit_name};" if can_leave else ""
        if notes:
            self.code.line(fp_status.FORGET)
        self.code.line(
            f"switch ({function.name}({arguments})) {{ case 0: break; case -1: goto {self.code.failing()}; default:; {leave} }}"
        )
        if notes and not looks:
            self.code.line(fp_status.look(exit_name, is_new=is_new))

    def work(self, sizes: Sequence[str], is_plain: bool = False, matrix: str = "") -> None:
        """What follows goes over so many elements. `matrix`: the array whose product with a vector it is."""
        self.code.line(f"NPC_COMPUTED({known_product(sizes)});")
        self.instructions.add((self.code.loop, self.code.instruction))
        is_outside = self.code.loop < 0
        if is_outside and is_plain:
            return
        self.extents.append(Extent(self.code.loop, self.code.instruction, tuple(sizes), matrix))
        if is_outside:
            if not self.code.are_small and bounds_of(self.extents[-1:], [-1], self.code.examples) is None:
                raise NoForm("whole arrays that are large, outside of loops")
            self.code.asks_small = True

    # --- memory

    def fresh(self, dtype: np.dtype, sizes: Sequence[str]) -> Part:
        """A new array in C order."""
        return self.made_in(self.room(dtype, sizes), dtype, sizes)

    def room(self, dtype: np.dtype, sizes: Sequence[str]) -> str:
        """The variable of such an array, from here on."""
        code = self.code
        slot = code.variable(f"made{code.new_site()}", "object")
        room = code.variable(f"{slot}_most", "int")
        self.rooms[slot] = dtype.itemsize
        made = f"&{slot}, &{room}, npc_dtypes[{code.dtype(dtype)}], {dtype.itemsize}, {len(sizes)}, {sizes_text(sizes)}"
        code.line(f"if (npc_room({made})) goto {code.failing()};")
        return slot

    def made_in(self, slot: str, dtype: np.dtype, sizes: Sequence[str]) -> Part:
        code, known = self.code, tuple(sizes)
        strides = tuple(s if s.isdigit() else code.new("int", s) for s in dense_strides(known, dtype.itemsize))
        data = code.new("data", f"((npc_array*){slot})->data")
        if code.accesses is not None:
            code.accesses.origins[data] = OWN
        return Part(dtype, data, known, strides, slot, True, True, True, True)

    def are_far(self, a: Part, b: Part) -> bool | None:
        """Is no byte in both? None when that depends on numbers of the program."""
        if a.root == b.root or (a.is_own and b.is_own):
            return None
        if not a.is_own and not b.is_own:
            self.far.add((min(a.root, b.root), max(a.root, b.root)))
        return True

    # --- statements

    def once(self, tree: Tree, sizes: Sequence[str], fail: Fail) -> Tree:
        """The tree, whose rows and columns that are broadcast are computed once, if that takes long."""
        if not isinstance(tree, Apply):
            return tree
        shapes = {p.sizes for p in parts_of(tree)}
        if len(shapes) == 1 and takes_long(tree) and not may_fail(tree):
            (shape,) = shapes
            if len(shape) < len(sizes) or any(n == "1" != full for n, full in zip(shape, sizes)):
                self.code.noted("computed once for an axis")
                return Read(self.make(tree, shape, fail))
        return replace(tree, args=tuple(self.once(a, sizes, fail) for a in tree.args))

    def store(self, target: Part, tree: Tree, fail: Fail, is_new: bool = False) -> None:
        """Every element of `target` set to the tree's, which broadcasts to it."""
        self.code.write_to(target.root)
        tree = self.once(tree, target.sizes, fail)
        owner = self.owners.setdefault((target.root, target.ndim), len(self.owners))
        if tree.dtype != target.dtype:
            tree = Apply("cast", (tree,), target.dtype)
        if isinstance(tree, Read) and not is_new and target.ndim == 1 and target.root == tree.part.root:
            self.leave_to_copy(target, tree.part, fail)
        if target.ndim > 1 and has_one_rank(tree, target.ndim) and all(map(is_flat, [target, *parts_of(tree)])):
            size = (self.code.new("int", known_product(target.sizes)),)
            target, tree = flat(target, size), flat_tree(tree, size)
        if self.code.accesses is not None and not is_new:
            self.code.accesses.memory(target.data, is_written=True)
        f = Function(self.name())
        store = Store(f, target, tree, f"NPC_FEWEST_{owner}")
        others = [p for p in parts_of(tree) if not is_same(p, target)]
        near = [p for p in others if not is_new and self.are_far(target, p) is None]
        # Reads what it writes, or may have read it for what it computes with: then it cannot be done again.
        updates = len(others) < len(parts_of(tree)) or self.code.has_read()
        tests = [self.apart_text(f, target, p) for p in near]
        # An index outside is an error before anything is written. So is what NumPy reports, when it raises.
        needs_room = not is_new and (updates and store.can_leave or may_fail(tree))
        self.writes_before_it_knows |= not is_new and store.notes and not needs_room
        lines = store.lines(tests, needs_room)
        # Beside a loop that is written as a whole, statements seldom run by themselves.
        self.functions += map(briefly, lines) if self.code.instruction in self.code.by_blocks else lines
        is_plain = isinstance(tree, Number | Read)
        self.call(f, "", fail, store.can_leave, target.sizes, is_plain, notes=store.notes, looks=needs_room, is_new=is_new)

    def leave_to_copy(self, target: Part, source: Part, fail: Fail) -> None:
        """NumPy copies vectors of one memory, whose strides have one direction, as if these were equal: reads what it wrote."""
        to, come = target.strides[0], source.strides[-1] if source.ndim else "0"
        if to != come and come != "0":
            are_near = f"!{self.extents_text(None, target, source)}"
            self.code.leave_if(f"{target.sizes[0]} > 1 && {to} != {come} && ({to} > 0) == ({come} > 0) && {are_near}", fail)

    def extents_text(self, f: Function | None, a: Part, b: Part) -> str:
        """Is no byte between the first and the last of one in the other? Said in the function, or in the program itself."""
        (low, high), (low2, high2) = (ends_of(f, p, p.ndim) for p in (a, b))
        return f"({high} <= {low2} || {high2} <= {low})"

    def apart_text(self, f: Function, a: Part, b: Part) -> str:
        """Is no byte of one in the other, as far as extents tell, or as they are columns beside each other?"""
        if not a.ndim == b.ndim > 1:
            return self.extents_text(f, a, b)
        self.code.noted("apart by columns")
        columns = [f"{', '.join(ends_of(f, p, p.ndim - 1))}, {f.take(p.strides[0])}" for p in (a, b)]
        return f"({self.extents_text(f, a, b)} || npc_are_other_columns({', '.join(columns)}))"

    def make(self, tree: Tree, sizes: Sequence[str], fail: Fail) -> Part:
        """A new array of the tree's elements."""
        target = self.fresh(tree.dtype, sizes)
        self.store(target, tree, fail, is_new=True)
        return target

    def reads_alone(self, tree: Tree) -> None:
        """One thread goes over the tree, whatever its size is. (A line is little of an array that is written whole.)"""
        for part in parts_of(tree):
            self.read_alone[part.root] = max(self.read_alone.get(part.root, 0), part.ndim)

    # --- the unit

    def object_text(self, part: Part) -> str:
        """A new reference to an array object for this memory."""
        letter, arguments = self.handed(part)
        return f"(rt->incref({arguments}), {arguments})" if letter == "o" else f"rt->view({arguments})"

    def handed(self, part: Part) -> Handed:
        """The same object, as an exit hands it over."""
        if part.is_whole and part.root in self.rooms:
            return "o", f"npc_shaped({part.root}, {part.dtype.itemsize}, {part.ndim}, {sizes_text(part.sizes)})"
        if part.is_whole:
            return "o", part.root
        number, sizes, strides = self.code.dtype(part.dtype), sizes_text(part.sizes), sizes_text(part.strides)
        return "v", f"npc_dtypes[{number}], {part.ndim}, {sizes}, {strides}, {part.data}, {part.root}"

    def text(self) -> str:
        """What stands before the program."""
        fewest = {k: ALONE_FROM * (self.read_alone.get(root, 0) >= axes) for (root, axes), k in self.owners.items()}
        for k, count in fewest.items():
            self.code.passes.note("elements from which threads help", f"array {k} that is written", None, count)
        definitions = [f"#define NPC_FEWEST_{k} {n}" for k, n in fewest.items()]
        return "\n".join([HELPERS, *definitions, *self.folds.values(), *with_directives(self.functions)]) + "\n"


def ends_of(f: Function | None, part: Part, axes: int) -> tuple[str, str]:
    """The first byte, and what follows the last one, of what begins where the part does and has its last `axes` axes."""

    def take(text: str, c: str = "int64_t") -> str:
        return f.take(text, c) if f is not None else text

    first = take(part.data, "char*")
    pairs = [(take(n), take(s)) for n, s in list(zip(part.sizes, part.strides))[part.ndim - axes :]]
    low = "".join(f" + NPC_LOW({n}, {s})" for n, s in pairs)
    high = "".join(f" + NPC_HIGH({n}, {s})" for n, s in pairs)
    return f"{first}{low}", f"{first}{high} + {part.dtype.itemsize}"


def sizes_text(sizes: Sequence[str]) -> str:
    return f"(const int64_t[]){{{', '.join(sizes) or '0'}}}"
