"""What sg.sparse gives: the model's outputs at any batch, its state, and clear refusals."""

import copy
import json
import pickle
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
import torch
from torch import nn

import sparsegate as sg
from sparsegate.graph import unchecked
from sparsegate.runtime import Choice, LayerChoice, SparseNetwork, dense_part
from sparsegate.runtime.network import sparse as sparse_network
from sparsegate.runtime.sparsable import captured, checked
from sparsegate_lab.models import LeNet5
from sparsegate_runtime.kernels import KERNELS, explain_missing

pytestmark = pytest.mark.skipif(KERNELS is None, reason="kernels not built")


@pytest.fixture
def model(sparsified) -> nn.Sequential:
    """A convolution with BatchNorm and two linear layers; as it comes out of training."""
    torch.manual_seed(0)
    layers = (
        nn.Conv2d(1, 4, 3),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(144, 30),
        nn.ReLU(),
    )
    return sparsified(nn.Sequential(*layers, nn.Dropout(), nn.Linear(30, 3))).train()


@pytest.fixture(scope="module")
def sparse_once():
    """Networks that are already sparse, by kernel; tests get copies."""
    return {}


@pytest.fixture
def made(model, sparse_once):
    """The model by this kernel, as `sg.sparse` makes it."""

    def copied(kernel="chain") -> SparseNetwork:
        if kernel not in sparse_once:
            sparse_once[kernel] = sg.sparse(model, EXAMPLE, kernel=kernel)
        return copy.deepcopy(sparse_once[kernel])

    return copied


EXAMPLE = torch.randn(2, 1, 8, 8, generator=torch.Generator().manual_seed(1))


def images(batch=5, seed=2):
    return torch.randn(batch, 1, 8, 8, generator=torch.Generator().manual_seed(seed))


@torch.no_grad()
def assert_same(fast, model, x):
    want = copy.deepcopy(model).eval()(x)
    torch.testing.assert_close(fast(x), want, rtol=1e-5, atol=1e-5)


def test_the_measured_network_gives_what_the_model_gives(sparsified):
    model = sparsified(LeNet5(), 0.95)
    fast = sg.sparse(model, torch.zeros(1, 1, 28, 28))
    for batch in (0, 1, 2, 17, 40):
        assert_same(fast, model, torch.randn(batch, 1, 28, 28))


@pytest.mark.parametrize("kernel", ["dense", "chain", "csr"])
@pytest.mark.parametrize("batch", [1, 5, 33])
def test_every_kernel_gives_what_the_model_gives(model, made, kernel, batch):
    assert_same(made(kernel), model, images(batch))


def test_a_layer_alone_runs_sparse(sparsified):
    layer = sparsified(nn.Linear(40, 7))
    fast = sg.sparse(layer, torch.zeros(1, 40), kernel="chain")
    assert fast.choices[0].kernels == {"0": "chain"}
    assert_same(fast, layer, torch.randn(3, 40))
    assert list(fast.state_dict()) == ["weight", "bias"]


def test_other_memory_formats_are_read_right(model, made):
    fast = made()
    wide = torch.randn(5, 8, 8, 2)
    assert_same(fast, model, wide[..., :1].permute(0, 3, 1, 2))
    assert_same(fast, model, images().contiguous(memory_format=torch.channels_last))


def test_the_model_is_left_as_it_was(model):
    before = copy.deepcopy(model.state_dict())
    sg.sparse(model, EXAMPLE)(images())
    assert model.training
    assert all(parameter.requires_grad for parameter in model.parameters())
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode, torch.enable_grad])
def test_it_runs_in_every_mode_of_autograd(model, made, mode):
    fast = made()
    with mode():
        got = fast(images())
    assert torch.equal(got.detach(), fast(images()).detach())


def test_it_can_be_made_in_inference_mode(model):
    with torch.inference_mode():
        fast = sg.sparse(model, EXAMPLE, kernel="chain")
    assert_same(fast, model, images())
    fast(images())


