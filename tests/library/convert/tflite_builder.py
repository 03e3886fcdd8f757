"""Builds TensorFlow Lite files: tensors, operations and a graph."""

import flatbuffers
import numpy as np
import tflite

KINDS = {"float32": 0, "float16": 1, "int32": 2, "int64": 4, "int8": 9}


class Model:
    """Collects tensors and operations, and writes them as a file."""

    def __init__(self):
        self.builder = flatbuffers.Builder(1024)
        self.buffers, self.tensors, self.operators, self.codes = [self._buffer(b"")], [], [], []

    def add(
        self, name, shape=(), values=None, *, kind=None, signature=None, sparsity=None, scale=None
    ):
        """Adds a tensor, with values if it is constant; returns its number."""
        made = self.builder
        buffer = 0
        if values is not None:
            values = np.asarray(values)
            shape = shape or values.shape
            kind = kind or str(values.dtype)
            self.buffers.append(self._buffer(values.tobytes()))
            buffer = len(self.buffers) - 1
        text = made.CreateString(name)
        sizes = self.numbers(shape)
        listed = None if signature is None else self.numbers(signature)
        scaled = None if scale is None else self._quantization(scale)
        tflite.TensorStart(made)
        tflite.TensorAddShape(made, sizes)
        tflite.TensorAddType(made, KINDS[kind or "float32"])
        tflite.TensorAddBuffer(made, buffer)
        tflite.TensorAddName(made, text)
        if listed is not None:
            tflite.TensorAddShapeSignature(made, listed)
        if sparsity is not None:
            tflite.TensorAddSparsity(made, sparsity)
        if scaled is not None:
            tflite.TensorAddQuantization(made, scaled)
        self.tensors.append(tflite.TensorEnd(made))
        return len(self.tensors) - 1

    def run(self, kind, inputs, outputs, options=None, **given):
        """Adds an operation with its options by name."""
        made = self.builder
        table = None
        if options is not None:
            getattr(tflite, f"{options}Start")(made)
            for name, value in given.items():
                getattr(tflite, f"{options}Add{name}")(made, value)
            table = getattr(tflite, f"{options}End")(made)
        read, wrote = self.numbers(inputs), self.numbers(outputs)
        self.codes.append(getattr(tflite.BuiltinOperator, kind))
        tflite.OperatorStart(made)
        tflite.OperatorAddOpcodeIndex(made, len(self.codes) - 1)
        tflite.OperatorAddInputs(made, read)
        tflite.OperatorAddOutputs(made, wrote)
        if table is not None:
            tflite.OperatorAddBuiltinOptionsType(made, getattr(tflite.BuiltinOptions, options))
            tflite.OperatorAddBuiltinOptions(made, table)
        self.operators.append(tflite.OperatorEnd(made))

    def rows(self, matrix):
        """The values of a sparse matrix, and how they are stored: by rows of kept positions."""
        made, kept = self.builder, matrix != 0
        segments = [0, *np.cumsum(kept.sum(1)).tolist()]
        parts = [self._listed(part) for part in (segments, np.nonzero(kept)[1].tolist())]
        tflite.DimensionMetadataStart(made)
        tflite.DimensionMetadataAddDenseSize(made, len(matrix))
        levels = [tflite.DimensionMetadataEnd(made)]
        tflite.DimensionMetadataStart(made)
        tflite.DimensionMetadataAddFormat(made, 1)
        tflite.DimensionMetadataAddArraySegmentsType(made, 1)
        tflite.DimensionMetadataAddArraySegments(made, parts[0])
        tflite.DimensionMetadataAddArrayIndicesType(made, 1)
        tflite.DimensionMetadataAddArrayIndices(made, parts[1])
        levels.append(tflite.DimensionMetadataEnd(made))
        metadata = self._offsets(tflite.SparsityParametersStartDimMetadataVector, levels)
        order = self.numbers((0, 1))
        tflite.SparsityParametersStart(made)
        tflite.SparsityParametersAddTraversalOrder(made, order)
        tflite.SparsityParametersAddDimMetadata(made, metadata)
        return matrix[kept], tflite.SparsityParametersEnd(made)

    def bytes(self, inputs, outputs):
        """The file."""
        made = self.builder
        tensors = self._offsets(tflite.SubGraphStartTensorsVector, self.tensors)
        operators = self._offsets(tflite.SubGraphStartOperatorsVector, self.operators)
        given, results = self.numbers(inputs), self.numbers(outputs)
        tflite.SubGraphStart(made)
        tflite.SubGraphAddTensors(made, tensors)
        tflite.SubGraphAddInputs(made, given)
        tflite.SubGraphAddOutputs(made, results)
        tflite.SubGraphAddOperators(made, operators)
        graphs = self._offsets(tflite.ModelStartSubgraphsVector, [tflite.SubGraphEnd(made)])
        codes = []
        for number in self.codes:
            tflite.OperatorCodeStart(made)
            tflite.OperatorCodeAddDeprecatedBuiltinCode(made, min(number, 127))
            tflite.OperatorCodeAddBuiltinCode(made, number)
            tflite.OperatorCodeAddVersion(made, 1)
            codes.append(tflite.OperatorCodeEnd(made))
        listed = self._offsets(tflite.ModelStartOperatorCodesVector, codes)
        buffers = self._offsets(tflite.ModelStartBuffersVector, self.buffers)
        tflite.ModelStart(made)
        tflite.ModelAddVersion(made, 3)
        tflite.ModelAddOperatorCodes(made, listed)
        tflite.ModelAddSubgraphs(made, graphs)
        tflite.ModelAddBuffers(made, buffers)
        made.Finish(tflite.ModelEnd(made), file_identifier=b"TFL3")
        return bytes(made.Output())

    def numbers(self, values):
        """A vector of 32-bit integers."""
        return self.builder.CreateNumpyVector(np.asarray(values, np.int32))

    def _listed(self, values):
        vector = self.numbers(values)
        tflite.Int32VectorStart(self.builder)
        tflite.Int32VectorAddValues(self.builder, vector)
        return tflite.Int32VectorEnd(self.builder)

    def _quantization(self, scales):
        made = self.builder
        vector = made.CreateNumpyVector(np.asarray(scales, np.float32))
        zeros = made.CreateNumpyVector(np.zeros(len(scales), np.int64))
        tflite.QuantizationParametersStart(made)
        tflite.QuantizationParametersAddScale(made, vector)
        tflite.QuantizationParametersAddZeroPoint(made, zeros)
        return tflite.QuantizationParametersEnd(made)

    def _buffer(self, content):
        made = self.builder
        data = made.CreateNumpyVector(np.frombuffer(content, np.uint8)) if content else None
        tflite.BufferStart(made)
        if data is not None:
            tflite.BufferAddData(made, data)
        return tflite.BufferEnd(made)

    def _offsets(self, start, offsets):
        start(self.builder, len(offsets))
        for one in reversed(offsets):
            self.builder.PrependUOffsetTRelative(one)
        return self.builder.EndVector()
