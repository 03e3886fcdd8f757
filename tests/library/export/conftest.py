"""Small sparse networks of many kinds, and compilers."""

import shutil

import pytest
import torch
from torch import nn

NETWORKS = {
    "fully connected": lambda: (
        nn.Sequential(nn.Linear(20, 40), nn.ReLU(), nn.Dropout(), nn.Linear(40, 5)),
        (20,),
    ),
    "pooled": lambda: (
        nn.Sequential(
            nn.Conv2d(1, 4, 3),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(4, 6, 3),
            nn.MaxPool2d(2),
            nn.ReLU(),
            nn.Flatten(),
            nn.LazyLinear(3),
        ),
        (1, 15, 16),
    ),
    "padded, strided, dilated, grouped": lambda: (
        nn.Sequential(
            nn.Conv2d(2, 4, 3, padding=1),
            nn.BatchNorm2d(4),
            nn.ReLU(),
            nn.Conv2d(4, 4, 3, 2, 1, groups=2),
            nn.ReLU(),
            nn.Conv2d(4, 3, (3, 2), (1, 2), (2, 1), dilation=(2, 1)),
            nn.AdaptiveAvgPool2d((5, 1)),
            nn.Flatten(),
            nn.LazyLinear(4),
        ),
        (2, 10, 10),
    ),
    "wide, with pools that overlap": lambda: (
        nn.Sequential(
            nn.Conv2d(1, 2, 3, bias=False),
            nn.MaxPool2d(3, 2, 1),
            nn.BatchNorm2d(2),
            nn.ReLU(),
            nn.AvgPool2d(3, 2, 1, ceil_mode=True, count_include_pad=False),
            nn.Identity(),
            nn.Flatten(),
            nn.LazyLinear(6),
            nn.BatchNorm1d(6),
        ),
        (1, 6, 41),
    ),
    "tiles of three, no activation at the end of a convolution": lambda: (
        nn.Sequential(
            nn.ReLU(),
            nn.Conv2d(3, 5, 2, padding="same", dilation=2),
            nn.MaxPool2d(3),
            nn.Conv2d(5, 2, 1),
        ),
        (3, 9, 7),
    ),
    "a mean over the padding, at the input": lambda: (
        nn.Sequential(
            nn.AvgPool2d(2, 2, 1), nn.Conv2d(2, 3, 2), nn.MaxPool2d(2, ceil_mode=True), nn.ReLU()
        ),
        (2, 9, 9),
    ),
}


def sparse(name):
    """A network in eval with dead units, statistics that matter, and two thirds of its weights zero; and its input."""
    torch.manual_seed(0)
    model, shape = NETWORKS[name]()
    model(torch.randn(8, *shape))  # statistics, and the sizes of lazy layers
    for module in model.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            nn.init.kaiming_normal_(module.weight, a=0)
            module.weight.data *= 1.5 * (torch.rand_like(module.weight) > 0.5)
            module.weight.data[0] = 0  # a dead unit
        if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d):
            nn.init.uniform_(module.weight, -1, 2)
            nn.init.normal_(module.bias)
    images = torch.randn(33, *shape)
    assert model.eval()(images).flatten(1).std(0).max() > 0.05, "the network has died"
    return model, images


@pytest.fixture(params=NETWORKS)
def network(request):
    return sparse(request.param)


@pytest.fixture(params=["gcc", "clang"])
def compiler(request):
    if not shutil.which(request.param):
        pytest.skip(f"there is no {request.param}")
    return request.param


@pytest.fixture(autouse=True, scope="session")
def cache(tmp_path_factory):
    """A cache of the tests' own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield
