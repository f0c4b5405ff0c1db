"""The kind bed as far as no Docker is needed: what it asks Docker for, what it writes, what it puts back."""

import hashlib
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from sandberth.cluster.errors import ClusterError
from sandberth.cluster.kind import debian, hostsettings, nodeimage
from sandberth.cluster.kind.archive import ProgramImage, write_archive
from sandberth.cluster.kind.cluster import KindCluster
from sandberth.cluster.kind.docker import Docker, DockerError
from sandberth.cluster.kind.image import wheel_platforms
from sandberth.cluster.kind.loading import full_name, holds
from sandberth.cluster.kind.network import BedNetwork
from sandberth.cluster.kind.privileges import kind_environment
from sandberth.cluster.kind.state import KindState
from sandberth.cluster.progress import PlainProgress

WRAPPER = Path(nodeimage.__file__).parent / "host" / "docker"


def a_docker(folder: Path, script: str) -> Docker:
    """Return a Docker whose program is this shell script."""
    program = folder / "docker"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return Docker(program)


# --- what Docker says ---


def test_a_failure_is_dockers_last_word_and_not_its_pointer_to_help(tmp_path: Path) -> None:
    docker = a_docker(
        tmp_path, "echo 'docker: no space left' >&2; echo >&2; echo \"See 'docker run --help'.\" >&2; exit 1"
    )

    with pytest.raises(DockerError, match=r"^docker run x failed: docker: no space left$"):
        docker.run("run", "x")


def test_a_docker_that_hangs_is_given_up(tmp_path: Path) -> None:
    docker = a_docker(tmp_path, "exec sleep 60")

    with pytest.raises(DockerError, match="docker version gave no answer within 0 s"):
        docker.run("version", timeout_seconds=0.2)


# --- privileges ---


