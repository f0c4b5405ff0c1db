"""How each program of a bed is called: folders, ports, credentials, arguments.

Everything listens on 127.0.0.1, etcd included, and asks for a certificate. Programs that need no listener have none.
"""

import json
from dataclasses import dataclass
from pathlib import Path

from sandberth.cluster.kubeconfig import client_credentials, write_kubeconfig
from sandberth.cluster.ports import LOOPBACK

HERE = Path(__file__).parent
PORT_NAMES = ("etcd", "etcd-peer", "kube-apiserver")
START_ORDER = ("etcd", "kube-apiserver", "kube-controller-manager", "kwok", "kube-scheduler")
_SERVICE_RANGE = "10.96.0.0/16"
_SERVICE_ADDRESS = "10.96.0.1"  # the API server's own Service
_POD_RANGE = "10.128.0.0/9"
_ISSUER = "https://kubernetes.default.svc.cluster.local"

# Kubeconfig -> the user and group that the API server sees.
_CLIENTS = {
    "admin": ("kubernetes-admin", "system:masters"),
    "kube-controller-manager": ("system:kube-controller-manager", None),
    "kube-scheduler": ("system:kube-scheduler", None),
    "kwok": ("kwok", "system:masters"),
}


@dataclass(frozen=True, slots=True)
class BedFolder:
    """The files of one bed, all below `directory`."""

    directory: Path

    @property
    def pki(self) -> Path:
        """Certificates and keys."""
        return self.directory / "pki"

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        return self.directory / "kubeconfig"

    @property
    def state(self) -> Path:
        """What runs where: options, ports, PIDs."""
        return self.directory / "state.json"

    @property
    def logs(self) -> Path:
        """One log a program, and the audit log."""
        return self.directory / "logs"

    @property
    def audit_log(self) -> Path:
        """The writes of Sandberth's service accounts, one JSON object a line."""
        return self.logs / "audit.log"

    @property
    def kubectl(self) -> Path:
        """The bed's kubectl, alone in its folder so that the folder can go on PATH."""
        return self.directory / "bin" / "kubectl"

    def log(self, program: str) -> Path:
        """Return where a program writes."""
        return self.logs / f"{program}.log"

    def client_kubeconfig(self, client: str) -> Path:
        """Return the kubeconfig of one of the bed's own clients."""
        return self.kubeconfig if client == "admin" else self.pki / f"{client}.kubeconfig"


def write_certificates(folder: BedFolder) -> None:
    """Write the bed's authority and what it issues. Needs `cryptography`."""
    from sandberth.cluster.pki import Authority, write_service_account_keys  # noqa: PLC0415  (an optional extra)

    authority = Authority(folder.pki)
    authority.issue_server("kube-apiserver", (LOOPBACK, _SERVICE_ADDRESS))
    authority.issue_server("etcd", (LOOPBACK,))
    authority.issue_client("etcd-client", "kube-apiserver")
    for client, (user, group) in _CLIENTS.items():
        authority.issue_client(client, user, group)
    write_service_account_keys(folder.pki)


def write_client_configs(folder: BedFolder, server: str) -> None:
    """Write the kubeconfigs of all clients, and the scheduler's own configuration."""
    for client in _CLIENTS:
        write_kubeconfig(
            folder.client_kubeconfig(client),
            server=server,
            ca_file=folder.pki / "ca.crt",
            user=client,
            credentials=client_credentials(folder.pki, client),
        )
    connection = {"kubeconfig": str(folder.client_kubeconfig("kube-scheduler")), "qps": 500, "burst": 1000}
    _scheduler_config(folder).write_text(
        json.dumps(
            {
                "apiVersion": "kubescheduler.config.k8s.io/v1",
                "kind": "KubeSchedulerConfiguration",
                "clientConnection": connection,
                "leaderElection": {"leaderElect": False},
            }
        )
    )


