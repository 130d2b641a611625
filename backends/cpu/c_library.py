"""The functions of the C library that generated units and the runtime call: one table of their declarations.

No header is included: parsing them would cost more than compiling a unit. (Only <fenv.h> is, on processors whose flags are
not read here by their own instructions.) Compilers from GCC 14 and clang 16 on refuse calls of
what is not declared, so all that is called here stands here; tests compile every unit with that refusal. Compilers know most of
these by themselves: to declare all of them in each unit takes no time that can be measured.
"""

from __future__ import annotations

UNARY = "sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh "
UNARY += "exp exp2 expm1 log log2 log10 log1p cbrt sqrt floor ceil trunc rint fabs erf erfc"
BINARY = "atan2 hypot pow fmod copysign nextafter"
COMPLEX_UNARY = "cexp clog csqrt csin ccos ctan csinh ccosh ctanh casin cacos catan casinh cacosh catanh"
REALS = {"f": "float", "": "double", "l": "long double"}  # suffix of a function's name -> what it is of

MEMORY = (
    "int memcmp(const void*, const void*, size_t);",
    "void* memcpy(void*, const void*, size_t);",
    "void* memset(void*, int, size_t);",
    "size_t strlen(const char*);",
    "void* malloc(size_t);",
    "void free(void*);",
    "int sched_yield(void);",
)
# Of the runtime alone: it has the types.
SYSTEM = """
struct timespec;
int clock_gettime(int, struct timespec*);
void* mmap(void*, size_t, int, int, int, long);
int munmap(void*, size_t);
int dlclose(void*);
int madvise(void*, size_t, int);
int sigfillset(void*);
int sigdelset(void*, int);
int pthread_sigmask(int, const void*, void*);
int pthread_atfork(void (*)(void), void (*)(void), void (*)(void));
int pthread_create(void** thread, const void* attributes, void* (*)(void*), void*);
int pthread_detach(void*);
int pthread_mutex_init(void*, const void*);
int pthread_mutex_lock(void*);
int pthread_mutex_unlock(void*);
int pthread_cond_init(void*, const void*);
int pthread_cond_wait(void* condition, void* mutex);
int pthread_cond_signal(void*);
int pthread_cond_broadcast(void*);
#ifdef __linux__
int open(const char*, int, ...);
int64_t read(int, void*, size_t);
int close(int);
long sysconf(int);
struct processors;
int sched_getcpu(void);
int pthread_getaffinity_np(void* thread, size_t, struct processors*);
int pthread_setaffinity_np(void* thread, size_t, const struct processors*);
#endif
"""
# Another name of a function: compilers do not know what it does under that one, nor that it has vector forms.
PLAIN = ["sin", "cos", "exp", "expm1", "log", "log1p", "pow", "powf", "hypot", "hypotf"]
PLAIN += [f"{f}{suffix}" for f in COMPLEX_UNARY.split() for suffix in ("", "f")]
SINGLE = [f"{f}f" for f in f"{UNARY} {BINARY}".split()]
NAMED = """
#define NPC_TEXT_OF(x) #x
#define NPC_JOINED(prefix, name) NPC_TEXT_OF(prefix) name
#define NPC_NAMED(name) __asm__(NPC_JOINED(__USER_LABEL_PREFIX__, #name))
"""


def mathematics() -> dict[str, str]:
    """Function -> its declaration.

    >>> mathematics()["atan2f"]
    'float atan2f(float, float);'
    """
    found: dict[str, str] = {}
    for suffix, c in REALS.items():
        for functions, arguments in ((UNARY, c), (BINARY, f"{c}, {c}"), ("ldexp", f"{c}, int")):
            found |= {f"{f}{suffix}": f"{c} {f}{suffix}({arguments});" for f in functions.split()}
    found["lgamma_r"] = "double lgamma_r(double, int*);"
    for suffix in ("f", ""):
        z = f"{REALS[suffix]} _Complex"
        for functions, arguments in ((COMPLEX_UNARY, z), ("cpow", f"{z}, {z}")):
            found |= {f"{f}{suffix}": f"{z} {f}{suffix}({arguments});" for f in functions.split()}
    return found


def another_name(prefix: str, function: str) -> str:
    """The declaration of a mathematical function under the name that begins with `prefix`.

    >>> another_name("npc_plain_", "sin")
    'double npc_plain_sin(double) NPC_NAMED(sin);'
    """
    declared = mathematics()[function].removesuffix(";")
    return f"{declared.replace(f' {function}(', f' {prefix}{function}(')} NPC_NAMED({function});"


def library_text() -> str:
    """All of them."""
    names = [another_name("npc_plain_", f) for f in PLAIN] + [another_name("npc_single_", f) for f in SINGLE]
    return "\n".join([*mathematics().values(), *MEMORY, NAMED, *names]) + "\n"


LIBRARY = library_text()


def unit_of_calls() -> str:
    """A unit that calls each mathematical function: where it is made and loads, the C library has all of them.

    It needs no types but C's own.
    """
    lines = []
    for name, declared in mathematics().items():
        result, _, arguments = declared.removesuffix(");").partition(f" {name}(")
        operands = [f"{c} x{k}" for k, c in enumerate(arguments.split(", "))]
        given = ", ".join(f"x{k}" for k in range(len(operands)))
        lines += [declared, f"{result} npc_calls_{name}({', '.join(operands)}) {{ return {name}({given}); }}"]
    return "\n".join(lines) + "\n"
