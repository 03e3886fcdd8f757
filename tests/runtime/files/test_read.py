"""The runtime reads files as numpy arrays, without torch."""

import importlib.util
import json
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch

from sparsegate.files import compress
from sparsegate_runtime.files import read, register_architectures

READER = Path(__file__).parents[3] / "docs" / "formats" / "read_sparse_safetensors.py"
ENDINGS = [".sg", ".sparse.safetensors"]
every_ending = pytest.mark.parametrize("ending", ENDINGS)
WITHOUT_TORCH = """
import json, sys
for name in ("torch", "safetensors", "jaxtyping"):
    sys.modules[name] = None
from sparsegate_runtime.files import read
found = [read(path) for path in sys.argv[1:]]
print(json.dumps([{name: [tensors.types[name], array.tolist()] for name, array in tensors.items()}
                  for tensors in found]))
"""
OLD = """
import sys
sys.modules["torch"] = None
from sparsegate_runtime.files import read
try:
    print(read(sys.argv[1])["w"].shape)
except ValueError as error:
    print(error)
"""


def state():
    drawn = torch.Generator().manual_seed(0)
    weight = torch.randn(30, 40, generator=drawn)
    weight[torch.rand(30, 40, generator=drawn) < 0.9] = 0
    return {
        "weight": weight,
        "half": weight.bfloat16(),
        "eighth": weight.to(torch.float8_e5m2),
        "bias": torch.arange(4.0),
        "steps": torch.tensor(3),
        "flags": torch.tensor([True, False]),
        "empty": torch.zeros(0, 3),
        "complex": torch.complex(weight, weight),
        "tied": weight,
    }


@every_ending
def test_it_gives_what_torch_stored(ending, tmp_path):
    wanted = state()
    compress(wanted).save(tmp_path / f"net{ending}")
    found = read(tmp_path / f"net{ending}")
    assert set(found) == set(wanted)
    assert len(found) == len(wanted)
    assert found["tied"] is found["weight"]
    assert found.types["half"] == "BF16"
    assert found.types["eighth"] == "F8_E5M2"
    for name, tensor in wanted.items():
        bits = tensor.view(torch.uint16) if name == "half" else tensor
        bits = bits.view(torch.uint8) if name == "eighth" else bits
        assert found[name].dtype == bits.numpy().dtype
        assert np.array_equal(found[name], bits.numpy())


def test_it_needs_no_torch(python, tmp_path):
    wanted = {"weight": torch.eye(50), "half": torch.ones(2, dtype=torch.bfloat16)}
    paths = [str(tmp_path / f"net{ending}") for ending in ENDINGS]
    for path in paths:
        compress(wanted).save(path)
    done = python("-c", WITHOUT_TORCH, *paths)
    assert done.returncode == 0, done.stderr
    for found in json.loads(done.stdout):
        assert found["weight"] == ["F32", torch.eye(50).tolist()]
        assert found["half"] == ["BF16", [0x3F80, 0x3F80]]


def test_the_short_reader_of_the_documentation_agrees(tmp_path):
    spec = importlib.util.spec_from_file_location("short_reader", READER)
    short = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(short)
    path = tmp_path / "net.sparse.safetensors"
    compress(state()).save(path)
    found, simple = read(path), short.read(path)
    assert set(found) == set(simple)
    for name, array in found.items():
        widened = found.types[name] == "BF16"
        wanted = (array.astype("<u4") << 16).view("<f4") if widened else array
        assert np.array_equal(simple[name], wanted)


@every_ending
def test_more_than_the_limit_is_refused(ending, tmp_path):
    path = tmp_path / f"net{ending}"
    compress({"w": torch.zeros(100, 100)}).save(path)
    assert read(path, limit=40_000)["w"].shape == (100, 100)
    with pytest.raises(
        ValueError, match="40,000 bytes, more than the limit of 39,999; raise limit="
    ):
        read(path, limit=39_999)


@every_ending
def test_a_damaged_tensor_is_refused_by_name(ending, tmp_path):
    path = tmp_path / f"net{ending}"
    compress({"fc.weight": torch.eye(300)}).save(path)
    raw = bytearray(path.read_bytes())
    raw[-20:] = b"\xff" * 20
    path.write_bytes(raw)
    with pytest.raises(ValueError, match=r"fc\.weight|checksum"):
        read(path)


def signed(head):
    raw = head + bytes([0, 0]) + b"\0\0\1\0"
    return raw + zlib.crc32(raw).to_bytes(4, "little")


def test_an_old_file_that_names_an_unknown_model_says_what_to_install(tmp_path):
    path = tmp_path / "old.sg"
    path.write_bytes(signed(b"sg\2\1\1\6madeup\12"))
    with pytest.raises(ValueError, match=r"'madeup'.*sparsegate-lab"):
        read(path)


def test_an_old_file_that_names_a_registered_model_is_read(tmp_path):
    path = tmp_path / "old.sg"
    path.write_bytes(signed(b"sg\2\1\1\10known-by\12"))
    register_architectures({"known-by": lambda classes: {"w": ("F32", (classes, 3))}})
    assert read(path)["w"].shape == (10, 3)


def test_models_are_found_through_entry_points(python, environment, tmp_path, monkeypatch):
    about = tmp_path / "plugin-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: plugin\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[sparsegate.architectures]\nplugin = plugin_models\n")
    (tmp_path / "plugin_models.py").write_text(
        "from sparsegate_runtime.files import register_architectures\n"
        "register_architectures({'plugged': lambda classes: {'w': ('F32', (classes, 2))}})\n"
    )
    (tmp_path / "old.sg").write_bytes(signed(b"sg\2\1\1\7plugged\5"))
    paths = environment.get("PYTHONPATH", "")
    monkeypatch.setitem(environment, "PYTHONPATH", f"{tmp_path}:{paths}")
    done = python("-c", OLD, str(tmp_path / "old.sg"))
    assert done.stdout.strip() == "(5, 2)", done.stderr + done.stdout
