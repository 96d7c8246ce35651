"""A real control plane for tests: etcd, kube-apiserver with RBAC, and kube-controller-manager where it is wanted.

Owns the processes, their certificates, and the kubeconfig. Must not know what is tested. Called through the fixtures of
`tests.kube.conftest`, and by the bench. A program that is missing fails the tests, they are never skipped.

No kubelet and no scheduler run; no admission looks for service accounts or taints new nodes (nobody would take that off
again), so pods and nodes stay as the tests make them.
Nothing here is durable (etcd doesn't sync), and etcd is compacted only when a test says so.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import trustme
import yaml

from vcledger.runtime.wire import WirePort, connect
from volcano.objects.kinds import KINDS, Kind

ROOT = Path(__file__).parents[2]
BUILT = ROOT / ".cache" / "kube"
CRDS = ROOT / "deploy" / "crds"

START_SECONDS_MAX = 300.0
STOP_SECONDS_MAX = 5.0
"""Then it is killed: an API server waits for whoever still watches, far longer than tests have to."""
ANSWER_SECONDS_MAX = 120.0
"""For what tests ask as the administrator: longer than a busy machine takes."""

PORTS = (15_000, 30_000)
"""Where a control plane's ports are: below those that the kernel gives to whoever asks for any, so that none of them is
taken between its choice and its use, nor while a server that is restarted is down."""


TOKENS = {"admin": "system:masters", "nobody": ""}
"""Users that a context of the kubeconfig is for, each with its group; they say who they are with a token."""

CONTROLLERS = (
    "persistentvolume-binder-controller",
    "persistentvolume-protection-controller",
    "persistentvolumeclaim-protection-controller",
)
"""What of kube-controller-manager volumes need."""


class MissingProgram(Exception):
    """A program of the control plane has not been built."""


def program(name: str) -> Path:
    """Where a program is: in KUBEBUILDER_ASSETS, else built by `make kube`."""
    for folder in (os.environ.get("KUBEBUILDER_ASSETS"), BUILT):
        if folder and os.access(Path(folder) / name, os.X_OK):
            return Path(folder) / name
    raise MissingProgram(f"{name} is not there: run make kube")


def await_build(folder: Path = BUILT) -> None:
    """Waits while `kube/build` runs, as it does beside the first tests; it holds this lock until all is built."""
    try:
        with (folder / ".lock").open() as lock:
            fcntl.flock(lock, fcntl.LOCK_SH)
    except FileNotFoundError:
        return


class ControlPlane:
    """One API server on an etcd of its own. `folder` holds everything, `logs` among it; `kubeconfig` has a context for
    each user of TOKENS and one, `certificate`, that uses a client certificate."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.kubeconfig = folder / "kubeconfig"
        self.etcd_port, self.peer_port, self.api_port = free_ports(3)
        self.url = f"https://127.0.0.1:{self.api_port}"
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self._port: WirePort | None = None
        self._names = 0
        self._defined = False

    # --- its life -------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Starts etcd and the API server, and puts our definitions in. RuntimeError with the end of the log when one
        does not come up."""
        await_build()
        for name in ("etcd", "kube-apiserver"):
            program(name)
        (self.folder / "logs").mkdir(parents=True, exist_ok=True)
        self._write_certificates()
        self._write_kubeconfig()
        self._run("etcd", self._etcd_flags())
        self._wait("etcd", lambda: _answers(f"http://127.0.0.1:{self.etcd_port}/readyz"))
        self.start_api()
        self.apply(sorted(CRDS.glob("*.yaml")))
        self._defined = True
        self._wait("kube-apiserver", self._serves_all_kinds)

    def start_api(self) -> None:
        """Starts the API server on the etcd that runs; it serves Volcano's kinds where they are defined already."""
        self._run("kube-apiserver", self._api_flags())
        self._wait("kube-apiserver", lambda: self.port.raw("GET", "/readyz").code == 200)
        if self._defined:
            self._wait("kube-apiserver", self._serves_all_kinds)

    def stop_api(self, *, kill: bool = False) -> None:
        """Stops the API server, as a node's shutdown does, or, with `kill`, at once."""
        self._stop("kube-apiserver", signal.SIGKILL if kill else signal.SIGTERM)

    def restart_api(self, *, kill: bool = False) -> None:
        """A new API server on the same etcd and port; its watch caches begin with what there is now."""
        self.stop_api(kill=kill)
        self.start_api()

    @contextmanager
    def hanging(self) -> Iterator[None]:
        """While it lasts the API server answers nothing, and its connections stay open."""
        process = self.processes["kube-apiserver"]
        process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            process.send_signal(signal.SIGCONT)

    @contextmanager
    def controllers(self, names: Sequence[str] = CONTROLLERS, flags: Sequence[str] = ()) -> Iterator[None]:
        """While it lasts these controllers run."""
        (port,) = free_ports(1)
        self._run("kube-controller-manager", [*self._controller_flags(port, names), *flags])
        try:
            self._wait("kube-controller-manager", lambda: self._controllers_run(port))
            yield
        finally:
            self._stop("kube-controller-manager", signal.SIGTERM)

    def stop(self) -> None:
        """Stops everything, those first that need the others."""
        if self._port is not None:
            self._port.close()
        for name in ("kube-controller-manager", "kube-apiserver"):
            self._stop(name, signal.SIGTERM)
        self._stop("etcd", signal.SIGKILL)

    # --- what tests ask for ---------------------------------------------------------------------------------------

    @property
    def port(self) -> WirePort:
        """The API as the administrator sees it; one for all who ask."""
        if self._port is None:
            self._port = self.connect(request_seconds=ANSWER_SECONDS_MAX)
        return self._port

    def connect(self, context: str = "admin", **options: Any) -> WirePort:
        """A port of one's own, by a context of the kubeconfig; to be closed."""
        port = connect(context, self.kubeconfig)
        return WirePort(port.access, **options) if options else port

    def namespace(self) -> str:
        """A new namespace."""
        self._names += 1
        name = f"test-{os.getpid()}-{self._names}"
        self.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}}, code=201)
        return name

    def request(self, verb: str, path: str, body: Any = None, *, code: int = 200, type_: str = "") -> Any:
        """One request as the administrator, of whatever path; the decoded answer, whose code must be the one given."""
        data = None if body is None else json.dumps(body).encode()
        answer = self.port.raw(verb, path, data, type_ or ("application/json" if data else ""))
        if answer.code != code:
            raise AssertionError(f"{verb} {path}: {answer.code} {answer.body.decode(errors='replace')[:1000]}")
        return json.loads(answer.body) if answer.body else None

    def apply(self, paths: Sequence[Path]) -> None:
        """Applies the definitions in these files."""
        for path in paths:
            for item in yaml.safe_load_all(path.read_text()):
                if item["kind"] == "CustomResourceDefinition":
                    where = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{item['metadata']['name']}"
                    where += "?fieldManager=tests&force=true"
                    answer = self.port.raw("PATCH", where, json.dumps(item).encode(), "application/apply-patch+yaml")
                    assert answer.ok, answer

    def compact(self) -> int:
        """etcd forgets its history up to now; up to which revision."""
        revision = int(self._etcd("kv/range", {"key": "AA=="})["header"]["revision"])
        self._etcd("kv/compaction", {"revision": str(revision), "physical": True})
        return revision

    def wipe(self) -> None:
        """Deletes all objects of the kinds that the ledger knows, whatever finalizers they have, and the namespaces
        that tests made stay, empty."""
        with ThreadPoolExecutor(8) as pool:
            for kind in KINDS:
                for item in self._all(kind):
                    pool.submit(self._remove, kind, item["metadata"]).add_done_callback(lambda done: done.result())

    # --- parts ----------------------------------------------------------------------------------------------------

    def _all(self, kind: Kind) -> list[Any]:
        prefix = f"/apis/{kind.group}" if kind.group else "/api"
        answer = self.port.raw("GET", f"{prefix}/{kind.versions[0]}/{kind.resource}")
        items = json.loads(answer.body)["items"] if answer.ok else []
        return [item for item in items if not item["metadata"]["name"].startswith("system-")]

    def _remove(self, kind: Kind, meta: Any) -> None:
        prefix = f"/apis/{kind.group}" if kind.group else "/api"
        where = f"/namespaces/{meta['namespace']}" if kind.namespaced else ""
        path = f"{prefix}/{kind.versions[0]}{where}/{kind.resource}/{meta['name']}"
        if meta.get("finalizers"):
            self.port.raw("PATCH", path, b'{"metadata":{"finalizers":null}}', "application/merge-patch+json")
        self.port.raw("DELETE", path, b'{"gracePeriodSeconds":0,"propagationPolicy":"Background"}', "application/json")

    def _serves_all_kinds(self) -> bool:
        """A definition is served some moments after it was put in."""
        paths = (f"/apis/{kind.group}/{kind.versions[0]}/{kind.resource}" for kind in KINDS if "volcano" in kind.group)
        return all(self.port.raw("GET", path).code == 200 for path in paths)

    def _etcd(self, call: str, body: Any) -> Any:
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.etcd_port}/v3/{call}", json.dumps(body).encode(), method="POST"
        )
        with urllib.request.urlopen(request, timeout=ANSWER_SECONDS_MAX) as answer:
            return json.load(answer)

    def _run(self, name: str, flags: Sequence[str]) -> None:
        with (self.folder / "logs" / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                [program(name), *flags],
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                cwd=self.folder,
                start_new_session=True,  # an interrupt at the keyboard is ours to handle
                preexec_fn=_die_with_parent,  # noqa: PLW1509 - it makes one system call and takes no lock
            )

    def _wait(self, name: str, ready: Any) -> None:
        deadline = time.monotonic() + START_SECONDS_MAX
        while not ready():
            if self.processes[name].poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{name} did not come up:\n{self.log(name)}")
            time.sleep(0.05)

    def log(self, name: str, lines: int = 30) -> str:
        """The end of a process's log."""
        text = (self.folder / "logs" / f"{name}.log").read_text(errors="replace")
        return "\n".join(text.splitlines()[-lines:])

    def _stop(self, name: str, how: signal.Signals) -> None:
        process = self.processes.pop(name, None)
        if process is None:
            return
        process.send_signal(how)
        try:
            process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _write_certificates(self) -> None:
        authority = trustme.CA()
        authority.cert_pem.write_to_path(str(self.folder / "ca.crt"))
        server = authority.issue_cert("127.0.0.1", "localhost")
        server.private_key_pem.write_to_path(str(self.folder / "server.key"))
        server.cert_chain_pems[0].write_to_path(str(self.folder / "server.crt"))
        client = authority.issue_cert("tests@example.com", common_name="tests", organization_name="system:masters")
        client.private_key_pem.write_to_path(str(self.folder / "client.key"))
        client.cert_chain_pems[0].write_to_path(str(self.folder / "client.crt"))
        lines = [f'{name}-token,{name},{name},"{group}"\n' for name, group in TOKENS.items()]
        (self.folder / "tokens.csv").write_text("".join(lines))

    def _write_kubeconfig(self) -> None:
        cluster = {"server": self.url, "certificate-authority": str(self.folder / "ca.crt")}
        users: dict[str, Any] = {name: {"token": f"{name}-token"} for name in TOKENS}
        users["certificate"] = {
            "client-certificate": str(self.folder / "client.crt"),
            "client-key": str(self.folder / "client.key"),
        }
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "tests", "cluster": cluster}],
            "users": [{"name": name, "user": user} for name, user in users.items()],
            "contexts": [{"name": name, "context": {"cluster": "tests", "user": name}} for name in users],
            "current-context": "admin",
        }
        self.kubeconfig.write_text(yaml.safe_dump(config))

    def _etcd_flags(self) -> list[str]:
        client, peer = f"http://127.0.0.1:{self.etcd_port}", f"http://127.0.0.1:{self.peer_port}"
        return [
            f"--data-dir={self.folder / 'etcd'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--unsafe-no-fsync",
            "--log-level=warn",
        ]

    def _api_flags(self) -> list[str]:
        return [
            f"--etcd-servers=http://127.0.0.1:{self.etcd_port}",
            "--etcd-compaction-interval=0",
            "--bind-address=127.0.0.1",
            f"--secure-port={self.api_port}",
            f"--tls-cert-file={self.folder / 'server.crt'}",
            f"--tls-private-key-file={self.folder / 'server.key'}",
            f"--client-ca-file={self.folder / 'ca.crt'}",
            f"--token-auth-file={self.folder / 'tokens.csv'}",
            "--authorization-mode=RBAC",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={self.folder / 'server.key'}",
            f"--service-account-signing-key-file={self.folder / 'server.key'}",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--endpoint-reconciler-type=none",
            "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
            "--profiling=false",
            "--shutdown-delay-duration=0",
        ]

    def _controller_flags(self, port: int, names: Sequence[str]) -> list[str]:
        return [
            f"--kubeconfig={self.kubeconfig}",
            f"--controllers={','.join(names)}",
            "--leader-elect=false",
            "--bind-address=127.0.0.1",
            f"--secure-port={port}",
            f"--tls-cert-file={self.folder / 'server.crt'}",
            f"--tls-private-key-file={self.folder / 'server.key'}",
            f"--service-account-private-key-file={self.folder / 'server.key'}",
            "--pvclaimbinder-sync-period=1s",
        ]

    def _controllers_run(self, port: int) -> bool:
        import ssl

        context = ssl.create_default_context(cafile=self.folder / "ca.crt")
        return _answers(f"https://127.0.0.1:{port}/healthz", context)


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on, drawn at random: another control plane of this machine draws others."""
    found: list[int] = []
    for port in random.SystemRandom().sample(range(*PORTS), 1_000):
        with socket.socket() as one, contextlib.suppress(OSError):
            one.bind(("127.0.0.1", port))
            found.append(port)
        if len(found) == count:
            return found
    raise RuntimeError(f"no {count} free ports from {PORTS[0]} to {PORTS[1]}")


def _answers(url: str, context: Any = None) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=10, context=context) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


try:
    _LIBC: Any = ctypes.CDLL(None)
except OSError:  # pragma: no cover
    _LIBC = None


def _die_with_parent() -> None:
    """The kernel ends the process when ours is gone, however that went."""
    if hasattr(_LIBC, "prctl"):
        _LIBC.prctl(1, signal.SIGKILL)


@contextmanager
def running_control_plane(keep_logs: Path | None = None) -> Iterator[ControlPlane]:
    """A control plane, and its end. Where it fails, its logs are copied to `keep_logs`."""
    folder = Path(tempfile.mkdtemp(prefix="vcledger-kube-"))
    plane = ControlPlane(folder)
    try:
        plane.start()
        yield plane
    finally:
        plane.stop()
        if keep_logs is not None:
            shutil.rmtree(keep_logs, ignore_errors=True)
            shutil.copytree(folder / "logs", keep_logs, dirs_exist_ok=True)
        shutil.rmtree(folder, ignore_errors=True)
