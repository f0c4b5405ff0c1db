"""What goes into the image of Sandberth, and what stays out."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
LEFT_OUT = {"kubernetes"}  # kopf has a login that needs it, and ours does not


def pins(file: str) -> dict[str, str]:
    return dict(re.findall(r"^([a-z0-9-]+)==(\S+)", (ROOT / file).read_text(), re.MULTILINE))


def hashes(file: str) -> dict[str, set[str]]:
    blocks = re.split(r"^(?=[a-z0-9-]+==)", (ROOT / file).read_text(), flags=re.MULTILINE)
    return {
        block.partition("=")[0]: set(re.findall(r"sha256:[0-9a-f]{64}", block)) for block in blocks if "==" in block
    }


def imported(package: Path) -> set[str]:
    """Return the top-level modules that a package imports anywhere."""
    found = set()
    for file in package.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                found.add(node.module.partition(".")[0])
    return found


def test_the_image_has_the_versions_that_the_tests_ran_with() -> None:
    image, everything = pins("constraints-image.txt"), pins("constraints.txt")

    assert image
    assert image == {name: everything[name] for name in image}
    known = hashes("constraints.txt")
    assert all(found and found <= known[name] for name, found in hashes("constraints-image.txt").items())


def test_the_image_has_every_dependency_but_those_that_nothing_imports() -> None:
    project = (ROOT / "pyproject.toml").read_text()
    wanted = re.findall(
        r'^    "([A-Za-z-]+)>=', project.partition("\ndependencies = [")[2].partition("]")[0], re.MULTILINE
    )

    missing = {name.lower() for name in wanted} - set(pins("constraints-image.txt"))

    assert wanted
    assert missing == LEFT_OUT
    assert LEFT_OUT.isdisjoint(imported(ROOT / "operator/sandberth"))


def test_the_image_runs_as_nobody_in_particular_and_brings_no_compiler_or_index() -> None:
    final = (ROOT / "Dockerfile").read_text().rpartition("\nFROM ")[2]

    assert "USER 65532:65532" in final
    assert 'ENTRYPOINT ["sandberth"]' in final
    assert "org.opencontainers.image.title" in final
    assert not re.search(r"\b(pip|apt-get|gcc|index-url)\b", final)
