"""Networks of the engine against torch in float64."""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sparsegate.runtime.planned import Planned
from sparsegate_runtime.engine import UnplannedError


class Does(nn.Module):
    """A model whose forward is a function of its modules and the input."""

    def __init__(self, forward, **modules):
        super().__init__()
        for name, module in modules.items():
            setattr(self, name, module)
        self.run = forward

    def forward(self, x):
        return self.run(self, x)


def bn(channels, dims=2):
    norm = (nn.BatchNorm1d if dims == 1 else nn.BatchNorm2d)(channels)
    with torch.no_grad():
        norm.running_mean.normal_()
        norm.running_var.uniform_(0.5, 2)
        norm.weight.normal_()
        norm.bias.normal_()
    return norm


def attend(m, x, **settings):
    q, k, v = (layer(x).unflatten(-1, (2, -1)).transpose(1, 2) for layer in (m.one, m.two, m.three))
    return F.scaled_dot_product_attention(q, k, v, **settings).transpose(1, 2).flatten(2)


def projections(size=16):
    return {name: nn.Linear(size, size) for name in ("one", "two", "three")}


IMAGE = (3, 11, 9)
CASES = {
    "linear": (nn.Linear(20, 7), (20,)),
    "tokens": (nn.Sequential(nn.Linear(20, 70), nn.GELU(), nn.Linear(70, 20)), (9, 20)),
    "many tokens": (nn.Sequential(nn.Linear(20, 70), nn.Tanh(), nn.Linear(70, 20)), (300, 20)),
    "residual": (
        Does(lambda m, x: m.norm(x + m.b(F.gelu(m.a(x)))), a=nn.Linear(16, 64), b=nn.Linear(64, 16), norm=nn.LayerNorm(16)),
        (10, 16),
    ),
    "swiglu": (
        Does(lambda m, x: m.c(F.silu(m.a(x)) * m.b(x)), a=nn.Linear(16, 48), b=nn.Linear(16, 48), c=nn.Linear(48, 16)),
        (10, 16),
    ),
    "conv": (nn.Conv2d(3, 5, 3, padding=1), IMAGE),
    "valid": (nn.Sequential(nn.Conv2d(3, 5, 3), nn.ReLU(), nn.Conv2d(5, 4, 3)), IMAGE),
    "strided": (nn.Sequential(nn.Conv2d(3, 5, 3, 2, 1), bn(5), nn.Hardswish(), nn.Conv2d(5, 4, 3, 2)), IMAGE),
    "stride 3": (nn.Conv2d(3, 5, 5, 3, 2), IMAGE),
    "dilated": (nn.Conv2d(3, 5, 3, padding=2, dilation=2), IMAGE),
    "depthwise": (
        nn.Sequential(nn.Conv2d(3, 8, 1), nn.ReLU6(), nn.Conv2d(8, 8, 5, 1, 2, groups=8), nn.SiLU(), nn.Conv2d(8, 4, 1)),
        IMAGE,
    ),
    "depthwise strided": (nn.Sequential(nn.Conv2d(3, 8, 1), nn.Conv2d(8, 8, 3, 2, 1, groups=8)), IMAGE),
    "bounded": (nn.Sequential(nn.Conv2d(3, 5, 3, padding=1), nn.Hardtanh(-0.3, 0.2), nn.Conv2d(5, 4, 3, padding=1), nn.ReLU6()), IMAGE),
    "grouped": (nn.Conv2d(6, 8, 3, padding=1, groups=2), (6, 7, 5)),
    "grows": (nn.Sequential(nn.Conv2d(3, 4, 2, padding=2), nn.Conv2d(4, 3, 3, padding=1)), IMAGE),
    "same": (nn.Conv2d(3, 4, (2, 4), padding="same"), IMAGE),
    "padded": (Does(lambda m, x: m.conv(F.pad(x, (0, 1, 2, 1))), conv=nn.Conv2d(3, 4, 3, 2)), IMAGE),
    "residual block": (
        Does(
            lambda m, x: F.relu(m.b(F.relu(m.a(m.stem(x)))) + m.stem(x)),
            stem=nn.Conv2d(3, 6, 1),
            a=nn.Conv2d(6, 6, 3, padding=1),
            b=nn.Conv2d(6, 6, 3, padding=1),
        ),
        IMAGE,
    ),
    "excite": (
        Does(
            lambda m, x: m.out((y := m.stem(x)) * F.hardsigmoid(m.up(F.relu(m.down(F.adaptive_avg_pool2d(y, 1)))))),
            stem=nn.Conv2d(3, 8, 3, padding=1), down=nn.Conv2d(8, 2, 1), up=nn.Conv2d(2, 8, 1), out=nn.Conv2d(8, 4, 3, padding=1),
        ),
        IMAGE,
    ),
    "convnext": (
        Does(
            lambda m, x: (y := m.stem(x)) + m.scale * m.b(F.gelu(m.a(m.norm(m.depth(y).permute(0, 2, 3, 1))))).permute(0, 3, 1, 2),
            stem=nn.Conv2d(3, 8, 2, 2), depth=nn.Conv2d(8, 8, 7, padding=3, groups=8), norm=nn.LayerNorm(8),
            a=nn.Linear(8, 32), b=nn.Linear(32, 8), scale=nn.Parameter(torch.rand(8, 1, 1)),
        ),
        (3, 12, 14),
    ),
    "transposed": (nn.Sequential(nn.ConvTranspose2d(3, 5, 2, 2), nn.ReLU(), nn.Conv2d(5, 2, 3, padding=1)), IMAGE),
    "transposed 3": (nn.ConvTranspose2d(4, 6, 3, 2, 1, output_padding=1, groups=2), (4, 5, 6)),
    "transposed 4": (nn.ConvTranspose2d(4, 6, 4, 2, 1, dilation=2), (4, 5, 6)),
    "dense net": (
        Does(lambda m, x: m.b(torch.cat([x, F.relu(m.a(x))], 1)), a=nn.Conv2d(3, 4, 3, padding=1), b=nn.Conv2d(7, 5, 3, padding=1)),
        IMAGE,
    ),
    "max pool": (nn.Sequential(nn.Conv2d(3, 5, 3), nn.MaxPool2d(3, 2, 1), nn.Conv2d(5, 4, 3, padding=1)), IMAGE),
    "mean pool": (nn.Sequential(nn.Conv2d(3, 5, 3), nn.AvgPool2d(3, 2, 1), nn.AvgPool2d(2, 1, 1, count_include_pad=False)), IMAGE),
    "head": (nn.Sequential(nn.Conv2d(3, 5, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(5, 4)), IMAGE),
    "flat": (nn.Sequential(nn.Conv2d(3, 5, 3, padding=1), nn.Flatten(), nn.Linear(5 * 99, 4)), IMAGE),
    "adaptive": (nn.Sequential(nn.Conv2d(3, 4, 1), nn.AdaptiveAvgPool2d((2, 3))), (3, 8, 9)),
    "bilinear": (nn.Sequential(nn.Conv2d(3, 4, 3), nn.Upsample(scale_factor=2.0, mode="bilinear")), IMAGE),
    "corners": (nn.Sequential(nn.Conv2d(3, 4, 3), nn.Upsample((13, 17), mode="bilinear", align_corners=True)), IMAGE),
    "nearest": (nn.Sequential(nn.Conv2d(3, 4, 3), nn.Upsample((13, 17))), IMAGE),
    "shuffle": (nn.Sequential(nn.Conv2d(3, 8, 3), nn.PixelShuffle(2), nn.Conv2d(2, 3, 3, padding=1)), IMAGE),
    "group norm": (nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.GroupNorm(4, 8), nn.SiLU(), nn.Conv2d(8, 3, 3, padding=1)), IMAGE),
    "instance norm": (nn.Sequential(nn.Conv2d(3, 8, 3), nn.InstanceNorm2d(8, affine=True)), IMAGE),
    "norm first": (nn.Sequential(bn(3), nn.ReLU(), nn.Conv2d(3, 4, 3, padding=1)), IMAGE),
    "sequence": (
        nn.Sequential(nn.Conv1d(5, 5, 5, padding=4, dilation=2, groups=5), nn.Conv1d(5, 8, 1), bn(8, 1), nn.ReLU(), nn.AvgPool1d(2)),
        (5, 31),
    ),
    "attention": (Does(attend, **projections()), (7, 16)),
    "causal": (Does(lambda m, x: attend(m, x, is_causal=True), **projections()), (37, 16)),
    "masked": (
        Does(lambda m, x: attend(m, x, attn_mask=m.mask.to(x.dtype)), **projections(), mask=nn.Parameter(torch.randn(7, 7))),
        (7, 16),
    ),
    "by hand": (
        Does(
            lambda m, x: torch.softmax(m.one(x) @ m.two(x).transpose(1, 2) / 4, -1) @ m.three(x), **projections()
        ),
        (7, 16),
    ),
    "encoder": (nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, norm_first=True), (6, 16)),
    "multihead": (Does(lambda m, x: m.a(x, x, x, need_weights=False)[0], a=nn.MultiheadAttention(16, 4, batch_first=True)), (6, 16)),
    "patches": (
        Does(
            lambda m, x: m.fc(torch.cat([m.token.expand(x.shape[0], -1, -1), m.conv(x).flatten(2).transpose(1, 2)], 1))[:, 0],
            conv=nn.Conv2d(3, 8, 4, 4), fc=nn.Linear(8, 5), token=nn.Parameter(torch.randn(1, 1, 8)),
        ),
        (3, 8, 12),
    ),
    "rms": (Does(lambda m, x: m.fc(x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * m.w), fc=nn.Linear(8, 3), w=nn.Parameter(torch.rand(8))), (5, 8)),
    "split": (Does(lambda m, x: torch.cat([a * b for a, b in zip(*(m.fc(x).chunk(4, -1)[i::2] for i in (0, 1)), strict=True)], -1), fc=nn.Linear(8, 16)), (5, 8)),
    "roll": (Does(lambda m, x: m.fc(torch.roll(x, (1, -2), (1, 2))), fc=nn.Linear(6, 3)), (5, 4, 6)),
    "stack": (Does(lambda m, x: torch.stack([m.fc(x), x], 1).sum((1, 3)), fc=nn.Linear(6, 6)), (5, 6)),
    "maximum": (Does(lambda m, x: m.fc(x).amax(1) + torch.maximum(x, 0.3 - x).amin(1), fc=nn.Linear(6, 6)), (5, 6)),
    "by torch": (Does(lambda m, x: m.b(torch.cumsum(m.a(x), 1)), a=nn.Linear(6, 6), b=nn.Linear(6, 4)), (5, 6)),
    "functions": (
        Does(
            lambda m, x: sum(
                f(m.fc(x))
                for f in (F.elu, F.mish, F.softplus, F.leaky_relu, torch.sin, torch.cos, torch.erf, torch.exp, F.hardtanh, torch.abs, F.sigmoid)
            ),
            fc=nn.Linear(6, 6),
        ),
        (5, 6),
    ),
    "lstm": (
        Does(
            lambda m, x: torch.cat([(r := m.cell(x))[0], r[1][0].transpose(0, 1).flatten(1)[:, None].expand(-1, x.shape[1], -1)], 2),
            cell=nn.LSTM(10, 12, 2, batch_first=True),
        ),
        (7, 10),
    ),
    "gru both ways": (Does(lambda m, x: m.out(m.cell(x)[0]), cell=nn.GRU(10, 12, bidirectional=True, batch_first=True), out=nn.Linear(24, 3)), (7, 10)),
    "rnn by tokens": (Does(lambda m, x: m.cell(x.transpose(0, 1))[0].transpose(0, 1), cell=nn.RNN(10, 5, bias=False)), (7, 10)),
    "rnn relu": (Does(lambda m, x: m.cell(F.silu(x))[1].transpose(0, 1), cell=nn.RNN(10, 5, nonlinearity="relu", batch_first=True)), (7, 10)),
    "prelu": (nn.Sequential(nn.Conv2d(3, 5, 3), nn.PReLU(5), nn.Conv2d(5, 2, 1)), IMAGE),
}  # fmt: skip


