"""A bed that comes back, and what `down` leaves behind: nothing but what other beds need, and the cache."""

import os
from pathlib import Path

from sandberth.cluster.kind import hostsettings
from sandberth.cluster.kind.cluster import KindCluster
from tests.kind.bed import KindBed

NAME = "kindtest-down"


def test_up_starts_what_is_stopped_and_down_removes_what_up_made_and_nothing_of_other_beds(bed: KindBed) -> None:
    docker, users_own = bed.docker, Path.home() / ".kube/config"
    before = users_own.read_bytes() if users_own.exists() else None
    second = KindCluster.up(NAME, workers=0)
    try:
        (node,) = second.containers()
        (volume,) = docker.run("inspect", "--format", '{{range .Mounts}}{{.Name}}{{"\\n"}}{{end}}', node).split()
        assert second.healthy()
        assert os.geteuid() != 0 or second.network.is_fenced()

        docker.run("kill", node)
        assert not second.healthy()
        KindCluster.up(NAME, workers=0)  # starts what is stopped

        assert second.containers() == [node]
        assert second.healthy()
        assert "-A OUTPUT -j FENCE" in docker.run("exec", node, "iptables", "-S", "OUTPUT")
    finally:
        second.down()

    assert second.containers() == []
    assert volume not in docker.lines("volume", "ls", "--format", "{{.Name}}")
    assert second.cluster not in docker.lines("network", "ls", "--format", "{{.Name}}")
    assert not second.directory.exists()
    assert (users_own.read_bytes() if users_own.exists() else None) == before
    assert bed.cluster.healthy()
    assert hostsettings.note_path().is_file()  # the settings go back when the last bed goes
    if os.geteuid() == 0:
        assert not second.network.is_fenced()
        assert bed.cluster.network.is_fenced()