def test_several_threads_may_call_it_at_once(model):
    fast = sg.sparse(model, EXAMPLE, kernel="chain", batches=None)
    inputs = [images(batch, seed) for seed in range(4) for batch in (1, 3, 16, 20)]
    want = [fast(x).detach() for x in inputs]
    with ThreadPoolExecutor(4) as pool:
        got = list(pool.map(lambda x: fast(x).detach(), inputs * 5))
    assert all(torch.equal(one, want[number % len(want)]) for number, one in enumerate(got))


def batches_of(fast, x):
    """The batch size of the choice that runs this input."""
    fast(x)
    plan = fast._plans[len(x)]
    return [choice.batch for choice in fast.choices if fast._plans[choice.batch] is plan]


def test_the_nearest_batch_size_is_used_in_ratio(model, made):
    fast = made()
    dense = Choice(16, 1, "cpu", tuple(LayerChoice(name, 0.8, "dense") for name in ("0", "4", "7")))
    chain = Choice(1, 1, "cpu", tuple(replace(layer, kernel="chain") for layer in dense.layers))
    fast.use(chain, dense)
    assert [batches_of(fast, images(batch)) for batch in (0, 1, 3)] == [[1]] * 3
    assert [batches_of(fast, images(batch)) for batch in (5, 16, 300)] == [
        [16]
    ] * 3  # 5 / 1 > 16 / 5
    for batch in (0, 1, 3, 5, 16, 40):
        assert_same(fast, model, images(batch))


def test_batches_are_measured_at_their_sizes_printed_saved_and_repeated(model, tmp_path):
    fast = sg.sparse(model, EXAMPLE, batches=(1, 16))
    assert [choice.batch for choice in fast.choices] == [1, 16]
    assert all(choice.dense_ms is not None for choice in fast.choices)
    assert repr(fast) == "\n\n".join(choice.table() for choice in fast.choices)
    assert "times as fast" in repr(fast)
    fast.save_choices(tmp_path / "choices.json")
    for choices in (tmp_path / "choices.json", str(tmp_path / "choices.json"), fast.choices):
        again = sg.sparse(model, EXAMPLE, choices=choices)
        assert again.choices == fast.choices
        assert_same(again, model, images())


def test_a_copy_is_independent_and_the_same(model, made):
    fast = made()
    other = copy.deepcopy(fast)
    assert other.choices == fast.choices
    assert torch.equal(other(images()), fast(images()))
    before = fast(images())
    other.load_state_dict(
        {name: torch.zeros_like(value) for name, value in other.state_dict().items()}
    )
    assert torch.equal(fast(images()), before)
    assert not other(images()).any()


def test_the_state_is_the_models(model, made):
    fast = made()
    assert list(fast.state_dict()) == list(model.state_dict())
    assert all(
        torch.equal(value, model.state_dict()[name]) for name, value in fast.state_dict().items()
    )


@pytest.mark.parametrize("kernel", ["dense", "chain", "csr"])
def test_loaded_weights_are_packed_again(model, made, sparsified, kernel):
    fast = made(kernel)
    other = sparsified(copy.deepcopy(model), seed=3)
    nn.init.normal_(other[0].weight)  # another number of weights
    fast.load_state_dict(other.state_dict())
    assert_same(fast, other, images())


def test_weights_that_were_loaded_before_a_complaint_count(model, made):
    fast = made()
    state = {name: 2 * value for name, value in model.state_dict().items() if name != "7.bias"}
    with pytest.raises(RuntimeError, match=r"Missing key.*7\.bias"):
        fast.load_state_dict(state)
    assert_same(fast, fast.model, images())


def test_choices_can_be_made_again(model, made):
    fast = made()
    fast.choose(batches=(3,))
    assert [choice.batch for choice in fast.choices] == [3]
    assert fast.choices[0].dense_ms is not None
    assert_same(fast, model, images())


