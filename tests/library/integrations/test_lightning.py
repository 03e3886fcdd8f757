"""Lightning's callbacks put gates on a module, move them, resume, and finish the module."""

from importlib.metadata import entry_points

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import sparsegate as sg

pytest.importorskip("lightning")

import lightning as L
from lightning.pytorch.callbacks import ModelCheckpoint

from sparsegate.integrations.lightning import (
    GateCallback,
    GateMonitor,
    callbacks,
    finished_state,
)

TARGET = sg.Target(keep=0.25)
INPUTS = torch.linspace(-1, 1, 256).reshape(32, 8)
LOADER = DataLoader(TensorDataset(INPUTS, INPUTS.sum(1) > 0), batch_size=8)
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")


class Module(L.LightningModule):
    def __init__(self, make=None, seed=0):
        super().__init__()
        torch.manual_seed(seed)
        self.net = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 2))
        self.make = make or (lambda self: torch.optim.AdamW(self.parameters(), lr=0.01))

    def training_step(self, batch, index):
        return nn.functional.cross_entropy(self.net(batch[0]), batch[1].long())

    def test_step(self, batch, index):
        self.log("loss", self.training_step(batch, index))

    def configure_optimizers(self):
        return self.make(self)


def trainer(*added, folder=None, epochs=10, **settings):
    usual = {"accelerator": "cpu", "devices": 1, "logger": False, "enable_progress_bar": False}
    usual |= {"enable_model_summary": False, "enable_checkpointing": folder is not None}
    usual |= {"default_root_dir": folder, "max_epochs": epochs, "log_every_n_steps": 1}
    return L.Trainer(callbacks=list(added), **(usual | settings))


def kept(module):
    return [int(module.net[index].weight.count_nonzero()) for index in (0, 2)]


def assert_equal(one, other):
    states = one.state_dict(), other.state_dict()
    assert all(torch.equal(value, states[1][name]) for name, value in states[0].items())


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained")
    saving = ModelCheckpoint(dirpath=folder, save_top_k=-1, every_n_epochs=5, filename="{epoch}")
    module, gates = Module(), GateCallback(target=TARGET)
    running = trainer(gates, saving, folder=folder)
    running.fit(module, LOADER)
    return folder, module, gates, running


def test_fit_ends_on_the_target_with_an_ordinary_module(trained):
    _, module, gates, running = trained
    assert not sg.gates(module)
    assert sum(kept(module)) == 40
    assert gates.found.ended
    assert running.logged_metrics["kept"] == pytest.approx(0.25)


def test_gates_move_as_by_gatesgd_in_a_plain_loop(trained):
    model = sg.gate(Module())
    optimizer = torch.optim.AdamW(sg.weights(model), lr=0.01)
    gates = sg.GateSGD(model, target=TARGET, steps=40)
    for _ in range(10):
        for batch in LOADER:
            model.training_step(batch, 0).backward()
            for each in (optimizer, gates):
                each.step()
                each.zero_grad()
    assert_equal(trained[1], sg.finish(model))


def test_a_resumed_training_equals_an_uninterrupted_one(trained):
    folder, module, *_ = trained
    again = Module(seed=5)
    trainer(GateCallback(target=TARGET)).fit(again, LOADER, ckpt_path=folder / "epoch=4.ckpt")
    assert_equal(module, again)


def test_a_checkpoint_of_another_target_is_refused(trained):
    other = trainer(GateCallback(target=sg.Target(keep=0.5)))
    with pytest.raises(ValueError, match=r"another target: keep=0\.25 \(now 0\.5\)"):
        other.fit(Module(), LOADER, ckpt_path=trained[0] / "epoch=4.ckpt")


def test_a_checkpoint_with_gates_is_tested_as_it_would_be_finished(trained):
    folder, module, *_ = trained
    other = Module(seed=5)
    running = trainer(GateCallback(target=TARGET))
    running.test(other, LOADER, ckpt_path=folder / "epoch=9.ckpt", verbose=False)
    assert_equal(module, other)
    by_hand = Module(seed=5)
    state = torch.load(folder / "epoch=9.ckpt", weights_only=True)["state_dict"]
    by_hand.load_state_dict(finished_state(state))
    assert_equal(module, by_hand)


