"""The Trainer of transformers trains gates: logs, clipping, checkpoints, and what it saves."""

import json
import logging

import pytest
import torch
from torch import nn

import sparsegate as sg

transformers = pytest.importorskip("transformers")
pytest.importorskip("accelerate")

from transformers import (  # noqa: E402
    AutoModelForSequenceClassification,
    BertConfig,
    BertForSequenceClassification,
    GPT2Config,
    GPT2LMHeadModel,
    Trainer,
    TrainingArguments,
)

from sparsegate.integrations.transformers import (  # noqa: E402
    GateCallback,
    SparseTrainer,
    gate_pretrained,
    save_pretrained,
)
from sparsegate.integrations.transformers.pretrained import (  # noqa: E402
    TRAVEL,
    pretrained_target,
)

TARGET = sg.Target(keep=0.2)
TOKENS = torch.arange(16).reshape(2, 8) % 11
SMALL = {"vocab_size": 11, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
GPT2 = {"vocab_size": 11, "n_embd": 8, "n_layer": 1, "n_head": 2, "n_positions": 8}
SKIPPED = ("bert.embeddings.word_embeddings.weight", "classifier.weight", "lm_head.weight")


@pytest.fixture(autouse=True)
def quiet():
    transformers.utils.logging.disable_progress_bar()
    logging.getLogger("transformers").setLevel(logging.ERROR)


def bert(seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    config = BertConfig(**SMALL, intermediate_size=16, max_position_embeddings=8, num_labels=2)
    return BertForSequenceClassification(config)


def examples(count: int = 32) -> list[dict]:
    tokens = torch.randint(0, 11, (count, 8), generator=torch.Generator().manual_seed(0))
    return [{"input_ids": each, "labels": int(each[0] > 5)} for each in tokens]


def arguments(folder, **settings) -> TrainingArguments:
    usual = {"max_steps": 20, "learning_rate": 1e-2, "save_steps": 10, "logging_steps": 5}
    usual |= {"use_cpu": True, "report_to": [], "disable_tqdm": True, "seed": 1}
    return TrainingArguments(output_dir=str(folder), **(usual | settings))


def trainer(folder, model=None, *, kind=SparseTrainer, **settings):
    sparse = {"target": TARGET} if kind is SparseTrainer else {}
    names = {"target", "penalty", "gate_lr", "finish", "start"} & set(settings)
    sparse |= {name: settings.pop(name) for name in names}
    given = arguments(folder, **settings)
    return kind(model=model or bert(), args=given, train_dataset=examples(), **sparse)


def assert_equal(one, other):
    states = one.state_dict(), other.state_dict()
    assert all(torch.equal(value, states[1][name]) for name, value in states[0].items())


def zeros(model):
    layers = [each for each in model.bert.modules() if isinstance(each, nn.Linear)]
    kept = sum(int(each.weight.count_nonzero()) for each in layers)
    return kept / sum(each.weight.numel() for each in layers)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained")
    done = trainer(folder)
    done.train()
    done.save_model(folder / "saved")
    return folder, done


def test_a_trainer_ends_on_its_target_with_an_ordinary_model(trained):
    _, done = trained
    assert not sg.gates(done.model)
    assert zeros(done.model) == pytest.approx(0.2, abs=0.001)


def test_every_log_says_which_fraction_is_kept(trained):
    kept = [entry["kept"] for entry in trained[1].state.log_history]
    assert len(kept) == 5
    assert kept[-1] == pytest.approx(0.2, abs=0.001)
    assert kept[0] > kept[-1]


def test_what_is_saved_is_an_ordinary_model_with_a_sparse_file_next_to_it(trained):
    folder, done = trained
    assert "quantization_config" not in json.loads((folder / "saved/config.json").read_text())
    loaded = AutoModelForSequenceClassification.from_pretrained(folder / "saved")
    assert_equal(done.model, loaded)
    packed = sg.load(folder / "saved/model.sparse.safetensors").state_dict()
    assert all(torch.equal(packed[name], value) for name, value in loaded.state_dict().items())


def test_from_pretrained_reads_a_sparse_file_as_an_ordinary_model(trained, tmp_path):
    save_pretrained(trained[1].model, tmp_path / "small", dense=False)
    names = {path.name for path in (tmp_path / "small").iterdir()}
    assert names == {"config.json", "model.sparse.safetensors"}
    loaded = AutoModelForSequenceClassification.from_pretrained(tmp_path / "small")
    assert_equal(trained[1].model, loaded)
    loaded.save_pretrained(tmp_path / "again")
    config = json.loads((tmp_path / "again/config.json").read_text())
    assert not {"quantization_config", "transformers_weights"} & set(config)
    assert_equal(loaded, AutoModelForSequenceClassification.from_pretrained(tmp_path / "again"))


def test_from_pretrained_reads_a_checkpoint_as_it_would_be_finished(trained):
    folder, done = trained
    last = AutoModelForSequenceClassification.from_pretrained(folder / "checkpoint-20")
    assert_equal(done.model, last)
    middle = AutoModelForSequenceClassification.from_pretrained(folder / "checkpoint-10")
    assert 0 < zeros(middle) < 1


def test_a_resumed_training_equals_an_uninterrupted_one(trained, tmp_path):
    folder, done = trained
    again = trainer(tmp_path, bert(seed=7))
    again.train(resume_from_checkpoint=str(folder / "checkpoint-10"))
    assert_equal(done.model, again.model)


def test_a_checkpoint_of_another_target_is_refused_before_the_first_step(trained, tmp_path):
    other = trainer(tmp_path, target=sg.Target(keep=0.5))
    with pytest.raises(ValueError, match=r"another target: keep=0\.2 \(now 0\.5\)"):
        other.train(resume_from_checkpoint=str(trained[0] / "checkpoint-10"))


def test_while_all_gates_are_open_a_step_is_that_of_the_trainer(tmp_path):
    dense, gated = bert(), bert()
    settings = {"max_steps": 3, "weight_decay": 0.1, "max_grad_norm": 0.0, "save_strategy": "no"}
    trainer(tmp_path, dense, kind=Trainer, **settings).train()
    trainer(tmp_path, gated, **settings, target=None, gate_lr=0.0).train()
    assert_equal(dense, gated)


def test_clipping_leaves_the_gates_out(tmp_path):
    dense, gated = bert(), bert()
    settings = {"max_steps": 1, "max_grad_norm": 0.01, "save_strategy": "no"}
    trainer(tmp_path, dense, kind=Trainer, **settings).train()
    trainer(tmp_path, gated, **settings, target=None, gate_lr=0.0).train()
    torch.testing.assert_close(dense.state_dict(), gated.state_dict(), rtol=0, atol=1e-6)


def test_evaluation_is_that_of_the_network_as_it_would_be_finished(tmp_path):
    running = trainer(tmp_path, max_steps=10, finish=False, save_strategy="no")
    running.train()
    before = running.predict(examples(4)).predictions
    sg.finish(running.model)
    assert (running.predict(examples(4)).predictions == before).all()


def test_the_callback_serves_a_plain_trainer_with_an_optimiser_of_gates(tmp_path):
    model = gate_pretrained(bert())
    target = sg.Target(keep=0.2, listen=True)
    optimizer = sg.GatedAdamW(model, lr=1e-2, clip=1.0, target=target, steps=20)
    plain = Trainer(
        model=model,
        args=arguments(tmp_path, max_grad_norm=0.0),
        train_dataset=examples(),
        optimizers=(optimizer, None),
        callbacks=[GateCallback()],
    )
    plain.train()
    assert zeros(model) == pytest.approx(0.2, abs=0.001)
    assert 0.2 < plain.state.log_history[0]["kept"] < 1
    middle = AutoModelForSequenceClassification.from_pretrained(tmp_path / "checkpoint-10")
    assert 0 < zeros(middle) < 1


def test_a_plain_trainer_of_a_gated_model_is_refused_at_the_first_step(tmp_path):
    model = gate_pretrained(bert())
    plain = trainer(tmp_path, model, kind=Trainer)
    with pytest.raises(ValueError, match=r"gates as if they were weights.*SparseTrainer"):
        plain.train()
    plain.add_callback(GateCallback())
    with pytest.raises(ValueError, match="AdamW does not move them as it should"):
        plain.train()


def test_a_second_training_of_a_finished_model_is_refused(tmp_path):
    done = trainer(tmp_path, max_steps=2, save_strategy="no")
    done.train()
    with pytest.raises(ValueError, match="the model has no gates: it never had any, or was finish"):
        done.train()


def test_another_optimiser_of_the_arguments_is_refused(tmp_path):
    with pytest.raises(ValueError, match="optim is one of adamw_torch, adamw_torch_fused, got"):
        trainer(tmp_path, optim="adafactor").train()


def test_a_model_of_model_init_gets_gates(tmp_path):
    given = arguments(tmp_path, max_steps=2, save_strategy="no")
    done = SparseTrainer(
        model_init=lambda: bert(), args=given, train_dataset=examples(), target=sg.Target(keep=0.5)
    )
    done.train()
    assert zeros(done.model) == pytest.approx(0.5, abs=0.01)


def found_by(folder, **settings):
    """What a trainer's target has led to after two steps: it tells how far gates travel."""
    running = trainer(folder, max_steps=2, save_strategy="no", **settings)
    running.train()
    return running.optimizer.optimizer.found


def test_a_target_follows_the_loss_unless_it_says_how_gates_move(tmp_path):
    assert found_by(tmp_path).travel == TRAVEL
    assert pretrained_target(sg.Target(weights=100), gate_pretrained(bert())).listen
    far = pytest.approx((0.05 / 0.2) ** 0.5, rel=0.01)
    for settings in ({"travel": 1.0}, {"grade": False}, {"grade": True}, {"listen": True}):
        target = sg.Target(keep=0.2, **settings)
        assert pretrained_target(target, gate_pretrained(bert())) == target
    assert found_by(tmp_path, target=sg.Target(keep=0.2, grade=False)).travel == far
    assert pretrained_target(sg.Target(price=1.0), gate_pretrained(bert())).listen is False


def test_a_start_with_closed_gates_is_kept(tmp_path):
    start, far = sg.LargestWeights(keep=0.5), pytest.approx((0.05 / 0.2) ** 0.5, rel=0.01)
    assert found_by(tmp_path, start=start).travel == far
    drawn = gate_pretrained(bert(), draw=sg.Sample())
    assert pretrained_target(TARGET, drawn) == TARGET


def test_the_first_closed_gates_are_those_that_the_loss_does_not_need(tmp_path):
    model = bert()
    unused = model.bert.encoder.layer[0].intermediate.dense
    with torch.no_grad():
        unused.weight[:8] *= 100  # large weights, and none of the next layer reads them
        model.bert.encoder.layer[0].output.dense.weight[:, :8] = 0.0
    trainer(tmp_path, model, learning_rate=0.0, target=sg.Target(keep=0.5)).train()
    assert int(unused.weight[:8].count_nonzero()) == 0
    assert int(unused.weight[8:].count_nonzero()) > 0


def test_embeddings_and_heads_have_no_gates_unless_asked():
    assert not set(SKIPPED) & set(sg.gates(gate_pretrained(bert())))
    asked = sg.gates(gate_pretrained(bert(), select=sg.Select()))
    assert set(SKIPPED[:2]) <= set(asked)


def test_gpt2_has_gates_on_its_conv1d_layers():
    torch.manual_seed(0)
    model = GPT2LMHeadModel(GPT2Config(**GPT2)).eval()
    before = model(TOKENS).logits
    gate_pretrained(model, start=sg.Constant(1.0))
    assert list(sg.gates(model)) == [
        f"transformer.h.0.{name}.weight"
        for name in ("attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj")
    ]
    assert torch.equal(model(TOKENS).logits, before)
    assert torch.equal(sg.finish(model)(TOKENS).logits, before)
    everything = sg.gate(GPT2LMHeadModel(GPT2Config(**GPT2)))
    assert "transformer.h.0.mlp.c_fc.weight" in sg.gates(everything)


def test_a_model_with_tied_and_gated_embeddings_is_saved_and_read(tmp_path):
    torch.manual_seed(0)
    model = sg.gate(GPT2LMHeadModel(GPT2Config(**GPT2)), start=sg.LargestWeights(keep=0.5))
    save_pretrained(model, tmp_path, dense=False)
    loaded = GPT2LMHeadModel.from_pretrained(tmp_path)
    assert sg.gates(model)
    assert_equal(sg.finish(model), loaded)


def test_gates_that_are_not_on_a_checkpoint_are_missed(tmp_path):
    bert().save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    config["quantization_config"] = {"quant_method": "sparsegate", "holds": "sparse file"}
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(ValueError, match=r"model\.safetensors"):
        AutoModelForSequenceClassification.from_pretrained(tmp_path)


def test_without_transformers_the_error_names_the_extra(python):
    script = (
        "import sys; sys.modules['transformers'] = None\n"
        "import sparsegate.integrations.transformers"
    )
    assert 'pip install "sparsegate[transformers]"' in python("-c", script).stderr
