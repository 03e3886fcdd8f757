"""A command whose output nobody reads any more ends quietly."""

import subprocess
import sys

import pytest

CODE = 141  # 128 + 13, as a shell counts what SIGPIPE ended


def started(environment, *words):
    command = [sys.executable, "-m", "sparsegate", *words]
    return subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("words", [("--version",), ("train", "--help")])
def test_a_reader_that_has_gone_ends_the_command_without_a_word(words, unbuffered, environment):
    with started({**environment, "PYTHONUNBUFFERED": unbuffered}, *words) as process:
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait() == CODE


def test_a_pipe_that_is_not_the_outputs_is_no_reason_to_end_quietly(environment):
    with started(environment, "trian") as process:
        process.stderr.close()
        assert process.stdout.read() == ""
        assert process.wait() not in (0, CODE)
