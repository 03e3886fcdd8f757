"""`sparsegate train`: flags become a run, a run becomes a record, and a full disk does no harm."""

import re

import pytest

from sparsegate.cli import main
from sparsegate.price import Penalty
from sparsegate.schedule import Rounds
from sparsegate_lab.cli.train import parse
from sparsegate_lab.methods import METHODS, Dense, LearnedGates, Magnitude
from sparsegate_lab.recipes import RECIPES
from sparsegate_lab.record import Record
from sparsegate_lab.train import Run

RUN_FLAGS = {
    "--help", "--method", "--folder", "--model", "--data", "--epochs", "--batch-size", "--lr", "--momentum",
    "--weight-decay", "--warmup", "--stop.rate", "--stop.drop", "--stop.baseline", "--weights", "--new-head",
    "--shift", "--flip", "--no-flip", "--crop", "--jitter", "--erase", "--normalise", "--stored-size", "--bad-images",
    "--save-every", "--pack", "--no-pack", "--shard", "--no-shard", "--seed", "--precision", "--compile",
    "--no-compile", "--distil.teacher", "--distil.temperature", "--distil.share", "--distil.content", "--average", "--front",
    "--label-smoothing", "--clip", "--track",
}  # fmt: skip
GATE_FLAGS = {
    "--penalty.count", "--penalty.bimodal", "--penalty.per", "--draw", "--start", "--keep", "--keeps", "--only",
    "--graded", "--no-graded", "--fade", "--no-fade",
    "--gate-lr", "--gate-momentum", "--ramp", "--freeze", "--update", "--target.keep", "--target.weights",
    "--target.max-drop", "--target.bytes", "--target.price", "--target.path", "--target.baseline", "--target.begin",
    "--target.reach", "--target.freeze", "--target.travel", "--target.grade", "--target.evenly",
    "--target.listen", "--target.no-listen", "--target.follow", "--target.no-follow", "--target.fall",
}  # fmt: skip

LIMITED = """
import resource, sys
from sparsegate_runtime.command import main

resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
sys.exit(main(sys.argv[1:]))
"""


def words(digits, folder):
    flags = ("--data", str(digits), "--epochs", "2", "--batch-size", "100", "--folder", str(folder))
    return ["train", "lenet300", *flags]


STAND_IN_FLAGS = {
    "svd": {"--rank", "--fraction", "--at"},
    "fastfood": {"--features", "--permutation"},
    "acdc": {"--depth", "--width", "--diagonal-lr", "--permutation"},
    "neuron": {"--keep", "--at"},
    "tensor_train": {"--rank", "--modes"},
    "circulant": {"--signs"},
    "predicted": {"--keep", "--width", "--channels", "--pixels"},
    "product_quantised": {"--length", "--num-codes", "--at", "--start"},
}


@pytest.mark.parametrize(
    ("method", "flags"),
    [
        ("learned_gates", RUN_FLAGS | GATE_FLAGS),
        ("dense", RUN_FLAGS),
        *((name, RUN_FLAGS | {"--only"} | flags) for name, flags in STAND_IN_FLAGS.items()),
    ],
)
def test_the_flags_change_only_on_purpose(method, flags, capsys):
    with pytest.raises(SystemExit):
        main(["train", "lenet5", "--method", method, "--help"])
    assert set(re.findall(r"--[a-z][a-z.-]*[a-z]", capsys.readouterr().out)) == flags


def test_flags_change_the_settings_of_a_model():
    run = parse(["lenet5", "--epochs", "20", "--penalty.count", "10", "--seed", "3"]).run
    assert run == Run(
        model="lenet5", epochs=20, seed=3, method=LearnedGates(penalty=Penalty(count=10.0))
    )


def test_flags_of_other_methods_and_of_their_parts():
    words = [
        "lenet5",
        "--method",
        "magnitude",
        "--keep",
        "0.1",
        "--rounds.count",
        "5",
        "--factors",
        "conv*",
        "0.5",
    ]
    assert parse(words).run.method == Magnitude(
        keep=0.1, rounds=Rounds(count=5), factors=(("conv*", 0.5),)
    )


