"""A network without its dead paths computes what it did before, and has none left."""

import copy
import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.drawn import examples
from torch import Tensor, nn
from torch.nn import functional as F

from sparsegate.graph.deadpaths import remove_dead_paths
from sparsegate.graph.shrink import shrink
from sparsegate_lab.models import LeNet5


def set_(layer: nn.Module, weight, bias=None) -> nn.Module:
    """Gives a layer these numbers, a number for every weight of a convolution's kernel."""
    values = torch.tensor(weight, dtype=layer.weight.dtype)
    layer.weight.data.copy_(values.reshape(*values.shape, *[1] * (layer.weight.ndim - values.ndim)))
    if bias is not None:
        layer.bias.data.copy_(torch.tensor(bias))
    return layer


def linear(weight, bias) -> nn.Linear:
    return set_(nn.Linear(len(weight[0]), len(weight)), weight, bias)


def masked_(model: nn.Module, keep: float, seed: int = 0) -> nn.Module:
    generator = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        if parameter.ndim >= 2:
            parameter.data *= torch.rand(parameter.shape, generator=generator) < keep
    return model


def assert_removal_changes_nothing(model: nn.Module, example: Tensor, num_inputs: int = 3):
    """Removes, checks that other inputs give the same, and returns what was removed."""
    model.eval()
    inputs = torch.randn(num_inputs, *example.shape[1:], dtype=example.dtype)
    wanted = model(inputs)
    removed = remove_dead_paths(model, example)
    assert (model(inputs) - wanted).abs().max() <= 1e-6 * wanted.abs().max()
    return removed


# --- toys whose dead units can be named


def test_a_unit_that_nobody_reads_loses_its_weights_and_its_bias():
    model = nn.Sequential(
        linear([[1, 2], [3, 4], [5, 6]], [7, 8, 9]), nn.ReLU(), linear([[1, 0, 1]], [0])
    )
    removed = remove_dead_paths(model, torch.zeros(1, 2))
    assert model[0].weight.tolist() == [[1, 2], [0, 0], [5, 6]]
    assert model[0].bias.tolist() == [7, 0, 9]
    assert removed.weights == {"0.weight": 2, "2.weight": 0}
    assert removed.biases == {"0.bias": 1, "2.bias": 0}
    assert (removed.num_weights, removed.num_biases, removed.left) == (2, 1, {"2": "output"})


def test_a_unit_that_reads_nothing_goes_into_the_next_bias():
    model = nn.Sequential(
        linear([[1, 2], [0, 0], [0, 0]], [7, 8, -9]), nn.ReLU(), linear([[1, 3, 5]], [0.5])
    )
    removed = remove_dead_paths(model, torch.zeros(1, 2))
    assert model[2].bias.tolist() == [0.5 + 3 * 8]  # and 5 * relu(-9) = 0
    assert model[2].weight.tolist() == [[1, 0, 0]]
    assert model[0].bias.tolist() == [7, 0, 0]
    assert (removed.num_weights, removed.num_biases) == (2, 2)


def test_a_death_spreads_to_both_sides():
    # 2 -> 2 -> 2 -> 1: the middle's unit 1 reads only unit 1 before it, which reads nothing. So it
    # is the constant 6 = 2 + 4 * 1, for the last bias. Nobody reads the middle's unit 0, so all
    # that is left is the last bias.
    model = nn.Sequential(
        linear([[1, 1], [0, 0]], [1, 1]),
        nn.ReLU(),
        linear([[5, 0], [0, 4]], [2, 2]),
        nn.ReLU(),
        linear([[0, 1]], [3]),
    )
    removed = assert_removal_changes_nothing(model, torch.zeros(1, 2))
    assert [parameter.count_nonzero().item() for parameter in model.parameters()] == [
        0,
        0,
        0,
        0,
        0,
        1,
    ]
    assert model[4].bias.tolist() == [3 + 2 + 4]
    assert (removed.num_weights, removed.num_biases) == (5, 4)


def test_an_input_that_nobody_reads_changes_nothing():
    model = nn.Sequential(linear([[1, 0], [2, 0]], [1, 1]), nn.ReLU(), linear([[1, 1]], [0]))
    assert remove_dead_paths(model, torch.zeros(1, 2)).num_weights == 0


