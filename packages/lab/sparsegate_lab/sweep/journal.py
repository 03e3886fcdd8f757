"""Opens the file in which processes and machines record their trials."""

from __future__ import annotations

import os
from pathlib import Path

from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock


def open_journal(path: Path) -> JournalStorage:
    """The storage in a file, which may be on a shared file system.

    Args:
        path: the file; it is made if it does not exist, with its folder.
    """
    path = path.resolve()  # Optuna's lock would wait for ever at a relative path
    if path.is_dir():
        raise ValueError(f"the storage is a file or the URL of a database, got the folder {path}")
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = JournalFileOpenLock(str(path))
    if path.exists():
        lock.acquire()
        try:
            _mend(path)
        finally:
            lock.release()
    return JournalStorage(JournalFileBackend(str(path), lock_obj=lock))


def _mend(path: Path) -> None:
    """Cuts off a line that a process could not finish; what follows it would be unreadable."""
    with path.open("rb+") as file:
        content = file.read()
        end = content.rfind(b"\n") + 1
        if end < len(content):
            file.truncate(end)
            os.fsync(file.fileno())
