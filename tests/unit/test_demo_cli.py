import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sandberth.cli.root import app
from sandberth.demo import story
from sandberth.demo.parameters import Parameters
from sandberth.demo.plot import save_plot
from sandberth.demo.statistics import Outcome
from tests.unit.test_demo_statistics import an_outcome

GOOD = [an_outcome("off", (10, 90, 10, 90)), an_outcome("optimistic"), an_outcome("reconciled")]


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[Parameters]:
    """What the command asked for; the bursts themselves are replaced by good outcomes."""
    asked: list[Parameters] = []

    def tell(parameters: Parameters, _display: object, show: story.Show) -> tuple[list[Outcome], list[str]]:
        asked.append(parameters)
        for outcome in GOOD:
            show(outcome)
        return GOOD, ["off: no herd"] if parameters.seed == 13 else []

    monkeypatch.setattr(story, "tell", tell)
    return asked


def run(*arguments: str) -> tuple[int, str, str]:
    answer = CliRunner().invoke(app, ["demo", *arguments])
    return answer.exit_code, answer.stdout, answer.stderr


def test_a_good_run_prints_each_setting_and_saves_numbers_and_picture(told: list[Parameters], tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")

    code, output, _ = run("--output-dir", str(tmp_path / "new"), "--keep")

    assert code == 0
    assert told == [Parameters(keep=True)]
    assert "max 90, min 10, CV of counts 0.800" in output
    assert "sandberth cluster down --name demo" in output
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["demo.json", "demo.png", "demo.svg"]


def test_a_run_that_shows_no_herd_says_so_and_exits_with_1(told: list[Parameters], tmp_path: Path) -> None:
    code, _, errors = run("--output-dir", str(tmp_path), "--seed", "13", "--count", "200", "--rate", "8")

    assert (code, errors) == (1, "sandberth: off: no herd\n")
    assert (tmp_path / "demo.json").exists()


def test_a_machine_that_did_not_keep_the_pace_is_named_as_a_cause(
    told: list[Parameters], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(globals(), "GOOD", [an_outcome("off", (10, 90, 10, 90), seconds=73.8)])

    _, _, errors = run("--output-dir", str(tmp_path), "--seed", "13", "--count", "200", "--rate", "8")

    assert "note: this machine did not keep the pace: off took 74 s instead of 25 s" in errors


def test_without_matplotlib_the_run_succeeds_and_says_how_to_get_the_picture(
    told: list[Parameters], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)

    code, output, _ = run("--output-dir", str(tmp_path))

    assert code == 0
    assert "pip install 'sandberth[plot]'" in output


@pytest.mark.parametrize(
    "arguments", [["--settings", "off,nothing"], ["--count", "0"], ["--rate", "0"], ["--interval", "soon"]]
)
def test_bad_usage_is_exit_code_2(told: list[Parameters], arguments: list[str]) -> None:
    assert run(*arguments)[0] == 2
    assert told == []


def test_a_folder_that_cannot_be_made_is_said_before_anything_starts(told: list[Parameters], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    code, _, errors = run("--output-dir", str(tmp_path / "file" / "below"))

    assert code == 1
    assert errors.startswith("sandberth: --output-dir: ")
    assert told == []


def test_the_picture_is_the_same_for_the_same_numbers(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")

    first = save_plot(Parameters(), GOOD, tmp_path, "first")
    second = save_plot(Parameters(), GOOD, tmp_path, "second")

    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]


def test_help_loads_nothing_slow() -> None:
    slow = ("kopf", "kubernetes", "aiohttp", "matplotlib", "cryptography", "yaml")
    script = (
        "import sys; from typer.testing import CliRunner; from sandberth.cli.root import app\n"
        "answer = CliRunner().invoke(app, ['demo', '--help']); assert answer.exit_code == 0, answer.output\n"
        f"print([name for name in {slow} if name in sys.modules])"
    )

    answer = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert answer.stdout == "[]\n"
