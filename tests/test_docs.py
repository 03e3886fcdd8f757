"""Prose is code: the blocks of the README and the tutorial run."""

import re
import shlex
from pathlib import Path

import pytest
import torch
from torch import nn

from sparsegate_lab.cli.frontier import parse as parse_frontier
from sparsegate_lab.cli.train import parse
from sparsegate_lab.methods import METHODS

ROOT = Path(__file__).parent.parent


def blocks(path, language):
    return re.findall(rf"^```{language}\n(.*?)^```", path.read_text(), re.DOTALL | re.MULTILINE)


def test_the_readmes_loop_runs(tmp_path, monkeypatch):
    torch.manual_seed(0)
    loader = [(torch.randn(4, 6), torch.randint(0, 3, (4,))) for _ in range(3)]
    space = {
        "MyNetwork": lambda: nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3)),
        "loader": loader,
    }
    (block,) = blocks(ROOT / "README.md", "python")
    monkeypatch.chdir(tmp_path)
    exec(block, space)
    assert type(space["model"][0]) is nn.Linear
    assert (tmp_path / "network.sparse.safetensors").exists()


def test_the_readmes_commands_parse():
    lines = "".join(blocks(ROOT / "README.md", "sh")).splitlines()
    commands = [shlex.split(line, comments=True) for line in lines if " train " in line]
    assert len(commands) == 6
    for words in commands:
        parse(words[words.index("train") + 1 :])


def test_the_page_on_running_runs(capsys):
    torch.manual_seed(0)
    for block in blocks(ROOT / "docs" / "run.md", "python"):
        exec(block, {})
    assert "whole network" in capsys.readouterr().out


def test_the_page_on_targets_runs_and_its_commands_parse(capsys):
    torch.manual_seed(0)
    for block in blocks(ROOT / "docs" / "targets.md", "python"):
        exec(block, {})
    assert "keep=0.1: 72 of 720 weights are left" in capsys.readouterr().out
    for line in "".join(blocks(ROOT / "docs" / "targets.md", "sh")).splitlines():
        parse(shlex.split(line, comments=True)[2:])


def test_the_page_on_many_networks_runs(digits, tmp_path):
    for block in blocks(ROOT / "docs" / "many.md", "python"):
        exec(block, {"digits": digits, "folder": tmp_path})
    lines = "".join(blocks(ROOT / "docs" / "many.md", "sh")).splitlines()
    frontiers = [line for line in lines if line.startswith("sparsegate frontier")]
    assert frontiers
    for line in frontiers:
        parse_frontier(shlex.split(line, comments=True)[2:])


def test_the_tutorial_runs_from_top_to_bottom(tmp_path, capsys):
    space = {"runs": tmp_path}
    for block in blocks(ROOT / "docs" / "tutorial.md", "python"):
        exec(block, space)
    assert "weights" in capsys.readouterr().out


def test_the_page_on_data_runs(tmp_path):
    for block in blocks(ROOT / "docs" / "data.md", "python"):
        exec(block, {"folder": tmp_path})


def test_the_commands_on_the_page_about_imagenet_parse():
    lines = "".join(blocks(ROOT / "docs" / "imagenet.md", "sh")).splitlines()
    commands = [shlex.split(line, comments=True) for line in lines if " train " in line]
    assert len(commands) == 9
    for words in commands:
        assert parse(words[words.index("train") + 1 :]).run.model


@pytest.mark.parametrize("name", list(METHODS))
def test_every_method_has_a_card(name):
    card = (ROOT / "docs" / "methods" / f"{name}.md").read_text()
    for part in ("Idea", "Use", "What we measured", "Differs from the paper in", "Cite"):
        assert f"**{part}" in card, part


@pytest.mark.parametrize(
    "page", [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")], ids=lambda page: page.name
)
def test_links_lead_somewhere(page):
    for link in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        assert "://" in link or (page.parent / link).exists(), link