def run_wrapper(tmp_path: Path, *arguments: str) -> list[str]:
    docker = a_docker(tmp_path, 'printf "%s\\n" "$@"')
    environment = {"REAL_DOCKER": str(docker.program), "PATH": os.environ["PATH"]}
    done = subprocess.run([WRAPPER, *arguments], env=environment, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_the_wrapper_asks_for_every_capability_but_the_one_that_is_missing(tmp_path: Path) -> None:
    asked = run_wrapper(tmp_path, "run", "--name", "a node", "--privileged", "image")

    assert asked[:3] == ["run", "--name", "a node"]
    assert "--privileged" not in asked
    assert asked[3:7] == ["--cap-add", "ALL", "--cap-drop", "SYS_RESOURCE"]
    assert "a *:* rwm" in asked
    assert asked[-1] == "image"


def test_the_wrapper_lets_a_command_have_what_its_container_has(tmp_path: Path) -> None:
    assert run_wrapper(tmp_path, "exec", "--privileged", "node", "true") == ["exec", "node", "true"]


def test_the_wrapper_passes_everything_else_on(tmp_path: Path) -> None:
    assert run_wrapper(tmp_path, "inspect", "--privileged") == ["inspect", "--privileged"]


def test_kind_is_given_the_wrapper_only_where_privileged_fails(tmp_path: Path) -> None:
    able, unable = tmp_path / "able", tmp_path / "unable"
    for folder in (able, unable):
        folder.mkdir()
    denied = "echo 'docker: runc: unable to apply caps: operation not permitted' >&2; exit 126"
    environment = {"PATH": "/usr/bin", "HTTPS_PROXY": "http://proxy", "no_proxy": "x", "HOME": "/root"}

    free = kind_environment(a_docker(able, "exit 0"), "image", "net", able / "bin", environment)
    bound = kind_environment(a_docker(unable, denied), "image", "net", unable / "bin", environment)

    assert free["PATH"] == "/usr/bin"
    assert bound["PATH"] == f"{unable / 'bin'}:/usr/bin"
    assert bound["REAL_DOCKER"] == str(unable / "docker")
    assert os.access(unable / "bin" / "docker", os.X_OK)
    for each in (free, bound):
        assert each["KIND_EXPERIMENTAL_DOCKER_NETWORK"] == "net"
        assert each["HOME"] == "/root"
        assert {"HTTPS_PROXY", "no_proxy"}.isdisjoint(each)


def test_any_other_failure_of_privileged_is_told(tmp_path: Path) -> None:
    docker = a_docker(tmp_path, "echo 'docker: no space left on device' >&2; exit 125")

    with pytest.raises(DockerError, match="no space left"):
        kind_environment(docker, "image", "net", tmp_path / "bin", {})


# --- images ---


def test_an_archive_holds_each_program_under_its_name_and_the_same_bytes_each_time(tmp_path: Path) -> None:
    program, below = tmp_path / "pause", tmp_path / "below.tar"
    program.write_bytes(b"program")
    with tarfile.open(below, "w"):
        pass
    images = [
        ProgramImage("registry.k8s.io/pause:3", program, entrypoint=True),
        ProgramImage("registry.k8s.io/kube-proxy:v1", program, below=below),
    ]

    for name in ("one.tar", "two.tar"):
        write_archive(tmp_path / name, images, tmp_path)

    with tarfile.open(tmp_path / "one.tar") as archive:
        manifest = json.loads(read(archive, "manifest.json"))
        configs = [json.loads(read(archive, each["Config"])) for each in manifest]
        for each, config in zip(manifest, configs, strict=True):
            layers = [f"sha256:{hashlib.sha256(read(archive, layer)).hexdigest()}" for layer in each["Layers"]]
            assert config["rootfs"]["diff_ids"] == layers
    assert [each["RepoTags"] for each in manifest] == [[image.name] for image in images]
    assert [len(each["Layers"]) for each in manifest] == [1, 2]
    assert [config["config"].get("Entrypoint") for config in configs] == [["/usr/local/bin/pause"], None]
    first, second = manifest
    with tarfile.open(tmp_path / "two.tar") as archive:
        assert json.loads(read(archive, "manifest.json")) == [first, second]


def read(archive: tarfile.TarFile, name: str) -> bytes:
    file = archive.extractfile(name)
    assert file is not None
    return file.read()


def test_the_node_image_has_another_name_when_a_file_of_it_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / "node"
    copy.mkdir()
    for file in nodeimage.NODE_FILES.iterdir():
        (copy / file.name).write_bytes(file.read_bytes())
    before = nodeimage.own_image_name()
    monkeypatch.setattr(nodeimage, "NODE_FILES", copy)
    same = nodeimage.own_image_name()

    (copy / "entrypoint").write_text("#!/bin/sh\n")

    assert same == before
    assert nodeimage.own_image_name() != before


def test_a_registry_is_asked_only_where_the_image_is_left_to_us(tmp_path: Path) -> None:
    docker = a_docker(tmp_path, f'echo "$@" >> {tmp_path}/asked; exit 1')

    class Progress:
        def say(self, line: str) -> None:
            raise AssertionError(line)

    assert nodeimage.ensure_node_image(docker, "mine:v1", Progress()) == "mine:v1"  # type: ignore[arg-type]
    assert not (tmp_path / "asked").exists()
    assert not nodeimage.has_registry_image(docker)
    assert "manifest inspect kindest/node" in (tmp_path / "asked").read_text()


def test_debian_images_are_named_after_their_packages() -> None:
    assert debian.image_name("node", ("a", "b")) == debian.image_name("node", ("b", "a"))
    assert debian.image_name("node", ("a",)) != debian.image_name("node", ("a", "b"))


def test_wheels_for_any_glibc_up_to_the_images_are_taken() -> None:
    platforms = wheel_platforms("x86_64")

    assert platforms[0] == "manylinux_2_36_x86_64"
    assert {"manylinux_2_28_x86_64", "manylinux2014_x86_64", "linux_x86_64"} <= set(platforms)


@pytest.mark.parametrize(
    ("image", "full"),
    [
        ("sandberth:dev", "docker.io/library/sandberth:dev"),
        ("busybox", "docker.io/library/busybox:latest"),
        ("team/app:v1", "docker.io/team/app:v1"),
        ("localhost/app", "localhost/app:latest"),
        ("registry.example:5000/app", "registry.example:5000/app:latest"),
        ("registry.k8s.io/pause:3.10", "registry.k8s.io/pause:3.10"),
    ],
)
def test_names_are_completed_as_a_container_runtime_does(image: str, full: str) -> None:
    assert full_name(image) == full


LISTING = """\
REF                              TYPE    DIGEST      SIZE  PLATFORMS   LABELS
docker.io/library/sandberth:dev  app/v1  sha256:aaa  1 MB  linux/amd64 -
sha256:c0ffee                    app/v1  sha256:aaa  1 MB  linux/amd64 -
sha256:0ld                       app/v1  sha256:bbb  1 MB  linux/amd64 -
"""


@pytest.mark.parametrize(
    ("name", "identity", "held"),
    [
        ("docker.io/library/sandberth:dev", "sha256:c0ffee", True),
        ("docker.io/library/sandberth:dev", "sha256:aaa", True),  # a Docker that identifies images by their digest
        ("docker.io/library/sandberth:dev", "sha256:0ld", False),  # the name has moved on
        ("docker.io/library/sandberth:dev", "sha256:new", False),
        ("docker.io/library/other:dev", "sha256:c0ffee", False),
    ],
)
def test_a_node_holds_an_image_when_the_name_is_that_very_image(name: str, identity: str, held: bool) -> None:
    assert holds(LISTING, name, identity) == held


# --- the machine ---

BEFORE = ["1", "0", "0", "128"]


@pytest.fixture
def system(tmp_path: Path) -> Path:
    """What stands in for /proc/sys."""
    for name, value in zip(hostsettings.SETTINGS, BEFORE, strict=True):
        file = tmp_path / "sys" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{value}\n")
    return tmp_path / "sys"


def settings(system: Path) -> list[str]:
    return [(system / name).read_text().strip() for name in hostsettings.SETTINGS]


def test_settings_are_noted_once_and_put_back(tmp_path: Path, system: Path) -> None:
    note, modules, docker = tmp_path / "note.json", tmp_path / "modules", a_docker(tmp_path, "exit 1")
    hostsettings.remember(note, system, modules)
    for name in hostsettings.SETTINGS:
        (system / name).write_text("10\n")
    modules.mkdir()
    hostsettings.remember(note, system, modules)  # a second bed

    failed = hostsettings.restore(note, docker, "image", system, modules)

    assert failed == []
    assert settings(system) == BEFORE
    assert not note.exists()
    assert modules.exists() == (os.geteuid() != 0)


def test_a_note_that_lacks_a_setting_is_completed(tmp_path: Path, system: Path) -> None:
    note, modules, docker = tmp_path / "note.json", tmp_path / "modules", a_docker(tmp_path, "exit 1")
    hostsettings.remember(note, system, modules)
    noted = json.loads(note.read_text())
    del noted["settings"]["fs/inotify/max_user_instances"]
    noted["settings"]["kernel/panic"] = "5"
    note.write_text(json.dumps(noted))

    hostsettings.remember(note, system, modules)

    assert json.loads(note.read_text())["settings"] == dict(zip(hostsettings.SETTINGS, ["5", *BEFORE[1:]], strict=True))
    assert hostsettings.restore(note, docker, "image", system, modules) == []


def test_what_kubelets_would_run_out_of_is_raised_said_and_put_back(
    tmp_path: Path, system: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    note, docker, progress = tmp_path / "note.json", a_docker(tmp_path, "exit 1"), PlainProgress(sys.stdout)
    hostsettings.remember(note, system, tmp_path)

    hostsettings.make_room(docker, "image", progress, system)
    hostsettings.make_room(docker, "image", progress, system)  # a second bed

    said = capsys.readouterr().out
    assert said.count("fs.inotify.max_user_instances=1024 (it was 128)") == 1
    assert settings(system) == [*BEFORE[:-1], "1024"]
    hostsettings.restore(note, docker, "image", system, tmp_path)
    assert settings(system) == BEFORE


def test_what_is_high_enough_is_left_alone(tmp_path: Path, system: Path) -> None:
    (system / "fs/inotify/max_user_instances").write_text("8192\n")

    hostsettings.make_room(a_docker(tmp_path, "exit 1"), "image", PlainProgress(sys.stdout), system)

    assert settings(system) == [*BEFORE[:-1], "8192"]


def test_a_note_from_before_a_reboot_changes_nothing(tmp_path: Path, system: Path) -> None:
    note = tmp_path / "note.json"
    note.write_text(
        json.dumps({"boot": "earlier", "settings": dict.fromkeys(hostsettings.SETTINGS, "7"), "modules": True})
    )

    hostsettings.restore(note, a_docker(tmp_path, "exit 1"), "image", system, tmp_path / "modules")

    assert settings(system) == BEFORE


def test_folders_that_were_there_before_stay(tmp_path: Path, system: Path) -> None:
    modules = tmp_path / "modules"
    modules.mkdir()
    hostsettings.remember(tmp_path / "note.json", system, modules)

    hostsettings.restore(tmp_path / "note.json", a_docker(tmp_path, "exit 1"), "image", system, modules)

    assert modules.exists()


def test_each_beds_bridge_has_a_name_that_an_interface_can_have(tmp_path: Path) -> None:
    docker = Docker(tmp_path / "docker")
    bridges = {BedNetwork(docker, f"sandberth-{name}").bridge for name in ("a", "b", "c" * 39)}

    assert len(bridges) == 3
    assert all(len(bridge) <= 15 for bridge in bridges)


# --- the bed ---


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and a Docker without any container that answers to everything."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    a_docker(tmp_path, "exit 0")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return tmp_path / "cache" / "sandberth"


def test_a_name_too_long_for_a_host_is_refused(cache: Path) -> None:
    with pytest.raises(ClusterError, match="too long for a kind bed: 39 characters at the most"):
        KindCluster.up("a" * 40)


def test_a_local_bed_of_this_name_is_left_alone(cache: Path) -> None:
    folder = cache / "clusters" / "mine"
    folder.mkdir(parents=True)
    (folder / "state.json").write_text("{}")

    with pytest.raises(ClusterError, match="mine is a local bed"):
        KindCluster.up("mine")

    assert (folder / "state.json").exists()


def test_a_bed_whose_containers_are_gone_is_degraded(cache: Path) -> None:
    folder = cache / "clusters" / "mine"
    folder.mkdir(parents=True)
    KindState(2, "image", "/programs", complete=True).write(folder / "kind.json")

    status = KindCluster("mine").status()

    assert (status["state"], status["nodes"], status["containers"]) == ("degraded", None, [])


def test_taking_down_what_is_not_there_is_fine(cache: Path) -> None:
    KindCluster("mine").down()

    assert not (cache / "clusters" / "mine").exists()


def test_the_state_file_gives_back_what_was_stored(tmp_path: Path) -> None:
    state = KindState(2, "image", "/programs", "https://127.0.0.1:1", complete=True)

    state.write(tmp_path / "kind.json")

    assert KindState.read(tmp_path / "kind.json") == state
    (tmp_path / "kind.json").write_text("{")
    assert KindState.read(tmp_path / "kind.json") is None