def prepared(name):
    torch.manual_seed(0)
    model, shape = CASES[name]
    model = copy.deepcopy(model).eval().requires_grad_(False)
    for parameter in model.parameters():
        if parameter.ndim > 1:
            parameter.mul_(torch.rand_like(parameter) < 0.4)
    return model, shape


def difference(got, wanted):
    largest = max(1.0, float(wanted.abs().max()))
    return float((got.double() - wanted).abs().max()) / largest


@torch.no_grad()
@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("name", CASES)
def test_it_computes_what_torch_does(name, batch):
    model, shape = prepared(name)
    x = torch.randn(batch, *shape)
    planned = Planned.of(model, x)
    wanted = copy.deepcopy(model).double()(x.double())
    assert difference(planned([x]), wanted) < 2e-5
    assert bool(planned.left) == (name == "by torch")


@torch.no_grad()
@pytest.mark.parametrize("batch", [4, 17, 33])
@pytest.mark.parametrize("name", ["lstm", "gru both ways", "rnn relu"])
def test_recurrent_layers_take_sixteen_images_together(name, batch):
    model, shape = prepared(name)
    x = torch.randn(batch, *shape)
    wanted = copy.deepcopy(model).double()(x.double())
    assert difference(Planned.of(model, x)([x]), wanted) < 2e-5


