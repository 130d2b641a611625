"""A process that compiles Triton: one JSON request a line on stdin, one answer a line on stdout.

Run as a file by `compiler.py`. It imports Triton and never torch, and needs no GPU.
"""

import base64
import json
import linecache
import os
import re
import sys
import traceback
from typing import Any


def compile_one(request: dict[str, Any]) -> dict[str, Any]:
    """The cubin of one Triton function, and what launching it takes."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    source, name = request["source"], request["name"]
    filename = f"<npcompile {name}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
    namespace: dict[str, Any] = {"__name__": filename}
    exec(compile(source, filename, "exec"), namespace)
    attributes = {(k,): [["tt.divisibility", 16]] for k in request["divisible"]}
    made = triton.compile(
        ASTSource(namespace[name], dict(request["signature"]), {}, attributes),
        target=GPUTarget("cuda", request["architecture"], 32),
        options={
            "num_warps": request["warps"],
            "num_stages": request["stages"],
            "enable_fp_fusion": request["is_fast"],
            "enable_reflect_ftz": request["is_fast"],
        },
    )
    metadata = made.metadata
    assert not getattr(metadata, "global_scratch_size", 0), "the kernel wants scratch memory"
    entry = made.asm["ptx"].split(".entry", 1)[1].split("{", 1)[0]
    return {
        "cubin": base64.b64encode(made.asm["cubin"]).decode(),
        "name": metadata.name,
        "warps": metadata.num_warps,
        "shared": metadata.shared,
        "parameters": len(re.findall(r"\.param\s", entry)),
    }


def prepare() -> None:
    """Import Triton now: the first request may still be on its way."""
    sys.modules["torch"] = None  # type: ignore[assignment]  # Triton imports it where it finds it, which takes seconds
    import triton
    import triton.compiler.code_generator
    from triton.runtime import cache

    # Its own hashes the library of the compiler, half a second. The cache is a folder that only this version sees.
    cache.triton_key = lambda: triton.__version__


def serve() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a compiler prints is no answer
    prepare()
    for line in sys.stdin:
        try:
            answer = compile_one(json.loads(line))
        except Exception:  # noqa: BLE001  (raised again by whoever asked)
            answer = {"error": traceback.format_exc()}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    serve()
