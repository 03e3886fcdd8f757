"""`sparsegate report`, and the page at the end of a training."""

from sparsegate.cli import main
from sparsegate_lab.train import train


def test_one_run_gets_its_page_and_two_get_a_comparison(small, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = [train(small(epochs=1, seed=seed), folder="runs").name for seed in (0, 1)]
    assert main(["report", f"runs/{names[0]}"]) == 0
    assert f"runs/{names[0]}/report.html: " in capsys.readouterr().out
    assert main(["report", *(f"runs/{name}" for name in names)]) == 0
    assert "comparison.html: " in capsys.readouterr().out
    assert "2 runs side by side" in (tmp_path / "comparison.html").read_text()


def test_what_cannot_be_reported_is_one_line(tmp_path, capsys):
    for words, wanted in (([], "pass the folder of a run"), ([str(tmp_path)], "no record.json")):
        assert main(["report", *words]) == 2
        error = capsys.readouterr().err
        assert error.count("\n") == 1
        assert wanted in error


def test_a_training_ends_with_a_page_and_a_page_that_fails_costs_nothing(digits, tmp_path, capsys):
    words = ["train", "lenet300", "--data", str(digits), "--epochs", "1", "--batch-size", "100"]
    words += ["--folder", str(tmp_path)]
    assert main(words) == 0
    assert "report.html" in capsys.readouterr().out.replace("\n", "")
    (page,) = tmp_path.glob("*/report.html")
    page.unlink()
    page.mkdir()  # nothing can be written there
    assert main(words) == 0
    assert "no page was made" in capsys.readouterr().out
    assert (page.parent / "record.json").exists()
