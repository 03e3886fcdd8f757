"""Which layers of a model can run sparse, and what each takes in of what follows it."""

import pytest
import torch
from tests.library.runtime.reference import chain
from torch import nn
from torch.nn import functional as F

import sparsegate as sg
from sparsegate.runtime.sparsable import captured, follows, pieces

IMAGE = torch.randn(2, 2, 8, 8)


def found(model, example=IMAGE):
    return pieces(captured(model.eval(), example))


def of(written, way, **modules):
    """The only piece of a model with a convolution that gives 4 x 6 x 6."""
    (piece,) = found(written(way, conv=nn.Conv2d(2, 4, 3), **modules))
    return piece


RECTIFIERS = {
    "module": (lambda m, x: m.act(m.conv(x)), {"act": nn.ReLU()}),
    "module in place": (lambda m, x: m.act(m.conv(x)), {"act": nn.ReLU(inplace=True)}),
    "functional": (lambda m, x: F.relu(m.conv(x)), {}),
    "functional in place": (lambda m, x: F.relu(m.conv(x), inplace=True), {}),
    "function": (lambda m, x: torch.relu(m.conv(x)), {}),
    "method": (lambda m, x: m.conv(x).relu(), {}),
    "method in place": (lambda m, x: m.conv(x).relu_(), {}),
}
NOT_RECTIFIERS = {
    "leaky": (lambda m, x: m.act(m.conv(x)), {"act": nn.LeakyReLU()}),
    "leaky, but named relu": (lambda m, x: m.relu(m.conv(x)), {"relu": nn.LeakyReLU()}),
    "up to six": (lambda m, x: F.relu6(m.conv(x)), {}),
    "after a sum": (lambda m, x: F.relu(m.conv(x) + 1), {}),
}


@pytest.mark.parametrize("name", RECTIFIERS)
def test_a_rectifier_is_taken_in_however_it_is_written(written, name):
    way, modules = RECTIFIERS[name]
    piece = of(written, way, **modules)
    assert piece.relu
    assert len(piece.nodes) == 2


@pytest.mark.parametrize("name", NOT_RECTIFIERS)
def test_what_is_not_a_rectifier_is_left(written, name):
    way, modules = NOT_RECTIFIERS[name]
    piece = of(written, way, **modules)
    assert not piece.relu
    assert len(piece.nodes) == 1


POOLS = {
    "module": (lambda m, x: m.pool(m.conv(x)), {"pool": nn.MaxPool2d(2)}, (2, 2)),
    "module with stride": (
        lambda m, x: m.pool(m.conv(x)),
        {"pool": nn.MaxPool2d((3, 3), stride=(2, 2))},
        (3, 2),
    ),
    "functional": (lambda m, x: F.max_pool2d(m.conv(x), 2), {}, (2, 2)),
    "functional with stride": (lambda m, x: F.max_pool2d(m.conv(x), 3, 1), {}, (3, 1)),
    "functional by keyword": (
        lambda m, x: F.max_pool2d(m.conv(x), kernel_size=[2, 2], stride=3),
        {},
        (2, 3),
    ),
    "function": (lambda m, x: torch.max_pool2d(m.conv(x), 2), {}, (2, 2)),
    "after a rectifier": (lambda m, x: F.max_pool2d(m.conv(x).relu(), 2), {}, (2, 2)),
    "with indices that nothing reads": (
        lambda m, x: F.max_pool2d(m.conv(x), 2, return_indices=True)[0],
        {},
        (2, 2),
    ),
    "sized by the input": (lambda m, x: F.max_pool2d(m.conv(x), x.shape[2] - 6), {}, (2, 2)),
}
NOT_POOLS = {
    "padded": (lambda m, x: m.pool(m.conv(x)), {"pool": nn.MaxPool2d(3, padding=1)}),
    "padded function": (lambda m, x: F.max_pool2d(m.conv(x), 3, 2, 1), {}),
    "rounded up": (lambda m, x: m.pool(m.conv(x)), {"pool": nn.MaxPool2d(4, ceil_mode=True)}),
    "rounded up function": (lambda m, x: F.max_pool2d(m.conv(x), 4, ceil_mode=True), {}),
    "dilated": (lambda m, x: m.pool(m.conv(x)), {"pool": nn.MaxPool2d(2, dilation=2)}),
    "not square": (lambda m, x: m.pool(m.conv(x)), {"pool": nn.MaxPool2d((2, 3))}),
    "with indices": (
        lambda m, x: sum(m.pool(m.conv(x))),
        {"pool": nn.MaxPool2d(2, return_indices=True)},
    ),
    "with indices, function": (
        lambda m, x: sum(F.max_pool2d(m.conv(x), 2, return_indices=True)),
        {},
    ),
    "average": (lambda m, x: m.pool(m.conv(x)), {"pool": nn.AvgPool2d(2)}),
    "adaptive": (lambda m, x: m.pool(m.conv(x)), {"pool": nn.AdaptiveMaxPool2d(3)}),
}


