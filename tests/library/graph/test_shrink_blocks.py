"""Shrinking through the blocks of residual, mobile and attention networks: all dead channels, heads and units go."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sparsegate.graph import remove_dead_paths, shrink


def trained(model: nn.Module) -> nn.Module:
    """The model with norms as after training."""
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.normal_()
            module.running_var.uniform_(0.5, 2)
            module.weight.data.uniform_(0.5, 1.5)
            module.bias.data.normal_()
    return model.eval().requires_grad_(False)


def assert_same(smaller: nn.Module, model: nn.Module, *inputs: Tensor) -> None:
    got, wanted = smaller(*inputs), model(*inputs)
    assert (got - wanted).abs().max() <= 1e-5 * wanted.abs().max()


class Residual(nn.Module):
    """Two 3x3 convolutions, added to what comes in."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.one, self.norm1 = nn.Conv2d(width, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width)
        self.two, self.norm2 = nn.Conv2d(width, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width)

    def forward(self, x: Tensor) -> Tensor:
        inner = F.relu(self.norm1(self.one(x)))
        return F.relu(x + self.norm2(self.two(inner)))


class Mobile(nn.Module):
    """Expand, depthwise, squeeze and excite, project, add."""

    def __init__(self, width: int, *, excites: bool) -> None:
        super().__init__()
        wide = 3 * width
        self.expand, self.norm1 = nn.Conv2d(width, wide, 1, bias=False), nn.BatchNorm2d(wide)
        self.depth = nn.Conv2d(wide, wide, 3, 1, 1, groups=wide, bias=False)
        self.norm2, self.excites = nn.BatchNorm2d(wide), excites
        self.down, self.up = nn.Conv2d(wide, 4, 1), nn.Conv2d(4, wide, 1)
        self.project, self.norm3 = nn.Conv2d(wide, width, 1, bias=False), nn.BatchNorm2d(width)

    def forward(self, x: Tensor) -> Tensor:
        y = F.hardswish(self.norm1(self.expand(x)))
        y = F.hardswish(self.norm2(self.depth(y)))
        if self.excites:
            y = y * F.hardsigmoid(self.up(F.relu(self.down(F.adaptive_avg_pool2d(y, 1)))))
        return x + self.norm3(self.project(y))


def kill_unread(block: nn.Module, dead: Tensor) -> None:
    (block.two if isinstance(block, Residual) else block.project).weight[:, dead] = 0


def kill_silent(block: nn.Module, dead: Tensor) -> None:
    """Every norm of the channels gives nothing."""
    for norm in (block.norm1, block.norm2)[: 1 if isinstance(block, Residual) else 2]:
        norm.weight[dead], norm.bias[dead] = 0, 0


def inner(block: nn.Module) -> int:
    return len((block.one if isinstance(block, Residual) else block.expand).weight)


@pytest.mark.parametrize("kill", [kill_unread, kill_silent])
def test_residual_and_mobile_blocks_lose_every_dead_inner_channel(kill):
    blocks = [Residual(12), Residual(12), Mobile(12, excites=False), Mobile(12, excites=False)]
    model = trained(nn.Sequential(nn.Conv2d(3, 12, 3, 2, 1), *blocks))
    for block in blocks:
        kill(block, torch.arange(inner(block)) % 3 == 0)
    smaller = shrink(model, torch.randn(2, 3, 16, 16))
    assert [inner(block) for block in smaller[1:]] == [8, 8, 24, 24]
    assert smaller[4].depth.groups == 24
    assert_same(smaller, model, torch.randn(3, 3, 16, 16))
    assert_same(smaller, model, torch.randn(1, 3, 9, 14))


def test_a_gate_on_channels_goes_with_them():
    model = trained(nn.Sequential(nn.Conv2d(3, 12, 3), Mobile(12, excites=True)))
    kill_silent(model[1], torch.arange(36) % 3 == 0)
    smaller = shrink(model, torch.randn(2, 3, 16, 16))
    block = smaller[1]
    assert (block.depth.groups, block.up.out_channels, block.down.in_channels) == (24, 24, 24)
    assert_same(smaller, model, torch.randn(3, 3, 16, 16))


def test_a_channel_that_the_gates_of_others_read_stays():
    model = trained(nn.Sequential(nn.Conv2d(3, 12, 3), Mobile(12, excites=True)))
    kill_unread(model[1], torch.arange(36) % 3 == 0)
    smaller = shrink(model, torch.randn(2, 3, 16, 16))
    assert smaller[1].depth.groups == 36
    assert_same(smaller, model, torch.randn(3, 3, 16, 16))


def test_one_channel_stands_for_all_constants_that_a_padded_convolution_reads():
    model = trained(nn.Sequential(nn.Conv2d(3, 12, 3), Residual(12)))
    block = model[1]
    block.one.weight[::2] = 0
    block.norm1.bias.abs_().add_(1)
    block.norm1.running_mean[::2] = 0
    smaller = shrink(model, torch.randn(2, 3, 16, 16))
    assert inner(smaller[1]) == 7
    assert_same(smaller, model, torch.randn(3, 3, 16, 16))


