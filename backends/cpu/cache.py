"""Compiled units on disk: one file per entry, verified before it is used. Every failure of the disk is a miss."""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import json
import os
import shutil
import stat
import struct
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import platformdirs

FORMAT = 1
MAGIC = b"npc-end\n"
FOOTER = struct.Struct("<Q8s")  # length of the JSON text before it, MAGIC
MOST_BYTES = 1 << 29  # of all entries: the least recently used go first
LOCK_TIMEOUT = 150.0  # seconds: whoever holds a lock for longer is stuck
TOUCH_AFTER = 3600.0  # seconds: how exact the order of use is
TEMPORARY = ".tmp-"


def key_of(*parts: str) -> str:
    """The name of an entry: whatever could make it differ must be among `parts`."""
    digest = hashlib.sha256(f"npcompile {FORMAT}".encode())
    for part in parts:
        encoded = part.encode()
        digest.update(struct.pack("<Q", len(encoded)) + encoded)
    return digest.hexdigest()


def seal(payload: bytes, key: str) -> bytes:
    """The trailer that follows `payload` in its file. A loader of shared libraries does not look at it."""
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
    """Entries in `folder`, which is the user's own; in a private temporary folder where that one cannot be written."""

    folder: Path | None
    _temporary: Path | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _stored: int = 0

    def read(self, key: str, suffix: str) -> bytes | None:
        """The payload of an entry, or None."""
        found = self._open(key, suffix)
        return found[1] if found else None

    def find(self, key: str, suffix: str) -> Path | None:
        """The verified file of an entry, or None."""
        found = self._open(key, suffix)
        return found[0] if found else None

    def _open(self, key: str, suffix: str) -> tuple[Path, bytes] | None:
        for folder in (self.folder, self._temporary):
            if folder is None:
                continue
            path = folder / (key + suffix)
            try:
                with open(path, "rb") as file:
                    content = file.read()
                    modified = os.fstat(file.fileno()).st_mtime
            except OSError:
                continue
            payload = unseal(content, key)
            if payload is None:
                with contextlib.suppress(OSError):
                    os.unlink(path)
                continue
            if time.time() - modified > TOUCH_AFTER:
                with contextlib.suppress(OSError):
                    os.utime(path)
            return path, payload
        return None

    def write(self, key: str, suffix: str, payload: bytes) -> Path | None:
        """Store an entry. None when it cannot be stored anywhere."""
        for folder in self._writable():
            temporary = None
            try:
                handle, temporary = tempfile.mkstemp(prefix=TEMPORARY, dir=folder)
                with open(handle, "wb") as file:
                    file.write(payload)
                    file.write(seal(payload, key))
                path = folder / (key + suffix)
                os.replace(temporary, path)
            except OSError:
                if temporary is not None:
                    with contextlib.suppress(OSError):
                        os.unlink(temporary)
                continue
            self._stored += 1
            if self._stored % 32 == 1:
                trim(folder)
            return path
        return None

    def forget(self, key: str, suffix: str) -> None:
        """Drop an entry that turned out to be unusable."""
        for folder in (self.folder, self._temporary):
            if folder is not None:
                with contextlib.suppress(OSError):
                    os.unlink(folder / (key + suffix))

    def _writable(self) -> Iterator[Path]:
        if self.folder is not None:
            yield self.folder
        yield self.temporary()

    def temporary(self) -> Path:
        """A folder of this process alone, removed at exit. OSError when even that cannot be had."""
        with self._lock:
            if self._temporary is None or not self._temporary.is_dir():
                self._temporary = Path(tempfile.mkdtemp(prefix="npcompile-"))
                atexit.register(remove_folder, self._temporary, os.getpid())
            return self._temporary

    @contextlib.contextmanager
    def scratch_directory(self) -> Iterator[Path]:
        """A folder for intermediate files, gone afterwards."""
        with tempfile.TemporaryDirectory(prefix="npcompile-", ignore_cleanup_errors=True) as folder:
            yield Path(folder)

    @contextlib.contextmanager
    def locked(self, key: str) -> Iterator[None]:
        """Hold the work on one key, among processes. Where files cannot be locked nobody waits."""
        yield


def remove_folder(folder: Path, owner: int) -> None:
    if os.getpid() == owner:  # not in a forked child
        shutil.rmtree(folder, ignore_errors=True)


def trim(folder: Path, most_bytes: int = MOST_BYTES) -> None:
    """Remove the least recently used entries over `most_bytes`, and what killed processes left behind."""


def open_cache() -> Cache:
    """The cache of this user: NPCOMPILE_CACHE_DIR, or the platform's place for caches."""
    chosen = os.environ.get("NPCOMPILE_CACHE_DIR") or platformdirs.user_cache_dir("npcompile", appauthor=False)
    folder = Path(chosen)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        fault = why_unsafe(os.lstat(folder))
    except OSError:
        return Cache(None)
    if fault:
        warnings.warn(f"npcompile does not use the cache directory {folder}: {fault}", RuntimeWarning, stacklevel=2)
        return Cache(None)
    return Cache(folder)


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
