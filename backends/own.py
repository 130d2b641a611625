"""The backends that come with npcompile."""

from npcompile.backends import cpu, cuda, eager

HOST = cpu.compile_cpu  # takes NumPy's arrays where they are


def register() -> None:
    for backend in (cpu, cuda, eager):
        backend.register()