@pytest.mark.parametrize("name", POOLS)
def test_a_maximum_over_windows_is_taken_in_however_it_is_written(written, name):
    way, modules, sizes = POOLS[name]
    piece = of(written, way, **modules)
    assert (piece.pool, piece.pool_stride) == sizes


@pytest.mark.parametrize("name", NOT_POOLS)
def test_other_pools_are_left(written, name):
    way, modules = NOT_POOLS[name]
    piece = of(written, way, **modules)
    assert (piece.pool, piece.pool_stride, len(piece.nodes)) == (1, 1, 1)


def test_only_one_pool_is_taken_in(written):
    piece = of(written, lambda m, x: F.max_pool2d(F.max_pool2d(m.conv(x), 2), 2))
    assert piece.shapes["out"] == (4, 3, 3)


def norm(affine=True):
    """A BatchNorm in eval that changes something, and makes one unit constant."""
    made = nn.BatchNorm2d(4, affine=affine)
    made.running_mean.copy_(torch.tensor([1.0, -2.0, 0.5, 3.0]))
    made.running_var.copy_(torch.tensor([0.25, 4.0, 1.0, 2.0]))
    if affine:
        made.weight.data.copy_(torch.tensor([2.0, -1.0, 0.0, 0.5]))
        made.bias.data.copy_(torch.tensor([0.1, 0.2, 0.3, 0.4]))
    return made


NORMS = {
    "at once": (lambda m, x: m.norm(m.conv(x)), {"norm": norm()}),
    "without scales": (lambda m, x: m.norm(m.conv(x)), {"norm": norm(affine=False)}),
    "before a rectifier and a pool": (
        lambda m, x: F.max_pool2d(m.norm(m.conv(x)).relu(), 2),
        {"norm": norm()},
    ),
    "after what does nothing": (
        lambda m, x: m.norm(m.drop(m.conv(x))),
        {"norm": norm(), "drop": nn.Dropout()},
    ),
    "of several processes": (
        lambda m, x: m.norm(m.conv(x)),
        {"norm": nn.SyncBatchNorm.convert_sync_batchnorm(norm())},
    ),
}
NOT_NORMS = {
    "after a rectifier": (lambda m, x: m.norm(m.conv(x).relu()), {"norm": norm()}, 2),
    "after a pool": (lambda m, x: m.norm(F.max_pool2d(m.conv(x), 2)), {"norm": norm()}, 2),
    "of the batch": (
        lambda m, x: m.norm(m.conv(x)),
        {"norm": nn.BatchNorm2d(4, track_running_stats=False)},
        1,
    ),
    "of groups": (lambda m, x: m.norm(m.conv(x)), {"norm": nn.GroupNorm(2, 4)}, 1),
    "of a second one": (lambda m, x: m.two(m.norm(m.conv(x))), {"norm": norm(), "two": norm()}, 2),
}


