"""Program images: the same bits as the plan, and words for everything that is wrong with one."""

import ctypes
import struct
import zlib

import numpy as np
import pytest

from sparsegate_runtime.engine import Plan, UnplannedError, run_arrays
from sparsegate_runtime.engine import network as n
from sparsegate_runtime.engine.image import image_of
from sparsegate_runtime.engine.image_parts import (
    INSTRUCTION_SETS,
    Header,
    ImageBuffer,
    ImageTensor,
)
from sparsegate_runtime.engine.loaded import Image
from sparsegate_runtime.engine.memory import aligned
from sparsegate_runtime.kernels import KERNELS

HEADER = ctypes.sizeof(Header)
GUARD = 4096
RNG = np.random.default_rng(11)
VARIANTS = range(min(2, KERNELS.sg_variant()) + 1 if KERNELS else 0)


def sparse(*shape):
    weight = RNG.standard_normal(shape).astype(np.float32)
    weight[RNG.random(shape) < 0.8] = 0
    return weight


def conv(source, outputs, kernel=3, stride=1, padding=1, groups=1):
    weight = sparse(outputs, source.shape[1] // groups, kernel, kernel)
    size = (source.shape[2] + 2 * padding - kernel) // stride + 1
    return n.Conv(
        inputs=(source,),
        shape=(source.shape[0], outputs, size, size),
        weight=weight,
        bias=np.arange(outputs, dtype=np.float32),
        stride=(stride, stride),
        padding=((padding, padding), (padding, padding)),
        dilation=(1, 1),
        groups=groups,
    )


def mapped(function, *inputs):
    return n.Map(inputs=inputs, shape=inputs[0].shape, function=n.Function[function])


def linear(source, outputs):
    weight = sparse(outputs, source.shape[-1])
    return n.Linear(inputs=(source,), shape=(*source.shape[:-1], outputs), weight=weight, bias=None)


def images_network():
    """Convolutions, a sum around them, a pool, interpolation, a norm, and a linear layer."""
    x = n.Input(shape=(1, 3, 12, 12), index=0, name="pixels")
    a = conv(x, 8, stride=2)
    r = mapped("SILU", a)
    b = conv(r, 8, groups=8)
    s = mapped("ADD", b, r)
    p = n.Pool(
        inputs=(s,), shape=(1, 8, 3, 3), largest=False, kernel=(2, 2), stride=(2, 2),
        padding=(0, 0), dilation=(1, 1),
    )  # fmt: skip
    index = np.array([0, 0, 1, 1, 2, 2], np.int32)
    nearest = (index, index, np.zeros(6, np.float32))
    u = n.Upsample(inputs=(p,), shape=(1, 8, 6, 6), lines=nearest, pixels=nearest)
    g = n.GroupNorm(inputs=(u,), shape=u.shape, weight=None, bias=None, eps=1e-5, groups=2)
    f = n.Reshape(inputs=(g,), shape=(1, 288))
    y = linear(f, 10)
    e = n.Softmax(inputs=(y,), shape=y.shape, dimension=1)
    return n.Network((x, a, r, b, s, p, u, g, f, y, e), (e, s))


def tokens_network():
    """Embeddings, attention with few keys, a norm, a product and a mean."""
    ids = n.Input(shape=(2, 70), index=0, kind="int64")
    t = n.Embedding(inputs=(ids,), shape=(2, 70, 16), table=sparse(30, 16))
    h = n.LayerNorm(inputs=(t,), shape=t.shape, weight=np.ones(16, np.float32), bias=None, eps=1e-5)
    q = n.Reshape(inputs=(linear_of := linear(h, 16),), shape=(2, 70, 2, 8))
    q2 = n.Permute(inputs=(q,), shape=(2, 2, 70, 8), dimensions=(0, 2, 1, 3))
    few = n.Slice(inputs=(q2,), shape=(2, 2, 3, 8), dimension=2, start=0, step=1)
    made = n.Attention(inputs=(q2, few, few), shape=(2, 2, 70, 8), causal=False, scale=0.3)
    turned = n.Permute(inputs=(few,), shape=(2, 2, 8, 3), dimensions=(0, 1, 3, 2))
    both = n.Product(inputs=(made, turned), shape=(2, 2, 70, 3))
    mean = n.Reduce(inputs=(both,), shape=(2, 2, 1, 3), function="mean", dimensions=(2,))
    nodes = (ids, t, h, linear_of, q, q2, few, made, turned, both, mean)
    return n.Network(nodes, (mean, ids))


def sequences_network(images=1, cell="lstm"):
    """A recurrent layer, backwards."""
    gates = {"lstm": 4, "gru": 3}[cell]
    x = n.Input(shape=(images, 5, 6), index=0)
    sums = linear(x, gates * 8)
    weight, bias = sparse(gates * 8, 8), np.ones(gates * 8, np.float32)
    y = n.Recurrent(
        inputs=(sums,), shape=(images, 5, 8), cell=cell, weight=weight, bias=bias, reverse=True
    )
    return n.Network((x, sums, y), (y,))


CASES = {
    "images": images_network(),
    "tokens": tokens_network(),
    "one sequence": sequences_network(),
    "sequences": sequences_network(20, "gru"),
}
every_case = pytest.mark.parametrize("network", CASES.values(), ids=CASES)


def inputs_of(network):
    return [
        RNG.integers(0, 30, one.shape)
        if one.kind == "int64"
        else RNG.standard_normal(one.shape).astype(np.float32)
        for one in network.inputs
    ]


def signed(data):
    """The image with the checksum of its content."""
    made = bytearray(data)
    made[12:16] = struct.pack("<I", zlib.crc32(memoryview(made)[16:]))
    return bytes(made)


def changed(data, at, value, width=8):
    made = bytearray(data)
    made[at : at + width] = int(value).to_bytes(width, "little", signed=True)
    return signed(made)


def field(name):
    return getattr(Header, name).offset


@every_case
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("threads", [1, 2])
def test_it_computes_the_same_bits_as_the_plan(network, variant, threads):
    plan = Plan(network, variant=variant)
    image = Image(image_of(plan))
    given = inputs_of(network)
    expected = run_arrays(plan, given, threads=threads)
    found = image.run(given, threads=threads)
    assert np.array_equal(found[0], expected[0])
    assert np.isfinite(found[0]).all()
    if network is CASES["tokens"]:
        assert np.array_equal(found[1], given[0])


def test_it_names_its_inputs_and_outputs():
    data = image_of(Plan(CASES["images"], variant=0), inputs=["pixels"], outputs=["odds", "middle"])
    image = Image(data)
    assert [(one.name, one.shape) for one in image.inputs] == [("pixels", (1, 3, 12, 12))]
    assert [one.name for one in image.outputs] == ["odds", "middle"]
    assert image.instruction_set == "plain"
    assert image.use("plain") == "plain"


def test_every_instruction_set_can_be_planned_on_any_processor():
    given = inputs_of(CASES["images"])
    results = []
    for number in INSTRUCTION_SETS.values():
        image = Image(image_of(Plan(CASES["images"], variant=number)))
        image.use("plain")
        results.append(image.run(given)[0])
    assert all(np.allclose(one, results[0], atol=1e-6) for one in results)


def test_names_are_checked():
    plan = Plan(CASES["images"])
    with pytest.raises(ValueError, match="pass a name for each of the 1 inputs, got 2"):
        image_of(plan, inputs=["a", "b"])
    with pytest.raises(ValueError, match="at most 47 bytes"):
        image_of(plan, inputs=["a" * 48])


def test_an_operation_of_the_caller_is_refused_by_name():
    x = n.Input(shape=(1, 4), index=0)
    y = n.External(inputs=(x,), shape=(1, 4), name="fft", run=lambda: None)
    with pytest.raises(UnplannedError, match="fft"):
        image_of(Plan(n.Network((x, y), (y,))))


def test_inputs_are_checked():
    image = Image(image_of(Plan(CASES["images"])))
    with pytest.raises(ValueError, match="expected 1 inputs, got 0"):
        image.run([])
    with pytest.raises(ValueError, match="input0 must be float32 of shape"):
        image.run([np.zeros((1, 3, 12, 11), np.float32)])
    with pytest.raises(ValueError, match="1 to 4096 threads"):
        image.run(inputs_of(CASES["images"]), threads=0)


def test_an_index_outside_of_its_table_is_an_error():
    image = Image(image_of(Plan(CASES["tokens"])))
    with pytest.raises(ValueError, match="outside of its table"):
        image.run([np.full((2, 70), 30)])


def test_attention_has_the_scratch_memory_that_it_needs():
    plan = Plan(CASES["tokens"])
    [attention] = [one.of for one in plan.program.operations if one.kind.name == "ATTENTION"]
    assert plan.program.scratch >= attention.scratch


# -- damaged images -----------------------------------------------------------------------------------

DATA = image_of(Plan(CASES["images"], variant=0))


def tensor_at(index, name):
    return HEADER + index * ctypes.sizeof(ImageTensor) + getattr(ImageTensor, name).offset


def buffer_at(index, name):
    first = HEADER + 3 * ctypes.sizeof(ImageTensor)
    return first + index * ctypes.sizeof(ImageBuffer) + getattr(ImageBuffer, name).offset


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "no program image"),
        (b"PK\x03\x04" + bytes(200), "no program image"),
        (DATA[:50], "cut off"),
        (DATA[:-1], "cut off"),
        (DATA[:400] + bytes([DATA[400] ^ 1]) + DATA[401:], "checksum"),
        (changed(DATA, field("version"), 2, 4), "newer version"),
        (changed(DATA, field("num_steps"), -1), "header"),
        (changed(DATA, field("num_steps"), 10**6), "header"),
        (changed(DATA, field("arena"), 1 << 50), "header"),
        (changed(DATA, field("arena"), 100), "outside of its memory"),
        (changed(DATA, field("scratch"), 0), "scratch"),
        (changed(DATA, tensor_at(0, "dims"), 9, 4), "input or output"),
        (changed(DATA, tensor_at(0, "sizes"), 2), "input or output"),
        (changed(DATA, tensor_at(1, "buffer"), 99), "buffer"),
        (changed(DATA, buffer_at(0, "kind"), 3), "buffer"),
        (changed(DATA, buffer_at(0, "index"), 1), "buffer"),
    ],
)
def test_a_damaged_image_is_refused_in_words(data, words):
    with pytest.raises(ValueError, match=words):
        Image(data)


