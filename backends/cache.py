"""Compiled units on disk: one file per entry, verified before it is used. Every failure of the disk is a miss."""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import os
import stat
import struct
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from npcompile.tensor_core.user_warnings import warn_user

try:
    import fcntl
except ImportError:  # not a POSIX system: nobody waits for anybody
    fcntl = None  # type: ignore[assignment]

FORMAT = 1
MAGIC = b"npc-end\n"
FOOTER = struct.Struct("<Q8s")  # length of the JSON text before it, MAGIC
MOST_BYTES = 1 << 29  # of all entries: the least recently used go first
TRIM_AFTER = 32  # a part of the limit as small is stored between two looks at the folder
LOCK_TIMEOUT = 150.0  # seconds: whoever holds a lock for longer is stuck
TOUCH_AFTER = 3600.0  # seconds: how exact the order of use is
SCRATCH = "npcompile-"  # first letters of a folder in the system's place for temporary files
TEMPORARY = ".tmp-"  # first letters of a file that is not complete
ABANDONED = 3600.0  # seconds: older temporary files were left behind by killed processes


def key_of(*parts: str) -> str:
    """The name of an entry: whatever could make its content differ must be among `parts`."""
    digest = hashlib.sha256(f"npcompile {FORMAT}".encode())
    for part in parts:
        encoded = part.encode()
        digest.update(struct.pack("<Q", len(encoded)) + encoded)
    return digest.hexdigest()


def seal(payload: bytes, key: str) -> bytes:
    """The trailer that follows `payload` in its file. A loader of shared libraries does not look at it."""
    import json  # here and below: what importing npcompile alone does not need

    header = {"format": FORMAT, "key": key, "length": len(payload), "sha256": hashlib.sha256(payload).hexdigest()}
    text = json.dumps(header).encode()
    return text + FOOTER.pack(len(text), MAGIC)


def unseal(content: bytes, key: str) -> bytes | None:
    """The payload, or None when anything about the file is not as it was written."""
    if len(content) < FOOTER.size:
        return None
    length, magic = FOOTER.unpack(content[-FOOTER.size :])
    start = len(content) - FOOTER.size - length
    if magic != MAGIC or start < 0:
        return None
    payload = content[:start]
    return payload if content[start:] == seal(payload, key) else None


