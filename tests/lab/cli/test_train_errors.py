"""What `sparsegate train` cannot do, it explains in one line."""

import shutil

import pytest

from sparsegate.cli import main


def said(capsys, *words):
    """The exit code of the command, and what it wrote to stdout and stderr."""
    try:
        code = main(list(words))
    except SystemExit as end:  # as sys.exit(main()) would end
        code = end.code
    return code, *capsys.readouterr()


def assert_one_line(error, *wanted):
    assert error.startswith("sparsegate: error: ")
    assert error.count("\n") == 1
    assert all(word in error for word in wanted), error


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ((), ("pass the name of a recipe", "lenet5", "lenet300")),
        (
            ("lenet6",),
            ("unknown recipe or model 'lenet6'; did you mean 'lenet5'?", "lenet300", "lenet5-demo"),
        ),
        (("lenet300", "--model", "lenet6"), ("unknown model 'lenet6'", "did you mean 'lenet5'")),
        (("lenet300", "--data", "no/such/folder"), ("no data folder at no/such/folder",)),
        (("lenet300", "--data", "mnits"), ("unknown dataset 'mnits'", "mnist")),
        (("lenet300", "--epochs", "0"), ("epochs is at least 1, got 0",)),
        (("lenet300", "--keep", "1.5"), ("keep is a fraction in (0, 1], got 1.5",)),
        (
            ("lenet300", "--method", "nonsense"),
            ("unknown method 'nonsense'", "learned_gates, dense"),
        ),
        (("lenet300", "--method"), ("--method needs a value", "learned_gates, dense")),
        (("lenet300", "--only", "conv9.*"), ("no weight matches", "fc1.weight")),
        (("lenet300", "--epochs", "many"), ("--epochs", "many")),
        (("lenet300", "--precision", "fp8"), ("--precision", "fp8", "bf16")),
        (("lenet300", "--epoch-count", "3"), ("--epoch-count",)),
        (
            ("lenet300", "--penalty.count", "-1"),
            ("prices are finite numbers, zero or more, got count=-1.0",),
        ),
    ],
)
def test_input_that_cannot_be_used_is_one_line_and_exit_code_2(
    words, wanted, digits, tmp_path, capsys
):
    here = () if "--data" in words or words[:1] != ("lenet300",) else ("--data", str(digits))
    folder = ("--folder", str(tmp_path / "runs")) if words else ()
    code, out, error = said(capsys, "train", *words[:1], *here, *folder, *words[1:])
    assert (code, out) == (2, "")
    assert_one_line(error, *wanted)
    assert not (tmp_path / "runs").exists()


def test_a_truncated_data_file_is_one_line_with_its_name(digits, tmp_path, capsys):
    folder = shutil.copytree(digits, tmp_path / "digits")
    images = folder / "train-images-idx3-ubyte"
    images.write_bytes(images.read_bytes()[:-1])
    code, _, error = said(
        capsys, "train", "lenet300", "--data", str(folder), "--folder", str(tmp_path / "runs")
    )
    assert code == 2
    assert_one_line(error, str(images), "truncated", "get the file again")


def test_a_loss_that_is_no_number_is_one_line_and_exit_code_1(digits, tmp_path, capsys):
    words = ("--data", str(digits), "--lr", "1e9", "--batch-size", "100", "--folder", str(tmp_path))
    code, _, error = said(capsys, "train", "lenet300", *words)
    assert code == 1
    assert_one_line(error, "the loss became nan in epoch 1", "lower lr")


def test_a_folder_that_cannot_be_made_is_one_line_and_exit_code_1(digits, tmp_path, capsys):
    (tmp_path / "file").write_text("in the way")
    words = ("--data", str(digits), "--folder", str(tmp_path / "file"), "--batch-size", "100")
    code, _, error = said(capsys, "train", "lenet300", *words)
    assert code == 1
    assert_one_line(error, "Not a directory", str(tmp_path / "file"))


def test_a_traceback_is_shown_to_those_who_ask(monkeypatch):
    monkeypatch.setenv("SPARSEGATE_TRACEBACK", "1")
    with pytest.raises(ValueError, match="unknown recipe or model"):
        main(["train", "lenet6"])