def test_a_dense_model_stays_dense_and_runs_as_it_is(monkeypatch):
    monkeypatch.setattr("sparsegate.runtime.autotune.SMALL", 0)
    model = nn.Sequential(nn.Linear(20, 30), nn.ReLU(), nn.Linear(30, 3))
    fast = sg.sparse(model, torch.zeros(2, 20))
    assert fast._plans[2] == fast.model.forward
    assert_same(fast, model, torch.randn(7, 20))


# What is refused


def test_backward_says_that_it_is_for_inference(model, made):
    fast = made()
    x = images().requires_grad_()
    for run in (
        lambda: fast(images()).sum().backward(),
        lambda: torch.autograd.grad(fast(x).sum(), x),
    ):
        with pytest.raises(RuntimeError, match=r"inference only; train .* call sg\.sparse again"):
            run()


def test_no_parameter_asks_for_a_gradient(model, made):
    assert not any(each.requires_grad for each in made().parameters())


def test_training_is_refused(model, made):
    fast = made()
    with pytest.raises(RuntimeError, match="inference only"):
        fast.train()
    assert not fast.eval().training


@pytest.mark.parametrize("move", [nn.Module.double, nn.Module.half, lambda fast: fast.to("meta")])
def test_it_stays_where_it_was_measured(model, made, move):
    fast = made()
    with pytest.raises(RuntimeError, match=r"move the model, then call sg\.sparse again"):
        move(fast)


def test_choices_of_another_model_are_refused(model, tmp_path):
    other = sg.sparse(LeNet5(), torch.zeros(1, 1, 28, 28), kernel="chain")
    other.save_choices(tmp_path / "choices.json")
    with pytest.raises(ValueError, match="no layers conv1, conv2, fc1, fc2; it has 0, 4, 7"):
        sg.sparse(model, EXAMPLE, choices=tmp_path / "choices.json")


def test_a_kernel_in_a_file_that_nobody_knows_is_refused(model, made, tmp_path):
    fast = made()
    fast.save_choices(tmp_path / "choices.json")
    text = (tmp_path / "choices.json").read_text().replace('"chain"', '"magic"')
    (tmp_path / "choices.json").write_text(text)
    with pytest.raises(ValueError, match=r"0 can run here by dense or .*chain, got 'magic'"):
        sg.sparse(model, EXAMPLE, choices=tmp_path / "choices.json")


@pytest.mark.parametrize("choices", [(), "[]"])
def test_no_choices_are_refused(model, tmp_path, choices):
    if choices:
        (tmp_path / "choices.json").write_text(choices)
        choices = tmp_path / "choices.json"
    with pytest.raises(ValueError, match="choices is empty"):
        sg.sparse(model, EXAMPLE, choices=choices)


@pytest.mark.parametrize(
    ("x", "wanted"),
    [
        (torch.zeros(3, 1, 8, 9), r"inputs of shape \(1, 8, 8\), got \(1, 8, 9\), .* not run"),
        (torch.zeros(3, 1, 8, 8).double(), r"made for float32 inputs of shape \(1, 8, 8\)"),
        (torch.zeros(1, 8, 8), r"got \(8, 8\), on which the model does not run"),
    ],
)
def test_inputs_of_another_kind_are_refused(model, made, x, wanted):
    with pytest.raises(ValueError, match=wanted):
        made()(x)


@pytest.mark.parametrize("kernel", [None, "chain", "packed", "csr", "dense"])
def test_inputs_of_another_size_are_planned_once(written, kernel):
    layers = {"one": nn.Conv2d(1, 4, 3), "two": nn.Conv2d(4, 4, 3), "last": nn.Linear(4, 3)}
    model = written(lambda m, x: m.last(m.two(m.one(x).relu()).relu().amax((2, 3))), **layers)
    fast = sg.sparse(model, EXAMPLE, kernel=kernel)
    for size in ((9, 12), (7, 7), (9, 12)):
        for batch in (1, 3, 17):
            assert_same(fast, model, torch.randn(batch, 1, *size))
    if isinstance(fast, SparseNetwork):
        assert len(fast._sizes) == 2
    model.one.weight.data.mul_(2)
    fast.load_state_dict(model.state_dict())
    assert_same(fast, model, torch.randn(3, 1, 9, 12))


