"""Small whole powers of numbers by multiplication: with the same bits where the exponent is known and where it is data.

NumPy squares where its loop sees one exponent, 2, and divides where that is -1. Loops here may not see that it is one, so each
exponent is asked. Products for 3 and 4 are made with what each rounding took away, so that they are rounded nearly once, as the
exact result is: of NumPy's powers one of a thousand is another number where the C library computes them, one of twenty by SVML.
"""

from __future__ import annotations

from collections.abc import Callable

# Of floats, {K} ends the function's name. All leave the range where power does.
POWERS = {2: "{0} * {0}", 3: "npc_cube{K}({0})", 4: "npc_fourth_power{K}({0})", -1: "1 / {0}"}
PRODUCTS = {2: "{0} * {0}", 3: "{0} * {0} * {0}", 4: "({0} * {0}) * ({0} * {0})"}  # of integers

Either = Callable[[str, str, str], str]  # the expression of a choice: of numbers or of vectors


def choice(mask: str, yes: str, no: str) -> str:
    return f"({mask} ? {yes} : {no})"


def lanes_choice(mask: str, yes: str, no: str) -> str:
    return f"npc_either@({mask}, {yes}, {no})"


def exponents_text(name: str, ending: str, c_type: str, one: str, either: Either) -> str:
    """The C function that takes a number, an exponent, and what their power is where the exponent is another one.

    `one` is the expression of 1: a number or a vector. What is not chosen is made of 1, so that it notes no error. Of two choices
    by one condition LLVM, from 19 on, would leave out the first, and it divides by each number of a choice.
    """
    lines = [f"static inline {c_type} {name}({c_type} x, {c_type} y, {c_type} power) {{"]
    lines.append(f"  const {c_type} same = npc_same{ending}(y);")
    for k, (exponent, text) in enumerate(POWERS.items()):
        product = text.format(f"npc_same{ending}(x{k})" if exponent == -1 else f"x{k}", K=ending)
        lines.append(f"  const {c_type} x{k} = {either(f'same == {exponent}', 'x', one)}, p{k} = {product};")
        lines.append(f"  power = {either(f'y == {exponent}', f'p{k}', 'power')};")
    return "\n".join([*lines, "  return power;", "}", ""])


# The same number, which clang does not know.
SAME_TEXT = """\
static inline {c_type} npc_same{ending}({c_type} y) {{
#ifdef __clang__
  {word} bits;
  __builtin_memcpy(&bits, &y, sizeof y);
  bits ^= (int)((int64_t)rt & 3);
  __builtin_memcpy(&y, &bits, sizeof y);
#endif
  return y;
}}
"""

# What a product of floats is larger by than the exact one. Without FMA by Dekker's halves: 134217729 is 2^27 + 1.
EXCESS_TEXT = """\
static inline double npc_excess_f8(double product, double a, double b) {
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
  return __builtin_fma(-a, b, product);
#else
  const double s = 134217729 * a, t = 134217729 * b, a1 = s - (s - a), b1 = t - (t - b), a2 = a - a1, b2 = b - b1;
  return product - a1 * b1 - a1 * b2 - a2 * b1 - a2 * b2;
#endif
}
"""
LANES_EXCESS_TEXT = """\
static inline npc_numbers8 npc_excess8(npc_numbers8 product, npc_numbers8 a, npc_numbers8 b) {
  return __builtin_ia32_vfmaddpd512_mask(-a, b, product, -1, 4);
}
"""


def products_text(ending: str, c_type: str, one: str, size: str, either: Either) -> str:
    """The cube and the fourth power of float64. Of what is beyond the range there is no excess.

    The excess is taken away, not added: it is 0, not -0, where the product is -0.
    """
    excess = f"npc_excess{ending}"
    is_far = f"{size}(power) == __builtin_inf()"
    head = f"  const {c_type} x = {either(is_far, one, 'of')}, square = x * x, less = {excess}(square, x, x)"
    return f"""\
static inline {c_type} npc_cube{ending}({c_type} of) {{
  const {c_type} power = of * of * of;
{head}, cube = square * x;
  return {either(is_far, "power", f"cube - ({excess}(cube, square, x) + less * x)")};
}}
static inline {c_type} npc_fourth_power{ending}({c_type} of) {{
  const {c_type} power = (of * of) * (of * of);
{head}, fourth = square * square;
  return {either(is_far, "power", f"fourth - ({excess}(fourth, square, square) + less * (2 * square))")};
}}
"""


# In float64 products of float32 are nearly exact, and in its range.
SINGLES_TEXT = """\
static inline float npc_cube_f4(float x) { return (float)((double)x * x * x); }
static inline float npc_fourth_power_f4(float x) { return (float)(((double)x * x) * ((double)x * x)); }
"""
LANES_SINGLES_TEXT = """\
static inline npc_numbers16 npc_cube16(npc_numbers16 of) {
  typedef double npc_wide16 __attribute__((vector_size(128)));
  const npc_wide16 x = __builtin_convertvector(of, npc_wide16);
  return __builtin_convertvector(x * x * x, npc_numbers16);
}
static inline npc_numbers16 npc_fourth_power16(npc_numbers16 of) {
  typedef double npc_wide16 __attribute__((vector_size(128)));
  const npc_wide16 x = __builtin_convertvector(of, npc_wide16), square = x * x;
  return __builtin_convertvector(square * square, npc_numbers16);
}
"""
TEXT = SAME_TEXT.format(c_type="double", ending="_f8", word="int64_t") + SAME_TEXT.format(
    c_type="float", ending="_f4", word="int32_t"
)
TEXT += EXCESS_TEXT + products_text("_f8", "double", "1", "fabs", choice) + SINGLES_TEXT
TEXT += "".join(exponents_text(f"npc_small_power_{k}", f"_{k}", c, "1", choice) for k, c in (("f8", "double"), ("f4", "float")))

# Of vectors: the lanes whose exponent is such, as bits. Where it is in none or in all, there is one way for the vector.
LANES_TEXT = f"""
static inline npc_choice@ npc_small_exponents@(npc_numbers@ y) {{
  const npc_words@ found = {" | ".join(f"(y == {exponent})" for exponent in POWERS)};
  return __builtin_ia32_ucmpBITS512_mask(found, (npc_words@){{0}}, 4, -1);
}}
"""
LANES_TEXT += SAME_TEXT.format(c_type="npc_numbers@", ending="@", word="npc_words@")
LANES_TEXT += exponents_text("npc_small_power@", "@", "npc_numbers@", "npc_all@(1)", lanes_choice)
LANES_PRODUCTS = {
    "f8": LANES_EXCESS_TEXT + products_text("@", "npc_numbers@", "npc_all@(1)", "npc_size@", lanes_choice),
    "f4": LANES_SINGLES_TEXT,
}

CHOSEN = (  # of {0} and {1}, where POWER calls the function
    "({{ const npc_choice@ npc_which = npc_small_exponents@({1}); "
    "const npc_numbers@ npc_made = npc_which == (npc_choice@)-1 ? {1} : POWER; "
    "npc_which ? npc_small_power@({0}, {1}, npc_made) : npc_made; }})"
)
