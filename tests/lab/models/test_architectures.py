"""Files of version 2 that name a model of the laboratory are still read."""

import pytest
import torch
from torch import nn

from sparsegate.files import compress, load
from sparsegate_lab.models import MODELS, matching_model

# Written by version 0.1: five weights of every tensor of LeNet-5 and LeNet-300 kept, one of
# ResNet-20.
LENET5 = bytes.fromhex(
    "73670202020a010b05c03f00bf161204021202180a04020f0a04022f02a6030a04040a0402da0302a0040a04"
    "02be020a04020902c6020a04000ade5103000c6c354f7d17369b3e3799de0bc1297537dc733db006bdd4a2fa"
    "83c6490dbf2b4498df132f2c383a172247f1aef2bff103662e2c"
)
LENET300 = bytes.fromhex(
    "73670201030a010b05c03f00bf0f0f0402920202fb050a0402d3010a04025302d9010a0402510a0400024a0a"
    "04000a321a9300671c8dcc4a98b97f36934c02e36b6620f508d627d5ee0eff65f59d295c5ff032a16a000014"
    "e215ea"
)
RESNET20 = bytes.fromhex(
    "7367020101087265736e657432300a0002010102180200000000000000000000000000000000000000000000"
    "0000000000000000000000000000000000000000000000000000000000000000000000000000000000000000"
    "0000000000000000000000000000000000000000000000000000000000000000000000000000000000000000"
    "0000000000a30a090ec03f000038f708f9"
)
LISTED = bytes.fromhex(
    "73670201000301610b02040401620d010301630b020404010b03803f04040000080200040101000052e00700"
    "00000000000000000000000000005dee638a"
)


def few_kept(model):
    """The model as it was when the files were written."""
    drawn = torch.Generator().manual_seed(1)
    for parameter in model.parameters():
        flat = parameter.data.view(-1).zero_()
        kept = torch.randperm(len(flat), generator=drawn)[:5]
        signs = torch.randint(0, 2, (len(kept),), generator=drawn)
        flat[kept] = torch.tensor([1.5, -0.5])[signs]
    return model


@pytest.mark.parametrize(("name", "raw"), [("lenet5", LENET5), ("lenet300", LENET300)])
def test_a_file_that_gives_a_model_by_number_is_read_and_saved_again(name, raw, tmp_path):
    (tmp_path / "old.sg").write_bytes(raw)
    packed = load(tmp_path / "old.sg")
    wanted = few_kept(MODELS[name](num_classes=10)).state_dict()
    packed.save(tmp_path / "new.sg")
    for found in (packed.state_dict(), load(tmp_path / "new.sg").state_dict()):
        assert list(found) == list(wanted)
        assert all(torch.equal(found[key], wanted[key]) for key in wanted)
    assert (tmp_path / "new.sg").read_bytes()[2] == 3
    growth = (tmp_path / "new.sg").stat().st_size - len(raw)
    assert growth == {"lenet5": 28, "lenet300": 18}[name]


def test_a_file_that_gives_a_model_by_name_is_read(tmp_path):
    (tmp_path / "old.sg").write_bytes(RESNET20)
    model = load(tmp_path / "old.sg").into(MODELS["resnet20"](num_classes=10))
    assert [name for name, tensor in model.state_dict().items() if tensor.any()] == ["conv.weight"]


def test_a_file_that_lists_its_tensors_is_read(tmp_path):
    (tmp_path / "old.sg").write_bytes(LISTED)
    found = load(tmp_path / "old.sg").state_dict()
    assert torch.equal(found["a"], torch.eye(4))
    assert found["b"].tolist() == [1, 0, 7]
    assert found["c"] is found["a"]


@pytest.mark.parametrize("name", MODELS)
def test_a_model_is_recognized_by_its_tensors_in_any_order(name):
    with torch.device("meta"):
        state = MODELS[name](num_classes=7).state_dict()
    kinds = {torch.float32: "F32", torch.int64: "I64"}
    shapes = {key: (kinds[each.dtype], tuple(each.shape)) for key, each in state.items()}
    found = matching_model(shapes)
    assert found is not None
    assert found[1] == 7
    assert MODELS[found[0]] is MODELS[name] or name == "lenet5-lasagne"


def test_other_tensors_are_no_registered_model():
    packed = compress(nn.Linear(3, 2))
    shapes = {name: (entry.dtype, entry.shape) for name, entry in packed.entries.items()}
    assert matching_model(shapes) is None
    assert matching_model({}) is None