def test_more_sizes_than_are_planned_run_by_torch(written, monkeypatch):
    monkeypatch.setattr("sparsegate.runtime.network.MOST_SIZES", 1)
    model = written(lambda m, x: m.one(x), one=nn.Conv2d(1, 4, 3))
    fast = sg.sparse(model, EXAMPLE, kernel="chain")
    for size in (9, 10, 11):
        assert_same(fast, model, torch.randn(2, 1, size, size))
    assert len(fast._sizes) == 1


def test_lines_with_more_or_fewer_dimensions_than_the_examples(written):
    model = written(lambda m, x: m.two(m.one(x).relu()), one=nn.Linear(8, 8), two=nn.Linear(8, 3))
    fast = sg.sparse(model, torch.randn(2, 8), kernel="chain")
    for shape in ((2, 5, 8), (8,), (2, 3, 4, 8)):
        assert_same(fast, model, torch.randn(shape))


def test_a_forward_that_uses_other_layers_at_other_batch_sizes(written):
    model = written(
        lambda m, x: m.few(x) if len(x) < 4 else m.many(x),
        few=nn.Linear(8, 3),
        many=nn.Linear(8, 3),
    )
    fast = sg.sparse(model, torch.randn(2, 8), kernel="chain")
    for batch in (1, 3, 4, 17):
        assert_same(fast, model, torch.randn(batch, 8))


class Scaled(nn.Module):
    """Takes more than the example has."""

    def __init__(self):
        super().__init__()
        self.one = nn.Linear(8, 3)

    def forward(self, image, scale=1.0):
        return self.one(image) * scale


@torch.no_grad()
def test_arguments_that_the_example_leaves_out_count():
    model, x = Scaled(), torch.randn(4, 8)
    fast = sg.sparse(model, x, kernel="chain")
    torch.testing.assert_close(fast(image=x), model(x))
    torch.testing.assert_close(fast(x, 2.0), 2 * model(x))
    torch.testing.assert_close(fast(image=x, scale=3.0), 3 * model(x))
    torch.testing.assert_close(fast(x, scale=3.0), 3 * model(x))
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        fast()


def test_a_compiled_network_refuses_inputs_of_another_size_in_words(written):
    model = written(lambda m, x: m.one(x).amax((2, 3)), one=nn.Conv2d(1, 4, 3))
    fast = sg.sparse(model, EXAMPLE, kernel="chain")
    with pytest.raises(RuntimeError, match=r"the example's size, \(1, 8, 8\), got \(1, 9, 9\)"):
        fast.empty_output(torch.zeros(2, 1, 9, 9))


def test_an_example_that_the_model_does_not_take_is_refused(model):
    with pytest.raises(ValueError, match="does not run on the example"):
        sg.sparse(model, torch.zeros(1, 3, 8, 8))


def test_a_model_that_cannot_be_captured_keeps_its_own_code_unless_a_kernel_is_asked_for(written):
    model = written(lambda m, x: m.fc(x) if x.sum() > 0 else x, fc=nn.Linear(8, 3))
    with pytest.raises(ValueError, match=r"cannot be captured by torch\.export"):
        sg.sparse(model, torch.ones(2, 8), kernel="chain")
    assert_same(sg.sparse(model, torch.ones(2, 8)), model, torch.ones(3, 8))


WITHOUT_KERNELS = """
import json, torch, warnings
warnings.simplefilter("ignore")
import sparsegate as sg
from torch import nn
torch.set_num_threads(1)
torch.manual_seed(0)
model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(72, 5000), nn.ReLU(), nn.Linear(5000, 3))
model[2].weight.data *= torch.rand(5000, 72) < 0.001
x = torch.randn(4, 1, 8, 8)
found = {}
for kernel in (None, "csr"):
    fast = sg.sparse(model, x, kernel=kernel)
    gap = float((fast(x) - model(x)).abs().max())
    found[str(kernel)] = (fast.choices[0].kernels, fast.choices[0].note, gap)
try:
    sg.sparse(model, x, kernel="chain")
except ValueError as error:
    found["chain"] = str(error)
print(json.dumps(found))
"""


