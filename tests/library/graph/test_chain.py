"""Chains are followed through all that keeps units apart, however it is written, and through nothing else."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import prune

from sparsegate.gates import gate
from sparsegate.graph.chain import Chain, find_chains
from sparsegate.graph.step import ELEMENTWISE, POOLS
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


def assert_followed(model: Written, example: Tensor = IMAGES) -> None:
    """The steps of the convolution's chain lead to what the head reads, and tell unit 1 from unit 0."""
    (chain,), left = find_chains(model, example)
    assert left == {"head": "output"}
    (reader,) = chain.readers
    assert torch.equal(reader.layer(through(chain, model.conv(example))), model(example))
    one, other = through(chain, model.conv(example)), through(chain, raised(model.conv(example)))
    units = (one != other).movedim(reader.steps[-1].axis, 0).reshape(2, -1).any(1)
    assert units.tolist() == [False, True]


def raised(hidden: Tensor) -> Tensor:
    """The convolution's result with another unit 1."""
    return hidden + torch.tensor([0.0, 0.7]).view(-1, *[1] * (hidden.ndim - 2))


def through(chain: Chain, value: Tensor) -> Tensor:
    value = value.clone()
    for step in chain.readers[0].steps:
        value = step.run(value)
    return value


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


def called(operation, *words):
    """A module that calls a module's type, a function or a method, in eval."""
    if isinstance(operation, type):
        return operation(*words).eval()
    if isinstance(operation, str):
        return lambda x: getattr(x, operation)(*words)
    switch = {"training": False} if "dropout" in operation.__name__ else {}
    return lambda x: operation(x, *words, **switch)


def named(operation) -> str:
    kind = "method" if isinstance(operation, str) else type(operation).__name__
    return f"{kind} {getattr(operation, '__name__', operation)}"


@pytest.mark.parametrize("operation", sorted(ELEMENTWISE, key=named), ids=named)
@pytest.mark.filterwarnings("ignore:dropout")
def test_an_elementwise_operation_is_one_and_is_followed(operation):
    function = called(operation, *((0.1, 20.0) if "hreshold" in named(operation) else ()))
    numbers = torch.randn(1, 2, 3)
    assert torch.allclose(
        function(numbers.clone()).flatten(), function(numbers.reshape(1, 6, 1).clone()).flatten()
    )
    modules = {"step": function} if isinstance(function, nn.Module) else {}
    model = Written(lambda model, x: model.head(function(x.flatten(2)).flatten(1)), **modules)
    model.conv.bias.data.fill_(0.9)  # where no activation is flat
    model.conv.weight.data.fill_(0.01)
    assert_followed(model)


@pytest.mark.parametrize("operation", sorted(POOLS, key=named), ids=named)
def test_a_pool_is_followed(operation):
    size, function = POOLS[operation], called(operation, 2)
    modules = {"step": function} if isinstance(function, nn.Module) else {}
    head = getattr(nn, f"Conv{size}d")(2, 1, 1)
    model = Written(lambda model, x: model.head(function(x)), head=head, size=size, **modules)
    assert_followed(model, torch.randn(2, 1, *[4] * size))


def in_place_for_two(activation):
    def way(model: nn.Module, x: Tensor) -> Tensor:
        active = activation(model, x.flatten(1))
        return model.head(active) + model.more["other"](x.flatten(1))

    return way, "an in-place operation on units that others read, too"


LEFT_ALONE = {
    "sum": (lambda model, x: model.head((x + 1).flatten(1)), "add"),
    "concatenation": (lambda model, x: model.head(torch.cat([x, x], 1)[:, :2].flatten(1)), "cat"),
    "order": (lambda model, x: model.head(x.transpose(1, 2).flatten(1)), "transpose"),
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
    "by its size": (
        lambda model, x: model.head(F.leaky_relu(x, x.size(0)).flatten(1)),
        "leaky_relu",
    ),
    "by keyword": (lambda model, x: model.head(torch.relu(input=x).flatten(1)), "relu"),
    "with indices": (lambda model, x: model.head(model.more["pool"](x)[0].flatten(1)), "more_pool"),
    "tanh_ for two": in_place_for_two(lambda model, x: torch.tanh_(x)),
    "relu for two": in_place_for_two(lambda model, x: F.relu(x, inplace=True)),
    "module for two": in_place_for_two(lambda model, x: model.more["relu"](x)),
    "called twice": (
        lambda model, x: model.more["square"](model.more["square"](x.flatten(1))),
        "more_square",
    ),
    "in place for nobody": (lambda model, x: (x.tanh_(), model.head(x.flatten(1)))[1], "nothing"),
}


@pytest.mark.parametrize("case", LEFT_ALONE.values(), ids=LEFT_ALONE)
def test_what_may_mix_units_is_left_alone(case):
    way, meets = case
    modules = {"other": nn.Linear(8, 1), "relu": nn.ReLU(inplace=True), "square": nn.Linear(8, 8)}
    chains, left = find_chains(
        Written(way, pool=nn.MaxPool2d(1, return_indices=True), **modules), IMAGES
    )
    assert chains == []
    assert left["conv"] == meets or left["conv"].startswith(f"{meets}_")


