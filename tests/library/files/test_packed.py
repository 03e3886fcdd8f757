"""Networks of all kinds are packed, stored, and loaded into a model again."""

import re

import pytest
import torch
from torch import nn
from torch.nn.utils import prune

from sparsegate.files import compress, load
from sparsegate.files.packed import writable_tensors
from sparsegate.gates import finish, gate, gates
from sparsegate_lab.models import MODELS


class TiedHead(nn.Module):
    """An embedding whose weight is also that of the last layer."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(50, 8)
        self.head = nn.Linear(8, 50, bias=False)
        self.head.weight = self.embed.weight


class WithExtraState(nn.Linear):
    def get_extra_state(self):
        return {"scale": 3}

    def set_extra_state(self, state):
        pass


class Doubled(nn.Linear):
    """A layer that loads in a way of its own."""

    def _load_from_state_dict(self, *arguments):
        super()._load_from_state_dict(*arguments)
        with torch.no_grad():
            self.weight.mul_(2)


def zeroed(model, keep=0.1):
    """The model with all but a random tenth of its weights removed."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for each in model.parameters():
            if each.ndim > 1:
                each.masked_fill_(torch.rand(each.shape, generator=generator) >= keep, 0)
    return model


def convolutional():
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 10)
    )
    model(torch.randn(4, 3, 8, 8))  # moves the norm's buffers
    return zeroed(model)


def pruned():
    model = nn.Sequential(nn.Linear(40, 30), nn.ReLU(), nn.Linear(30, 10))
    for layer in (model[0], model[2]):
        prune.l1_unstructured(layer, "weight", amount=0.9)
        prune.remove(layer, "weight")
    return model


def gated_and_finished():
    model = gate(nn.Sequential(nn.Linear(40, 30), nn.ReLU(), nn.Linear(30, 10)))
    for each in gates(model).values():
        nn.init.uniform_(each.gate)
    return finish(model.eval())


def all_zero():
    model = nn.Sequential(nn.Linear(20, 30), nn.Linear(30, 2))
    nn.init.zeros_(model[0].weight)
    nn.init.zeros_(model[0].bias)
    return model


MODELS_OF_ALL_KINDS = {
    "dense": lambda: nn.Linear(10, 10),
    "convolutional, with a norm": convolutional,
    "channels last": lambda: convolutional().to(memory_format=torch.channels_last),
    "pruned by torch": pruned,
    "gated and finished": gated_and_finished,
    "a layer of zeros": all_zero,
    "tied": TiedHead,
    "half": lambda: zeroed(nn.Linear(30, 30)).half(),
    "bfloat16": lambda: zeroed(nn.Linear(30, 30)).bfloat16(),
    "double": lambda: zeroed(nn.Linear(30, 30)).double(),
    "recurrent": lambda: zeroed(nn.LSTM(10, 12, num_layers=2, bidirectional=True)),
    "transformer": lambda: zeroed(nn.TransformerEncoderLayer(16, 2, 32)),
    "empty layer": lambda: nn.Sequential(
        nn.Conv1d(4, 4, 3), nn.ParameterList([nn.Parameter(torch.empty(0, 7))])
    ),
    "frozen": lambda: zeroed(nn.Linear(30, 30)).requires_grad_(False),
    "LeNet-5": lambda: zeroed(MODELS["lenet5"]()),
    "nothing": nn.ReLU,
}
every_model = pytest.mark.parametrize("name", MODELS_OF_ALL_KINDS)


def built(name):
    torch.manual_seed(3)
    return MODELS_OF_ALL_KINDS[name]()


def scrambled(model):
    """The model with other numbers in it."""
    with torch.no_grad():
        for each in model.state_dict().values():
            each.fill_(7)
    return model