def test_a_channel_is_a_block_of_features_after_flattening():
    model = nn.Sequential(nn.Conv2d(1, 2, 1), nn.Flatten(), nn.Linear(8, 1))
    set_(model[0], [[2], [0]], [0, 3])
    set_(model[2], [[1, 0, 0, 0, 1, 10, 100, 1000]], [0])
    remove_dead_paths(model, torch.zeros(1, 1, 2, 2))
    assert model[2].weight.tolist() == [[1, 0, 0, 0, 0, 0, 0, 0]]
    assert model[2].bias.tolist() == [3333]
    assert model[0].weight.flatten().tolist() == [2, 0]
    set_(model[2], [[0, 0, 0, 0, 0, 0, 0, 5]], [0])
    remove_dead_paths(model, torch.zeros(1, 1, 2, 2))
    assert model[0].weight.flatten().tolist() == [0, 0]


def test_two_readers_must_both_have_left_a_unit():
    class Fork(nn.Module):
        def __init__(self):
            super().__init__()
            self.trunk = linear([[1], [2], [0]], [1, 1, 5])
            self.one, self.two = linear([[0, 0, 1]], [0]), linear([[1, 0, 2]], [0])

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            hidden = F.relu(self.trunk(x))
            return self.one(hidden), self.two(torch.tanh(hidden))

    model = Fork()
    remove_dead_paths(model, torch.zeros(1, 1))
    assert model.trunk.weight.tolist() == [[1], [0], [0]]
    assert model.one.bias.tolist() == [5]
    assert model.two.bias.item() == pytest.approx(2 * torch.tanh(torch.tensor(5.0)).item())


# --- batch normalization


def normed(scale: list[float], shift: list[float]) -> nn.Sequential:
    """Two units, the second constant 1.

    The norm makes (1 - 3) / 2 = -1 times its scale plus its shift of it.
    """
    model = nn.Sequential(
        linear([[1], [0]], [0, 1]), nn.BatchNorm1d(2, eps=0), nn.ReLU(), linear([[1, 10]], [0])
    )
    set_(model[1], scale, shift)
    model[1].running_mean.fill_(3)
    model[1].running_var.fill_(4)
    return model


def test_a_constant_goes_through_the_running_statistics():
    model = normed([1, 2], [0, 5])
    removed = assert_removal_changes_nothing(model, torch.zeros(2, 1))
    assert model[3].bias.tolist() == [10 * (2 * -1 + 5)]
    assert model[1].weight.tolist() == [1, 0]
    assert model[1].bias.tolist() == [0, 0]
    assert removed.biases == {"0.bias": 1, "1.weight": 1, "1.bias": 1, "3.bias": 0}


def test_a_scale_of_zero_makes_a_unit_constant_whatever_it_reads():
    model = normed([0, 1], [7, 0])
    assert_removal_changes_nothing(model, torch.zeros(2, 1))
    assert model[3].bias.tolist() == [7]
    assert model[0].weight.tolist() == [[0], [0]]


def test_modes_and_running_statistics_stay():
    model = normed([1, 2], [0, 5]).train()
    model[2].eval()
    remove_dead_paths(model, torch.zeros(2, 1))
    assert [module.training for module in model.modules()] == [True, True, True, False, True]
    assert model[1].running_mean.tolist() == [3, 3]
    assert model[1].num_batches_tracked == 0


def test_batch_statistics_are_left_alone():
    model = nn.Sequential(
        nn.Linear(2, 3), nn.BatchNorm1d(3, track_running_stats=False), nn.Linear(3, 1)
    ).eval()
    masked_(model, 0)
    assert remove_dead_paths(model, torch.randn(4, 2)).left["0"] == "batch_norm"


def test_a_norm_over_flattened_features_counts_each():
    model = nn.Sequential(
        nn.Conv1d(1, 2, 1), nn.Flatten(), nn.BatchNorm1d(6), nn.Linear(6, 1)
    ).eval()
    model[2].weight.data[1] = 0  # one of the three features of channel 0
    model[2].bias.data[1] = 5
    set_(model[3], [[1, 1, 1, 0, 0, 0]], [0])
    assert_removal_changes_nothing(model, torch.zeros(2, 1, 3))
    assert model[3].weight.tolist() == [[1, 0, 1, 0, 0, 0]]
    assert model[3].bias.tolist() == [5]
    assert model[2].weight.tolist() == [1, 0, 1, 0, 0, 0]
    assert model[0].weight[:, 0, 0].count_nonzero() == 1