NOT_OVER_UNITS = {
    "linear over the width": (nn.Sequential(nn.Conv1d(1, 3, 1), nn.Linear(3, 1)), (1, 1, 3)),
    "convolution over the sequence": (
        nn.Sequential(nn.Linear(3, 3), nn.Conv1d(3, 1, 1)),
        (1, 3, 3),
    ),
    "norm over the sequence": (
        nn.Sequential(nn.Linear(2, 4), nn.BatchNorm1d(4), nn.Linear(4, 1)),
        (1, 4, 2),
    ),
    "norm of the batch": (
        nn.Sequential(nn.Linear(2, 4), nn.BatchNorm1d(4, track_running_stats=False)),
        (3, 2),
    ),
    "pool over features": (
        nn.Sequential(nn.Linear(1, 2), nn.MaxPool1d(2), nn.Linear(1, 1)),
        (1, 4, 1),
    ),
    "transposed convolution": (
        nn.Sequential(nn.Conv1d(1, 2, 1), nn.ConvTranspose1d(2, 2, 1)),
        (1, 1, 3),
    ),
    "weights for channels": (
        nn.Sequential(nn.Conv1d(1, 2, 1), nn.PReLU(2), nn.Conv1d(2, 2, 1)),
        (1, 1, 3),
    ),
}


@pytest.mark.parametrize("case", NOT_OVER_UNITS.values(), ids=NOT_OVER_UNITS)
def test_what_reads_another_axis_is_left_alone(case):
    model, shape = case
    chains, left = find_chains(model.eval(), torch.zeros(shape))
    assert chains == []
    assert left["0"] == "_1"


def test_a_reshape_that_tears_units_is_left_alone():
    model = nn.Sequential(
        nn.Conv1d(1, 4, 1), nn.Flatten(), nn.Unflatten(1, (3, 4)), nn.Conv1d(3, 1, 1)
    ).eval()
    assert find_chains(model, torch.zeros(1, 1, 3))[1]["0"] == "_2"


def test_a_batch_of_one_and_a_layer_of_one_unit_are_told_apart():
    model = nn.Sequential(nn.Conv1d(1, 1, 1), nn.Flatten(), nn.Linear(3, 1)).eval()
    assert find_chains(model, torch.zeros(1, 1, 3))[1] == {"2": "output"}


def test_the_example_stays_as_it_is():
    model = Written(lambda model, x: model.head(x.flatten(1)))
    model.conv, model.stem = nn.Identity(), nn.ReLU(inplace=True)
    model.way = lambda model, x: model.head(model.stem(x).flatten(1))
    example = -torch.ones(1, 8)
    find_chains(model, example)
    assert example.tolist() == [[-1] * 8]


# --- what others have a part in


def test_a_module_called_twice_is_left_alone_and_so_is_who_it_reads():
    layer = nn.Linear(2, 2)
    chains, left = find_chains(
        nn.Sequential(nn.Linear(2, 2), layer, layer, nn.Linear(2, 1)).eval(), torch.zeros(1, 2)
    )
    assert chains == []
    assert left == {"0": "_1", "1": "shared, hooked or empty", "3": "output"}


def three() -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 2)
    ).eval()


def test_tied_weights_are_left_alone():
    model = three()
    assert len(find_chains(model, torch.zeros(1, 2))[0]) == 2
    model[4].weight = model[0].weight
    assert find_chains(model, torch.zeros(1, 2))[0] == []


def test_views_of_one_memory_are_left_alone():
    model, memory = three(), torch.ones(6)
    model[0].weight.data, model[2].weight.data = memory[:4].view(2, 2), memory[2:].view(2, 2)
    assert find_chains(model, torch.zeros(1, 2))[0] == []


def test_a_weight_that_the_forward_reads_itself_is_left_alone():
    model = Written(lambda model, x: model.head(x.flatten(1)) * model.conv.weight.sum())
    assert find_chains(model, IMAGES)[1]["conv"] == "shared, hooked or empty"


@pytest.mark.parametrize("hooked", ["0", "1", "2", "3"])
@pytest.mark.parametrize("kind", ["register_forward_hook", "register_forward_pre_hook"])
def test_hooked_modules_are_left_alone(hooked, kind):
    model = nn.Sequential(nn.Conv1d(1, 2, 1), nn.ReLU(), nn.Flatten(), nn.Linear(4, 1)).eval()
    assert len(find_chains(model, torch.zeros(1, 1, 2))[0]) == 1
    getattr(model.get_submodule(hooked), kind)(lambda module, *values: None)
    assert find_chains(model, torch.zeros(1, 1, 2))[0] == []


def test_layers_without_units_are_left_alone():
    with pytest.warns(UserWarning, match="zero-element"):
        model = nn.Sequential(nn.Linear(2, 0), nn.Linear(0, 3)).eval()
    assert find_chains(model, torch.zeros(1, 2))[0] == []


# --- refusals


def test_a_forward_that_cannot_be_traced_is_refused():
    model = Written(lambda model, x: model.head(x.flatten(1)) if x.sum() > 0 else x)
    with pytest.raises(ValueError, match=r"Written cannot be traced by torch.fx"):
        find_chains(model, IMAGES)


def test_an_example_that_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="LeNet300 does not run on the example"):
        find_chains(LeNet300().eval(), torch.zeros(1, 5))


def test_gated_and_pruned_models_are_refused():
    with pytest.raises(ValueError, match=r"fc1.weight is computed .*finish"):
        find_chains(gate(LeNet300()).eval(), torch.zeros(1, 1, 28, 28))
    model = LeNet300().eval()
    prune.random_unstructured(model.fc2, "weight", amount=0.5)
    with pytest.raises(ValueError, match=r"fc2.weight is computed .*prune.remove"):
        find_chains(model, torch.zeros(1, 1, 28, 28))