@every_model
@pytest.mark.parametrize("stored", [False, True])
def test_a_model_comes_back_bit_for_bit(name, stored, scratch, same_bits):
    packed = compress(built(name))
    if stored:
        packed.save(scratch / "net.sparse.safetensors")
        packed = load(scratch / "net.sparse.safetensors")
    wanted = {
        key: value + 0 for key, value in built(name).state_dict().items()
    }  # torch's prune leaves -0.0
    found = packed.state_dict()
    assert set(found) == set(wanted)
    assert all(same_bits(found[key], wanted[key]) for key in wanted)
    model = scrambled(built(name))
    assert packed.into(model) is model
    assert all(same_bits(value, wanted[key]) for key, value in model.state_dict().items())


@every_model
def test_compressing_leaves_the_model_as_it_is(name, same_bits):
    model, wanted = built(name), built(name).state_dict()
    state = torch.get_rng_state()
    compress(model)
    assert torch.equal(torch.get_rng_state(), state)
    assert all(same_bits(value, wanted[key]) for key, value in model.state_dict().items())


@every_model
def test_a_model_and_its_state_dict_give_the_same_file(name):
    assert str(compress(built(name))) == str(compress(built(name).state_dict()))


def test_tied_weights_are_stored_once_and_stay_tied(scratch):
    path = scratch / "tied.sparse.safetensors"
    packed = compress(TiedHead())
    assert list(packed.entries) == ["embed.weight"]
    assert packed.same == {"head.weight": "embed.weight"}
    assert list(packed) == ["embed.weight", "head.weight"]
    packed.save(path)
    for each in (packed, load(path)):
        state = each.state_dict()
        assert state["embed.weight"].data_ptr() == state["head.weight"].data_ptr()
    assert load(path).same == packed.same


def test_tied_weights_also_go_into_a_model_that_does_not_tie_them(same_bits):
    tied = TiedHead()
    apart = TiedHead()
    apart.head = nn.Linear(8, 50, bias=False)
    compress(tied).into(apart)
    assert same_bits(apart.head.weight, tied.embed.weight)
    assert apart.head.weight is not apart.embed.weight


def test_equal_tensors_that_are_not_the_same_memory_are_not_tied():
    packed = compress({"a": torch.ones(3), "b": torch.ones(3)})
    assert packed.same == {}


def test_parts_of_one_memory_that_look_different_are_not_tied(through_a_file, same_bits):
    memory = torch.randn(4, 4)
    state = {
        "all": memory,
        "transposed": memory.t(),
        "row": memory[0],
        "bits": memory.view(torch.int32),
    }
    assert compress(state).same == {}
    assert all(same_bits(each, state[name]) for name, each in through_a_file(state).items())


def test_empty_tensors_are_not_tied():
    assert compress({"a": torch.empty(0), "b": torch.empty(0), "c": torch.empty(0, 2)}).same == {}


def test_what_is_packed_no_longer_changes_with_the_model():
    layer = nn.Linear(3, 2)
    packed = compress(layer)
    before = layer.weight.detach().clone()
    scrambled(layer)
    assert torch.equal(packed.state_dict()["weight"], before)


def test_the_tensors_that_it_gives_are_the_callers_own(scratch):
    compress(nn.Linear(3, 2)).save(scratch / "own.sparse.safetensors")
    for packed in (compress(nn.Linear(3, 2)), load(scratch / "own.sparse.safetensors")):
        for each in packed.state_dict().values():
            each.fill_(7)
        assert not any((each == 7).all() for each in packed.state_dict().values())


def test_a_model_of_another_shape_is_refused_with_all_that_is_wrong():
    packed = compress({"weight": torch.zeros(5, 4), "scale": torch.zeros(3)})
    with pytest.raises(ValueError, match="does not fit the model") as caught:
        packed.into(nn.Linear(4, 6))
    assert str(caught.value).endswith(
        "missing bias; unexpected scale; weight is (5, 4), the model's (6, 4)",
    )