def test_without_the_kernels_csr_serves_for_linear_layers_with_a_note(
    python, environment, monkeypatch
):
    monkeypatch.setitem(environment, "SPARSEGATE_KERNELS", "off")
    ended = python("-c", WITHOUT_KERNELS)
    assert ended.returncode == 0, ended.stderr
    found = json.loads(ended.stdout)
    kernels, note, gap = found["csr"]
    assert kernels == {"0": "dense", "2": "csr", "4": "csr"}
    assert gap < 1e-5
    kernels, note, gap = found["None"]
    assert set(kernels.values()) <= {"dense", "packed", "csr"}
    assert note == explain_missing()
    assert gap < 1e-5
    assert found["chain"] == explain_missing()


@torch.no_grad()
def test_in_place_sums_and_random_numbers_are_captured(written):
    def way(m, x):
        x = m.one(x)
        z = x
        z += m.two(x)
        return z * x

    model, x = written(way, one=nn.Linear(4, 4), two=nn.Linear(4, 4)), torch.randn(3, 4)
    assert_same(sg.sparse(model, torch.randn(3, 4), kernel="chain"), model, x)
    drawn = written(lambda m, x: m.one(x) + torch.randn(4), one=nn.Linear(4, 4))
    fast = sg.sparse(drawn, torch.randn(3, 4), kernel="chain")
    torch.manual_seed(1)
    first, second = fast(x), fast(x)
    assert not torch.equal(first, second)
    torch.manual_seed(1)
    torch.testing.assert_close(first, drawn(x))


def test_a_model_that_computes_something_else_than_was_captured_is_refused(written):
    calls = []

    def way(m, x):
        calls.append(1)
        return m.one(x) * len(calls)

    model = written(way, one=nn.Linear(4, 4))
    with pytest.raises(ValueError, match="something else than its captured operations"):
        sg.sparse(model, torch.randn(3, 4), kernel="chain")


def test_the_example_and_the_random_state_stay_as_they_are(written):
    model = written(lambda m, x: m.one(nn.functional.dropout(x.mul_(2))), one=nn.Linear(4, 4))
    example = torch.randn(3, 4)
    before, state = example.clone(), torch.get_rng_state()
    checked(captured(model, example), example)
    assert torch.equal(example, before)
    assert torch.equal(torch.get_rng_state(), state)


def test_examples_that_are_no_numbers_do_not_hide_a_good_trace(model):
    sg.sparse(model, torch.full((2, 1, 8, 8), float("nan")), kernel="chain")


def test_hooks_of_a_container_are_captured_with_a_warning(model):
    outer = nn.Sequential(model, nn.Identity())
    model.register_forward_hook(lambda _module, _given, out: out.relu())
    with pytest.warns(UserWarning, match="forward hooks of 0 ran once"):
        fast = sg.sparse(outer, EXAMPLE, kernel="chain")
    assert_same(fast, outer, images())


@pytest.mark.parametrize("kernel", ["dense", "chain"])
def test_it_loads_as_a_part_of_another_module(model, made, sparsified, kernel):
    outer = nn.Sequential(made(kernel), nn.Softmax(1))
    other = sparsified(copy.deepcopy(model), sparsity=0.5, seed=3)
    for parameter in other.parameters():
        parameter.data.mul_(2)
    state = {f"0.{name}": value for name, value in other.state_dict().items()}
    assert list(outer.state_dict()) == list(state)
    outer.load_state_dict(state)
    assert_same(outer[0], other, images())
    with pytest.raises(RuntimeError, match=r'Missing key.*"0\.0\.weight"'):
        outer.load_state_dict({})
    assert [name for name, _ in outer[0].named_parameters()] == [
        name for name, _ in model.named_parameters()
    ]