# --- borders


def padded(constant: float, **settings) -> nn.Sequential:
    model = nn.Sequential(nn.Conv2d(1, 2, 1), nn.ReLU(), nn.Conv2d(2, 1, 3, **settings))
    set_(model[0], [[1], [0]], [0, constant])
    return model


@pytest.mark.parametrize(
    "settings",
    [{"padding": 1}, {"padding": (0, 1)}, {"padding": "same"}],
    ids=lambda each: str(each["padding"]),
)
def test_a_constant_is_not_constant_at_a_padded_border(settings):
    model = padded(2, **settings)
    assert assert_removal_changes_nothing(model, torch.zeros(1, 1, 5, 5)).num_weights == 0
    assert model[2].weight[0, 1].count_nonzero() == 9
    assert (
        assert_removal_changes_nothing(padded(-2, **settings), torch.zeros(1, 1, 5, 5)).num_weights
        == 9
    )


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"padding": "valid"},
        {"padding": 1, "padding_mode": "circular"},
        {"stride": 2, "dilation": 2},
    ],
)
def test_other_borders_take_constants(settings):
    model = padded(2, **settings)
    assert assert_removal_changes_nothing(model, torch.zeros(1, 1, 7, 7)).num_weights == 9


def test_an_average_over_padding_is_not_constant():
    model = nn.Sequential(nn.Conv2d(1, 2, 1), nn.AvgPool2d(3, 2, padding=1), nn.Conv2d(2, 1, 2))
    set_(model[0], [[1], [0]], [0, 3])
    uncounted = copy.deepcopy(model)
    uncounted[1].count_include_pad = False
    assert assert_removal_changes_nothing(model, torch.zeros(1, 1, 5, 5)).num_weights == 0
    assert assert_removal_changes_nothing(uncounted, torch.zeros(1, 1, 5, 5)).num_weights == 4


@pytest.mark.parametrize(
    "ending", [[nn.Conv2d(2, 1, 1)], [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2, 1)]]
)
def test_an_example_too_small_to_have_an_inside_does_not_hide_the_border(ending):
    model = nn.Sequential(nn.Conv2d(1, 2, 1), nn.AvgPool2d(3, 1, padding=1), *ending)
    set_(model[0], [[1], [0]], [0, 3])
    inputs = torch.randn(1, 1, 7, 7)
    wanted = model(inputs)
    remove_dead_paths(model, torch.zeros(1, 1, 2, 2))
    assert torch.equal(model(inputs), wanted)


@pytest.mark.parametrize(
    "pool", [nn.MaxPool2d(2, padding=1), nn.AdaptiveAvgPool2d(4), nn.AdaptiveMaxPool2d(2)]
)
def test_other_pools_keep_constants(pool):
    model = nn.Sequential(nn.Conv2d(1, 2, 1), pool, nn.Conv2d(2, 1, 2))
    set_(model[0], [[1], [0]], [0, 0.3])  # the average of nine times 0.3 is not 0.3 in float32
    assert assert_removal_changes_nothing(model, torch.zeros(1, 1, 7, 7)).num_weights == 4


def test_a_reader_without_a_bias_takes_only_zeros():
    model = nn.Sequential(
        linear([[1], [0], [0]], [0, 1, -1]), nn.ReLU(), nn.Linear(3, 1, bias=False)
    )
    set_(model[2], [[1, 2, 3]])
    assert_removal_changes_nothing(model, torch.zeros(1, 1))
    assert model[2].weight.tolist() == [[1, 2, 0]]
    assert model[0].bias.tolist() == [0, 1, 0]


def test_what_is_not_a_number_stays():
    model = nn.Sequential(
        linear([[1], [0]], [0, float("inf")]), nn.Sigmoid(), linear([[1, 2]], [0])
    )
    assert remove_dead_paths(model, torch.zeros(1, 1)).num_weights == 1  # sigmoid(inf) = 1
    model = nn.Sequential(linear([[1], [0]], [0, float("inf")]), nn.Linear(2, 1), nn.Sigmoid())
    set_(model[1], [[1, 2]], [0])
    assert remove_dead_paths(model, torch.zeros(1, 1)).num_weights == 0