def test_a_constant_goes_into_the_norm_behind_a_layer_without_bias():
    model = nn.Sequential(
        nn.Conv2d(3, 4, 1),
        nn.ReLU(),
        nn.Conv2d(4, 5, 3, bias=False),
        nn.BatchNorm2d(5),
        nn.ReLU(),
        nn.Conv2d(5, 2, 1),
    )
    trained(model)
    model[0].weight[1], model[0].bias[1] = 0, 2
    before = model[3].running_mean.clone()
    x = torch.randn(2, 3, 8, 8)
    wanted = model(x)
    remove_dead_paths(model, x)
    assert not model[2].weight[:, 1].any()
    assert not torch.equal(model[3].running_mean, before)
    assert torch.allclose(model(x), wanted, atol=1e-5)


class Attention(nn.Module):
    """Eight features for each head; query heads share those of keys and values."""

    def __init__(self, heads: int, shared: int, *, fused: bool) -> None:
        super().__init__()
        self.query, self.key = nn.Linear(32, 8 * heads), nn.Linear(32, 8 * heads // shared)
        self.value, self.out = nn.Linear(32, 8 * heads // shared), nn.Linear(8 * heads, 32)
        self.shared, self.fused = shared, fused

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        split = [one(x).unflatten(-1, (-1, 8)) for one in (self.query, self.key, self.value)]
        q, k, v = (each.transpose(1, 2) for each in split)
        k, v = (self._repeated(each) for each in (k, v))
        if self.fused:
            found = F.scaled_dot_product_attention(q, k, v, mask)
        else:
            found = torch.softmax(q @ k.transpose(-2, -1) * 8**-0.5 + mask, -1) @ v
        return x + self.out(found.transpose(1, 2).flatten(2))

    def _repeated(self, x: Tensor) -> Tensor:
        batch, heads, length, size = x.shape
        wide = x[:, :, None].expand(batch, heads, self.shared, length, size)
        return wide.reshape(batch, -1, length, size)


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("shared", [1, 2])
def test_heads_that_nothing_reads_go(fused, shared):
    model = Attention(6, shared, fused=fused).eval().requires_grad_(False)
    model.out.weight[:, 16:32] = 0
    given = torch.randn(2, 5, 32), torch.zeros(2, 1, 5, 5)
    smaller = shrink(model, given)
    sizes = [layer.out_features for layer in (smaller.query, smaller.key, smaller.value)]
    assert sizes == [32, 32 // shared, 32 // shared]
    assert smaller.out.in_features == 32
    assert_same(smaller, model, torch.randn(3, 9, 32), torch.randn(3, 1, 9, 9))


def test_a_head_whose_values_are_constant_becomes_a_bias():
    model = Attention(4, 1, fused=True).eval().requires_grad_(False)
    model.value.weight[8:16] = 0
    smaller = shrink(model, (torch.randn(2, 5, 32), torch.zeros(2, 1, 5, 5)))
    assert (smaller.query.out_features, smaller.out.in_features) == (24, 24)
    assert not torch.equal(smaller.out.bias, model.out.bias)
    assert_same(smaller, model, torch.randn(3, 9, 32), torch.zeros(3, 1, 9, 9))


def test_hidden_units_behind_a_gate_go_where_either_side_is_dead():
    class Gated(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gate, self.up = nn.Linear(8, 12, bias=False), nn.Linear(8, 12, bias=False)
            self.down = nn.Linear(12, 8)

        def forward(self, x: Tensor) -> Tensor:
            return x + self.down(F.silu(self.gate(x)) * self.up(x))

    model = Gated().eval().requires_grad_(False)
    model.gate.weight[::4], model.up.weight[1::4] = 0, 0
    smaller = shrink(model, torch.randn(2, 3, 8))
    assert [layer.weight.shape for layer in (smaller.gate, smaller.up)] == [(6, 8), (6, 8)]
    assert_same(smaller, model, torch.randn(4, 5, 8))


def test_units_whose_width_a_forward_names_stay_and_the_others_go():
    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two, self.three = nn.Linear(4, 6), nn.Linear(6, 6), nn.Linear(6, 2)

        def forward(self, x: Tensor) -> Tensor:
            return self.three(F.relu(self.two(F.relu(self.one(x)).view(-1, 6))))

    model = Both().eval().requires_grad_(False)
    model.one.weight[0], model.two.weight[1] = 0, 0
    with pytest.warns(UserWarning, match="one keep their dead units: the forward of Both fails"):
        smaller = shrink(model, torch.zeros(2, 4))
    assert (smaller.one.out_features, smaller.two.out_features) == (6, 5)
    assert_same(smaller, model, torch.randn(3, 4))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["Bert", "Llama"])
def test_models_of_the_transformers_library_lose_heads_and_hidden_units(kind):
    transformers = pytest.importorskip("transformers")
    sizes = {
        "vocab_size": 99,
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 48,
    }
    config = getattr(transformers, f"{kind}Config")(**sizes, use_cache=False)
    model = getattr(transformers, f"{kind}Model")(config).eval().requires_grad_(False)
    for name, module in model.named_modules():
        if name.endswith(("attention.output.dense", "o_proj")):
            module.weight[:, 8:16] = 0
        if name.endswith(("intermediate.dense", "gate_proj")):
            module.weight[::3] = 0
    example = {"input_ids": torch.randint(0, 99, (2, 7))}
    smaller = shrink(model, example)
    widths = {layer.out_features for layer in smaller.modules() if isinstance(layer, nn.Linear)}
    assert widths == {24, 32}
    got, wanted = (each(**example).last_hidden_state for each in (smaller, model))
    assert (got - wanted).abs().max() <= 1e-5 * wanted.abs().max()
