"""`sparsegate train` makes the networks that learn from teachers."""

import pytest

from sparsegate.cli import main
from sparsegate_lab.cli.student import Command, parse
from sparsegate_lab.recipes import STUDENTS
from sparsegate_lab.record import Record


@pytest.mark.parametrize("name", STUDENTS)
def test_without_flags_the_settings_are_the_recipes(name):
    student = STUDENTS[name]()
    assert parse(name, []) == Command(
        epochs=student.member.run.epochs, teacher_epochs=30, data="mnist", batch_size=128
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The folder of all runs, so that the teachers are trained only once."""
    return tmp_path_factory.mktemp("runs")


def command(name, digits, folder):
    words = ["train", name, "--data", str(digits), "--epochs", "3", "--teacher-epochs", "1"]
    return [*words, "--batch-size", "300", "--folder", str(folder)]


def test_the_command_trains_teachers_and_then_the_student(digits, folder, capsys):
    words = command("lenet300-100x", digits, folder)
    assert main(words) == 0
    out = capsys.readouterr().out
    assert "training 6 networks, lenet5" in out
    assert "training 1 networks, lenet300" in out
    records = [Record.load(path) for path in folder.glob("lenet300-*/record.json")]
    assert len(records) == 1
    assert records[0].kept <= 2662
    assert f"{records[0].kept:,} of 266,200 weights" in out
    assert "report.html" in out
    assert main(words) == 0
    assert "training" not in capsys.readouterr().out.splitlines()[0]


def test_of_two_candidates_the_note_says_which_was_chosen(digits, folder, capsys):
    assert main(command("lenet5-500x", digits, folder)) == 0
    out = capsys.readouterr().out
    assert "training 2 networks, lenet5" in out
    assert "note: of 2 candidates the one with the lowest loss on the validation split" in out


def test_a_flag_that_a_student_does_not_have_is_one_line(capsys):
    assert main(["train", "lenet5-300x", "--lr", "1"]) == 2
    assert "see sparsegate train lenet5-300x --help" in capsys.readouterr().err
