"""Units are followed through all that keeps them apart, however it is written, and no further."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import prune

from sparsegate.gates import gate
from sparsegate.graph import Follow, Units, capture, layer_name
from sparsegate_lab.models import LeNet300


class Written(nn.Module):
    """A convolution, a head, and what a forward does between them."""

    def __init__(
        self, way, *, head: nn.Module | None = None, size: int = 2, **modules: nn.Module
    ) -> None:
        super().__init__()
        self.conv = getattr(nn, f"Conv{size}d")(1, 2, 1)
        self.head = head or nn.Linear(8, 1)
        self.more = nn.ModuleDict(modules)
        self.way = way
        self.eval()

    def forward(self, x: Tensor) -> Tensor:
        return self.way(self, self.conv(x))


IMAGES = torch.randn(2, 1, 2, 2)


def followed(model: nn.Module, example: Tensor) -> tuple[list[Units], dict[str, str]]:
    """The units that nothing mixes or exposes, and what those of the other layers meet."""
    follow = Follow(capture(model, example))
    return follow.units, follow.left


@torch.no_grad()
def assert_followed(model: Written, example: Tensor = IMAGES) -> None:
    """The convolution has two units, and the head reads one block of features for each."""
    (units,), left = followed(model, example)
    assert left == {"head": "output"}
    assert [layer_name(layer) for layer in (*units.makers, *units.readers)] == ["conv", "head"]
    before = model(example)
    model.conv.bias += torch.tensor([0.0, 0.7])
    assert not torch.equal(model(example), before)
    model.head.weight.data.unflatten(1, (2, -1))[:, 1] = 0  # the head does not read unit 1
    changed = model(example)
    model.conv.bias += torch.tensor([0.0, 0.7])
    assert torch.equal(model(example), changed)


UNDERSTOOD = {
    "in place": lambda model, x: model.head(F.relu(x, inplace=True).flatten(1)),
    "method": lambda model, x: model.head(torch.flatten(x.sigmoid(), 1)),
    "shape": lambda model, x: model.head(x.reshape(x.shape[0], -1)),
    "size": lambda model, x: model.head(F.leaky_relu(x, 0.3).view(x.size(0), 8)),
    "width": lambda model, x: model.head(F.gelu(x).view(-1, 8)),
    "dropout": lambda model, x: model.head(
        F.dropout(x, 0.5, model.training).contiguous().flatten(start_dim=1)
    ),
    "twice": lambda model, x: model.head(x.flatten(2).flatten(1)),
    "squeezed": lambda model, x: model.head(x.unsqueeze(-1).squeeze().flatten(1)),
    "long": lambda model, x: model.head(x.reshape(2, 1, 8)),
    "rows": lambda model, x: model.head(F.max_pool1d(x.reshape(2, 4, 2), 1).reshape(2, 8)),
}


@pytest.mark.parametrize("way", UNDERSTOOD.values(), ids=UNDERSTOOD)
def test_a_way_of_writing_is_understood(way):
    assert_followed(Written(way))


POINTWISE = {
    "sigmoid": torch.sigmoid,
    "tanh": nn.Tanh(),
    "relu": nn.ReLU(inplace=True),
    "relu6": F.relu6,
    "elu": nn.ELU(0.5),
    "celu": F.celu,
    "selu": F.selu,
    "gelu": nn.GELU(approximate="tanh"),
    "silu": F.silu,
    "mish": F.mish,
    "softplus": F.softplus,
    "softsign": F.softsign,
    "tanhshrink": F.tanhshrink,
    "logsigmoid": F.logsigmoid,
    "leaky_relu": F.leaky_relu,
    "hardtanh": lambda x: F.hardtanh(x, -9, 9),
    "hardswish": F.hardswish,
    "hardsigmoid": F.hardsigmoid,
    "hardshrink": F.hardshrink,
    "softshrink": F.softshrink,
    "threshold": nn.Threshold(0.1, 20.0),
    "clamp": lambda x: x.clamp(min=0.1),
    "abs": torch.abs,
    "exp": torch.exp,
    "square": lambda x: x * x,
    "plus one": lambda x: x + 1,
    "dropout": nn.Dropout(),
    "identity": nn.Identity(),
}


@pytest.mark.parametrize("function", POINTWISE.values(), ids=POINTWISE)
def test_an_elementwise_operation_is_followed(function):
    modules = {"step": function} if isinstance(function, nn.Module) else {}
    model = Written(lambda model, x: model.head(function(x.flatten(2)).flatten(1)), **modules)
    model.conv.bias.data.fill_(0.9)  # where no activation is flat
    model.conv.weight.data.fill_(0.01)
    assert_followed(model)


@pytest.mark.parametrize("kind", ["Max", "Avg", "AdaptiveMax", "AdaptiveAvg"])
@pytest.mark.parametrize("size", [1, 2, 3])
def test_a_pool_is_followed(kind, size):
    pool = getattr(nn, f"{kind}Pool{size}d")(2)
    head = getattr(nn, f"Conv{size}d")(2, 1, 1)
    model = Written(lambda model, x: model.head(pool(x)), head=head, size=size, step=pool)
    assert_followed(model, torch.randn(2, 1, *[4] * size))


def test_the_mean_over_an_image_is_followed():
    head = nn.Linear(2, 1)
    assert_followed(Written(lambda model, x: model.head(x.mean((2, 3))), head=head))


LEFT_ALONE = {
    "concatenation": (lambda model, x: model.head(torch.cat([x, x], 1)[:, :2].flatten(1)), "cat"),
    "softmax": (lambda model, x: model.head(x.softmax(1).flatten(1)), "softmax"),
    "torn": (lambda model, x: model.head(x.flatten(0, 1).reshape(-1, 8)), "flatten"),
    "returned": (lambda model, x: (model.head(x.flatten(1)), x), "output"),
    "unused": (lambda model, x: torch.ones(3), "nothing"),
    "another weight": (lambda model, x: F.linear(x.flatten(1), torch.ones(3, 8)), "linear"),
    "over the width": (
        lambda model, x: model.more["other"](x.flatten(2).repeat(1, 1, 2)),
        "repeat",
    ),
    "as integers": (
        lambda model, x: model.head(x.view(torch.int32).view(torch.float32).flatten(1)),
        "view",
    ),
    "dropout in eval": (lambda model, x: model.head(F.dropout(x.flatten(1))), "dropout"),
    "with indices": (
        lambda model, x: model.head(model.more["pool"](x)[1].flatten(1) + x.flatten(1)),
        "getitem",
    ),
    "called twice": (
        lambda model, x: model.more["square"](model.more["square"](x.flatten(1))),
        "linear",
    ),
}


@pytest.mark.parametrize("case", LEFT_ALONE.values(), ids=LEFT_ALONE)
def test_what_may_mix_units_is_left_alone(case):
    way, meets = case
    modules = {"other": nn.Linear(8, 1), "square": nn.Linear(8, 8)}
    units, left = followed(
        Written(way, pool=nn.MaxPool2d(1, return_indices=True), **modules), IMAGES
    )
    assert units == []
    assert left["conv"] == meets or left["conv"].startswith(f"{meets}_")


IN_PLACE = {
    "tanh_ for two": lambda model, x: torch.tanh_(x),
    "relu for two": lambda model, x: F.relu(x, inplace=True),
    "module for two": lambda model, x: model.more["relu"](x),
}


@pytest.mark.parametrize("activation", IN_PLACE.values(), ids=IN_PLACE)
def test_an_operation_in_place_is_read_by_all_that_read_its_input_later(activation):
    def way(model: nn.Module, x: Tensor) -> Tensor:
        active = activation(model, x)
        return model.head(active.flatten(1)) + model.more["other"](x.flatten(1))

    modules = {"other": nn.Linear(8, 1), "relu": nn.ReLU(inplace=True)}
    (units,), left = followed(Written(way, **modules), IMAGES)
    assert [layer_name(reader) for reader in units.readers] == ["head", "more.other"]
    assert list(left) == ["head", "more.other"]


NOT_OVER_UNITS = {
    "linear over the width": (
        nn.Sequential(nn.Conv1d(1, 3, 1), nn.Linear(3, 1)),
        (1, 1, 3),
        "linear",
    ),
    "convolution over the sequence": (
        nn.Sequential(nn.Linear(3, 3), nn.Conv1d(3, 1, 1)),
        (1, 3, 3),
        "conv1d",
    ),
    "norm over the sequence": (
        nn.Sequential(nn.Linear(2, 4), nn.BatchNorm1d(4), nn.Linear(4, 1)),
        (1, 4, 2),
        "batch_norm",
    ),
    "norm of the batch": (
        nn.Sequential(nn.Linear(2, 4), nn.BatchNorm1d(4, track_running_stats=False)),
        (3, 2),
        "batch_norm",
    ),
    "pool over features": (
        nn.Sequential(nn.Linear(1, 2), nn.MaxPool1d(2), nn.Linear(1, 1)),
        (1, 4, 1),
        "max_pool1d",
    ),
    "transposed convolution": (
        nn.Sequential(nn.Conv1d(1, 2, 1), nn.ConvTranspose1d(2, 2, 1)),
        (1, 1, 3),
        "conv_transpose1d",
    ),
    "weights for channels": (
        nn.Sequential(nn.Conv1d(1, 2, 1), nn.PReLU(2), nn.Conv1d(2, 2, 1)),
        (1, 1, 3),
        "prelu",
    ),
}


@pytest.mark.parametrize("case", NOT_OVER_UNITS.values(), ids=NOT_OVER_UNITS)
def test_what_reads_another_axis_is_left_alone(case):
    model, shape, meets = case
    units, left = followed(model.eval(), torch.zeros(shape))
    assert units == []
    assert left["0"] == meets


def test_a_reshape_that_tears_units_is_left_alone():
    model = nn.Sequential(
        nn.Conv1d(1, 4, 1), nn.Flatten(), nn.Unflatten(1, (3, 4)), nn.Conv1d(3, 1, 1)
    ).eval()
    (units,), _ = followed(model, torch.zeros(1, 1, 3))
    assert units.count == 1  # all of them move together, so none does


def test_a_batch_of_one_and_a_layer_of_one_unit_are_told_apart():
    model = nn.Sequential(nn.Conv1d(1, 1, 1), nn.Flatten(), nn.Linear(3, 1)).eval()
    assert followed(model, torch.zeros(1, 1, 3))[1] == {"2": "output"}


def test_the_example_stays_as_it_is():
    model = Written(lambda model, x: model.head(x.flatten(1)))
    model.conv, model.stem = nn.Identity(), nn.ReLU(inplace=True)
    model.way = lambda model, x: model.head(model.stem(x).flatten(1))
    example = -torch.ones(1, 8)
    followed(model, example)
    assert example.tolist() == [[-1] * 8]


# --- layers whose tensors are shared


def test_a_module_called_twice_is_left_alone_and_so_is_the_layer_that_it_reads():
    layer = nn.Linear(2, 2)
    units, left = followed(
        nn.Sequential(nn.Linear(2, 2), layer, layer, nn.Linear(2, 1)).eval(), torch.zeros(1, 2)
    )
    assert units == []
    assert left == {"0": "linear_1", "2": "shared or empty", "3": "output"}


def three() -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 2)
    ).eval()


def test_tied_weights_are_left_alone():
    model = three()
    assert len(followed(model, torch.zeros(1, 2))[0]) == 2
    model[4].weight = model[0].weight
    assert followed(model, torch.zeros(1, 2))[0] == []


def test_views_of_one_memory_are_left_alone():
    model, memory = three(), torch.ones(6)
    model[0].weight.data, model[2].weight.data = memory[:4].view(2, 2), memory[2:].view(2, 2)
    assert followed(model, torch.zeros(1, 2))[0] == []


def test_a_weight_that_the_forward_reads_itself_is_left_alone():
    model = Written(lambda model, x: model.head(x.flatten(1)) * model.conv.weight.sum())
    assert followed(model, IMAGES)[1]["conv"] == "shared or empty"


def test_layers_without_units_are_left_alone():
    with pytest.warns(UserWarning, match="zero-element"):
        model = nn.Sequential(nn.Linear(2, 0), nn.Linear(0, 3)).eval()
    assert followed(model, torch.zeros(1, 2))[0] == []


# --- refusals


def test_a_forward_that_depends_on_values_is_refused():
    model = Written(lambda model, x: model.head(x.flatten(1)) if x.sum() > 0 else x)
    with pytest.raises(ValueError, match="Written cannot be captured"):
        followed(model, IMAGES)


def test_an_example_that_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="LeNet300 does not run on the example"):
        followed(LeNet300().eval(), torch.zeros(1, 5))


def test_gated_and_pruned_models_are_refused():
    with pytest.raises(ValueError, match=r"fc1.weight is computed .*finish"):
        followed(gate(LeNet300()).eval(), torch.zeros(1, 1, 28, 28))
    model = LeNet300().eval()
    prune.random_unstructured(model.fc2, "weight", amount=0.5)
    with pytest.raises(ValueError, match=r"fc2.weight is computed .*prune.remove"):
        followed(model, torch.zeros(1, 1, 28, 28))
