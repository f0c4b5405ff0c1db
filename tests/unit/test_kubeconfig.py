"""Where the API server is: from files, from the environment, from inside a pod, and clear words where it fails."""

import base64
import ssl
from pathlib import Path
from typing import Any

import pytest
import yaml

from sandberth.kube import kubeconfig
from sandberth.kube.client import Client
from sandberth.kube.errors import Unreachable
from sandberth.kube.kubeconfig import (
    KubeconfigError,
    StaticToken,
    TokenFile,
    cluster_access,
    from_kubeconfig,
    in_cluster,
)
from tests.certificates import self_signed
from tests.scripted_server import scripted_server


def a_kubeconfig(
    folder: Path, *, cluster: dict[str, Any] | None = None, user: dict[str, Any] | None = None, **changes: Any
) -> Path:
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "contexts": [
            {"name": "other", "context": {"cluster": "none", "user": "none"}},
            {"name": "here", "context": {"cluster": "c", "user": "u", "namespace": "team"}},
        ],
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:8001/", **(cluster or {})}}],
        "users": [{"name": "u", "user": user or {}}],
        **changes,
    }
    file = folder / "config"
    file.write_text(yaml.safe_dump(document))
    return file


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return a certificate for api.test alone, and its key."""
    return self_signed(tmp_path_factory.mktemp("pki"), "api.test")


def encoded(file: Path) -> str:
    return base64.b64encode(file.read_bytes()).decode()


def test_the_current_context_is_used(tmp_path: Path) -> None:
    access = from_kubeconfig(a_kubeconfig(tmp_path, user={"token": "secret"}))

    assert (access.server, access.namespace) == ("http://127.0.0.1:8001", "team")
    assert access.tokens.token() == "secret"
    assert access.tls is None


def test_a_context_can_be_named(tmp_path: Path) -> None:
    with pytest.raises(KubeconfigError, match="no cluster 'none'"):
        from_kubeconfig(a_kubeconfig(tmp_path), context="other")


def test_a_token_file_lies_beside_the_kubeconfig(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("secret\n")

    access = from_kubeconfig(a_kubeconfig(tmp_path, user={"tokenFile": "token"}))

    assert access.tokens.token() == "secret"


def test_a_token_file_is_read_again_after_ten_seconds(tmp_path: Path) -> None:
    now = 0.0
    file = tmp_path / "token"
    file.write_text("first")
    tokens = TokenFile(file, clock=lambda: now)
    seen = [tokens.token()]

    file.write_text("second")
    now = 9.0
    seen.append(tokens.token())
    now = 11.0
    seen.append(tokens.token())
    file.unlink()
    now = 30.0
    seen.append(tokens.token())

    assert seen == ["first", "first", "second", "second"]


def test_a_token_file_that_was_never_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(KubeconfigError, match="nowhere"):
        TokenFile(tmp_path / "nowhere").token()


@pytest.mark.parametrize(
    ("field", "value"), [("exec", {"command": "aws"}), ("auth-provider", {"name": "gcp"}), ("username", "admin")]
)
def test_other_ways_to_log_in_are_refused_with_the_fix(tmp_path: Path, field: str, value: Any) -> None:
    file = a_kubeconfig(tmp_path, user={field: value})

    with pytest.raises(KubeconfigError, match=rf"user 'u' logs in with '{field}'.*kubectl create token"):
        from_kubeconfig(file)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"current-context": ""}, "no current-context"),
        ({"current-context": "gone"}, "no context 'gone'"),
        ({"users": []}, "no user 'u'"),
        ({"clusters": [{"name": "c", "cluster": {}}]}, "no server URL"),
    ],
)
def test_what_is_missing_is_named(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(KubeconfigError, match=message):
        from_kubeconfig(a_kubeconfig(tmp_path, **changes))


@pytest.mark.parametrize(("content", "message"), [("a: [", "not YAML"), ("- a", "not a kubeconfig")])
def test_a_file_of_another_kind_is_named(tmp_path: Path, content: str, message: str) -> None:
    file = tmp_path / "config"
    file.write_text(content)

    with pytest.raises(KubeconfigError, match=message):
        from_kubeconfig(file)


@pytest.mark.parametrize("data", ["certificate-authority-data", "certificate-authority"])
def test_a_certificate_that_cannot_be_used_is_named(tmp_path: Path, data: str) -> None:
    file = a_kubeconfig(tmp_path, cluster={"server": "https://127.0.0.1:1", data: "bm9uZQ=="})

    with pytest.raises(KubeconfigError, match="certificate"):
        from_kubeconfig(file)


def test_the_explicit_path_goes_before_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", "/nowhere")

    assert cluster_access(a_kubeconfig(tmp_path)).namespace == "team"


def test_the_first_existing_file_of_the_environment_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = a_kubeconfig(tmp_path)
    monkeypatch.setenv("KUBECONFIG", f"/nowhere:{file}:/elsewhere")

    assert cluster_access().namespace == "team"


def test_the_home_folder_comes_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / ".kube"
    folder.mkdir()
    a_kubeconfig(folder)
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))

    assert cluster_access().namespace == "team"


def test_without_any_of_them_the_places_tried_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(kubeconfig, "SERVICE_ACCOUNT", tmp_path / "none")

    with pytest.raises(KubeconfigError, match=r"\.kube/config: no such kubeconfig.*--kubeconfig"):
        cluster_access()


def test_inside_a_pod_the_service_account_is_used(tmp_path: Path, pair: tuple[Path, Path]) -> None:
    (tmp_path / "token").write_text("secret")
    (tmp_path / "namespace").write_text("sandberth-system")
    (tmp_path / "ca.crt").write_bytes(pair[0].read_bytes())

    access = in_cluster(tmp_path, {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "6443"})

    assert (access.server, access.namespace) == ("https://[fd00::1]:6443", "sandberth-system")
    assert access.tokens.token() == "secret"
    assert access.tls is not None


def test_outside_a_pod_that_is_said(tmp_path: Path) -> None:
    with pytest.raises(KubeconfigError, match="KUBERNETES_SERVICE_HOST"):
        in_cluster(tmp_path, {})


def test_no_user_means_no_token(tmp_path: Path) -> None:
    contexts = [{"name": "here", "context": {"cluster": "c"}}]

    assert from_kubeconfig(a_kubeconfig(tmp_path, contexts=contexts)).tokens == StaticToken(None)


@pytest.mark.parametrize("inline", [True, False])
async def test_a_server_and_a_user_prove_who_they_are(tmp_path: Path, pair: tuple[Path, Path], inline: bool) -> None:
    certificate, key = pair
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(certificate))
    context.load_cert_chain(certificate, key)
    context.verify_mode = ssl.CERT_REQUIRED

    def given(field: str, file: Path) -> dict[str, str]:
        return {f"{field}-data": encoded(file)} if inline else {field: str(file)}

    async with scripted_server(context) as server:
        server.answer({"kind": "Pod"})
        authority = given("certificate-authority", certificate)
        user = given("client-certificate", certificate) | given("client-key", key)
        cluster = {"server": server.url, "tls-server-name": "api.test", **authority}
        async with Client(from_kubeconfig(a_kubeconfig(tmp_path, cluster=cluster, user=user))) as client:
            found = await client.get("/api/v1/pods")

    assert found == {"kind": "Pod"}


async def test_a_certificate_for_another_host_is_refused_unless_that_is_switched_off(
    tmp_path: Path, pair: tuple[Path, Path]
) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*pair)

    async with scripted_server(context) as server:
        server.answer({"kind": "Pod"})
        trusting = {"server": server.url, "insecure-skip-tls-verify": True}
        checking = {"server": server.url, "certificate-authority": str(pair[0])}
        async with Client(from_kubeconfig(a_kubeconfig(tmp_path, cluster=checking))) as client:
            with pytest.raises(Unreachable, match=r"127\.0\.0\.1"):
                await client.get("/api/v1/pods")
        async with Client(from_kubeconfig(a_kubeconfig(tmp_path, cluster=trusting))) as client:
            found = await client.get("/api/v1/pods")

    assert found == {"kind": "Pod"}