@torch.no_grad()
def test_indices_may_be_looked_at_in_another_shape():
    model = Does(lambda m, ids: m.table(ids.view(-1, 6)), table=nn.Embedding(9, 8))
    ids = torch.randint(0, 9, (2, 3, 6))
    planned = Planned.of(model, ids)
    assert not planned.left
    assert torch.equal(planned([ids]), model(ids))


@torch.no_grad()
@pytest.mark.parametrize("name", CASES)
def test_an_image_has_no_effect_on_others(name):
    model, shape = prepared(name)
    x = torch.randn(4, *shape)
    planned = Planned.of(model, x)
    alone = planned([x])
    for bad in (float("nan"), float("inf"), 1e38):
        spoilt = x.clone()
        spoilt[2] = bad
        others = planned([spoilt])[[0, 1, 3]]
        assert torch.equal(others, alone[[0, 1, 3]])


@torch.no_grad()
@pytest.mark.parametrize(
    "name", ["residual block", "excite", "encoder", "convnext", "gru both ways"]
)
def test_two_threads_compute_what_one_does(name):
    model, shape = prepared(name)
    x = torch.randn(5, *shape)
    planned = Planned.of(model, x)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        alone = planned([x])
        torch.set_num_threads(2)
        both = planned([x])
    finally:
        torch.set_num_threads(before)
    assert torch.allclose(alone, both, atol=1e-6)