def arguments(program: str, folder: BedFolder, ports: dict[str, int], *, audit: bool) -> list[str]:
    """Return the arguments of one program of START_ORDER."""
    if program == "etcd":
        return _etcd(folder, ports)
    if program == "kube-apiserver":
        return _kube_apiserver(folder, ports, audit=audit)
    config = folder.client_kubeconfig(program)
    if program == "kube-controller-manager":
        return [
            f"--kubeconfig={config}",
            f"--authentication-kubeconfig={config}",
            f"--authorization-kubeconfig={config}",
            "--use-service-account-credentials=true",
            f"--service-account-private-key-file={folder.pki / 'sa.key'}",
            f"--root-ca-file={folder.pki / 'ca.crt'}",
            "--leader-elect=false",
            f"--bind-address={LOOPBACK}",
            "--secure-port=0",  # nobody asks it anything
            "--kube-api-qps=500",
            "--kube-api-burst=1000",
        ]
    if program == "kube-scheduler":
        return [f"--config={_scheduler_config(folder)}", f"--bind-address={LOOPBACK}", "--secure-port=0"]
    return [
        f"--kubeconfig={config}",
        f"--config={HERE / 'stages.yaml'}",
        "--manage-all-nodes=true",
        f"--node-ip={LOOPBACK}",
        f"--cidr={_POD_RANGE}",  # one pool for all nodes, so no two pods share an address
        "--node-lease-duration-seconds=40",  # without leases every node flaps
        "--server-address=",  # logs, exec and the like are not played
        "--v=WARN",  # else two lines a pod
    ]


def _etcd(folder: BedFolder, ports: dict[str, int]) -> list[str]:
    client = f"https://{LOOPBACK}:{ports['etcd']}"
    peer = f"https://{LOOPBACK}:{ports['etcd-peer']}"
    pki = folder.pki
    return [
        "--name=bed",
        f"--data-dir={folder.directory / 'etcd'}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=bed={peer}",
        f"--cert-file={pki / 'etcd.crt'}",
        f"--key-file={pki / 'etcd.key'}",
        f"--trusted-ca-file={pki / 'ca.crt'}",
        "--client-cert-auth=true",
        f"--peer-cert-file={pki / 'etcd.crt'}",
        f"--peer-key-file={pki / 'etcd.key'}",
        f"--peer-trusted-ca-file={pki / 'ca.crt'}",
        "--peer-client-cert-auth=true",
        "--unsafe-no-fsync=true",  # safe when the program dies, lost when the machine does: a bed is no archive
        "--snapshot-count=50000",
        f"--quota-backend-bytes={8 * 2**30}",
        "--log-level=warn",
    ]


def _kube_apiserver(folder: BedFolder, ports: dict[str, int], *, audit: bool) -> list[str]:
    pki = folder.pki
    flags = [
        f"--bind-address={LOOPBACK}",
        f"--advertise-address={LOOPBACK}",
        "--endpoint-reconciler-type=none",  # an Endpoints object refuses loopback addresses
        f"--secure-port={ports['kube-apiserver']}",
        f"--tls-cert-file={pki / 'kube-apiserver.crt'}",
        f"--tls-private-key-file={pki / 'kube-apiserver.key'}",
        f"--client-ca-file={pki / 'ca.crt'}",
        f"--etcd-servers=https://{LOOPBACK}:{ports['etcd']}",
        f"--etcd-cafile={pki / 'ca.crt'}",
        f"--etcd-certfile={pki / 'etcd-client.crt'}",
        f"--etcd-keyfile={pki / 'etcd-client.key'}",
        "--authorization-mode=Node,RBAC",
        f"--service-account-issuer={_ISSUER}",
        f"--service-account-signing-key-file={pki / 'sa.key'}",
        f"--service-account-key-file={pki / 'sa.pub'}",
        f"--service-cluster-ip-range={_SERVICE_RANGE}",
        "--allow-privileged=true",
        "--max-requests-inflight=800",
        "--max-mutating-requests-inflight=400",
        "--shutdown-watch-termination-grace-period=2s",  # else a stop waits for watches that never end
    ]
    if audit:
        flags += [
            f"--audit-policy-file={HERE / 'audit-policy.yaml'}",
            f"--audit-log-path={folder.audit_log}",
            "--audit-log-maxsize=0",  # tests count its lines, so it is never rotated
        ]
    return flags


def _scheduler_config(folder: BedFolder) -> Path:
    return folder.pki / "kube-scheduler.json"
