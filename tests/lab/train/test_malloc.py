"""Freed memory stays with the process."""

import platform

import pytest

from sparsegate_lab.train.malloc import keep_freed_memory

STEPS = """
import resource, sys, torch
from sparsegate_lab.train.malloc import keep_freed_memory
kept = keep_freed_memory() if sys.argv[1] == "keep" else None

def step():
    blocks = [torch.ones(200_000) for _ in range(20)]  # 16 MB

for _ in range(5):
    step()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    step()
print(kept, resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""

glibc = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="speaks to glibc")


@glibc
def test_steps_that_free_and_take_memory_cause_no_page_faults(python):
    kept, faults = python("-c", STEPS, "keep").stdout.split()
    assert kept == "True"
    assert int(faults) < 200  # of 80 000 pages taken


def test_what_the_user_has_set_stays(monkeypatch):
    monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", "100000")
    assert not keep_freed_memory()
