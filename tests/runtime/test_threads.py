"""Kernels use as many threads as the environment, the machine or another library says."""

import os

import pytest
import torch

import sparsegate.files  # noqa: F401  makes the runtime follow torch
from sparsegate_runtime import threads

ALONE = "from sparsegate_runtime import threads; print(threads.count())"


@pytest.mark.parametrize(("wanted", "found"), [("3", 3), ("2,4", 2)])
def test_alone_it_is_the_number_in_the_environment(wanted, found, python, environment, monkeypatch):
    monkeypatch.setitem(environment, "OMP_NUM_THREADS", wanted)
    assert python("-c", ALONE).stdout.strip() == str(found)


@pytest.mark.parametrize("wanted", ["", "0", "many"])
def test_alone_and_without_a_number_it_is_the_cores_of_the_process(
    wanted, python, environment, monkeypatch
):
    monkeypatch.setitem(environment, "OMP_NUM_THREADS", wanted)
    assert python("-c", ALONE).stdout.strip() == str(len(os.sched_getaffinity(0)))


def test_with_the_library_it_is_the_number_of_torch():
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(before + 2)
        assert threads.count() == before + 2
    finally:
        torch.set_num_threads(before)


def test_the_source_before_comes_back():
    before = threads.follow(lambda: 7)
    try:
        assert threads.count() == 7
    finally:
        threads.follow(before)
    assert threads.count() == torch.get_num_threads()
