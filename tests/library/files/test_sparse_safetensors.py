"""The file *.sparse.safetensors: an ordinary safetensors file whose every bit is accounted for."""

import json

import numpy as np
import pytest
import safetensors
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from safetensors.numpy import load_file as load_numpy
from safetensors.torch import load_file as load_torch
from torch import nn

from sparsegate.files import compress, load

KINDS = (
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.float64,
    torch.int64,
    torch.int8,
    torch.bool,
)
LIMITED = """
import resource, sys
import torch
from sparsegate.files import compress

packed = compress({"w": torch.arange(5000.0), "e": torch.eye(300)})
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
for name in sys.argv[1:]:
    try:
        packed.save(name)
    except OSError as error:
        print(error.strerror)
"""


def tensor(shape, density, kind, seed):
    generator = torch.Generator().manual_seed(seed)
    values = torch.randint(1, 100, shape, generator=generator)
    return (values * (torch.rand(shape, generator=generator) < density)).to(kind)


tensors = st.builds(
    tensor,
    st.lists(st.integers(0, 20), max_size=3).map(tuple),
    st.sampled_from([0, 0.02, 0.3, 0.5, 0.98, 1]),
    st.sampled_from(KINDS),
    st.integers(0, 2**32),
)
# names as modules have them, and as nobody would expect them; lone surrogates are no text
names = st.one_of(
    st.sampled_from(["fc1.weight", "fc1.bias", "0.weight", "layers.0.self_attn.in_proj_weight"]),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
)
networks = st.dictionaries(names, tensors, max_size=5)


def header(path):
    raw = path.read_bytes()
    return json.loads(raw[8 : 8 + int.from_bytes(raw[:8], "little")])


def small():
    return {
        "dense": torch.arange(1.0, 7).reshape(2, 3),
        "sparse": torch.eye(100),
        "step": torch.tensor(5),
    }


@given(network=networks)
@example(network={})
@example(network={"": torch.zeros(3)})
@example(
    network={
        'quote"s': torch.eye(9),
        "back\\slash": torch.eye(9),
        "new\nline": torch.ones(2),
        "nul\0": torch.eye(3),
    }
)
@example(network={"Gewicht:ß": torch.eye(40), "重み.0": torch.ones(3), "🐟": torch.zeros(2, 2)})
def test_the_sum_of_all_costs_is_the_size_of_the_file_and_everything_comes_back(
    network, scratch, same_bits
):
    path = scratch / "net.sparse.safetensors"
    packed = compress(network)
    packed.save(path)
    assert packed.cost.total == 8 * path.stat().st_size
    loaded = load(path)
    assert loaded.cost == packed.cost
    found = loaded.state_dict()
    assert set(found) == set(network)
    assert all(same_bits(found[name], network[name]) for name in network)


@given(network=networks)
def test_saving_what_was_loaded_gives_the_same_file(network, scratch):
    first, second = scratch / "first.sparse.safetensors", scratch / "second.sparse.safetensors"
    compress(network).save(first)
    load(first).save(second)
    assert first.read_bytes() == second.read_bytes()


def test_any_reader_of_safetensors_opens_it_as_plain_tensors(tmp_path):
    path = tmp_path / "net.sparse.safetensors"
    compress(small()).save(path)
    for found in (
        load_torch(path),
        {name: torch.from_numpy(each) for name, each in load_numpy(path).items()},
    ):
        assert torch.equal(found["dense"], small()["dense"])
        assert found["step"].item() == 5
        assert found["sparse:values"].tolist() == [1.0] * 100
        assert found["sparse:quotients"].dtype == torch.uint8
        assert "sparse" not in found
    with safetensors.safe_open(path, framework="np") as file:
        assert sorted(file.metadata()) == ["crc32", "format", "tensors", "version"]


def test_the_metadata_is_what_the_specification_says(tmp_path):
    path = tmp_path / "net.sparse.safetensors"
    tied = torch.eye(100)
    compress({"sparse": tied, "dense": torch.ones(3), "tied": tied}).save(path)
    about = header(path)["__metadata__"]
    assert (about["format"], about["version"]) == ("sparsegate", "1")
    assert json.loads(about["tensors"]) == {
        # gaps of 100 between ones on the diagonal (0 before the first); 64 is the power that
        # divides best
        "sparse": {
            "format": "gaps",
            "dtype": "F32",
            "shape": [100, 100],
            "kept": 100,
            "of": "kept",
            "rice": 6,
        },
        "tied": {"same": "sparse"},
    }


@given(network=networks)
def test_all_tensors_are_aligned_and_lie_end_to_end(network, scratch):
    path = scratch / "aligned.sparse.safetensors"
    compress(network).save(path)
    raw = path.read_bytes()
    length = int.from_bytes(raw[:8], "little")
    assert length % 8 == 0
    sizes = {"F64": 8, "I64": 8, "F32": 4, "U32": 4, "F16": 2, "BF16": 2, "U16": 2}
    end = 0
    for name, each in header(path).items():
        if name != "__metadata__":
            begin, after = each["data_offsets"]
            assert begin == end
            assert begin % sizes.get(each["dtype"], 1) == 0
            end = after
    assert 8 + length + end == len(raw)