def test_what_is_printed_after_loading_are_the_zeros_of_now(model, made):
    fast = made()
    state = {name: torch.zeros_like(value) for name, value in model.state_dict().items()}
    fast.load_state_dict(state)
    assert {layer.sparsity for layer in fast.choices[0].layers} == {1.0}


@pytest.mark.parametrize("count", [1, 4, 8], ids=["images", "flat images", "all"])
@pytest.mark.parametrize("kernel", ["chain", "dense"])
def test_an_output_may_be_changed_and_still_has_no_gradient(model, kernel, count):
    out = sg.sparse(model[:count], EXAMPLE, kernel=kernel)(EXAMPLE)
    out += 1
    with pytest.raises(RuntimeError, match="for inference only"):
        out.sum().backward()


def test_measuring_again_keeps_the_batches(model):
    fast = sg.sparse(model, EXAMPLE, batches=(1, 3))
    fast.choose()
    assert [choice.batch for choice in fast.choices] == [1, 3]


@pytest.mark.parametrize("batches", [(-1,), ()])
def test_batches_that_are_none_are_refused(model, batches):
    with pytest.raises(ValueError, match="batches are numbers of inputs"):
        sg.sparse(model, EXAMPLE, batches=batches)


def test_batches_cannot_be_made_from_nothing(model):
    with pytest.raises(ValueError, match="an example of at least one"):
        sg.sparse(model, EXAMPLE[:0], batches=(1,))


@pytest.mark.parametrize(
    "asked", [{"kernel": "chain", "batches": (1,)}, {"kernel": "chain", "choices": ()}]
)
def test_only_one_way_to_choose_is_taken(model, asked):
    with pytest.raises(ValueError, match="pass only one of batches, kernel and choices"):
        sg.sparse(model, EXAMPLE, **asked)


def test_choices_that_cannot_be_used_leave_the_network_as_it_was(model, made):
    fast = made()
    with pytest.raises(ValueError, match="no layers"):
        fast.use(Choice(1, 1, "cpu", (LayerChoice("nobody", 0.5, "chain"),)))
    assert_same(fast, model, images())


def test_layers_that_were_not_tried_are_named(written):
    model = written(
        lambda m, x: m.twice(m.twice(m.lines(x))).flatten(1),
        twice=nn.Linear(8, 8),
        lines=nn.Linear(8, 8),
    )
    fast = sg.sparse(model, torch.randn(3, 2, 8))
    assert str(fast).endswith(
        "left to torch: twice (called 2 times), lines (its input has 3 dimensions)"
    )


def test_every_layer_that_torch_runs_has_its_reason(written):
    model = written(
        lambda m, x: m.sum(m.rnn(x)[0])[:, 0],
        rnn=nn.GRU(8, 8, batch_first=True),
        sum=nn.Linear(8, 8),
        spare=nn.Linear(8, 8),
    )
    text = str(sg.sparse(model, torch.randn(3, 2, 8), kernel="dense"))
    fast = sparse_network(model, torch.randn(3, 2, 8))
    assert "not measured" in text
    assert str(fast).endswith(
        "left to torch: rnn (GRU has no form in a chain), sum (its input has 3 dimensions), "
        "spare (the example does not reach it)"
    )
    wide = sparse_network(nn.Linear(8, 8).double(), torch.zeros(2, 8).double())
    assert str(wide).endswith("float32, and the weights are torch.float64")


@pytest.mark.parametrize("kernel", ["chain", "hardwired", "csr"])
def test_a_kernel_that_could_run_nothing_is_refused(kernel):
    with pytest.raises(ValueError, match=f"no Linear or Conv2d that {kernel} could run"):
        sg.sparse(nn.Sequential(nn.ReLU()), torch.randn(3, 8), kernel=kernel)


@pytest.mark.parametrize("mode", [torch.enable_grad, torch.no_grad, torch.inference_mode])
def test_it_cannot_be_traced_by_jit(model, made, mode):
    fast = made()
    with mode(), pytest.raises(RuntimeError, match="cannot be traced or exported"):
        torch.jit.trace(fast, images(3))


