"""Tensors of every type come back from a file bit for bit."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sparsegate.files import compress, load
from sparsegate.files.tensors import INTEGERS, TYPES
from sparsegate_runtime.files import bits_type, num_bytes

every_type = pytest.mark.parametrize("name", list(TYPES))
SPECIAL = {
    torch.float32: [0x7FC12345, 0x7F800001, -0x7FFFFFFF, 0x7F800000, -0x800000, 1, 0x3F800000],
    torch.float16: [0x7E01, 0x7C01, -0x7FFF, 0x7C00, -0x400, 1, 0x3C00],
    torch.bfloat16: [0x7FC1, 0x7F81, -0x7FFF, 0x7F80, -0x80, 1, 0x3F80],
    torch.float64: [
        0x7FF8000000000123,
        0x7FF0000000000001,
        1 - 2**63,
        0x7FF0000000000000,
        -(2**52),
        1,
        0x3FF << 52,
    ],
}
"""Quiet and signalling NaN with a payload, the largest negative number, inf, -inf, the smallest denormal, 1."""


def random(name, shape, density, seed):
    """Random bits of a type, this fraction of them not zero."""
    kind, whole = TYPES[name], INTEGERS[TYPES[name].itemsize]
    generator = torch.Generator().manual_seed(seed)
    high = 2 if kind is torch.bool else torch.iinfo(whole).max
    bits = torch.randint(-high if high > 2 else 1, high, shape, generator=generator, dtype=whole)
    kept = torch.rand(shape, generator=generator) < density
    return (bits * kept).reshape(-1).view(kind).reshape(shape)


@every_type
@given(
    shape=st.lists(st.integers(0, 12), max_size=3).map(tuple),
    density=st.sampled_from([0, 0.05, 0.5, 0.9, 1]),
    seed=st.integers(0, 2**32),
)
def test_every_type_comes_back_bit_for_bit(name, shape, density, seed, through_a_file, same_bits):
    tensor = random(name, shape, density, seed)
    assert same_bits(through_a_file({"w": tensor})["w"], tensor)


@pytest.mark.parametrize("zeros", [0, 1, 100])
@pytest.mark.parametrize("kind", SPECIAL, ids=str)
def test_not_a_number_infinity_and_denormals_come_back_bit_for_bit(
    kind, zeros, through_a_file, same_bits
):
    whole = {2: torch.int16, 4: torch.int32, 8: torch.int64}[kind.itemsize]
    bits = torch.tensor(SPECIAL[kind] + [0] * zeros, dtype=whole)
    tensor = bits[torch.randperm(len(bits), generator=torch.Generator().manual_seed(zeros))].view(
        kind
    )
    assert same_bits(through_a_file({"w": tensor})["w"], tensor)


@pytest.mark.parametrize("name", ["F8_E4M3", "F8_E5M2", "F16", "BF16", "F32", "F64"])
@pytest.mark.parametrize("shape", [(), (5,), (50, 50)])
def test_a_negative_zero_is_a_zero_like_any_other(name, shape, through_a_file, same_bits):
    kind, whole = TYPES[name], INTEGERS[TYPES[name].itemsize]
    negative = torch.full(shape, torch.iinfo(whole).min, dtype=whole).view(kind)
    assert same_bits(through_a_file({"w": negative})["w"], torch.zeros(shape, dtype=kind))


@pytest.mark.parametrize("name", ["I8", "I16", "I32", "I64", "U8"])
def test_a_whole_number_with_the_bits_of_a_negative_zero_is_none(name, through_a_file, same_bits):
    kind, whole = TYPES[name], INTEGERS[TYPES[name].itemsize]
    tensor = torch.tensor([0, torch.iinfo(whole).min, 1], dtype=whole).view(kind)
    assert same_bits(through_a_file({"w": tensor})["w"], tensor)


@every_type
def test_a_type_and_its_whole_number_are_equally_wide(name):
    kind, whole = TYPES[name], INTEGERS[TYPES[name].itemsize]
    assert kind.itemsize == whole.itemsize == bits_type(name).itemsize
    assert num_bytes(name, (3, 5)) == torch.zeros(3, 5, dtype=kind).nbytes


@pytest.mark.parametrize(
    "tensor",
    [
        torch.randn(6, 4).t(),
        torch.randn(6, 4)[::2, 1:],
        torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last),
        torch.rand(4, 1).expand(4, 7),
        torch.randn(3, 4).requires_grad_() * 2,
        torch.complex(torch.randn(3, 4), torch.randn(3, 4)).conj(),
        torch.complex(torch.randn(3, 4), torch.randn(3, 4)).conj().imag,
    ],
    ids=[
        "transposed",
        "cut",
        "channels last",
        "expanded",
        "with a gradient",
        "conjugated",
        "negated",
    ],
)
def test_views_are_stored_as_what_they_show(tensor, through_a_file, same_bits):
    if not tensor.is_conj() and tensor.stride()[-1]:
        tensor.detach()[tensor.detach() < 0] = 0
    shown = tensor.detach().clone().resolve_conj().resolve_neg()
    assert same_bits(through_a_file({"w": tensor})["w"], shown)


@pytest.mark.parametrize(
    "tensor",
    [
        torch.zeros(2, dtype=torch.complex128),
        torch.zeros(2, device="meta"),
        torch.eye(3).to_sparse(),
    ],
    ids=["complex128", "meta", "sparse"],
)
def test_tensors_that_have_no_place_in_a_file_are_refused_by_name(tensor):
    with pytest.raises(ValueError, match=r"layer\.weight"):
        compress({"layer.weight": tensor})


def test_a_loaded_tensor_outlives_its_file(scratch, same_bits):
    path = scratch / "gone.sparse.safetensors"
    state = {"dense": torch.randn(50), "sparse": torch.eye(50)}
    compress(state).save(path)
    packed = load(path)
    path.unlink()
    found = packed.state_dict()
    assert all(same_bits(found[name], state[name]) for name in state)