def test_a_model_that_does_not_fit_stays_as_it_is():
    model = nn.Linear(4, 6)
    before = {key: value.clone() for key, value in model.state_dict().items()}
    with pytest.raises(ValueError, match="missing bias"):
        compress({"weight": torch.zeros(6, 4)}).into(model)
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())


def test_the_names_of_the_tied_are_checked_too():
    with pytest.raises(ValueError, match=re.escape("unexpected head.weight")):
        compress(TiedHead()).into(nn.ModuleDict({"embed": nn.Embedding(50, 8)}))


def test_no_more_is_decoded_than_the_limit_allows():
    packed = compress({"w": torch.zeros(100, 10), "b": torch.zeros(10, dtype=torch.int64)})
    assert len(packed.state_dict(limit=4080)) == 2  # 4 000 + 80 bytes
    with pytest.raises(
        ValueError, match=r"4,080 bytes, more than the limit of 4,079; raise limit="
    ):
        packed.state_dict(limit=4079)


def test_a_model_on_its_way_may_have_another_type():
    layer = compress({"weight": torch.eye(3).half(), "bias": torch.ones(3).half()}).into(
        nn.Linear(3, 3)
    )
    assert layer.weight.dtype == torch.float32
    assert torch.equal(layer.weight, torch.eye(3))


def test_a_layer_that_loads_in_its_own_way_does_so():
    model = compress(nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))).into(
        nn.Sequential(Doubled(3, 3), Doubled(3, 3))
    )
    plain = compress(model).into(nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3)))
    twice = compress(plain).into(nn.Sequential(Doubled(3, 3), nn.Linear(3, 3)))
    assert torch.equal(twice[0].weight, 2 * plain[0].weight)
    assert torch.equal(twice[1].weight, plain[1].weight)


def test_a_model_that_wants_to_know_when_it_is_loaded_is_told_once():
    model, told = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)), []
    model.register_load_state_dict_post_hook(lambda module, keys: told.append(keys))
    compress(nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))).into(model)
    assert [(list(keys.missing_keys), list(keys.unexpected_keys)) for keys in told] == [([], [])]


def test_parameters_stay_the_same_objects_and_what_was_computed_with_the_old_ones_is_void():
    layer = nn.Linear(3, 3)
    weight = layer.weight
    output = layer(torch.ones(2, 3, requires_grad=True))
    compress(nn.Linear(3, 3)).into(layer)
    assert layer.weight is weight
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        output.sum().backward()


def test_a_parametrized_model_is_loaded_as_torch_would():
    model, other = (gate(zeroed(nn.Linear(30, 30))) for _ in range(2))
    compress(model.state_dict()).into(other)
    assert all(
        torch.equal(value, other.state_dict()[name]) for name, value in model.state_dict().items()
    )


def test_state_that_is_no_tensor_is_refused_by_name():
    with pytest.raises(ValueError, match="_extra_state"):
        compress(WithExtraState(3, 2))


def test_a_weight_that_does_not_decode_leaves_the_error_with_its_name(scratch, unsigned):
    path = scratch / "broken.sparse.safetensors"
    compress({"fc.weight": torch.eye(300)}).save(path)
    raw = bytearray(unsigned(path.read_bytes()))
    raw[-20:] = b"\xff" * 20  # the ends of the remainders
    path.write_bytes(raw)
    with pytest.raises(ValueError, match=r"fc\.weight"):
        load(path).state_dict()


@pytest.mark.parametrize("ending", [".sg", ".sparse.safetensors"])
@pytest.mark.parametrize("kind", [torch.float32, torch.float16, torch.bfloat16, torch.float64])
def test_negative_zeros_come_back_bit_for_bit_if_they_are_kept(kind, ending, same_bits, tmp_path):
    weight = torch.zeros(20, 30, dtype=kind)
    weight[3] = -0.0
    weight[5, 7] = 2.5
    compress({"w": weight}, negative_zeros=True).save(tmp_path / f"exact{ending}")
    assert same_bits(load(tmp_path / f"exact{ending}").state_dict()["w"], weight)
    compress({"w": weight}).save(tmp_path / f"plain{ending}")
    assert same_bits(load(tmp_path / f"plain{ending}").state_dict()["w"], weight + 0.0)


