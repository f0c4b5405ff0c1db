import ssl
import subprocess
from pathlib import Path

import pytest
import yaml

from sandberth.cluster.errors import ClusterError
from sandberth.cluster.kubeconfig import write_kubeconfig
from sandberth.cluster.local import LocalCluster
from sandberth.cluster.nodes import NodeSize, is_usable, node_object
from sandberth.cluster.places import cache_directory, is_bed_name, is_locked, locked
from sandberth.cluster.processes import Process
from sandberth.cluster.state import BedOptions, BedState


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder with a name that a careless shell line would split or expand."""
    folder = tmp_path / 'o\'clock $HOME "x"'
    folder.mkdir()
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    return folder


def evaluate(lines: list[str], path: str) -> tuple[str, str]:
    script = "\n".join([*lines, 'printf "%s\\n%s" "$KUBECONFIG" "$PATH"'])
    answer = subprocess.run(
        ["/bin/sh", "-c", script], env={"PATH": path}, capture_output=True, text=True, check=True
    ).stdout
    kubeconfig, new_path = answer.split("\n")
    return kubeconfig, new_path


def test_a_shell_reads_back_the_environment_exactly(cache: Path) -> None:
    bed = LocalCluster("default")

    kubeconfig, path = evaluate(bed.environment("/usr/bin:/bin", Path("/opt/a b/bin")), "/usr/bin:/bin")

    assert kubeconfig == f"{cache}/sandberth/clusters/default/kubeconfig"
    assert path == f"{cache}/sandberth/clusters/default/bin:/usr/bin:/bin:/opt/a b/bin"


def test_evaluating_the_environment_twice_adds_to_the_path_once(cache: Path) -> None:
    bed = LocalCluster("default")
    _, once = evaluate(bed.environment("/usr/bin:/bin", Path("/opt/bin")), "/usr/bin:/bin")

    _, twice = evaluate(bed.environment(once, Path("/opt/bin")), once)

    assert twice == once


def test_a_relative_cache_folder_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "here")

    assert cache_directory() == Path.home() / ".cache" / "sandberth"


@pytest.mark.parametrize("name", ["a", "default", "test-1-b", "x" * 40])
def test_an_ordinary_name_is_a_bed_name(name: str) -> None:
    assert is_bed_name(name)


@pytest.mark.parametrize("name", ["", "..", "a/b", "-a", "a-", "A", "a b", "a\n", "x" * 41, ".hidden"])
def test_a_name_that_could_leave_the_folder_or_break_a_shell_is_none(name: str) -> None:
    assert not is_bed_name(name)
    with pytest.raises(ClusterError):
        LocalCluster(name)


def test_a_bed_that_was_never_made_is_down(cache: Path) -> None:
    bed = LocalCluster("default")

    assert LocalCluster.find("default") is None
    assert not bed.healthy()
    assert bed.status() == {"name": "default", "state": "down"}
    bed.down()
    with pytest.raises(ClusterError, match="there is no bed default; start it with"):
        bed.start_program("etcd")
    assert list(cache.iterdir()) == []


def test_the_state_reads_back_as_it_was_written(tmp_path: Path) -> None:
    state = BedState(
        BedOptions(nodes=7, scheduler=True), "/programs", True, {"etcd": 20_001}, {"etcd": Process(17, "boot:5")}
    )

    state.write(tmp_path / "state.json")

    assert BedState.read(tmp_path / "state.json") == state


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"options": {"unheard": 1}, "processes": {}}'])
def test_a_state_file_that_makes_no_sense_is_no_state(tmp_path: Path, content: str) -> None:
    file = tmp_path / "state.json"
    file.write_text(content)

    assert BedState.read(file) is None


def test_options_name_what_differs() -> None:
    mine = BedOptions(nodes=3, node_cpu="4")

    assert mine.differences(BedOptions(nodes=3, node_cpu="8")) == ["node_cpu is 4, not 8"]
    assert mine.differences(mine) == []


def test_a_kubeconfig_is_for_its_owner_alone_also_when_rewritten(tmp_path: Path) -> None:
    ca = tmp_path / "ca.crt"
    ca.write_text("certificate")
    path = tmp_path / "config"
    path.write_text("old")
    path.chmod(0o644)

    write_kubeconfig(
        path, server="https://127.0.0.1:1", ca_file=ca, user="me", credentials={"token": "t"}, namespace="n"
    )

    config = yaml.safe_load(path.read_text())
    assert path.stat().st_mode & 0o777 == 0o600
    assert config["users"] == [{"name": "me", "user": {"token": "t"}}]
    assert config["contexts"][0]["context"]["namespace"] == "n"


def test_a_node_offers_its_size_and_what_was_added() -> None:
    node = node_object("n", NodeSize(cpu="4"), {"zone": "a"}, extended={"example.com/gpu": "1"})

    assert node["status"]["allocatable"] == node["status"]["capacity"]
    assert node["status"]["allocatable"]["cpu"] == "4"
    assert node["status"]["allocatable"]["example.com/gpu"] == "1"
    assert node["metadata"]["labels"]["kubernetes.io/hostname"] == "n"
    assert node["metadata"]["labels"]["zone"] == "a"


@pytest.mark.parametrize(
    ("status", "taint", "usable"),
    [
        ("True", None, True),
        ("False", None, False),
        ("True", "node.kubernetes.io/not-ready", False),
        ("True", "example.com/own", True),
    ],
)
def test_a_node_is_usable_when_ready_and_rid_of_the_first_taint(status: str, taint: str | None, usable: bool) -> None:
    taints = [{"key": taint, "effect": "NoSchedule"}] if taint else []

    assert (
        is_usable({"spec": {"taints": taints}, "status": {"conditions": [{"type": "Ready", "status": status}]}})
        == usable
    )


def test_a_fresh_node_is_not_usable() -> None:
    assert not is_usable({"metadata": {"name": "n"}, "spec": {}, "status": {}})


def test_certificates_pass_the_strict_checks(tmp_path: Path) -> None:
    pki = pytest.importorskip("sandberth.cluster.pki")
    authority = pki.Authority(tmp_path / "pki")
    authority.issue_server("server", ("127.0.0.1",))
    authority.issue_client("admin", "me", "system:masters")

    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(tmp_path / "pki" / "server.crt", tmp_path / "pki" / "server.key")
    client = ssl.create_default_context(cafile=tmp_path / "pki" / "ca.crt")
    client.verify_flags |= ssl.VERIFY_X509_STRICT
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    server_end = server.wrap_bio(to_server, to_client, server_side=True)
    client_end = client.wrap_bio(to_client, to_server, server_hostname="127.0.0.1")
    for end in (client_end, server_end, client_end):
        try:
            end.do_handshake()
        except ssl.SSLWantReadError:
            continue

    assert client_end.getpeercert()
    assert (tmp_path / "pki" / "ca.key").stat().st_mode & 0o077 == 0


def test_a_lock_is_held_until_its_context_ends_also_when_its_file_is_removed_meanwhile(tmp_path: Path) -> None:
    path = tmp_path / "locks" / "lock"

    with locked(path):
        held = is_locked(path)
        path.unlink()
        with locked(path):
            held_again = is_locked(path)

    assert (held, held_again, is_locked(path)) == (True, True, False)
