"""Writes files completely or not at all."""

from __future__ import annotations

import contextlib
import glob
import os
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

Content = bytes | bytearray | memoryview | NDArray[Any]
"""What a file can be written from."""


def write_atomically(path: Path, *content: Content) -> None:
    """Replaces a file in one step.

    After a crash, a full disk or a power cut, the file has its old content or all of the new one.
    Content is first written to `.NAME.PID.partial` in the same folder. If a killed process left
    such a file behind, the next write of the same file removes it.

    Args:
        path: the file to write; its folder must exist.
        content: the parts of the new content, in order.
    """
    if not path.parent.is_dir():
        raise FileNotFoundError(
            f"cannot write {path.name}: the folder {path.parent} does not exist"
        )
    remove_partials(path.parent, glob.escape(path.name))
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with partial.open("wb") as file:
            file.writelines(content)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def remove_partials(folder: Path, pattern: str = "*") -> None:
    """Removes the partial files that processes of this machine left in a folder when they died.

    Args:
        folder: the folder to search, without its subfolders.
        pattern: the names of the files that were being written, such as `record.json`.
    """
    for partial in folder.glob(f".{pattern}.*.partial"):
        pid = partial.name.split(".")[-2]
        if pid.isdecimal() and not _is_running(int(pid)):
            partial.unlink(missing_ok=True)


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:  # a process of another user
        return True
    return True


def _sync_folder(folder: Path) -> None:
    """Makes a rename survive a power cut, on systems that can."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with contextlib.suppress(OSError):  # some network file systems cannot sync a folder
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
