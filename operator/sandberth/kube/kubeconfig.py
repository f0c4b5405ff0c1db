"""Where the API server is and how to log in, from a kubeconfig or from the pod's service account.

Left out on purpose: plug-ins that run programs to log in (`exec`, `auth-provider`), passwords and impersonation.
They end in an error that names the user entry, not in anonymous requests. Of several files in $KUBECONFIG the first
that exists is used; files are not merged.
"""

import base64
import binascii
import os
import ssl
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import yaml

from sandberth.core.errors import SandberthError

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_REREAD_SECONDS = 10.0
_UNSUPPORTED = ("exec", "auth-provider", "username", "password", "as", "as-groups", "as-uid", "as-user-extra")


class KubeconfigError(SandberthError):
    """The kubeconfig cannot be used; `source` names the file or the place looked at."""

    def __init__(self, source: str, message: str) -> None:
        super().__init__(f"{source}: {message}")
        self.source = source


class TokenSource(Protocol):
    """Where the bearer token of the next request comes from."""

    def token(self) -> str | None:
        """Return the token to send, None for no token."""

    def reread(self) -> str | None:
        """Return the token as it is now, after the server refused the last one."""


@dataclass(frozen=True, slots=True)
class StaticToken:
    """A token that never changes, or none at all."""

    value: str | None = None

    def token(self) -> str | None:
        """Return the token."""
        return self.value

    def reread(self) -> str | None:
        """Return the same token: there is nothing to read again."""
        return self.value


