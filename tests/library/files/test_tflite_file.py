"""TensorFlow Lite files: dense and sparse tensors, and what damaged files are answered with."""

import random
import time

import numpy as np
import pytest
import torch

flatbuffers = pytest.importorskip("flatbuffers")
tflite = pytest.importorskip("tflite")

from sparsegate.files import compress, read_state_dict  # noqa: E402

DENSE = np.arange(12, dtype=np.float32).reshape(3, 4) + 1
SPARSE = np.array([[0, 1.5, 0, 0], [0, 0, 0, 0], [2.5, 0, 0, -1]], np.float16)
FEW = np.array([[0, 0], [0, 0], [0, 7]], np.float32)
BLOCKS = np.zeros((4, 8), np.int8)
BLOCKS[0, 4:] = [1, 2, 3, 4]
BLOCKS[3, :4] = [5, 0, 7, 8]


def vector(builder, start, values, size):
    """A vector of numbers of a width in bytes."""
    start(builder, len(values))
    for value in reversed(values):
        {1: builder.PrependUint8, 4: builder.PrependInt32}[size](int(value))
    return builder.EndVector()


def level(builder, *, dense=0, segments=(), indices=()):
    """How one dimension is stored: whole, or by segments of positions."""
    if not segments:
        tflite.DimensionMetadataStart(builder)
        tflite.DimensionMetadataAddDenseSize(builder, dense)
        return tflite.DimensionMetadataEnd(builder)
    parts = []
    for values in (segments, indices):
        made = vector(builder, tflite.Uint8VectorStartValuesVector, values, 1)
        tflite.Uint8VectorStart(builder)
        tflite.Uint8VectorAddValues(builder, made)
        parts.append(tflite.Uint8VectorEnd(builder))
    tflite.DimensionMetadataStart(builder)
    tflite.DimensionMetadataAddFormat(builder, 1)
    tflite.DimensionMetadataAddArraySegmentsType(builder, 3)
    tflite.DimensionMetadataAddArraySegments(builder, parts[0])
    tflite.DimensionMetadataAddArrayIndicesType(builder, 3)
    tflite.DimensionMetadataAddArrayIndices(builder, parts[1])
    return tflite.DimensionMetadataEnd(builder)


def sparsity(builder, order, levels, blocks=()):
    """How a tensor is stored."""
    tflite.SparsityParametersStartDimMetadataVector(builder, len(levels))
    for one in reversed(levels):
        builder.PrependUOffsetTRelative(one)
    metadata = builder.EndVector()
    traversal = vector(builder, tflite.SparsityParametersStartTraversalOrderVector, order, 4)
    block_map = vector(builder, tflite.SparsityParametersStartBlockMapVector, blocks, 4)
    tflite.SparsityParametersStart(builder)
    tflite.SparsityParametersAddTraversalOrder(builder, traversal)
    tflite.SparsityParametersAddBlockMap(builder, block_map)
    tflite.SparsityParametersAddDimMetadata(builder, metadata)
    return tflite.SparsityParametersEnd(builder)