@torch.no_grad()
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("name", NORMS)
def test_a_norm_goes_into_the_weights_of_the_layer_before_it(written, name, bias):
    way, modules = NORMS[name]
    model = written(way, conv=nn.Conv2d(2, 4, 3, bias=bias), **modules)
    model.conv.weight[:, 0] = 0
    (piece,) = found(model)
    assert piece.norm is not None
    assert not piece.folded()[0][:, 0].any()
    wanted = model(IMAGE)
    torch.testing.assert_close(
        chain([piece.layer()], IMAGE), wanted.flatten(1).double(), rtol=1e-5, atol=1e-5
    )
    torch.testing.assert_close(piece.dense(IMAGE), wanted)


@pytest.mark.parametrize("name", NOT_NORMS)
def test_norms_that_are_no_line_of_what_the_layer_gives_are_left(written, name):
    way, modules, num_nodes = NOT_NORMS[name]
    assert len(of(written, way, **modules).nodes) == num_nodes


def test_a_norm_after_a_linear_layer_is_taken_in():
    model = nn.Sequential(nn.Linear(8, 4), nn.BatchNorm1d(4), nn.ReLU())
    (piece,) = found(model, torch.ones(2, 8))
    assert piece.norm is not None
    assert piece.relu


RESHAPES = {
    "module": (lambda m, x: m.flat(m.conv(x)), {"flat": nn.Flatten()}),
    "method": (lambda m, x: m.conv(x).flatten(1), {}),
    "function": (lambda m, x: torch.flatten(m.conv(x), 1), {}),
    "view": (lambda m, x: m.conv(x).view(-1, 144), {}),
    "view by the input's size": (lambda m, x: m.conv(x).view(x.size(0), -1), {}),
    "reshape": (lambda m, x: torch.reshape(m.conv(x), (-1, 144)), {}),
    "nothing in between": (
        lambda m, x: m.flat(m.drop(m.same(m.conv(x)))),
        {"flat": nn.Flatten(), "drop": nn.Dropout(), "same": nn.AdaptiveAvgPool2d(6)},
    ),
}
NOT_RESHAPES = {
    "from the second": lambda m, x: m.conv(x).flatten(2),
    "all images in one": lambda m, x: m.conv(x).flatten(),
    "images mixed": lambda m, x: m.conv(x).view(-1, 72),
    "turned": lambda m, x: m.conv(x).transpose(2, 3),
}


@pytest.mark.parametrize("name", RESHAPES)
def test_flattening_is_taken_in_however_it_is_written(written, name):
    way, modules = RESHAPES[name]
    assert of(written, way, **modules).shapes == {"in": (2, 8, 8), "out": (144,)}


@pytest.mark.parametrize("name", NOT_RESHAPES)
def test_other_changes_of_shape_are_left(written, name):
    assert of(written, NOT_RESHAPES[name]).shapes["out"] == (4, 6, 6)


def test_a_module_with_the_name_of_a_method_is_not_that_method(written):
    (piece,) = found(
        written(lambda m, x: m.flatten(m.fc(x)), fc=nn.Linear(8, 8), flatten=nn.Softmax(1)),
        torch.ones(2, 8),
    )
    assert len(piece.nodes) == 1


def test_an_adaptive_pool_that_changes_the_size_is_left(written):
    piece = of(written, lambda m, x: m.pool(m.conv(x)).flatten(1), pool=nn.AdaptiveAvgPool2d(3))
    assert piece.shapes["out"] == (4, 6, 6)


def test_a_layer_that_is_called_twice_is_left(written):
    modules = {"twice": nn.Conv2d(2, 2, 3), "once": nn.Conv2d(2, 2, 3)}
    model = written(lambda m, x: m.once(m.twice(m.twice(x))), **modules)
    assert [piece.name for piece in found(model)] == ["once"]


def test_nothing_is_taken_in_after_an_output_that_is_read_twice(written):
    piece = of(written, lambda m, x: (lambda y: y.relu() + y)(m.conv(x)))
    assert not piece.relu
    assert len(piece.nodes) == 1