@dataclass(slots=True, eq=False)
class Cache:
    """Entries in `folder`, the user's own; in a private temporary folder while that cannot be written."""

    folder: Path | None
    most_bytes: int = MOST_BYTES
    _temporary: Path | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _lock_file: int | None = None
    _has_swept: bool = False
    _untrimmed: int | None = None  # bytes that this process has stored since it looked at the folder

    def find(self, key: str, suffix: str) -> Path | None:
        """The verified file of an entry, or None."""
        found = self._open(key, suffix)
        return found[0] if found else None

    def read(self, key: str, suffix: str) -> bytes | None:
        """The payload of an entry, or None."""
        found = self._open(key, suffix)
        return found[1] if found else None

    def _open(self, key: str, suffix: str) -> tuple[Path, bytes] | None:
        for folder in self._folders():
            path = folder / (key + suffix)
            try:
                with open(path, "rb", opener=without_waiting) as file:
                    status = os.fstat(file.fileno())
                    payload = unseal(file.read(), key) if stat.S_ISREG(status.st_mode) else None
                if payload is None:
                    os.unlink(path)
                    continue
                if time.time() - status.st_mtime > TOUCH_AFTER:
                    with contextlib.suppress(OSError):  # a cache that can only be read is still one
                        os.utime(path)
            except OSError:
                continue
            return path, payload
        return None

    def write(self, key: str, suffix: str, payload: bytes) -> Path | None:
        """Store an entry. None when there is no room for it anywhere."""
        for find_folder in (self._own, self.temporary):
            try:
                folder = find_folder()
                path = store(folder, key, suffix, payload)
            except OSError:
                continue
            self._untrimmed = None if self._untrimmed is None else self._untrimmed + len(payload)
            if self._untrimmed is None or self._untrimmed * TRIM_AFTER > self.most_bytes:
                trim(folder, self.most_bytes)
                self._untrimmed = 0
            return path
        return None

    def forget(self, key: str, suffix: str) -> None:
        """Drop an entry that turned out to be unusable."""
        for folder in self._folders():
            with contextlib.suppress(OSError):
                os.unlink(folder / (key + suffix))

    def in_child(self) -> Cache:
        """The same for a forked child, where no other thread is left to release a lock."""
        return Cache(self.folder, self.most_bytes, self._temporary)

    def _folders(self) -> list[Path]:
        return [folder for folder in (self.folder, self._temporary) if folder is not None]

    def _own(self) -> Path:
        if self.folder is None:
            raise FileNotFoundError("no cache directory")
        return self.folder

    def temporary(self) -> Path:
        """A folder of this process alone, removed at exit. OSError when even that cannot be had."""
        import tempfile  # here, because it takes longer to import than a warm start

        with self._lock:
            if self._temporary is None or not self._temporary.is_dir():
                self._temporary = Path(tempfile.mkdtemp(prefix=SCRATCH))
                mark_as_used(self._temporary)  # until this process ends
                atexit.register(remove_folder, self._temporary, os.getpid())
            return self._temporary

    @contextlib.contextmanager
    def scratch_directory(self) -> Iterator[Path]:
        """A folder for intermediate files, gone afterwards. OSError when there is none."""
        import tempfile  # here, because it takes longer to import than a warm start

        if not self._has_swept:
            self._has_swept = True
            sweep(tempfile.gettempdir(), SCRATCH)
            sweep(self.folder, TEMPORARY)
        try:
            folder = tempfile.TemporaryDirectory(prefix=SCRATCH, ignore_cleanup_errors=True)
        except OSError:
            folder = tempfile.TemporaryDirectory(prefix=TEMPORARY, dir=self._own(), ignore_cleanup_errors=True)
        with folder as name:
            mark = mark_as_used(name)
            try:
                yield Path(name)
            finally:
                if mark is not None:
                    os.close(mark)

    @contextlib.contextmanager
    def locked(self, key: str, timeout: float = LOCK_TIMEOUT) -> Iterator[bool]:
        """Hold the work on one key, among processes: the second to come waits, then finds the entry. False if it still waits.

        A lock is a byte of one file, so that the system releases it when its holder dies. Where the disk has no locks,
        or the holder is stuck, nobody waits: the work is then done twice, which harms nothing.
        """
        offset = int(key[:8], 16)
        file = self._open_lock_file()
        held = None if file is None else wait_for_lock(file, offset, timeout)
        try:
            yield held is not False
        finally:
            if file is not None and held:
                with contextlib.suppress(OSError):
                    fcntl.lockf(file, fcntl.LOCK_UN, 1, offset)

    def _open_lock_file(self) -> int | None:
        # One descriptor for the life of the process: closing any other one on this file would drop every lock on it.
        with self._lock:
            if self._lock_file is None and self.folder is not None and fcntl is not None:
                try:
                    self._lock_file = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK, 0o600)
                except OSError:
                    return None
            return self._lock_file


def without_waiting(path: str, flags: int) -> int:
    """Open a file that may be a pipe, which nobody writes to."""
    return os.open(path, flags | os.O_NONBLOCK)


def wait_for_lock(file: int, offset: int, timeout: float = LOCK_TIMEOUT) -> bool | None:
    """Was the byte at `offset` locked? False after `timeout` seconds; None where files cannot be locked."""
    deadline, pause = time.monotonic() + timeout, 0.002
    while True:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, offset)
            return True
        except (BlockingIOError, PermissionError):  # POSIX lets a held lock be either
            if time.monotonic() >= deadline:
                return False
            time.sleep(pause)
            pause = min(pause * 1.5, 0.1)
        except OSError:
            return None


def store(folder: Path, key: str, suffix: str, payload: bytes) -> Path:
    """Write a whole entry under another name, then give it its own: readers see all of it or none."""
    path = folder / (key + suffix)
    temporary = folder / f"{TEMPORARY}{os.getpid()}-{os.urandom(8).hex()}"
    try:
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
            file.write(payload)
            file.write(seal(payload, key))
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    return path


def trim(folder: Path, most_bytes: int) -> None:
    """Remove the least recently used entries over `most_bytes`, and what killed processes left behind."""
    entries = []
    try:
        with os.scandir(folder) as found:
            for entry in found:
                with contextlib.suppress(OSError):  # somebody else removed it
                    status = entry.stat(follow_symlinks=False)
                    if stat.S_ISREG(status.st_mode):
                        entries.append((status.st_mtime, status.st_size, entry.name))
    except OSError:
        return
    total = sum(size for _, size, _ in entries)
    for modified, size, name in sorted(entries):
        is_abandoned = name.startswith(TEMPORARY) and time.time() - modified > ABANDONED
        is_entry = name.endswith((".so", ".json"))
        if is_abandoned or (is_entry and total > most_bytes):
            with contextlib.suppress(OSError):
                os.unlink(folder / name)
                total -= size