def written():
    """A file with a dense tensor, one with fewer values than rows, one with rows of kept positions, and one with kept blocks of four."""
    builder = flatbuffers.Builder(1024)
    rows = [level(builder, dense=3), level(builder, segments=(0, 1, 1, 3), indices=(1, 0, 3))]
    by_rows = sparsity(builder, (0, 1), rows)
    levels = [
        level(builder, dense=4),
        level(builder, segments=(0, 1, 1, 1, 2), indices=(1, 0)),
        level(builder, dense=4),
    ]
    by_blocks = sparsity(builder, (0, 1, 2), levels, blocks=(1,))
    few = [level(builder, dense=3), level(builder, segments=(0, 0, 0, 1), indices=(1,))]
    by_few = sparsity(builder, (0, 1), few)
    given = [
        ("few", FEW, FEW[FEW != 0], 0, by_few),
        ("dense", DENSE, DENSE, 0, None),
        ("rows", SPARSE, SPARSE[SPARSE != 0], 1, by_rows),
        ("blocks", BLOCKS, np.array([1, 2, 3, 4, 5, 0, 7, 8], np.int8), 9, by_blocks),
    ]
    buffers, tensors = [], []
    for index, (name, whole, stored, kind, how) in enumerate(given):
        data = builder.CreateNumpyVector(np.frombuffer(stored.tobytes(), np.uint8))
        tflite.BufferStart(builder)
        tflite.BufferAddData(builder, data)
        buffers.append(tflite.BufferEnd(builder))
        text = builder.CreateString(name)
        shape = vector(builder, tflite.TensorStartShapeVector, whole.shape, 4)
        tflite.TensorStart(builder)
        tflite.TensorAddShape(builder, shape)
        tflite.TensorAddType(builder, kind)
        tflite.TensorAddBuffer(builder, index)
        tflite.TensorAddName(builder, text)
        if how is not None:
            tflite.TensorAddSparsity(builder, how)
        tensors.append(tflite.TensorEnd(builder))
    return finished(builder, buffers, tensors)


def finished(builder, buffers, tensors):
    """The bytes of a model with one graph."""

    def listed(start, offsets):
        start(builder, len(offsets))
        for one in reversed(offsets):
            builder.PrependUOffsetTRelative(one)
        return builder.EndVector()

    own = listed(tflite.SubGraphStartTensorsVector, tensors)
    tflite.SubGraphStart(builder)
    tflite.SubGraphAddTensors(builder, own)
    graphs = listed(tflite.ModelStartSubgraphsVector, [tflite.SubGraphEnd(builder)])
    all_buffers = listed(tflite.ModelStartBuffersVector, buffers)
    tflite.ModelStart(builder)
    tflite.ModelAddVersion(builder, 3)
    tflite.ModelAddSubgraphs(builder, graphs)
    tflite.ModelAddBuffers(builder, all_buffers)
    builder.Finish(tflite.ModelEnd(builder), file_identifier=b"TFL3")
    return bytes(builder.Output())


@pytest.fixture
def path(tmp_path):
    (tmp_path / "net.tflite").write_bytes(written())
    return tmp_path / "net.tflite"


def test_dense_and_sparse_tensors_are_read(path):
    found = read_state_dict(path)
    assert list(found) == ["few", "dense", "rows", "blocks"]
    for name, wanted in (("few", FEW), ("dense", DENSE), ("rows", SPARSE), ("blocks", BLOCKS)):
        assert torch.equal(found[name], torch.from_numpy(wanted))


def test_a_file_becomes_one_of_ours(path, tmp_path):
    from sparsegate.files import load

    compress(read_state_dict(path)).save(tmp_path / "net.sg")
    assert torch.equal(load(tmp_path / "net.sg").state_dict()["rows"], torch.from_numpy(SPARSE))


def test_another_file_is_refused(tmp_path):
    (tmp_path / "net.tflite").write_bytes(b"something else")
    with pytest.raises(ValueError, match="is not a TensorFlow Lite file"):
        read_state_dict(tmp_path / "net.tflite")


@pytest.mark.parametrize("seed", range(4))
def test_a_damaged_file_is_read_or_refused_in_words(seed, path):
    content, draw = path.read_bytes(), random.Random(seed)
    messages, began = [], time.monotonic()
    for _ in range(400):
        changed = bytearray(content)
        for _ in range(draw.choice((1, 1, 1, 4))):
            at = draw.randrange(8, len(changed))
            changed[at] = draw.choice((0, 1, 127, 128, 255, draw.randrange(256)))
        if draw.random() < 0.1:
            del changed[draw.randrange(8, len(changed)) :]
        path.write_bytes(changed)
        try:
            read_state_dict(path)
        except ValueError as error:
            messages.append(str(error))
    assert len(messages) > 20
    assert all(str(path) in one or "more than the limit" in one for one in messages)
    assert time.monotonic() - began < 60