# --- groups and dimensions


def test_groups_read_their_own_channels():
    model = nn.Sequential(nn.Conv1d(1, 4, 1), nn.ReLU(), nn.Conv1d(4, 4, 1, groups=2))
    set_(model[0], [[1], [0], [0], [1]], [1, 2, 3, 4])
    set_(
        model[2], [[5, 6], [5, 7], [8, 0], [9, 0]], [0, 0, 0, 0]
    )  # the last two read channels 2 and 3
    assert_removal_changes_nothing(model, torch.zeros(1, 1, 3))
    assert model[2].weight[:, :, 0].tolist() == [[5, 0], [5, 0], [0, 0], [0, 0]]
    assert model[2].bias.tolist() == [6 * 2, 7 * 2, 8 * 3, 9 * 3]
    assert model[0].weight.flatten().tolist() == [1, 0, 0, 0]


def test_a_depthwise_convolution_passes_death_on():
    model = nn.Sequential(nn.Conv2d(1, 3, 1), nn.Conv2d(3, 3, 3, groups=3), nn.Conv2d(3, 1, 1))
    model[2].weight.data[:, 1] = 0
    removed = assert_removal_changes_nothing(model, torch.zeros(1, 1, 5, 5))
    assert removed.weights == {"0.weight": 1, "1.weight": 9, "2.weight": 0}


@pytest.mark.parametrize("size", [1, 2, 3])
def test_all_dimensions_are_known(size):
    conv, norm, pool = (getattr(nn, f"{kind}{size}d") for kind in ("Conv", "BatchNorm", "MaxPool"))
    model = nn.Sequential(
        conv(2, 6, 2), norm(6), nn.ReLU(), pool(2), conv(6, 4, 1), nn.Flatten(), nn.Linear(4, 2)
    )
    masked_(model, 0.2)
    removed = assert_removal_changes_nothing(model, torch.zeros(1, 2, *[4] * size))
    assert removed.weights["0.weight"] > 0
    assert list(removed.left) == ["6"]


def test_an_example_need_not_be_a_batch():
    model = nn.Sequential(nn.Conv1d(1, 2, 1), nn.ReLU(), nn.Flatten(0), nn.Linear(6, 1))
    set_(model[0], [[1], [0]], [0, 3])
    assert remove_dead_paths(model, torch.zeros(1, 3)).num_weights == 3


def test_memory_in_another_order_is_no_obstacle():
    model = masked_(nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 4, 3)), 0.05)
    other = copy.deepcopy(model).to(memory_format=torch.channels_last)
    example = torch.zeros(1, 3, 6, 6)
    assert remove_dead_paths(model, example) == assert_removal_changes_nothing(other, example)
    assert torch.equal(model[0].weight, other[0].weight)


def test_units_inside_a_residual_block_and_on_its_skip_connection_die():
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.stem, self.one, self.two, self.head = (nn.Linear(4, 4) for _ in range(4))

        def forward(self, x: Tensor) -> Tensor:
            x = self.stem(x)
            return self.head(x + self.two(F.relu(self.one(x))))

    model = Block()
    model.one.weight.data[2] = 0
    model.one.weight.data[:, 1] = 0  # unit 1 of the sum is read by nothing
    model.head.weight.data[:, 1] = 0
    model.stem.weight.data[3] = 0  # unit 3 of the sum is constant in both summands
    model.two.weight.data[3] = 0
    removed = assert_removal_changes_nothing(model, torch.zeros(1, 4))
    assert removed.weights == {
        "stem.weight": 4,
        "one.weight": 3,
        "two.weight": 3 + 3,
        "head.weight": 4,
    }
    assert {name: removed.biases[f"{name}.bias"] for name in ("stem", "two", "one")} == {
        "stem": 2,
        "two": 2,
        "one": 1,
    }
    assert removed.left == {"head": "output"}


# --- models of all kinds