def test_gradients_are_accumulated_and_clipped_without_the_gates():
    module = Module()
    settings = {"accumulate_grad_batches": 2, "gradient_clip_val": 0.1}
    gates = GateCallback(target=TARGET)
    trainer(gates, **settings).fit(module, LOADER)
    assert gates.found.ended
    assert sum(kept(module)) == 40


def test_lightning_finds_the_monitor_by_its_entry_point():
    (found,) = entry_points(group="lightning.pytorch.callbacks_factory", name="sparsegate")
    assert found.load() is callbacks
    assert [type(each) for each in trainer().callbacks].count(GateMonitor) == 1


def test_the_monitor_logs_what_an_optimiser_of_the_module_keeps():
    make = lambda self: sg.GatedAdamW(self, lr=0.01, target=TARGET, steps=40)
    module = Module(make)
    sg.gate(module)
    running = trainer(GateMonitor())
    running.fit(module, LOADER)
    assert running.logged_metrics["kept"] == pytest.approx(0.25)
    assert sum(kept(sg.finish(module))) == 40


def test_gates_that_nothing_moves_are_refused_before_the_first_step():
    module = sg.gate(Module(lambda self: torch.optim.SGD(sg.weights(self), lr=0.1)))
    with pytest.raises(ValueError, match="the module has gates and nothing moves them"):
        trainer(GateMonitor()).fit(module, LOADER)


def test_the_monitor_leaves_other_modules_alone():
    trainer(GateMonitor(), epochs=1).fit(Module(), LOADER)


def test_two_that_move_the_gates_are_refused():
    module = sg.gate(Module(lambda self: sg.GatedAdamW(self)))
    with pytest.raises(ValueError, match="own optimizer moves gates, and so does GateCallback"):
        trainer(GateCallback(target=TARGET)).fit(module, LOADER)


def test_manual_optimisation_is_refused():
    module = Module()
    module.automatic_optimization = False
    with pytest.raises(ValueError, match="GateCallback needs automatic optimization"):
        trainer(GateCallback()).fit(module, LOADER)


def test_a_target_without_an_end_is_refused():
    with pytest.raises(ValueError, match="a target needs the number of steps, which is inf"):
        trainer(GateCallback(target=TARGET), epochs=-1).fit(Module(), LOADER)


def test_without_lightning_the_error_names_the_extra(python):
    script = "import sys; sys.modules['lightning'] = None; import sparsegate.integrations.lightning"
    assert 'pip install "sparsegate[lightning]"' in python("-c", script).stderr


@pytest.mark.slow
def test_two_processes_train_the_same_network_as_one(python):
    script = """
import torch, sys
import lightning as L, sparsegate as sg
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from sparsegate.integrations.lightning import GateCallback
class Module(L.LightningModule):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.net = nn.Linear(8, 16)
    def training_step(self, batch, index):
        return self.net(batch[0]).square().mean()
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)
inputs = torch.linspace(-1, 1, 256).reshape(32, 8)
module = Module()
trainer = L.Trainer(accelerator="cpu", devices=2, strategy="ddp", max_epochs=20, logger=False,
    enable_progress_bar=False, enable_checkpointing=False, enable_model_summary=False,
    callbacks=[GateCallback(target=sg.Target(weights=32))])
trainer.fit(module, DataLoader(TensorDataset(inputs), batch_size=4))
kept = module.net.weight != 0
masks = [torch.zeros_like(kept) for _ in range(2)] if trainer.is_global_zero else None
print("kept", int(kept.sum()), float(module.net.weight.sum()), flush=True)
"""
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "train.py"
        path.write_text(script)
        done = python(str(path))
    lines = [line for line in done.stdout.splitlines() if line.startswith("kept")]
    assert len(lines) == 2, done.stderr
    assert lines[0] == lines[1]
    assert lines[0].startswith("kept 32 ")