@pytest.mark.parametrize("method", METHODS)
def test_every_method_is_its_default_without_flags(method):
    assert parse(["lenet5", "--method", method]).run.method == METHODS[method]()


def test_a_model_without_flags_is_the_default_run():
    assert parse(["lenet300"]).run == Run(model="lenet300")


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_without_flags_is_the_recipe(name):
    assert parse([name]).run == RECIPES[name]()


def test_flags_change_one_setting_of_a_recipe_and_leave_the_others():
    run = parse(["lenet5-method1", "--penalty.bimodal", "0.5"]).run
    assert run.method.penalty == Penalty(count=12.0, bimodal=0.5)
    assert (run.epochs, run.method.freeze) == (80, 0.75)


@pytest.mark.parametrize("spelling", [["--method", "dense"], ["--method=dense"]])
def test_another_method_may_stand_anywhere_and_be_spelt_either_way(spelling):
    assert parse(["lenet5", *spelling, "--epochs", "3"]).run == Run(epochs=3, method=Dense())
    assert parse(["lenet5", "--epochs", "3", *spelling]).run == Run(epochs=3, method=Dense())


def test_naming_the_method_that_a_recipe_has_changes_nothing():
    assert parse(["lenet5-method1", "--method", "learned_gates"]).run == RECIPES["lenet5-method1"]()


def test_several_patterns_follow_one_flag():
    assert parse(["lenet5", "--only", "fc1.*", "conv*"]).run.method.only == ("fc1.*", "conv*")


def test_the_command_shows_epochs_layers_and_the_folder(digits, tmp_path, capsys):
    assert main(words(digits, tmp_path)) == 0
    out = capsys.readouterr().out
    (path,) = tmp_path.rglob("record.json")
    record = Record.load(path)
    assert "epoch 1/2" in out
    assert "epoch 2/2" in out
    assert all(f"fc{number}" in out for number in (1, 2, 3))
    assert f"test accuracy {record.test:.2f} %" in out
    assert f"{record.kept:,} of {record.total:,} weights" in out
    assert f"are in {path.parent}" in out
    assert record.command.startswith("sparsegate train lenet300 --data")


def test_the_same_command_again_shows_the_same_record_without_training(digits, tmp_path, capsys):
    main(words(digits, tmp_path))
    first = capsys.readouterr().out
    assert main(words(digits, tmp_path)) == 0
    second = capsys.readouterr().out
    assert "epoch 1/2" not in second
    said, _, shown = second.partition("\n")
    assert said.startswith("This run has ended before")
    assert first.endswith(shown)


def test_a_folder_with_brackets_in_its_name_is_shown_as_it_is(digits, tmp_path, capsys):
    assert main(words(digits, tmp_path / "runs[v2]")) == 0
    out = capsys.readouterr().out
    assert f"are in {tmp_path / 'runs[v2]'}" in out


def test_a_full_disk_is_one_line_leaves_nothing_half_written_and_can_be_mended(
    digits, tmp_path, python, capsys
):
    done = python("-c", LIMITED, *words(digits, tmp_path))
    assert done.returncode == 1
    assert done.stderr.startswith("sparsegate: error: ")
    assert "File too large; free some space or choose another --folder" in done.stderr
    assert done.stderr.count("\n") == 1
    (folder,) = tmp_path.iterdir()
    left = {
        path.name for path in folder.rglob("*") if path.is_file() and "tfevents" not in path.name
    }
    assert left == {".lock", "run.json"}
    assert main(words(digits, tmp_path)) == 0
    assert Record.load(folder / "record.json").epochs


def test_the_result_of_an_ended_run_says_that_its_data_is_known_by_its_path(
    digits, tmp_path, capsys
):
    assert main(words(digits, tmp_path)) == 0
    assert "has ended before" not in capsys.readouterr().out
    assert main(words(digits, tmp_path)) == 0
    shown = capsys.readouterr().out
    assert "This run has ended before; its result is shown." in shown
    assert f"if {digits} has changed since then, use another --folder" in shown