def test_the_structures_have_the_sizes_of_c():
    plan = Plan(CASES["tokens"])
    header = Header.from_buffer_copy(image_of(plan))
    assert header.structures >= sum(ctypes.sizeof(one.of) for one in plan.program.operations)
    assert header.num_operations == len(plan.program.operations)


def load(data):
    """Room and address of an image, or the error's number."""
    room = aligned(len(data) // 2 + 64)
    return room, KERNELS.sg_image_load(data.ctypes.data, data.nbytes, room.ctypes.data, room.nbytes)


def runs_within_its_memory(data, room, given):
    """Runs a loaded image, and looks for writes behind its memory and outputs."""
    size = KERNELS.sg_image_memory(room.ctypes.data, 1)
    if size > 1 << 24:
        return
    memory = np.zeros(size + GUARD, np.uint8)
    memory[size:] = 77
    outputs = []
    for index in range(KERNELS.sg_image_num(room.ctypes.data, 1)):
        address = KERNELS.sg_image_tensor(room.ctypes.data, 1, index)
        count = ImageTensor.from_address(address).num_bytes
        outputs.append(np.full(count + GUARD, 77, np.uint8))
    pointers = [
        (ctypes.c_void_p * len(some))(*(one.ctypes.data for one in some))
        for some in (given, outputs)
    ]
    KERNELS.sg_image_run(room.ctypes.data, memory.ctypes.data, 1, *pointers)
    assert (memory[size:] == 77).all()
    assert all((one[-GUARD:] == 77).all() for one in outputs)


NUMBERS = [0, 1, -1, 2, 3, 7, 15, 16, 17, 31, 100, 4096, 2**31 - 1, 2**31, 2**40, 2**62, -16, -4096]
NUMBERS += [2**63 - 1, -(2**63)]


@every_case
def test_no_changed_number_makes_it_leave_its_memory(network):
    original = image_of(Plan(network, variant=0))
    header = Header.from_buffer_copy(original)
    words = aligned(-(-len(original) // 4))
    data = words.view(np.uint8)[: len(original)]
    given = inputs_of(network)
    tables = len(original) - 2048
    rng = np.random.default_rng(5)
    loaded = 0
    for _ in range(1500):
        data[:] = np.frombuffer(original, np.uint8)
        width = int(rng.choice([4, 8]))
        at = int(rng.integers(24, tables)) // width * width
        if rng.random() < 0.7:
            at = int(rng.integers(24, HEADER + header.structures + 2000)) // width * width
        value = int(rng.choice(NUMBERS)) if rng.random() < 0.8 else int(rng.integers(-300, 300))
        data[at : at + width] = np.frombuffer(
            (value % 2 ** (8 * width)).to_bytes(width, "little"), np.uint8
        )
        data[12:16] = np.frombuffer(struct.pack("<I", zlib.crc32(data[16:])), np.uint8)
        room, error = load(data)
        if not error and not is_input_changed(data, original, len(given)):
            loaded += 1
            runs_within_its_memory(data, room, given)
    assert loaded > 100


@every_case
@pytest.mark.parametrize("value", [2**63 - 1, -(2**63)])
def test_no_number_of_an_operation_overflows_the_checks(network, value):
    original = image_of(Plan(network, variant=0))
    header = Header.from_buffer_copy(original)
    data = aligned(-(-len(original) // 4)).view(np.uint8)[: len(original)]
    tables = [
        (header.num_inputs + header.num_outputs, ImageTensor),
        (header.num_buffers, ImageBuffer),
    ]
    kinds = HEADER + sum(count * ctypes.sizeof(kind) for count, kind in tables)
    first = kinds + 8 * header.num_operations + 24 * header.num_steps
    refused = 0
    for at in range(first, first + header.structures, 8):
        data[:] = np.frombuffer(changed(original, at, value), np.uint8)
        refused += load(data)[1] != 0
    assert refused > header.num_operations


@every_case
@pytest.mark.parametrize("value", [1 << 20, 1 << 39])
def test_steps_of_no_positions_read_no_buffer_that_does_not_exist(network, value):
    original = bytearray(image_of(Plan(network, variant=0)))
    header = Header.from_buffer_copy(original)
    tables = (header.num_inputs + header.num_outputs) * ctypes.sizeof(ImageTensor)
    steps = HEADER + tables + header.num_buffers * ctypes.sizeof(ImageBuffer)
    steps += 8 * header.num_operations
    first = steps + 24 * header.num_steps
    for step in range(steps, first, 24):  # the operation, begin and end
        original[step + 16 : step + 24] = original[step + 8 : step + 16]
    data = aligned(-(-len(original) // 4)).view(np.uint8)[: len(original)]
    given = inputs_of(network)
    for at in range(first, first + header.structures, 8):
        data[:] = np.frombuffer(changed(bytes(original), at, value), np.uint8)
        room, error = load(data)
        if not error:
            runs_within_its_memory(data, room, given)


def is_input_changed(data, original, count):
    """Whether the inputs of another size would be needed."""
    end = HEADER + count * ctypes.sizeof(ImageTensor)
    return bytes(data[HEADER:end]) != original[HEADER:end]
