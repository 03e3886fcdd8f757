"""`sg.sparse` on examples, models and inputs that do not fit: an answer in words or a right result."""

import threading

import pytest
import torch
from torch import nn

import sparsegate as sg
from sparsegate.runtime.modules import swapped
from sparsegate_runtime.kernels import KERNELS

pytestmark = pytest.mark.skipif(KERNELS is None, reason="kernels not built")


def with_zeros(module, fraction=0.9):
    """The module with this fraction of its weights at zero."""
    for parameter in module.parameters():
        if parameter.ndim > 1:
            parameter.data[torch.rand_like(parameter) < fraction] = 0
    return module.eval().requires_grad_(False)


def assert_close(got, wanted):
    """Equal to a ten-thousandth of the largest output, NaN where that is."""
    assert got.shape == wanted.shape
    largest = float(wanted.nan_to_num(0, 0, 0).abs().max()) if wanted.numel() else 0.0
    assert torch.allclose(got, wanted, rtol=0, atol=1e-4 * largest, equal_nan=True)


def chain():
    return with_zeros(nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)))


def transformer():
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
    return with_zeros(nn.TransformerEncoder(layer, 1))


class Keyword(nn.Module):
    """Takes a tensor by keyword and gives a dict."""

    def __init__(self):
        super().__init__()
        self.layer = with_zeros(nn.Linear(64, 64))

    def forward(self, x):
        return {"out": self.layer(x)}


class Locked(Keyword):
    """Has an attribute that cannot be copied."""

    def __init__(self):
        super().__init__()
        self.lock = threading.Lock()

    def forward(self, x):
        with self.lock:
            return super().forward(x)["out"]


class Unwilling(Locked):
    """Refuses to be copied, and keeps its layers where no copy finds them."""

    def __init__(self):
        super().__init__()
        hidden = self.layer
        self.find = lambda: hidden

    def __deepcopy__(self, memo):
        raise RuntimeError("there is only one")

    def forward(self, x):
        return self.find()(x)


@pytest.mark.parametrize(
    ("model", "example", "wanted"),
    [
        (chain, torch.zeros(2, 3), r"example of shape \(2, 3\) .*cannot be multiplied"),
        (chain, (torch.zeros(2, 3),), r"example of shape \(2, 3\) .*cannot be multiplied"),
        (chain, (torch.zeros(2, 64), 3), r"\(2, 64\) .*, int \(TypeError: .* 3 were given"),
        (
            Keyword,
            {"z": torch.zeros(2, 64)},
            "example z=of shape .*unexpected keyword argument 'z'",
        ),
        (chain, None, "a tensor, a tuple of arguments or a dict.*got NoneType"),
        (chain, "x", "got str"),
        (lambda: nn.Linear(64, 64, device="meta"), torch.zeros(2, 64), "meta"),
        (lambda: sg.gate(chain()), {"input": torch.zeros(2, 64)}, "still has gates"),
    ],
)
def test_an_example_that_does_not_fit_is_refused_in_words(model, example, wanted):
    with pytest.raises(ValueError, match=wanted):
        sg.sparse(model(), example)


def test_a_model_in_training_stays_as_it_was():
    model = nn.Sequential(nn.Linear(64, 64), nn.Dropout(0.5)).train()
    x = torch.randn(5, 64)
    for kernel in (None, "dense", "chain"):
        fast = sg.sparse(model, (x,), kernel=kernel)
        assert model.training
        assert model[1].training
        assert model[0].weight.requires_grad
        assert fast is not model
        assert torch.equal(fast(x), fast(x))


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_weights_that_are_not_finite_give_what_torch_gives(bad):
    for model, x in ((chain(), torch.randn(5, 64)), (transformer(), torch.randn(2, 5, 32))):
        layer = next(one for one in model.modules() if type(one) is nn.Linear)
        layer.weight.data[3, 3] = bad
        assert_close(sg.sparse(model, x)(x), model(x))
        assert_close(sg.sparse(model, (x,), kernel="chain")(x), model(x))


@pytest.mark.parametrize("kind", [Locked, Unwilling])
def test_a_class_that_cannot_be_copied_runs(kind):
    model, x = kind(), torch.randn(5, 64)
    for example in (x, (x,), {"x": x}):
        fast = sg.sparse(model, example)
        assert type(fast) is kind
        assert_close(fast(x), model(x))
    assert type(model.layer) is nn.Linear


@pytest.mark.parametrize("way", [torch.jit.script, lambda model: torch.compile(model)])
@pytest.mark.filterwarnings("ignore")
def test_what_other_compilers_made_runs(way):
    model, x = chain(), torch.randn(5, 64)
    assert_close(sg.sparse(way(model), (x,))(x), model(x))


def test_what_torch_export_made_runs():
    model, x = chain(), torch.randn(5, 64)
    exported = torch.export.export(model, (x,)).module()
    assert_close(sg.sparse(exported, (x,))(x), model(x))