def test_negative_zeros_that_become_zero_are_said():
    weight = torch.ones(4, 5) * torch.tensor([1.0, -0.0, 1.0, -0.0, 0.0])
    assert "8 negative zeros stored as zero" in str(compress({"w": weight}))
    assert "negative zeros" not in str(compress({"w": weight}, negative_zeros=True))
    assert "negative zeros" not in str(compress({"w": weight.abs()}))
    assert compress({"w": weight}, negative_zeros=True).entries["w"].kept == 16


def test_whole_numbers_have_no_negative_zero(same_bits):
    lowest = torch.tensor([[-128, 0, 1]], dtype=torch.int8)
    packed = compress({"w": lowest})
    assert same_bits(packed.state_dict()["w"], lowest)
    assert "negative zeros" not in str(packed)


def test_a_model_that_still_has_gates_is_refused():
    with pytest.raises(
        ValueError, match=r"still has gates \(weight\); take them off: sparsegate\.finish\(model\)"
    ):
        compress(gate(nn.Linear(3, 2)))


def test_a_compiled_model_is_stored_and_loaded_by_its_own_names(scratch):
    model, other = zeroed(nn.Linear(30, 30)), nn.Linear(30, 30)
    compress(torch.compile(model, backend="eager")).save(scratch / "compiled.sg")
    wrapped = torch.compile(other, backend="eager")
    assert load(scratch / "compiled.sg").into(wrapped) is wrapped
    assert torch.equal(other.weight, model.weight)


class OwnWay(nn.Linear):
    def _load_from_state_dict(self, *arguments):
        super()._load_from_state_dict(*arguments)


def with_hook(register):
    layer = nn.Linear(2, 2)
    getattr(layer, register)(lambda *arguments: None)
    return layer


def test_a_plain_layer_is_plain_and_what_is_written_to_its_memory_is_its_weight():
    layer = nn.Linear(2, 2)
    writable_tensors(layer)["weight"].fill_(7)
    assert layer.weight.tolist() == [[7, 7], [7, 7]]


@pytest.mark.parametrize(
    "layer",
    [
        OwnWay(2, 2),
        nn.BatchNorm1d(2),
        nn.Linear(2, 2, device="meta"),
        nn.Conv2d(2, 2, 3).to(memory_format=torch.channels_last).requires_grad_(False),
        with_hook("register_load_state_dict_pre_hook"),
        with_hook("register_load_state_dict_post_hook"),
        with_hook("register_state_dict_pre_hook"),
        with_hook("register_state_dict_post_hook"),
    ],
    ids=[
        "own way",
        "norm",
        "meta",
        "channels last",
        "pre-hook",
        "post-hook",
        "pre-hook of saving",
        "post-hook of saving",
    ],
)
def test_a_layer_with_a_way_of_its_own_is_left_to_torch_and_its_neighbours_are_not(layer):
    found = set(writable_tensors(nn.Sequential(layer, nn.Linear(3, 3, bias=False))))
    assert found - {"0.bias"} == {"1.weight"}
    assert "0.bias" not in found or isinstance(layer, nn.Conv2d)


def test_a_hook_on_a_model_covers_all_that_is_in_it():
    model = nn.Sequential(nn.Sequential(nn.Linear(2, 2)), nn.Linear(2, 2))
    model.register_load_state_dict_pre_hook(lambda *arguments: None)
    assert writable_tensors(model) == {}


def test_a_name_that_begins_like_that_of_a_special_layer_is_plain():
    model = nn.ModuleDict({"a": nn.BatchNorm1d(2), "ab": nn.Linear(2, 2)})
    assert sorted(writable_tensors(model)) == ["ab.bias", "ab.weight"]