def mark_as_used(folder: str | Path) -> int | None:
    """A file descriptor: as long as it is open, here or in a forked child, `sweep` leaves the folder alone."""
    try:
        file = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        with contextlib.suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return file
    except (OSError, AttributeError):  # not a POSIX system
        return None


def sweep(where: str | Path | None, prefix: str) -> None:
    """Remove folders of this user that killed processes left behind. Those of the last hour may not be marked yet."""
    import shutil  # here, because it takes longer to import than a warm start

    if where is None or fcntl is None:
        return
    with contextlib.suppress(OSError), os.scandir(where) as found:
        for entry in found:
            if not entry.name.startswith(prefix) or not entry.is_dir(follow_symlinks=False):
                continue
            with contextlib.suppress(OSError):  # it is in use, or somebody else removes it
                status = entry.stat(follow_symlinks=False)
                if status.st_uid != os.geteuid() or time.time() - status.st_mtime < ABANDONED:
                    continue
                file = os.open(entry.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(entry.path, ignore_errors=True)
                finally:
                    os.close(file)


def remove_folder(folder: Path, owner: int) -> None:
    import shutil  # here, because it takes longer to import than a warm start

    if os.getpid() == owner:  # not in a forked child
        shutil.rmtree(folder, ignore_errors=True)


def open_cache() -> Cache:
    """The cache of this user: NPCOMPILE_CACHE_DIR, or the platform's place for caches. Warns when that is not safe."""
    folder = chosen_folder()
    if folder is None:
        return Cache(None)
    try:
        for missing in (*reversed(folder.parents), folder):  # `parents=True` would let the umask decide who writes there
            if not missing.exists():
                missing.mkdir(mode=0o700, exist_ok=True)
    except FileExistsError:
        pass  # not a directory: `why_unsafe` says so
    except OSError:
        return Cache(None)
    try:
        fault = why_unsafe(os.lstat(folder)) or why_unsafe_above(folder)
    except OSError:
        return Cache(None)
    if fault:
        warn_user(f"npcompile does not use the cache directory {folder}: {fault}")
        return Cache(None)
    return Cache(folder)


def chosen_folder() -> Path | None:
    """Where the cache should be, or None for a user without a home."""
    chosen = os.environ.get("NPCOMPILE_CACHE_DIR")
    if chosen:
        return Path(os.path.abspath(chosen))
    import platformdirs

    try:
        folder = Path(platformdirs.user_cache_dir("npcompile", appauthor=False))
    except RuntimeError:  # platformdirs raises it when there is no home; older versions leave a ~ in the path
        return None
    return folder if folder.is_absolute() else None


def why_unsafe(status: os.stat_result) -> str:
    """Could somebody else put code into this directory? The reason, or nothing."""
    if stat.S_ISLNK(status.st_mode):
        return "it is a symbolic link"
    if not stat.S_ISDIR(status.st_mode):
        return "it is not a directory"
    if hasattr(os, "geteuid") and status.st_uid != os.geteuid():
        return "it belongs to another user"
    if status.st_mode & 0o022:
        return "others may write to it"
    return ""


def why_unsafe_above(folder: Path) -> str:
    """Could somebody else put another directory in its place? Not in one with the sticky bit, as /tmp has it."""
    others = [Path(os.path.realpath(folder.parent)), folder.parent]
    for above in {**dict.fromkeys(others), **dict.fromkeys(p for other in others for p in other.parents)}:
        status = os.stat(above)
        if above in others and hasattr(os, "geteuid") and status.st_uid not in (0, os.geteuid()):
            return f"{above} belongs to another user"
        if status.st_mode & stat.S_ISVTX:
            continue
        if status.st_mode & 0o002 or (status.st_mode & 0o020 and not is_private_group(status.st_gid)):
            return f"others may write to {above}"
    return ""


def is_private_group(group: int) -> bool:
    """Is it this user's own, who is its only member? Many systems make one for each user, and let it write."""
    import grp
    import pwd

    try:
        found, user = grp.getgrgid(group), pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return False
    return found.gr_name == user and {*found.gr_mem} <= {user}