@pytest.mark.parametrize("kernel", ["chain", "csr", "dense", "packed"])
def test_it_travels_by_pickle_before_and_after_calls(model, made, kernel):
    fast = made(kernel)
    for _ in range(2):
        other = pickle.loads(pickle.dumps(fast))
        assert other.choices == fast.choices
        assert torch.equal(other(images()), fast(images()))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("kernel", ["chain", "csr", "dense", "packed"])
def test_autocast_around_it_changes_nothing(written, kernel, dtype):
    modules = {
        "conv": nn.Conv2d(1, 4, 3),
        "up": nn.ConvTranspose2d(4, 4, 3),
        "fc": nn.Linear(256, 3),
    }
    model = written(lambda m, x: m.fc(m.up(m.conv(x)).flatten(1)), **modules)
    fast, x = sg.sparse(model, EXAMPLE, kernel=kernel), images().to(dtype)
    for _ in range(2):
        with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
            got = fast(x)
        assert torch.equal(got, fast(x.float()).detach())


def test_it_can_be_made_and_measured_under_autocast(written):
    dense_part.has_packing.cache_clear()
    model = written(
        lambda m, x: m.fc(m.up(x).flatten(1)), up=nn.ConvTranspose2d(1, 4, 3), fc=nn.Linear(400, 3)
    )
    with torch.autocast("cpu", dtype=torch.bfloat16):
        fast = sg.sparse(model, EXAMPLE)
        can_pack = dense_part.has_packing()
    dense_part.has_packing.cache_clear()
    assert can_pack == dense_part.has_packing()
    assert_same(fast, model, images())


@pytest.mark.parametrize("name", ["choices", "example", "_direct"])
def test_layers_and_buffers_may_have_the_names_of_what_is_its_own(written, name):
    model = written(lambda m, x: getattr(m, name)(x), **{name: nn.Linear(8, 4)})
    shifted = written(lambda m, x: m.fc(x) + getattr(m, name), fc=nn.Linear(8, 4))
    shifted.register_buffer(name, torch.ones(4))
    for each in (model, shifted):
        fast = sg.sparse(each, torch.zeros(1, 8), kernel="chain")
        fast.load_state_dict(each.state_dict())
        assert_same(fast, each, torch.randn(3, 8))
        assert fast.choices[0].batch == 1


@pytest.mark.parametrize("choices", [3, [1], Choice(1, 1, "cpu", ())])
def test_choices_that_are_none_are_refused(model, choices):
    with (
        unchecked(),
        pytest.raises(ValueError, match="choices are a file or another network's choices"),
    ):
        sg.sparse(model, EXAMPLE, choices=choices)


@pytest.mark.parametrize("kernel", [None, "chain", "dense"])
def test_more_inputs_than_the_model_takes_are_refused(model, kernel):
    with pytest.raises(ValueError, match=r"Sequential does not run on the example .*; pass"):
        sg.sparse(model, (EXAMPLE, EXAMPLE), kernel=kernel)


def test_a_network_is_made_sparse_once(model, made):
    fast = made()
    with pytest.raises(ValueError, match="already: it is one; pass the ordinary model"):
        sg.sparse(fast, EXAMPLE)
    with pytest.raises(ValueError, match="already: its 0 is one"):
        sg.sparse(nn.Sequential(fast, nn.Softmax(1)), EXAMPLE)


NOT_BY = {
    "csr": (nn.Conv2d(1, 2, 3), EXAMPLE),
    "packed": (nn.Linear(8, 2), torch.zeros(1, 8)),
    "chain": (nn.Linear(8, 2).double(), torch.zeros(1, 8).double()),
}


@pytest.mark.parametrize("kernel", NOT_BY)
def test_a_kernel_that_no_layer_can_run_by_is_refused(kernel):
    with pytest.raises(ValueError, match=f"none of the model's layers can run by {kernel}"):
        sg.sparse(*NOT_BY[kernel], kernel=kernel)