class TokenFile:
    """A token that something else renews in a file, such as the kubelet.

    Read again every ten seconds: a projected token is valid for minutes after its successor was written. While the
    file cannot be read the last token stays.
    """

    def __init__(self, path: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._path = path
        self._clock = clock
        self._token: str | None = None
        self._read_at: float | None = None

    def token(self) -> str | None:
        """Return the token, at most ten seconds old."""
        if self._read_at is None or self._clock() - self._read_at >= _REREAD_SECONDS:
            return self.reread()
        return self._token

    def reread(self) -> str | None:
        """Return the token that the file holds now."""
        self._read_at = self._clock()
        try:
            self._token = self._path.read_text(encoding="utf-8").strip() or self._token
        except OSError as error:
            if self._token is None:
                raise KubeconfigError(str(self._path), f"the token cannot be read: {error.strerror}") from error
        return self._token


@dataclass(frozen=True, slots=True)
class ClusterAccess:
    """One API server, and how to reach it as one user. `tls` is None for plain HTTP."""

    server: str
    tls: ssl.SSLContext | None = None
    tokens: TokenSource = StaticToken()
    namespace: str = "default"
    server_hostname: str | None = None  # what the certificate must be for, where that is not the URL's host
    proxy: str | None = None


def cluster_access(path: str | Path | None = None, *, context: str | None = None) -> ClusterAccess:
    """Return the cluster to use: `path`, else $KUBECONFIG, else ~/.kube/config, else the pod's service account.

    Raises KubeconfigError, which names what was tried.
    """
    if path is not None:
        return from_kubeconfig(Path(path).expanduser(), context=context)
    listed = [Path(item).expanduser() for item in os.environ.get("KUBECONFIG", "").split(os.pathsep) if item]
    candidates = listed or [Path("~/.kube/config").expanduser()]
    for candidate in candidates:
        if candidate.is_file():
            return from_kubeconfig(candidate, context=context)
    if (SERVICE_ACCOUNT / "token").is_file():
        return in_cluster()
    tried = ", ".join(str(candidate) for candidate in candidates)
    raise KubeconfigError(tried, "no such kubeconfig, and not inside a pod; name one with --kubeconfig or $KUBECONFIG")


def in_cluster(folder: Path = SERVICE_ACCOUNT, environ: Mapping[str, str] = os.environ) -> ClusterAccess:
    """Return the cluster that this pod runs in, as the pod's own service account."""
    host, port = environ.get("KUBERNETES_SERVICE_HOST"), environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise KubeconfigError("KUBERNETES_SERVICE_HOST", "not set, so this is no pod with a service account")
    tokens = TokenFile(folder / "token")
    tokens.reread()
    try:
        context = ssl.create_default_context(cafile=str(folder / "ca.crt"))
    except (OSError, ssl.SSLError) as error:
        raise KubeconfigError(str(folder / "ca.crt"), f"the certificate cannot be used: {error}") from error
    namespace_file = folder / "namespace"
    namespace = namespace_file.read_text(encoding="utf-8").strip() if namespace_file.is_file() else "default"
    host = f"[{host}]" if ":" in host else host
    return ClusterAccess(f"https://{host}:{port}", context, tokens, namespace)


def from_kubeconfig(path: Path, *, context: str | None = None) -> ClusterAccess:
    """Return the cluster of `context`, by default the file's current one. Raises KubeconfigError."""
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise KubeconfigError(str(path), f"cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise KubeconfigError(str(path), f"is not YAML: {error}") from error
    if not isinstance(document, dict):
        raise KubeconfigError(str(path), "is not a kubeconfig")
    return _Kubeconfig(path, document).access(context)


@dataclass(frozen=True, slots=True)
class _Kubeconfig:
    path: Path
    document: Mapping[str, Any]

    def access(self, context_name: str | None) -> ClusterAccess:
        context_name = context_name or self.document.get("current-context")
        if not context_name:
            raise self._error("has no current-context; set one with `kubectl config use-context`")
        context = self._entry("context", context_name)
        cluster = self._entry("cluster", context.get("cluster"))
        user_name = context.get("user")
        user = self._entry("user", user_name) if user_name else {}
        self._refuse_unsupported(user_name, user)
        server = str(cluster.get("server") or "").rstrip("/")
        if not server.startswith(("https://", "http://")):
            raise self._error(f"cluster {context.get('cluster')!r} has no server URL")
        return ClusterAccess(
            server=server,
            tls=self._tls(cluster, user) if server.startswith("https://") else None,
            tokens=self._tokens(user),
            namespace=context.get("namespace") or "default",
            server_hostname=cluster.get("tls-server-name"),
            proxy=cluster.get("proxy-url"),
        )

    def _entry(self, kind: str, name: Any) -> Mapping[str, Any]:
        for entry in self.document.get(f"{kind}s") or []:
            if entry.get("name") == name:
                return entry.get(kind) or {}
        raise self._error(f"there is no {kind} {name!r}")

    def _refuse_unsupported(self, name: Any, user: Mapping[str, Any]) -> None:
        for field in _UNSUPPORTED:
            if user.get(field):
                raise self._error(
                    f"user {name!r} logs in with {field!r}, which is not supported; "
                    "give it a token (`kubectl create token`), a tokenFile or a client certificate"
                )

    def _tokens(self, user: Mapping[str, Any]) -> TokenSource:
        if user.get("tokenFile"):
            tokens = TokenFile(self._beside(user["tokenFile"]))
            tokens.reread()
            return tokens
        return StaticToken(user.get("token") or None)

    def _tls(self, cluster: Mapping[str, Any], user: Mapping[str, Any]) -> ssl.SSLContext:
        authority = self._bytes(cluster, "certificate-authority")
        try:
            context = ssl.create_default_context(cadata=authority.decode() if authority else None)
            if cluster.get("insecure-skip-tls-verify"):
                context.check_hostname = False
                context.verify_mode = ssl.CERT_NONE
            certificate, key = self._bytes(user, "client-certificate"), self._bytes(user, "client-key")
            if certificate and key:
                _load_client_certificate(context, certificate, key)
        except (ssl.SSLError, UnicodeDecodeError, ValueError) as error:
            raise self._error(f"a certificate or key cannot be used: {error}") from error
        return context

    def _bytes(self, entry: Mapping[str, Any], field: str) -> bytes | None:
        """Return the field's inline data, else the file that it names, else None."""
        if inline := entry.get(f"{field}-data"):
            try:
                return base64.b64decode(inline, validate=True)
            except (binascii.Error, TypeError, ValueError) as error:
                raise self._error(f"{field}-data is not base64") from error
        if not entry.get(field):
            return None
        file = self._beside(entry[field])
        try:
            return file.read_bytes()
        except OSError as error:
            raise self._error(f"{field} {file} cannot be read: {error.strerror}") from error

    def _beside(self, name: str) -> Path:
        return self.path.parent / name  # an absolute name stays as it is

    def _error(self, message: str) -> KubeconfigError:
        return KubeconfigError(str(self.path), message)


def _load_client_certificate(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Load both from a private folder that exists only meanwhile: `ssl` takes file names alone."""
    with tempfile.TemporaryDirectory() as folder:
        files = Path(folder, "certificate.pem"), Path(folder, "key.pem")
        for file, content in zip(files, (certificate, key), strict=True):
            file.write_bytes(content)
        context.load_cert_chain(*files)
