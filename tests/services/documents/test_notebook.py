"""The example notebook, executed as Jupyter would, and what its reader sees."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).parents[3]
NOTEBOOK = ROOT / "examples" / "notebook" / "sessions.ipynb"

LINE = (
    r"sessions · ended · epoch {epoch} · 30,000 rows · [\d,]+ rows/s"
    r" · watermark 2026-01-01T{watermark}Z · 0 late"
)
"""The line of a run, as it was replaced last."""


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A kernel of this Python, whatever is registered on the machine; its files are the test's."""
    folder = tmp_path / "jupyter" / "kernels" / "tidegate-test"
    folder.mkdir(parents=True)
    command = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    spec = {"argv": command, "display_name": "of the tests", "language": "python"}
    (folder / "kernel.json").write_text(json.dumps(spec))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "jupyter"))
    for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return folder.name


def executed(path: Path, kernel: str, folder: Path) -> dict[str, Any]:
    """The cells of a notebook after it was run, by their ids."""
    notebook = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    resources = {"metadata": {"path": str(folder)}}
    NotebookClient(notebook, kernel_name=kernel, timeout=120, resources=resources).execute()
    return {cell["id"]: cell for cell in notebook.cells if cell.cell_type == "code"}


def printed(cell: Any) -> str:
    return "".join(each.text for each in cell.outputs if each.output_type == "stream")


def shown(cell: Any, kind: str = "text/plain") -> list[str]:
    """What a cell displays and returns, in one form."""
    return [each.data.get(kind, "") for each in cell.outputs if "data" in each]


def test_the_notebook_shows_runs_results_and_state(kernel: str, tmp_path: Path) -> None:
    cells = executed(NOTEBOOK, kernel, tmp_path)
    assert {name: printed(cell) for name, cell in cells.items()} == {
        "pipeline": "",
        "run": "",
        "polars": "25,508 clicks in 2,126 sessions that are over\n",
        "spark-sql": "",
        "state": "epoch 3, source read up to {'row': 30000}, 374 keys open\n",
        "keys": "4,492 clicks in 374 sessions that are open\n",
        "go-on": "first run: epochs 1 to 3, 30,000 clicks\n"
        "second run: epochs 4 to 7, 30,000 clicks\n"
        "60,000 clicks in 5,000 sessions\n",
        "once": "0 sessions were sent more than once\n",
    }
    (pipeline,) = shown(cells["pipeline"], "text/html")
    assert "session, over after 30 s of silence" in pipeline
    line, result = shown(cells["run"])
    assert re.fullmatch(LINE.format(epoch=3, watermark="00:04:49.914"), line)
    assert result.startswith("RunResult(pipeline: sessions, epochs: 3, ")
    (line,) = shown(cells["go-on"])
    assert re.fullmatch(LINE.format(epoch=7, watermark="00:10:29.753"), line)
    (exits,) = shown(cells["spark-sql"])
    assert exits.splitlines()[1].split() == ["0", "/page/00", "581", "11.98"]


def test_the_notebook_is_kept_without_what_it_showed() -> None:
    notebook = json.loads(NOTEBOOK.read_text())
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert [(cell["outputs"], cell["execution_count"]) for cell in code] == [([], None)] * 8