LEFT = {
    "same padding of an even kernel": nn.Conv2d(2, 4, 4, padding="same"),
    "a linear layer over lines": nn.Linear(8, 3),
    "a transposed convolution": nn.ConvTranspose2d(2, 4, 3),
    "a convolution of volumes": nn.Sequential(nn.Unflatten(1, (1, 2)), nn.Conv3d(1, 1, 1)),
    "no layer": nn.ReLU(),
}


@pytest.mark.parametrize("name", LEFT)
def test_layers_that_no_kernel_can_run_are_left(name):
    assert found(nn.Sequential(LEFT[name])) == []


def test_layers_without_weights_are_left():
    with pytest.warns(UserWarning, match="zero-element"):
        model = nn.Sequential(nn.Linear(0, 3), nn.Linear(3, 0))
    assert found(model, torch.ones(5, 0)) == []


def same(model, example=IMAGE, **settings):
    """Whether the sparse network gives what the model gives, at several batch sizes."""
    fast = sg.sparse(model, example, kernel="chain", **settings)
    return all(
        torch.allclose(fast(x), model(x), rtol=1e-5, atol=1e-5)
        for x in (example, example[:1], torch.randn(5, *example.shape[1:]))
    )


@torch.no_grad()
@pytest.mark.parametrize("mode", ["reflect", "circular"])
def test_other_padding_is_torchs_and_the_convolution_after_it_runs_sparse(mode):
    model = nn.Sequential(nn.Conv2d(2, 4, 3, padding=1, padding_mode=mode)).eval()
    (piece,) = found(model)
    assert piece.shapes["in"] == (2, 10, 10)
    assert same(model)


@torch.no_grad()
def test_a_layer_of_another_class_runs_with_what_it_does_around_the_product():
    class Doubled(nn.Linear):
        def forward(self, x):
            return 2 * super().forward(x)

    model = nn.Sequential(Doubled(8, 3), nn.Linear(3, 2)).eval()
    assert [piece.name for piece in found(model, torch.ones(2, 8))] == ["0", "1"]
    assert same(model, torch.randn(2, 8))


@torch.no_grad()
@pytest.mark.filterwarnings("ignore:forward hooks")
def test_what_hooks_compute_is_captured():
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU()).eval()
    model[0].register_forward_hook(lambda _module, _given, out: out + 1)
    model[3].register_forward_pre_hook(lambda _module, given: (given[0] * 2,))
    assert [piece.relu for piece in found(model, torch.ones(2, 8))] == [False, False]
    assert same(model, torch.randn(2, 8))


@torch.no_grad()
def test_the_forward_of_a_single_module_is_captured():
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU()).eval()
    model[0].forward = lambda x: 2 * nn.Linear.forward(model[0], x)
    model[3].forward = torch.neg
    assert [piece.relu for piece in found(model, torch.ones(2, 8))] == [False, False]
    graph = captured(model, torch.ones(2, 8))  # such a model cannot be copied
    x = torch.randn(4, 8)
    torch.testing.assert_close(graph(x), model(x))


@torch.no_grad()
def test_a_model_that_treats_some_batches_differently_is_right_for_all(written):
    def way(m, x):
        if len(x) == 1:
            return m.fc(x) * 2
        return m.fc(x) + 1 if len(x) > 4 else m.fc(x)

    model = written(way, fc=nn.Linear(8, 3))
    for rows in (1, 3, 6):
        fast = sg.sparse(model, torch.randn(rows, 8), kernel="chain")
        for batch in (1, 2, 4, 5, 9):
            x = torch.randn(batch, 8)
            torch.testing.assert_close(fast(x), model(x))


@pytest.mark.parametrize(("dilation", "padding"), [(1, (1, 2)), (2, (2, 4))])
def test_same_padding_is_half_of_what_the_kernel_reaches(dilation, padding):
    (piece,) = found(nn.Sequential(nn.Conv2d(2, 4, (3, 5), padding="same", dilation=dilation)))
    assert piece.layer().padding == padding


