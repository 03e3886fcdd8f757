"""Models with sparse parts in their forward pass give what they gave."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sparsegate.runtime.dense_part import dense_kernels_for
from sparsegate.runtime.part import ChainPart, CsrPart
from sparsegate.runtime.plan import planned, short_cut
from sparsegate.runtime.sparsable import captured, pieces
from sparsegate_lab.models import LeNet5, LeNet300
from sparsegate_runtime.kernels import KERNELS

pytestmark = pytest.mark.skipif(KERNELS is None, reason="kernels not built")


class Residual(nn.Module):
    """Two convolutions around which the input is carried."""

    def __init__(self, channels, stride=1):
        super().__init__()
        self.one, self.norm = nn.Conv2d(channels, channels, 3, stride, 1), nn.BatchNorm2d(channels)
        self.two = nn.Conv2d(channels, channels, 3, 1, 1, groups=2)
        self.short = nn.Conv2d(channels, channels, 1, stride) if stride > 1 else nn.Identity()

    def forward(self, x):
        return F.relu(self.two(F.relu(self.norm(self.one(x)))) + self.short(x))


def shaken(model):
    """With statistics in its BatchNorms that change something."""
    for module in model.modules():
        if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d):
            nn.init.normal_(module.running_mean)
            nn.init.uniform_(module.running_var, 0.5, 2)
    return model


MODELS = {
    "LeNet-5": (LeNet5, (1, 28, 28)),
    "LeNet-300": (LeNet300, (1, 28, 28)),
    "residual": (
        lambda: nn.Sequential(Residual(4), Residual(4, stride=2), nn.Flatten(), nn.Linear(64, 5)),
        (4, 8, 8),
    ),
    "with BatchNorm": (
        lambda: nn.Sequential(
            nn.Conv2d(3, 6, 3), nn.BatchNorm2d(6), nn.ReLU(), nn.Conv2d(6, 2, 3, groups=2)
        ),
        (3, 9, 7),
    ),
    "strided and dilated": (
        lambda: nn.Sequential(
            nn.Conv2d(2, 5, 3, 2, padding=2, dilation=2), nn.ReLU(), nn.Conv2d(5, 3, (1, 2), (1, 3))
        ),
        (2, 12, 13),
    ),
    "averaged at the end": (
        lambda: nn.Sequential(
            nn.Conv2d(2, 8, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 3)
        ),
        (2, 7, 7),
    ),
    "depthwise": (
        lambda: nn.Sequential(nn.Conv2d(4, 4, 3, groups=4), nn.Conv2d(4, 8, 1), nn.ReLU()),
        (4, 6, 6),
    ),
    "a deep perceptron": (
        lambda: nn.Sequential(
            nn.Linear(20, 40), nn.ReLU(), nn.Linear(40, 9), nn.ReLU(), nn.Linear(9, 4)
        ),
        (20,),
    ),
    "a perceptron with BatchNorm": (
        lambda: nn.Sequential(nn.Linear(20, 9), nn.BatchNorm1d(9), nn.ReLU(), nn.Linear(9, 4)),
        (20,),
    ),
    "an autoencoder": (
        lambda: nn.Sequential(
            nn.Linear(30, 5), nn.ReLU(), nn.Linear(5, 30), nn.Sigmoid(), nn.Linear(30, 2)
        ),
        (30,),
    ),
    "padded pools": (
        lambda: nn.Sequential(
            nn.Conv2d(1, 4, 3), nn.MaxPool2d(3, 2, 1), nn.ReLU(), nn.Conv2d(4, 4, 3), nn.ReLU()
        ),
        (1, 14, 11),
    ),
}


def plan_of(model, x, kernel="chain", channels_last=False, **kernels):
    graph = captured(model, x)
    chosen = {piece.name: kernel for piece in pieces(graph)} | kernels
    return planned(graph, chosen, channels_last=channels_last)


def parts(plan):
    """The layers of each part of a plan, in the order in which they run."""
    if isinstance(plan, ChainPart | CsrPart):
        return [plan.names]
    return [part.names for part in plan.children() if isinstance(part, ChainPart | CsrPart)]


@torch.no_grad()
@pytest.mark.parametrize("batch", [1, 5, 20])
@pytest.mark.parametrize("name", MODELS)
def test_a_model_by_chains_gives_what_it_gave(sparsified, name, batch):
    make, shape = MODELS[name]
    torch.manual_seed(0)
    model = sparsified(shaken(make()))
    x = torch.randn(batch, *shape)
    plan = plan_of(model, x[:1])
    assert parts(plan)
    torch.testing.assert_close(plan(x), model(x), rtol=1e-5, atol=1e-5)


@torch.no_grad()
@pytest.mark.parametrize("name", MODELS)
def test_any_one_layer_may_stay_dense(sparsified, name):
    make, shape = MODELS[name]
    model = sparsified(shaken(make()))
    x = torch.randn(3, *shape)
    for piece in pieces(captured(model, x)):
        for channels_last in (False, True):
            plan = plan_of(model, x, channels_last=channels_last, **{piece.name: "dense"})
            assert piece.name not in [name for part in parts(plan) for name in part]
            torch.testing.assert_close(plan(x), model(x), rtol=1e-5, atol=1e-5)


@torch.no_grad()
def test_linear_layers_may_run_by_csr_beside_chains(sparsified):
    model, x = sparsified(LeNet5()), torch.randn(3, 1, 28, 28)
    plan = plan_of(model, x, fc1="csr")
    assert parts(plan) == [["conv1", "conv2"], ["fc1"], ["fc2"]]
    torch.testing.assert_close(plan(x), model(x), rtol=1e-5, atol=1e-5)


@torch.no_grad()
def test_a_linear_layer_with_a_norm_may_run_by_csr(sparsified):
    model, x = sparsified(shaken(MODELS["a perceptron with BatchNorm"][0]())), torch.randn(3, 20)
    torch.testing.assert_close(plan_of(model, x, "csr")(x), model(x), rtol=1e-5, atol=1e-5)


@torch.no_grad()
def test_what_csr_gives_can_be_viewed(written):
    modules = {"one": nn.Linear(8, 16), "two": nn.Linear(16, 3)}
    model = written(lambda m, x: m.two(m.one(x).view(x.shape[0] * 2, 8).view(-1, 16)), **modules)
    x = torch.randn(3, 8)
    torch.testing.assert_close(plan_of(model, x, "csr")(x), model(x), rtol=1e-5, atol=1e-5)


def test_norms_between_layers_do_not_end_a_part(sparsified):
    layers = (
        nn.Conv2d(3, 6, 3),
        nn.BatchNorm2d(6),
        nn.ReLU(),
        nn.Conv2d(6, 2, 3),
        nn.BatchNorm2d(2),
    )
    plan = plan_of(sparsified(nn.Sequential(*layers)), torch.zeros(1, 3, 9, 7))
    assert isinstance(plan, ChainPart)
    assert parts(plan) == [["0", "3"]]


def test_consecutive_layers_become_one_part_and_a_whole_model_is_that_part(sparsified):
    plan = plan_of(sparsified(LeNet5()), torch.zeros(1, 1, 28, 28))
    assert isinstance(plan, ChainPart)
    assert parts(plan) == [["conv1", "conv2", "fc1", "fc2"]]


def test_a_skip_connection_ends_a_part(written):
    modules = {name: nn.Linear(8, 8) for name in ("one", "two", "three")}
    model = written(lambda m, x: (lambda y: m.three(m.two(y)) + y)(m.one(x)), **modules)
    assert parts(plan_of(model, torch.zeros(1, 8))) == [["one"], ["two", "three"]]


def test_branches_are_parts_of_their_own(written):
    modules = {name: nn.Linear(8, 8) for name in ("one", "two", "three", "four")}
    model = written(lambda m, x: m.two(m.one(x)) + m.four(m.three(x)), **modules)
    assert parts(plan_of(model, torch.zeros(1, 8))) == [["one", "two"], ["three", "four"]]


def test_the_layers_of_a_part_do_not_run_again(sparsified):
    model = sparsified(nn.Sequential(nn.Conv2d(2, 4, 3), nn.ReLU(inplace=True), nn.Sigmoid()))
    plan = plan_of(model, torch.zeros(1, 2, 8, 8))
    assert [node.target for node in plan.graph.nodes if node.op == "call_module"] == ["sparse_0"]


@torch.no_grad()
def test_a_part_reads_its_input_before_that_is_changed_in_place(written):
    def way(m, x):
        hidden = 2 * x
        out = m.fc(hidden)
        hidden.add_(1)
        return out.relu() + hidden

    model, x = written(way, fc=nn.Linear(8, 8)), torch.randn(3, 8)
    torch.testing.assert_close(plan_of(model, x)(x), model(x))


@torch.no_grad()
def test_a_model_that_drops_what_its_layers_give_is_still_itself(written):
    model, x = written(lambda m, x: (m.fc(x), x)[1], fc=nn.Linear(8, 8)), torch.randn(3, 8)
    assert torch.equal(plan_of(model, x)(x), x)


def test_without_sparse_layers_the_plan_is_the_model(sparsified):
    model = sparsified(LeNet300())
    assert plan_of(model, torch.zeros(1, 1, 28, 28), kernel="dense") == model.forward


def test_layers_that_are_not_there_are_named(sparsified):
    model, x = sparsified(LeNet300()), torch.zeros(1, 1, 28, 28)
    with pytest.raises(ValueError, match=r"no layers fc9, nor; it has fc1, fc2, fc3"):
        plan_of(model, x, fc9="chain", nor="dense")


def test_the_model_is_not_changed_by_its_plan(sparsified):
    model = sparsified(shaken(MODELS["residual"][0]()))
    names, state = (
        [name for name, _ in model.named_modules()],
        {k: v.clone() for k, v in model.state_dict().items()},
    )
    plan_of(model, torch.zeros(1, 4, 8, 8))(torch.randn(2, 4, 8, 8))
    assert [name for name, _ in model.named_modules()] == names
    assert all(torch.equal(state[name], value) for name, value in model.state_dict().items())


@torch.no_grad()
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("batch", [1, 5])
def test_channels_that_stand_last_change_nothing_but_the_layout(sparsified, name, batch):
    make, shape = MODELS[name]
    model = sparsified(shaken(make()))
    x = torch.randn(batch, *shape)
    got = plan_of(model, x, "dense", channels_last=True)(x)
    torch.testing.assert_close(got, model(x), rtol=1e-5, atol=1e-5)
    assert got.is_contiguous()  # as the model's own, so that a caller may view it
    layouts = [m.weight.is_contiguous() for m in model.modules() if isinstance(m, nn.Conv2d)]
    assert all(layouts)


@torch.no_grad()
@pytest.mark.parametrize("name", MODELS)
def test_packed_convolutions_change_nothing_but_the_layout_between_them(sparsified, name):
    make, shape = MODELS[name]
    model = sparsified(shaken(make()))
    x = torch.randn(3, *shape)
    graph = captured(model, x)
    kernels = {piece.name: (dense_kernels_for(piece) or ["dense"])[0] for piece in pieces(graph)}
    got = planned(graph, kernels)(x)
    torch.testing.assert_close(got, model(x), rtol=1e-5, atol=1e-5)
    assert got.is_contiguous()


@torch.no_grad()
def test_dense_and_sparse_parts_stand_side_by_side(sparsified):
    layers = [
        nn.Conv2d(3, 16, 3),
        nn.ReLU(),
        nn.Conv2d(16, 16, 3),
        nn.Conv2d(16, 8, 3),
        nn.ReLU(),
        nn.Flatten(),
    ]
    model, x = sparsified(nn.Sequential(*layers, nn.Linear(200, 5))), torch.randn(20, 3, 11, 11)
    plan = plan_of(model, x, **{"0": "packed", "2": "winograd"})
    names = [part.names for part in plan.children() if hasattr(part, "names")]
    assert names == [["0", "2"], ["3", "6"]]
    torch.testing.assert_close(plan(x), model(x), rtol=1e-5, atol=1e-5)


@torch.no_grad()
@pytest.mark.parametrize("batch", [1, 5])
def test_with_channels_last_a_view_is_still_possible(written, batch):
    modules = {"conv": nn.Conv2d(2, 4, 3), "norm": nn.BatchNorm2d(4), "fc": nn.Linear(36, 3)}
    model = written(lambda m, x: m.fc(m.norm(m.conv(x)).view(x.size(0), -1)), **modules)
    x = torch.randn(batch, 2, 5, 5)
    plan = plan_of(model, x, "dense", channels_last=True)
    torch.testing.assert_close(plan(x), model(x), rtol=1e-5, atol=1e-5)


def after_a_view(m, x, view):
    """Changes what one convolution gives by a view of it, before another reads it."""
    y = m.one(x)
    view(y).mul_(2)
    return m.two(y)


VIEWS = {
    "by a method": lambda m, x: m.one(x).view(-1, 18),
    "by a name": lambda m, x: m.one(x).view(size=(-1, 18)),
    "like another": lambda m, x: m.one(x).view_as(x[:, :, :3, :3].flatten(1)),
    "changed": lambda m, x: after_a_view(m, x, lambda y: y.view(y.size(0), -1)),
    "flat and changed": lambda m, x: after_a_view(m, x, lambda y: y.flatten(1)),
    "by a module and changed": lambda m, x: after_a_view(m, x, m.flat),
}


@torch.no_grad()
@pytest.mark.parametrize("kernel", ["dense", "packed"])
@pytest.mark.parametrize("name", VIEWS)
def test_in_any_layout_a_view_is_what_it_was(written, name, kernel):
    modules = {"one": nn.Conv2d(2, 2, 3), "two": nn.Conv2d(2, 2, 3), "flat": nn.Flatten()}
    model, x = written(VIEWS[name], **modules), torch.randn(2, 2, 5, 5)
    plan = plan_of(model, x, kernel, channels_last=kernel == "dense")
    torch.testing.assert_close(plan(x), model(x), rtol=1e-5, atol=1e-5)


@torch.no_grad()
@pytest.mark.parametrize("flat", [nn.Flatten(), nn.Flatten(2, 3)], ids=["to vectors", "to lines"])
def test_a_model_that_only_flattens_before_its_layers_is_one_part(sparsified, flat):
    model = sparsified(
        nn.Sequential(flat, nn.Flatten(), nn.Linear(24, 10), nn.ReLU(), nn.Linear(10, 3))
    )
    lean = sparsified(
        nn.Sequential(flat, nn.Linear(24 if flat.start_dim == 1 else 12, 10), nn.ReLU())
    )
    x = torch.randn(5, 2, 3, 4)
    assert isinstance(plan_of(model, x), ChainPart)
    assert isinstance(plan_of(lean, x), ChainPart) == (flat.start_dim == 1)
    for each in (model, lean):
        torch.testing.assert_close(plan_of(each, x)(x), each(x))
        torch.testing.assert_close(
            plan_of(each, x)(x.transpose(2, 3).contiguous().transpose(2, 3)), each(x)
        )


@torch.no_grad()
def test_a_short_cut_is_the_plan_and_steps_back_for_hooks_and_gradients(sparsified):
    model, x = (
        sparsified(nn.Sequential(nn.Linear(5, 4), nn.Sigmoid(), nn.Linear(4, 3))),
        torch.randn(2, 5),
    )
    for kernel in ("dense", "chain"):
        owner, plan = nn.Module(), plan_of(model, x, kernel)
        run = short_cut(owner, plan, 2)
        torch.testing.assert_close(run(x), model(x))
        with torch.enable_grad():
            assert run(x) is NotImplemented
        owner.register_forward_pre_hook(lambda *_: None)
        assert run(x) is NotImplemented
