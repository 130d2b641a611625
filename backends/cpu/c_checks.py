"""Indices that are data, looked at before they are used, as C."""

from __future__ import annotations

from npcompile.backends.cpu.c_sizes import size_text
from npcompile.backends.kernels.kernel import CheckIndex


def check_lines(s: CheckIndex, *, is_noting: bool) -> list[str]:
    """The index, counted from the start. Where one is outside the kernel ends, or that `is_noting`, and it is 0."""
    target, value, size = s.target.name, s.value.name, size_text(s.size)
    if is_noting:
        found = f"{value} + ({value} < 0 ? {size} : 0)"
        return [
            f"const int64_t {target}_found = {f'{s.mask.name} ? {found} : 0' if s.mask else found};",
            f"const int {target}_outside = (uint64_t){target}_found >= (uint64_t){size};",
            f"const int64_t {target} = {target}_outside ? 0 : {target}_found;",
            f"outside |= {target}_outside;",
        ]
    outside = f"__builtin_expect((uint64_t){target} >= (uint64_t){size}, 0)"
    told = {"bad_index": value, "bad_axis": s.axis, "bad_size": size, "failed": 1}
    fail = " ".join(f"NPC_TELL(c->{place}, {text});" for place, text in told.items()) + " goto done;"
    if s.mask:
        return [
            f"int64_t {target} = {value} + ({value} < 0 ? {size} : 0);",
            f"if (!{s.mask.name}) {target} = 0;",
            f"else if ({outside}) {{ {fail} }}",
        ]
    # One comparison for most indices, which are not counted from the end.
    from_end = f"{target} = (int64_t)((uint64_t){target} + (uint64_t){size});"
    return [f"int64_t {target} = {value};", f"if ({outside}) {{ {from_end} if ({outside}) {{ {fail} }} }}"]