def test_parts_without_bytes_are_left_out(tmp_path):
    path = tmp_path / "net.sparse.safetensors"
    compress({"zeros": torch.zeros(1000), "empty": torch.zeros(0, 5)}).save(path)
    assert sorted(header(path)) == ["__metadata__", "empty"]


@pytest.mark.parametrize(
    "name", ["net.safetensors", "net.sparse", "net.pt", "net", "net.sparse.safetensors.bak"]
)
def test_another_ending_is_an_error_and_writes_nothing(name, tmp_path):
    with pytest.raises(ValueError, match=r"must end in \.sparse\.safetensors"):
        compress(small()).save(tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        compress(small()).save(tmp_path / "no" / "net.sparse.safetensors")


def test_paths_may_be_text(tmp_path):
    compress(small()).save(str(tmp_path / "net.sparse.safetensors"))
    assert load(str(tmp_path / "net.sparse.safetensors")).state_dict()["step"].item() == 5


def test_a_full_disk_leaves_the_old_file_or_none_and_no_part(python, tmp_path, same_bits):
    old, new = tmp_path / "old.sparse.safetensors", tmp_path / "new.sparse.safetensors"
    compress(small()).save(old)
    done = python("-c", LIMITED, str(old), str(new))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["File too large"] * 2
    assert [each.name for each in tmp_path.iterdir()] == [old.name]
    assert all(same_bits(found, small()[name]) for name, found in load(old).state_dict().items())


def test_a_network_can_be_saved_over_the_file_that_it_was_loaded_from(tmp_path, same_bits):
    path = tmp_path / "net.sparse.safetensors"
    compress(small()).save(path)
    packed = load(path)
    packed.save(path)
    assert all(same_bits(found, small()[name]) for name, found in packed.state_dict().items())
    assert all(same_bits(found, small()[name]) for name, found in load(path).state_dict().items())


@pytest.mark.parametrize(
    "other",
    ["w:values", "w:quotients", "w:remainders", "w:mask", "w:counts", "w:columns", "w:", "w:other"],
)
@pytest.mark.parametrize(
    "weight", [torch.eye(100), torch.zeros(100), torch.ones(3)], ids=["eye", "zeros", "ones"]
)
@pytest.mark.parametrize("size", [0, 5])
@pytest.mark.parametrize("kind", [torch.uint8, torch.float32])
def test_a_name_that_looks_like_a_part_is_refused_or_comes_back(
    other, weight, size, kind, tmp_path, same_bits
):
    network = {"w": weight, other: torch.ones(size, dtype=kind)}
    path = tmp_path / "net.sparse.safetensors"
    try:
        compress(network).save(path)
    except ValueError as error:
        assert other in str(error)  # noqa: PT017
        assert not path.exists()
    else:
        found = load(path).state_dict()
        assert set(found) == set(network)
        assert all(same_bits(found[name], network[name]) for name in network)


@pytest.mark.parametrize("name", ["__metadata__", "lone \ud800 surrogate"])
@pytest.mark.parametrize("weight", [torch.eye(30), torch.ones(3)], ids=["sparse", "dense"])
def test_a_name_that_no_file_can_hold_is_refused_before_anything_is_written(name, weight, tmp_path):
    path = tmp_path / "net.sparse.safetensors"
    try:
        compress({name: weight}).save(path)
    except ValueError:
        assert not path.exists()
    else:
        assert torch.equal(load(path).state_dict()[name], weight)


def test_a_dense_network_is_hardly_larger_than_its_safetensors_file(tmp_path):
    path, plain = tmp_path / "net.sparse.safetensors", tmp_path / "net.safetensors"
    network = {f"{number}.weight": torch.randn(64, 64) for number in range(20)}
    compress(network).save(path)
    safetensors.torch.save_file(network, plain)
    assert path.stat().st_size <= 1.001 * plain.stat().st_size


@pytest.mark.parametrize("density", [0.0, 0.1, 0.5, 0.9])
@pytest.mark.parametrize("size", [1, 16, 64, 256])
def test_many_small_tensors_take_no_more_than_their_safetensors_file(size, density, tmp_path):
    path, plain = tmp_path / "net.sparse.safetensors", tmp_path / "net.safetensors"
    network = {
        f"blocks.{number}.norm.bias": tensor((size,), density, torch.float32, number)
        for number in range(50)
    }
    compress(network).save(path)
    safetensors.torch.save_file(network, plain)
    assert (
        path.stat().st_size <= 1.001 * plain.stat().st_size + 100
    )  # the metadata's own three entries


def test_the_header_counts_as_other():
    packed = compress(nn.Linear(3, 2))
    assert packed.cost.indices == 0
    assert packed.cost.values == 8 * 32
    assert packed.cost.other % 64 == 0


@pytest.mark.parametrize("order", ["C", "F"])
def test_arrays_of_any_layout_become_the_same_file(order, tmp_path):
    array = np.asarray(np.eye(40, 30), order=order)
    compress({"w": torch.from_numpy(array)}).save(tmp_path / "net.sparse.safetensors")
    assert np.array_equal(
        load(tmp_path / "net.sparse.safetensors").state_dict()["w"].numpy(), array
    )
