"""Memory begins at a cache line, large or small, and is kept by its thread."""

import threading

import numpy as np
import pytest

from sparsegate_runtime.engine.memory import LARGE, LINE, aligned, give_back, scratch


@pytest.mark.parametrize("size", [0, 1, 1000, LARGE // 4, LARGE])
def test_memory_is_zeros_from_a_line_on_and_all_of_it_can_be_written(size):
    found = aligned(size)
    assert found.shape == (size,)
    assert found.ctypes.data % LINE == 0
    assert not found.any()
    found.fill(np.nan)
    assert np.isnan(found).all()


def test_large_memory_begins_where_a_large_page_does():
    assert aligned(LARGE).ctypes.data % LARGE == 0


def test_two_pieces_of_large_memory_do_not_touch():
    one, other = aligned(LARGE), aligned(LARGE)
    one.fill(1)
    assert not other.any()


def test_a_thread_keeps_its_memory_until_it_needs_more():
    first = scratch(100)
    assert scratch(50) == first
    scratch(2 * LARGE)
    larger = scratch(LARGE)
    assert larger == scratch(2 * LARGE)


def test_another_thread_has_memory_of_its_own():
    found = []
    other = threading.Thread(target=lambda: found.append(scratch(100)))
    mine = scratch(100)
    other.start()
    other.join()
    assert found[0] != mine


def test_memory_in_use_stays_when_what_is_free_is_given_back():
    kept = aligned(1000)
    kept.fill(2)
    give_back()
    assert (kept == 2).all()
