"""The reader in the documentation, which needs numpy alone, agrees with the library."""

import ast
import importlib.util
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from sparsegate.files import FORMATS, compress, load
from sparsegate.files.tensors import INTEGERS, TYPES

READER = Path(__file__).parents[3] / "docs" / "formats" / "read_sparse_safetensors.py"
NARROW = {"F8_E4M3", "F8_E5M2", "BF16"}  # numpy has no such types
SHAPES = [(), (0,), (3, 0), (1,), (1, 200), (3, 300), (2, 3, 4), (1000,), (2, 70_000)]


@pytest.fixture(scope="session")
def read():
    """The reader's only function for callers."""
    spec = importlib.util.spec_from_file_location("reader", READER)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.read


def random(name, shape, density, seed):
    kind, whole = TYPES[name], INTEGERS[TYPES[name].itemsize]
    generator = torch.Generator().manual_seed(seed)
    bits = torch.randint(
        1, 2 if kind is torch.bool else 127, shape, generator=generator, dtype=whole
    )
    bits *= torch.rand(shape, generator=generator) < density
    return bits.reshape(-1).view(kind).reshape(shape)


def agrees(read, network, path):
    compress(network).save(path)
    ours, theirs = load(path).state_dict(), read(path)
    assert set(theirs) == set(network)
    for name, array in theirs.items():
        wanted = ours[name].float() if ours[name].dtype == torch.bfloat16 else ours[name]
        assert array.dtype == wanted.numpy().dtype
        assert array.shape == wanted.shape
        assert array.tobytes() == wanted.numpy().tobytes()


def test_it_is_short_and_imports_numpy_alone():
    text = READER.read_text()
    nodes = [
        node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    assert {alias.name for node in nodes for alias in node.names} == {"json", "numpy"}
    assert len(text.splitlines()) < 100


@pytest.mark.parametrize("name", sorted(set(TYPES) - NARROW | {"BF16"}))
@given(
    shape=st.sampled_from(SHAPES),
    density=st.sampled_from([0, 0.001, 0.05, 0.5, 0.9, 1]),
    seed=st.integers(0, 2**32),
)
def test_it_gives_the_same_bits(name, shape, density, seed, read, scratch):
    agrees(read, {"w": random(name, shape, density, seed)}, scratch / "read.sparse.safetensors")


def test_every_format_is_read(read, tmp_path):
    few = torch.zeros(1, 60_000)
    few[0, 30_000] = 1
    network = {
        "dense": torch.ones(30),
        "bitmap": random("F32", (100, 100), 0.5, 0),
        "gaps": random("F32", (100, 100), 0.05, 0),
        "gaps of removed": random("F32", (100, 100), 0.95, 0),
        "rows": few,
    }
    chosen = {name: entry.format.name for name, entry in compress(network).entries.items()}
    assert chosen == {name: name.split()[0] for name in network}
    assert set(chosen.values()) == set(FORMATS)
    agrees(read, network, tmp_path / "net.sparse.safetensors")


def test_a_whole_model_with_norms_and_ties_is_read(read, tmp_path):
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Linear(8, 8))
    state = model.state_dict()
    agrees(read, state | {"again": state["0.weight"]}, tmp_path / "net.sparse.safetensors")


def test_bits_without_a_numpy_type_are_said_to_be_so(read, tmp_path):
    path = tmp_path / "net.sparse.safetensors"
    tensor = random("F8_E4M3", (100,), 0.1, 0)
    compress({"w": tensor}).save(path)
    assert np.array_equal(read(path)["w"].view(np.uint8), tensor.view(torch.uint8).numpy())
