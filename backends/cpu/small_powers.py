"""Small whole powers of numbers by multiplication: with the same bits where the exponent is known and where it is data.

NumPy squares where its loop sees one exponent, 2, and divides where that is -1. Loops here may not see that it is one, so each
exponent is asked.
"""

from __future__ import annotations

from collections.abc import Callable

# x * x and 1 / x are rounded as power rounds them; the others err by at most 3 units in the last place. All leave the range where
# it does.
POWERS = {2: "{0} * {0}", 3: "{0} * {0} * {0}", 4: "({0} * {0}) * ({0} * {0})", -1: "1 / {0}"}


def definition(name: str, c_type: str, one: str, either: Callable[[str, str, str], str]) -> str:
    """The C function that takes a number, an exponent, and what their power is where the exponent is another one.

    `either` gives the expression of a choice, and `one` that of 1: of numbers or of vectors. What is not chosen is made of 1,
    so that it notes no error.
    """
    lines = [f"static inline {c_type} {name}({c_type} x, {c_type} y, {c_type} power) {{"]
    for k, (exponent, text) in enumerate(POWERS.items()):
        lines.append(f"  const {c_type} x{k} = {either(f'y == {exponent}', 'x', one)}, p{k} = {text.format(f'x{k}')};")
        lines.append(f"  power = {either(f'y == {exponent}', f'p{k}', 'power')};")
    return "\n".join([*lines, "  return power;", "}", ""])


# Of vectors: the lanes whose exponent is such, as bits. Where it is in none or in all, there is one way for the vector.
LANES_TEXT = f"""
static inline npc_choice@ npc_small_exponents@(npc_numbers@ y) {{
  const npc_words@ found = {" | ".join(f"(y == {exponent})" for exponent in POWERS)};
  return __builtin_ia32_ucmpBITS512_mask(found, (npc_words@){{0}}, 4, -1);
}}
"""
LANES_TEXT += definition("npc_small_power@", "npc_numbers@", "npc_all@(1)", "npc_either@({}, {}, {})".format)

CHOSEN = (  # of {0} and {1}, where POWER calls the function
    "({{ const npc_choice@ npc_which = npc_small_exponents@({1}); "
    "const npc_numbers@ npc_made = npc_which == (npc_choice@)-1 ? {1} : POWER; "
    "npc_which ? npc_small_power@({0}, {1}, npc_made) : npc_made; }})"
)
