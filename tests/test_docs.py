"""Prose is code: the code of README, tutorial, guides, how-tos and notebooks runs, and links lead on."""

import json
import re
import shlex
import subprocess
from pathlib import Path

import pytest
import torch
from torch import nn

import sparsegate as sg
from sparsegate_lab.cli.compare import parse as parse_compare
from sparsegate_lab.cli.frontier import parse as parse_frontier
from sparsegate_lab.cli.sweep import parse as parse_sweep
from sparsegate_lab.cli.train import parse as parse_train
from sparsegate_lab.methods import METHODS

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.glob("**/*.md")])
LINKED = sorted([*PAGES, *ROOT.glob("examples/**/*.md"), *ROOT.glob("packages/**/README.md")])
IN_C = DOCS / "howto" / "c-library.md"
HOW_TO = sorted(set((DOCS / "howto").glob("*.md")) - {DOCS / "howto" / "index.md", IN_C})
NOTEBOOKS = sorted((DOCS / "notebooks").glob("*.ipynb"))
PARSERS = {
    "train": parse_train,
    "compare": parse_compare,
    "frontier": parse_frontier,
    "sweep": parse_sweep,
}


def blocks(page, language):
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)


def run_blocks(page, **names):
    """Runs the Python blocks of a page, one after the other, in one namespace."""
    torch.manual_seed(0)
    found = blocks(page, "python")
    assert found
    for block in found:
        exec(block, names)
    return names


def commands(page):
    """The words after `sparsegate` in every training command of a page; "..." stands for flags."""
    lines = "".join(blocks(page, "sh")).splitlines()
    verbs = "train|compare|frontier|sweep"
    found = [re.search(rf"\bsparsegate ((?:{verbs}) .*)", line) for line in lines]
    words = [shlex.split(match[1], comments=True) for match in found if match]
    return [[word for word in command if word != "..."] for command in words]


def cells(notebook, kind):
    found = json.loads(notebook.read_text())["cells"]
    return ["".join(cell["source"]) for cell in found if cell["cell_type"] == kind]


def test_the_readmes_loop_runs(tmp_path, monkeypatch):
    torch.manual_seed(0)
    loader = [(torch.randn(4, 20), torch.randint(0, 3, (4,))) for _ in range(5)]
    monkeypatch.chdir(tmp_path)
    names = run_blocks(
        ROOT / "README.md",
        MyNetwork=lambda: nn.Sequential(nn.Linear(20, 19), nn.ReLU(), nn.Linear(19, 20)),
        loader=loader,
        epochs=10,
    )
    model = names["model"]
    assert type(model[0]) is nn.Linear
    assert torch.count_nonzero(model[0].weight) + torch.count_nonzero(model[2].weight) == 38
    assert (tmp_path / "model.sg").exists()


def test_the_readme_has_at_most_100_lines():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 100


def test_the_tutorial_runs_from_top_to_bottom(tmp_path, capsys):
    run_blocks(DOCS / "tutorial.md", runs=tmp_path)
    assert "keep=0.1: 70 of 704 weights are left" in capsys.readouterr().out


@pytest.mark.parametrize("page", HOW_TO, ids=lambda page: page.stem)
def test_a_how_to_runs(page, tmp_path):
    if page.stem in ("lightning", "transformers"):
        pytest.importorskip(page.stem)
    run_blocks(page, folder=tmp_path)


def test_the_how_to_in_c_compiles(tmp_path):
    (block,) = blocks(IN_C, "c")
    include, code = block.split("\n", 1)
    body = f"int run(const void *bytes, size_t num_bytes, void *image, void *scores)\n{{\n{code}return 0;\n}}"
    (tmp_path / "run.c").write_text(f"#include <stdio.h>\n{include}\n{body}\n")
    words = ["gcc", "-std=c99", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"]
    words += ["-I", ROOT / "packages" / "runtime" / "c", tmp_path / "run.c"]
    subprocess.run(words, check=True)


@pytest.mark.parametrize(
    ("name", "printed"),
    [
        ("run", "whole network"),
        ("targets", "keep=0.1: 72 of 720 weights are left"),
        ("data", ""),
        ("export-c", ""),
        ("formats/image", ""),
    ],
)
def test_a_guide_runs(name, printed, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_blocks(DOCS / f"{name}.md", folder=tmp_path)
    assert printed in capsys.readouterr().out


def test_the_guide_on_many_networks_runs(digits, tmp_path):
    run_blocks(DOCS / "many-networks.md", digits=digits, folder=tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(notebook, monkeypatch):
    pytest.importorskip("IPython")
    monkeypatch.chdir(notebook.parent)
    names = {}
    for code in cells(notebook, "code"):
        exec(code, names)


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_stored_without_outputs_and_its_links_lead_somewhere(notebook):
    first, *_ = prose = cells(notebook, "markdown")
    assert first.startswith("# ")
    for cell in json.loads(notebook.read_text())["cells"]:
        assert not cell.get("outputs")
    for link in re.findall(r"\]\(([^)#]+)\)", "".join(prose)):
        assert (notebook.parent / link).exists(), link


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if commands(page)],
    ids=lambda page: page.relative_to(ROOT).as_posix(),
)
def test_the_training_commands_of_a_page_parse(page):
    for verb, *words in commands(page):
        PARSERS[verb](words)


def test_enough_pages_show_commands():
    assert len([page for page in PAGES if commands(page)]) >= 10


def test_every_public_name_is_in_the_reference_once():
    text = "".join(page.read_text() for page in (DOCS / "reference").glob("*.md"))
    documented = re.findall(
        r"^\.\. auto(?:function|class):: sparsegate\.(\w+)$", text, re.MULTILINE
    )
    assert sorted(documented) == sorted(set(sg.__all__) - {"__version__"})


@pytest.mark.parametrize(
    "package",
    ["runtime/sparsegate_runtime", "library/sparsegate", "lab/sparsegate_lab"],
)
def test_every_room_is_on_the_map(package):
    paths = (ROOT / "packages" / package).iterdir()
    rooms = {path.stem for path in paths if path.suffix == ".py" or (path / "__init__.py").exists()}
    text = (ROOT / "ARCHITECTURE.md").read_text()
    rows = "".join(line for line in text.splitlines() if line.startswith("| `"))
    rooms -= {"__init__", "__main__", "version"}
    assert [room for room in sorted(rooms) if f"`{room}`" not in rows] == []


@pytest.mark.parametrize("name", list(METHODS))
def test_every_method_has_a_card(name):
    card = (DOCS / "methods" / f"{name}.md").read_text()
    for part in ("Idea", "Use", "What we measured", "Differs from the paper in", "Cite"):
        assert f"**{part}" in card, part


def prose(page):
    """The text of a page without its blocks of code."""
    return re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)


def anchors(page):
    """What a link to a part of a page may name: headings as GitHub and MyST write them, and labels."""
    text = prose(page)
    headings = re.findall(r"^#+ (.*)$", re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", text), re.MULTILINE)
    slugs = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
    return slugs | set(re.findall(r"^\(([\w-]+)\)=", text, re.MULTILINE))


@pytest.mark.parametrize("page", LINKED, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page):
    text = prose(page)
    links = re.findall(r"\]\(([^)\s]+)\)", text)
    links += re.findall(r'(?:src|href)="([^"]+)"', text)
    links += re.findall(r"^\[[^]]+\]: (\S+)", text, re.MULTILINE)
    for link in links:
        if "://" not in link and not link.startswith("mailto:"):
            path, _, part = link.partition("#")
            target = page.parent / path if path else page
            assert target.exists(), link
            assert not part or target.suffix != ".md" or part in anchors(target), link