def test_valid_padding_is_none():
    (piece,) = found(nn.Sequential(nn.Conv2d(2, 4, 3, padding="valid")))
    assert piece.layer().padding == (0, 0)


def test_a_gated_layer_is_found_with_its_masked_weights():
    model = sg.gate(nn.Sequential(nn.Linear(8, 3)), start=sg.LargestWeights(0.25))
    (piece,) = found(model, torch.ones(2, 8))
    assert piece.sparsity == 0.75
    assert torch.equal(piece.layer().weight, model[0].weight)


def test_the_sparsity_is_the_fraction_of_zeros():
    model = nn.Sequential(nn.Linear(4, 2))
    model[0].weight.data = torch.tensor([[0.0, 1, 0, -0.0], [2, 0, 0, 3]])
    assert found(model, torch.ones(1, 4))[0].sparsity == 5 / 8


def test_dense_gives_what_the_nodes_of_a_piece_give(written):
    model = written(
        lambda m, x: F.max_pool2d(m.conv(x), 3, 1).relu().flatten(1), conv=nn.Conv2d(2, 4, 3)
    )
    (piece,) = found(model)
    with torch.no_grad():
        assert torch.equal(piece.dense(IMAGE), model(IMAGE))


FOLLOWING = {
    "at once": (True, lambda m, x: m.two(m.one(x))),
    "through what is taken in": (True, lambda m, x: m.two(F.relu(m.one(x)))),
    "through what is not": (False, lambda m, x: m.two(F.gelu(m.one(x)))),
    "read by another as well": (False, lambda m, x: (lambda y: m.two(y) + y)(m.one(x))),
    "beside": (False, lambda m, x: m.one(x) + m.two(x)),
}


@pytest.mark.parametrize("name", FOLLOWING)
def test_a_piece_follows_another_if_it_alone_reads_its_output(written, name):
    follow, way = FOLLOWING[name]
    modules = {each: nn.Conv2d(2, 2, 3, padding=1) for each in ("one", "two")}
    graph = captured(written(way, **modules).eval(), IMAGE)
    one, two = pieces(graph)
    assert follows(two, one, graph) == follow


def test_a_model_with_branches_on_data_cannot_be_captured(written):
    model = written(lambda m, x: m.fc(x) if x.sum() > 0 else x, fc=nn.Linear(8, 3))
    with pytest.raises(
        ValueError, match=r"Written cannot be captured .* must not branch on the values"
    ):
        captured(model, torch.ones(2, 8))


def test_a_model_must_give_one_tensor(written):
    model = written(lambda m, x: (m.conv(x), x), conv=nn.Conv2d(2, 4, 3))
    with pytest.raises(ValueError, match="one batch of outputs; wrap"):
        captured(model, IMAGE)


def test_hooks_are_named_in_a_warning():
    model = nn.Sequential(nn.Linear(8, 3))
    model.register_forward_hook(lambda _, x, y: 2 * y)
    with pytest.warns(UserWarning, match="forward hooks of Sequential ran once"):
        captured(model, torch.ones(2, 8))


def test_a_forward_that_changes_a_buffer_is_refused(written):
    def way(m, x):
        m.calls += 1
        return m.fc(x)

    model = written(way, fc=nn.Linear(8, 3))
    model.register_buffer("calls", torch.zeros(()))
    with pytest.raises(ValueError, match=r"changes calls, which sg\.sparse cannot carry over"):
        captured(model, torch.ones(2, 8))
    assert model.calls == 0


@pytest.mark.parametrize("layer", [nn.Conv2d(2, 4, 3), nn.Linear(8, 3)])
def test_a_layer_alone_is_a_model(layer):
    (piece,) = found(layer, IMAGE if isinstance(layer, nn.Conv2d) else torch.ones(2, 8))
    assert torch.equal(piece.weight, layer.weight)
