"""Vectors of 64 bytes in C, where the processor has AVX-512: their types, and what is done with them beside functions.

In texts @ is the number of lanes.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

from npcompile.backends.cpu.c_definitions import definitions_of
from npcompile.backends.cpu.small_powers import LANES_PRODUCTS, LANES_TEXT

BYTES = 64
IS_HERE = "#ifdef NPC_VECTORS8"  # before a loop that is written in vectors; after #else it is not


@dataclass(frozen=True, slots=True)
class Lanes:
    """The vectors of one dtype."""

    dtype: str  # its short name
    c: str
    word: str  # the C type of as many bits
    choice: str  # that of one bit for each lane
    sign: str  # a word with the sign's bit alone
    instructions: str  # how the names of theirs end

    @property
    def count(self) -> int:
        return BYTES // int(self.dtype[1:])

    def named(self, text: str) -> str:
        """The text, about these vectors."""
        return text.replace("@", str(self.count))


LANES = {
    "f8": Lanes("f8", "double", "long long", "unsigned char", "(long long)0x8000000000000000", "pd"),
    "f4": Lanes("f4", "float", "int", "unsigned short", "(int)0x80000000", "ps"),
}

TYPES = """
typedef NUMBER npc_number@;
typedef npc_SHORT_in_memory npc_number@_in_memory;
typedef npc_SHORTx@ npc_numbers@;
typedef npc_numbers@ npc_numbers@_in_memory __attribute__((aligned(1), may_alias));
typedef WORD npc_words@ __attribute__((vector_size(64)));
typedef CHOICE npc_choice@;
#if __has_builtin(__builtin_nontemporal_store)
#define npc_past_caches@(p, v) __builtin_nontemporal_store(v, (npc_numbers@*)(p))
#else
#define npc_past_caches@(p, v) __builtin_ia32_movntPS512((npc_number@*)(p), v)
#endif
"""
FUNCTIONS = r"""
static inline npc_numbers@ npc_all@(npc_number@ c) { return c - (npc_numbers@){0}; }
static inline npc_words@ npc_sign@(void) { return (npc_words@){0} + SIGN; }
static inline npc_choice@ npc_first@(int64_t count) { return count < @ ? (1 << count) - 1 : (1 << @) - 1; }
static inline npc_numbers@ npc_some@(const char* p, npc_choice@ which) { /* in the other lanes the first number again */
  const npc_number@ first = *(const npc_number@_in_memory*)p;
  return __builtin_ia32_loaduPS512_mask((const npc_number@*)p, npc_all@(first), which);
}
static inline void npc_store_some@(char* p, npc_numbers@ x, npc_choice@ which) {
  __builtin_ia32_storeuPS512_mask((npc_number@*)p, x, which);
}
static inline npc_numbers@ npc_size@(npc_numbers@ x) { return (npc_numbers@)((npc_words@)x & ~npc_sign@()); }
static inline npc_numbers@ npc_either@(npc_words@ mask, npc_numbers@ a, npc_numbers@ b) {
  return (npc_numbers@)(((npc_words@)a & mask) | ((npc_words@)b & ~mask));
}
static inline npc_numbers@ npc_larger@(npc_numbers@ a, npc_numbers@ b) { /* a > b ? a : b */
  npc_numbers@ r;
  __asm__("vmaxPS %2, %1, %0" : "=v"(r) : "v"(a), "v"(b));
  return r;
}
static inline npc_numbers@ npc_smaller@(npc_numbers@ a, npc_numbers@ b) {
  npc_numbers@ r;
  __asm__("vminPS %2, %1, %0" : "=v"(r) : "v"(a), "v"(b));
  return r;
}
static inline npc_numbers@ npc_sqrt@(npc_numbers@ x) {
  npc_numbers@ r;
  __asm__("vsqrtPS %1, %0" : "=v"(r) : "v"(x));
  return r;
}
"""
ROUNDING = r"""
static inline npc_numbers@ npc_ROUND@(npc_numbers@ x) {
  npc_numbers@ r;
  __asm__("vrndscalePS $HOW, %1, %0" : "=v"(r) : "v"(x));
  return r;
}
"""
FUNCTIONS += "".join(
    ROUNDING.replace("ROUND", name).replace("HOW", how)
    for name, how in (("rint", "8"), ("floor", "9"), ("ceil", "10"), ("trunc", "11"))
)
POSITIONS = r"""
static inline npc_words8 npc_order8(void) { return (npc_words8){0, 1, 2, 3, 4, 5, 6, 7}; }
static inline npc_words8 npc_order_of8(npc_choice8 which) { /* of lanes that are left out, that of the first */
  return npc_order8() & -((((npc_words8){0} + which) >> npc_order8()) & 1);
}
"""


def text_of(lanes: Lanes, text: str) -> str:
    replaced = {"NUMBER": lanes.c, "SHORT": lanes.dtype, "WORD": lanes.word, "CHOICE": lanes.choice, "SIGN": lanes.sign}
    replaced["BITS"] = "q" if lanes.dtype == "f8" else "d"
    for name, meant in (replaced | {"PS": lanes.instructions}).items():
        text = text.replace(name, meant)
    return lanes.named(text)


def types_text() -> str:
    return "#define NPC_VECTORS8\n" + "".join(text_of(lanes, TYPES) for lanes in LANES.values())


@functools.cache
def definitions() -> dict[str, str]:
    """Function -> its definition."""
    texts = [text_of(lanes, FUNCTIONS + LANES_PRODUCTS[lanes.dtype] + LANES_TEXT) for lanes in LANES.values()]
    return definitions_of("".join(texts) + POSITIONS)