def test_a_model_on_another_device_comes_back_dense_and_says_why():
    model = nn.Linear(64, 64, device="meta")
    with pytest.warns(UserWarning, match="Linear runs by torch"):
        fast = sg.sparse(model, (torch.zeros(2, 64, device="meta"),))
    assert fast(torch.zeros(3, 64, device="meta")).shape == (3, 64)
    assert "runs by torch" in str(fast)


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float64])
def test_a_model_of_another_type_comes_back_dense_and_says_why(kind):
    model, x = transformer().to(kind), torch.randn(2, 5, 32).to(kind)
    fast = sg.sparse(model, (x,))
    assert_close(fast(x), model(x))
    assert "sparse layers are float32 on the CPU" in str(fast)


@pytest.mark.parametrize(
    ("model", "shape"),
    [
        (chain, (64,)),
        (transformer, (5, 32)),
        (lambda: with_zeros(nn.Sequential(nn.Conv2d(3, 8, 3), nn.Conv2d(8, 4, 3))), (3, 9, 9)),
        (lambda: with_zeros(nn.ConvTranspose1d(3, 8, 3, 2)), (3, 9)),
    ],
)
@pytest.mark.parametrize("batch", [0, 2])
def test_an_empty_batch_gives_an_empty_output(model, shape, batch):
    model = model()
    fast = sg.sparse(model, torch.randn(batch, *shape))
    for count in (0, 1, 3, 17):
        x = torch.randn(count, *shape)
        assert_close(fast(x), model(x))


def test_other_lengths_and_layouts_than_the_examples():
    model = transformer()
    fast = sg.sparse(model, torch.randn(2, 5, 32))
    for length in (1, 2, 40):
        x = torch.randn(3, length, 32)
        assert_close(fast(x), model(x))
        assert_close(fast(x.transpose(0, 1)), model(x.transpose(0, 1)))
        assert_close(fast(x[:1].expand(3, -1, -1)), model(x[:1].expand(3, -1, -1)))


@pytest.mark.parametrize("value", [3.0, True])
def test_a_model_without_weights_or_of_a_number_runs(value):
    class Twice(nn.Module):
        def forward(self, x):
            return x * 2

    with pytest.warns(UserWarning, match="no layer with a weight matrix"):
        fast = sg.sparse(Twice(), torch.tensor(value))
    assert fast(torch.tensor(4.0)) == 8


def test_inputs_that_a_sparse_layer_cannot_take_are_refused_in_words():
    fast, _ = swapped(chain(), (torch.zeros(2, 64),), {}, force=True)
    with pytest.raises(ValueError, match="expected float32 inputs on the CPU with 64 features"):
        fast(torch.zeros(2, 65))
    with pytest.raises(ValueError, match="expected float32 inputs"):
        fast(torch.zeros(2, 64).double())
    with pytest.raises(RuntimeError, match="inference only"):
        fast(torch.zeros(2, 64, requires_grad=True))


def test_threads_that_share_a_model_disturb_nothing():
    model, x, failed = transformer(), torch.randn(5, 7, 32), []
    fast, _ = swapped(model, (x,), {}, force=True)

    def run():
        for length in range(1, 8):
            try:
                assert_close(fast(x[:, :length]), model(x[:, :length]))
            except Exception as error:
                failed.append(error)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


@pytest.mark.slow
def test_images_beyond_two_gigabytes_of_offsets_are_right():
    conv = with_zeros(nn.Conv2d(64, 2, 3, padding=1), 0.95)
    fast, _ = swapped(conv, (torch.zeros(1, 64, 8, 8),), {}, force=True)
    x = torch.randn(4, 64, 800, 800)  # sixteen images are 2.6 GB
    assert_close(fast(x), conv(x))


@pytest.mark.slow
def test_a_matrix_with_very_many_columns_is_right():
    layer = nn.Linear(10_000_000, 2, bias=False)
    layer.weight.data[torch.rand_like(layer.weight) < 0.999] = 0
    layer.requires_grad_(False)
    fast, _ = swapped(layer, (torch.zeros(1, 10_000_000),), {}, force=True)
    x = torch.randn(20, 10_000_000)
    assert_close(fast(x), layer(x))


def small_network():
    """Three layers with many zeros."""
    return with_zeros(nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)))


@pytest.mark.filterwarnings("ignore:forward hooks")
@pytest.mark.parametrize("kernel", [None, "dense"])
def test_hooks_of_the_model_itself_count_in_every_form(kernel):
    model, x = small_network(), torch.randn(2, 64)
    model.register_forward_pre_hook(lambda _, given: (given[0] + 1,))
    assert_close(sg.sparse(model, x, kernel=kernel)(x), model(x))


def test_weights_that_were_made_in_inference_mode_are_ordinary_ones():
    with torch.inference_mode():
        model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)).eval()
    x = torch.randn(2, 64)
    with torch.no_grad():
        assert_close(sg.sparse(model, x)(x), model(x))


def test_a_network_with_nan_weights_can_shrink():
    model, x = small_network(), torch.randn(2, 64)
    model[0].weight.data[3, 4] = float("nan")
    assert_close(sg.shrink(model, x)(x), model(x))