class Ending(nn.Module):
    """Three layers, and something that a function does at the end."""

    def __init__(self, way) -> None:
        super().__init__()
        self.one, self.two, self.three = (
            linear([[1], [0]], [0, 3]),
            nn.Linear(2, 4),
            nn.Linear(4, 1),
        )
        self.way = way

    def forward(self, x: Tensor) -> object:
        return self.way(self, self.three(self.two(self.one(x))))


@pytest.mark.parametrize("wrapped", [lambda x: x, lambda x: (1, [x]), lambda x: {"out": x}])
def test_a_forward_with_a_secret_is_refused_and_nothing_changes(wrapped):
    def count_calls(model, x):
        model.calls = getattr(model, "calls", 0) + 1
        return wrapped(x + model.calls)

    model = Ending(count_calls)
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(
        ValueError, match=r"Ending would compute something else .* so nothing was changed"
    ):
        remove_dead_paths(model, torch.zeros(1, 1))
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())


def test_weights_that_the_forward_reads_elsewhere_stay():
    model = Ending(lambda model, x: x + sum(parameter.sum() for parameter in model.parameters()))
    assert assert_removal_changes_nothing(model, torch.zeros(1, 1)).num_weights == 0
    held = model.one.weight.detach()
    model.way = lambda model, x: x + held.sum()
    removed = assert_removal_changes_nothing(model, torch.zeros(1, 1))
    assert removed.weights["one.weight"] == 0
    assert removed.left["one"] == "shared or empty"


def test_random_numbers_in_eval_are_no_obstacle_and_not_used_up():
    model = Ending(lambda model, x: F.dropout(x.expand(-1, 50)))
    state = torch.get_rng_state()
    assert remove_dead_paths(model, torch.ones(1, 1)).num_weights == 4
    assert torch.equal(torch.get_rng_state(), state)


def test_models_may_take_and_give_several_tensors():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.two = nn.Linear(2, 3), nn.Linear(3, 1)

        def forward(self, x: Tensor, y: Tensor) -> dict[str, list[Tensor]]:
            return {"both": [self.two(self.one(x)), y]}

    model = Two()
    model.one.weight.data[1] = 0
    assert remove_dead_paths(model, (torch.zeros(1, 2), torch.zeros(3))).num_weights == 1


# --- whole networks


@pytest.mark.parametrize("keep", [0.01, 0.003])
@pytest.mark.parametrize("seed", range(3))
def test_a_sparse_lenet5_loses_its_dead_paths(keep, seed):
    torch.manual_seed(seed)
    model = masked_(LeNet5(), keep, seed)
    before = {
        name: parameter.count_nonzero().item() for name, parameter in model.named_parameters()
    }
    removed = assert_removal_changes_nothing(model, torch.zeros(1, 1, 28, 28), num_inputs=20)
    after = {name: parameter.count_nonzero().item() for name, parameter in model.named_parameters()}
    assert {name: before[name] - after[name] for name in before} == {
        **removed.weights,
        **removed.biases,
    }
    assert removed.biases["fc1.bias"] > 300
    again = copy.deepcopy(model.state_dict())
    assert remove_dead_paths(model, torch.zeros(1, 1, 28, 28)).num_biases == 0
    assert all(torch.equal(again[name], tensor) for name, tensor in model.state_dict().items())
    _assert_no_dead_path(model.fc1, model.fc2)


def _assert_no_dead_path(layer: nn.Linear, reader: nn.Linear) -> None:
    """Every unit reads and is read, or is nothing at all."""
    reads, is_read = layer.weight.any(1), reader.weight.any(0)
    assert torch.equal(reads, is_read)
    assert not layer.bias[~reads].any()


@settings(max_examples=examples(40), deadline=None)
@given(
    st.lists(st.integers(1, 6), min_size=2, max_size=6),
    st.sampled_from([0.05, 0.2, 0.5]),
    st.integers(0, 2**32),
)
def test_no_dead_path_is_left_in_random_rectifier_networks(widths, keep, seed):
    torch.manual_seed(seed)
    layers = [nn.Linear(a, b) for a, b in itertools.pairwise(widths)]
    model = masked_(
        nn.Sequential(*(each for layer in layers for each in (layer, nn.ReLU()))), keep, seed
    )
    assert_removal_changes_nothing(model.double(), torch.zeros(1, widths[0]).double())
    for layer, reader in itertools.pairwise(layers):
        _assert_no_dead_path(layer, reader)
    smaller = shrink(model, torch.zeros(1, widths[0]).double())
    widths_left = [max(1, int(layer.weight.any(1).sum())) for layer in layers[:-1]]
    assert [layer.out_features for layer in smaller if isinstance(layer, nn.Linear)][
        :-1
    ] == widths_left


ACTIVATIONS = [
    nn.Identity(),
    nn.ReLU(),
    nn.ReLU(inplace=True),
    nn.Sigmoid(),
    nn.LeakyReLU(),
    nn.GELU(),
    nn.Dropout(),
]
POOLS = [
    nn.MaxPool2d(3, 1, 1),
    nn.MaxPool2d(2),
    nn.AvgPool2d(3, 1, 1),
    nn.AdaptiveAvgPool2d(2),
    nn.AdaptiveMaxPool2d(3),
]


@st.composite
def chains(draw: st.DrawFn) -> nn.Sequential:
    """Convolutions on 2 x 6 x 6 images, then fully connected layers; with many zeros."""
    layers: list[nn.Module] = []
    channels = 2
    for number in range(draw(st.integers(1, 3))):
        width, groups = draw(st.sampled_from([(1, 1), (3, 1), (4, 2), (4, 2), (4, 4), (6, 1)]))
        groups = groups if channels % groups == 0 else 1
        mode = draw(st.sampled_from(["zeros", "zeros", "circular"]))
        kernel, padding = draw(st.sampled_from([(1, 0), (1, 1), (2, 1), (3, 1)]))
        bias = draw(st.integers(0, 3)) > 0
        layers.append(
            nn.Conv2d(
                channels,
                width,
                kernel,
                padding=padding,
                padding_mode=mode,
                groups=groups,
                bias=bias,
            )
        )
        channels = width
        layers += [nn.BatchNorm2d(channels)] if draw(st.booleans()) else []
        layers.append(draw(st.sampled_from(ACTIVATIONS)))
        # A third pool would find nothing left: 6, 3, 1.
        layers += [draw(st.sampled_from(POOLS))] if number < 2 and draw(st.booleans()) else []
    layers += [nn.AdaptiveAvgPool2d(2), nn.Flatten()]
    features = 4 * channels
    for width in draw(st.lists(st.integers(1, 5), max_size=2)):
        layers += [nn.Linear(features, width), draw(st.sampled_from(ACTIVATIONS))]
        features = width
        layers += [nn.BatchNorm1d(width)] if draw(st.booleans()) else []
    return nn.Sequential(*layers, nn.Linear(features, 2))


def _randomise_(model: nn.Module, keep: float, seed: int) -> nn.Module:
    """Random numbers everywhere; weights, biases and scales are zero where a mask says so."""
    torch.manual_seed(seed)
    model.double().eval()
    for name, tensor in model.state_dict().items():
        if tensor.is_floating_point():
            tensor.copy_(
                torch.rand_like(tensor) + 0.5 if "running_var" in name else torch.randn_like(tensor)
            )
    for parameter in model.parameters():
        rows = torch.rand(len(parameter)) < (keep + 1) / 2
        parameter.data *= (torch.rand(parameter.shape) < keep) & rows.view(
            -1, *[1] * (parameter.ndim - 1)
        )
    return model


@settings(max_examples=examples(40), deadline=None)
@given(chains(), st.sampled_from([0.02, 0.1, 0.3, 0.8]), st.integers(0, 2**32))
def test_a_random_chain_computes_the_same_without_its_dead_paths_and_units(model, keep, seed):
    model = copy.deepcopy(_randomise_(model, keep, seed))
    example, inputs = torch.zeros(2, 2, 6, 6).double(), torch.randn(3, 2, 6, 6).double()
    wanted = model(inputs)
    tolerance = 1e-6 * wanted.abs().max()
    smaller = shrink(model, example)
    assert (smaller(inputs) - wanted).abs().max() <= tolerance
    remove_dead_paths(model, example)
    assert (model(inputs) - wanted).abs().max() <= tolerance
    once = copy.deepcopy(model.state_dict())
    assert remove_dead_paths(model, example).num_weights == 0
    assert all(torch.equal(once[name], tensor) for name, tensor in model.state_dict().items())
