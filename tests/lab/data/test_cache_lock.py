"""A lock is waited for, and the wait is told."""

import fcntl
import threading
import warnings

import pytest

from sparsegate_lab.data.cache_folder import hold_lock


def held(path, seconds):
    """Holds a lock for so long, from now on."""
    lock = path.open("w")
    fcntl.flock(lock, fcntl.LOCK_EX)
    threading.Timer(seconds, lock.close).start()


def test_a_long_wait_for_another_process_is_told(tmp_path):
    held(tmp_path / "a.lock", 2.0)
    with (
        pytest.warns(
            UserWarning, match=r"another process is at work and holds .*a\.lock; waiting for it"
        ),
        hold_lock(tmp_path / "a.lock", "at work"),
    ):
        pass


@pytest.mark.parametrize("seconds", [0.0, 0.2])
def test_no_wait_or_a_short_one_is_not_told(tmp_path, seconds):
    if seconds:
        held(tmp_path / "a.lock", seconds)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with hold_lock(tmp_path / "a.lock", "at work"):
            pass


def test_within_it_the_lock_is_held_and_after_it_free(tmp_path):
    with (tmp_path / "a.lock").open("w") as other:
        with hold_lock(tmp_path / "a.lock", "at work"), pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
