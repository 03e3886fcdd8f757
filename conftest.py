"""Tests check the shapes and types in every signature of the package."""

import gc
import os
import random
import warnings
import zlib
from importlib.util import find_spec

import numpy as np
import pytest
from tests.drawn import SEED, load_profile
from tests.signatures import check_signatures

check_signatures("sparsegate_runtime", "sparsegate", "sparsegate_lab")

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import torch

if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")  # Triton's kernels run in its interpreter
collect_ignore_glob = ["tests/scripts/*"] + (
    [] if find_spec("triton") else ["packages/**/*kernels.py"]
)
collect_ignore_glob += [
    f"packages/**/integrations/{name}*"
    for name in ("transformers", "lightning")
    if not find_spec(name)
]
torch.set_num_threads(1)  # many small tensors; and two processes share the cores in some tests
load_profile()

LONG = (
    "test_several_processes",
    "test_shard",
    "test_compile",
    "test_resume",
    "test_methods",
    "test_to_c",
)
"""Files with few, long tests, which run first: run last, they would keep one process busy alone."""


STATE = pytest.StashKey[tuple[object, ...]]()
DRAWS = "draws random numbers"
REMEMBERED = "sparsegate/draws"
SEEN: dict[str, bool] = {}
"""Which tests of this session have drawn random numbers."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds `--draws`."""
    parser.addoption(
        "--draws",
        action="store_true",
        help="leave out the tests that drew no random numbers when they ran last: "
        "another seed changes nothing for them",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Puts the long files first and keeps the order of all others."""
    items.sort(key=lambda item: item.path.stem not in LONG)
    cache = getattr(config, "cache", None)
    if config.getoption("draws") and cache is not None:
        seen = cache.get(REMEMBERED, {})
        left = [item for item in items if not seen.get(item.nodeid, True)]
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if seen.get(item.nodeid, True)]


def pytest_collection_finish() -> None:
    """Sets aside what is loaded by now: collecting garbage would look at it again and again."""
    gc.collect()
    gc.freeze()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Random numbers depend on the test and on SEED only, not on the tests before it."""
    seed = zlib.crc32(f"{SEED or ''}{item.nodeid}".encode())
    torch.default_generator.manual_seed(seed)
    np.random.seed(seed)
    random.seed(seed)
    item.stash[STATE] = _random_state()


def pytest_runtest_teardown(item: pytest.Item) -> None:
    """Notes whether a test may depend on SEED."""
    drawn = getattr(getattr(item, "obj", None), "is_hypothesis_test", False)
    if drawn or _random_state() != item.stash.get(STATE, None):
        item.user_properties.append((DRAWS, True))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Collects what the tests have noted, in the process that starts the others, too."""
    if report.when == "teardown":
        SEEN[report.nodeid] = (DRAWS, True) in report.user_properties


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Remembers which tests draw random numbers, for `--draws`."""
    gc.unfreeze()  # else extensions that look for leaks at the end find what was set aside
    cache = getattr(session.config, "cache", None)  # none with -p no:cacheprovider
    if cache is not None and not hasattr(session.config, "workerinput"):
        cache.set(REMEMBERED, {**cache.get(REMEMBERED, {}), **SEEN})


def _random_state() -> tuple[object, ...]:
    """The generators of torch and numpy; beartype changes Python's."""
    name, words, *place = np.random.get_state()
    return torch.get_rng_state().numpy().tobytes(), name, bytes(memoryview(words)), *place