SIDE_BY_SIDE = [
    "conv", "valid", "bounded", "strided", "stride 3", "dilated", "depthwise", "depthwise strided", "grouped", "grows", "same",
    "padded", "residual block", "excite", "convnext", "dense net", "max pool", "mean pool", "head", "flat", "adaptive",
    "shuffle", "norm first", "sequence", "patches", "functions", "prelu", "attention",
]  # fmt: skip


@torch.no_grad()
@pytest.mark.parametrize("name", SIDE_BY_SIDE)
def test_sixteen_images_side_by_side(name):
    model, shape = prepared(name)
    x = torch.randn(16, *shape)
    planned = Planned.of(model, x, side_by_side=True)
    alone = planned([x])
    assert difference(alone, copy.deepcopy(model).double()(x.double())) < 2e-5
    for bad in (float("nan"), float("inf"), 1e38):
        spoilt = x.clone()
        spoilt[5] = bad
        others = torch.arange(16) != 5
        assert torch.equal(planned([spoilt])[others], alone[others])
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        assert torch.equal(planned([x]), alone)
    finally:
        torch.set_num_threads(before)


def test_what_has_no_form_for_images_side_by_side_is_refused():
    for name in ("transposed", "bilinear", "group norm"):
        model, shape = prepared(name)
        with pytest.raises(UnplannedError, match="side by side"):
            Planned.of(model, torch.randn(16, *shape), side_by_side=True)


@torch.no_grad()
@pytest.mark.parametrize("shape", [(1, 6), (40, 6)])
def test_bounds_cut_the_sums_of_dense_layers_and_keep_nan(shape):
    model = nn.Sequential(nn.Linear(6, 9), nn.Hardtanh(-0.2, 0.3), nn.Linear(9, 9), nn.ReLU6())
    x = torch.randn(shape)
    planned = Planned.of(model.eval(), x)
    assert torch.allclose(planned([x]), model(x), atol=1e-6)
    x[0, 0] = float("nan")
    assert torch.equal(planned([x]).isnan(), model(x).isnan())
