"""Products of a matrix with one vector in each of their forms, against numpy in float64."""

import ctypes

import numpy as np
import pytest

from sparsegate_runtime.engine.functions import Function
from sparsegate_runtime.engine.matrix import (
    CPanels,
    CSlices,
    Panels,
    Slices,
    Weights,
    vector_scratch,
)
from sparsegate_runtime.engine.structures import (
    Finish,
    Instruction,
    Kind,
    MatrixVector,
    Place,
    Pointwise,
)

SHAPES = [(1, 1), (16, 128), (17, 129), (40, 300), (300, 40), (515, 700)]
FORMS = ["slices", "panels", "dense"]
shapes = pytest.mark.parametrize(("rows", "columns"), SHAPES)
forms = pytest.mark.parametrize("form", FORMS)


class Case:
    """A random sparse matrix, two positions of inputs, and a bias."""

    def __init__(self, rows, columns, density=0.3):
        random = np.random.default_rng(rows + columns)
        self.weight = random.standard_normal((rows, columns)).astype(np.float32)
        self.weight *= random.random((rows, columns)) < density
        self.bias = random.standard_normal(rows).astype(np.float32)
        self.x = random.standard_normal((2, columns)).astype(np.float32)

    def want(self):
        """In float64, [positions, rows]."""
        return self.x.astype(np.float64) @ self.weight.T.astype(np.float64) + self.bias

    def product(self, form):
        """The structure without places."""
        rows, columns = self.weight.shape
        row, column = np.nonzero(self.weight)
        weights = Weights(row, column, self.weight[row, column], rows)
        padded = np.zeros((rows, -(-columns // 16) * 16), np.float32)
        padded[:, :columns] = self.weight
        kept = {"slices": Slices.of, "panels": lambda w: Panels.of(w, columns)}.get(form)
        arrays = kept(weights) if kept else padded
        made = MatrixVector(
            rows,
            columns,
            arrays.as_c() if form == "slices" else CSlices(),
            arrays.as_c() if form == "panels" else CPanels(),
            arrays.ctypes.data if form == "dense" else None,
            self.bias.ctypes.data,
        )
        made.keep = (arrays,)
        return made

    def got(self, form, guarded, way, *, least=-np.inf, then=None, apart=1):
        """The engine's result; channels lie `apart` floats apart."""
        rows, columns = self.weight.shape
        product = self.product(form)
        source = np.full((2, columns, apart), np.nan, np.float32)  # gaps do not count
        source[..., 0] = self.x
        out = guarded.add_empty(2 * rows * apart) if guarded.add(source) == 0 else None
        product.input, product.in_position = Place(0, 0, apart), columns * apart
        product.out, product.out_position = Place(out, 0, apart), rows * apart
        product.finish = Finish(least, 0, None, None)
        if then is not None:
            product.finish.then = ctypes.addressof(then)
        guarded.run(Kind.MATRIX_VECTOR, product, way, end=2, scratch=vector_scratch(columns))
        return guarded.content(out).reshape(2, rows, apart)[..., 0]


@forms
@shapes
def test_a_product_is_that_of_numpy(rows, columns, form, guarded, way):
    case = Case(rows, columns)
    np.testing.assert_allclose(case.got(form, guarded, way), case.want(), rtol=1e-4, atol=1e-4)


@forms
def test_channels_may_lie_apart(form, guarded, way):
    case = Case(40, 300)
    got = case.got(form, guarded, way, apart=3)
    np.testing.assert_allclose(got, case.want(), rtol=1e-4, atol=1e-4)


@forms
def test_sums_below_the_bound_become_zero(form, guarded, way):
    case = Case(300, 40)
    got = case.got(form, guarded, way, least=0)
    np.testing.assert_allclose(got, case.want().clip(0), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("apart", [1, 2])
@forms
def test_functions_follow_on_every_row(form, apart, guarded, way):
    case = Case(515, 700)
    then = Pointwise(num_inputs=1, num_code=1, result=0, dims=1)
    then.code[0] = Instruction(int(Function.AFFINE), 0, 0, 0, 2.0, 1.0)
    got = case.got(form, guarded, way, then=then, apart=apart)
    np.testing.assert_allclose(got, 2 * case.want() + 1, rtol=1e-4, atol=1e-4)


@forms
def test_a_matrix_of_zeros_gives_the_bias(form, guarded, way):
    case = Case(20, 30, density=0)
    assert (case.got(form, guarded, way) == case.bias).all()
