"""A machine in memory that can carry a control plane, and requests for one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Optional

from ansible_collections.ballast.kube.plugins.module_utils._control_plane.aggregation.agent.settings import (
    parse_settings,
)
from ansible_collections.ballast.kube.plugins.module_utils._control_plane.engine import ENGINE
from ansible_collections.ballast.kube.plugins.module_utils._control_plane.profiles.resource_dependencies import (
    controllers,
    plugins,
)
from ansible_collections.ballast.kube.plugins.module_utils._control_plane.request import ControlPlaneRequest
from ansible_collections.ballast.kube.plugins.module_utils._control_plane.spec import MAKE
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.context import Context
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.events import NullSink, Progress
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.plan import Plan, Step
from ansible_collections.ballast.kube.plugins.module_utils._core.host.host import Response
from ansible_collections.ballast.kube.plugins.module_utils._core.service.services import service_pid
from tests.unit.fake_supervisors import FakeRunit, FakeSystemd
from tests.unit.fakes import FakeHost, json_answer

COMPONENTS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")  # of profile full
PROGRAMS = (*COMPONENTS, "generic-apiserver", "hyper-mini")
API_SERVERS = ("kube-apiserver", "generic-apiserver", "hyper-mini")
STATE_DIR = "/var/lib/ballast/lab/plane"
BIN_DIR = "/opt/kubernetes"
ADDRESS = "10.97.1.1"
ENDPOINT = f"https://{ADDRESS}:6443"
GATES = ("ClusterTrustBundle", "CoordinatedLeaderElection")
PLUGINS = ", ".join(sorted(plugins(37)))
# As the programs of 1.37.1 write it, less what nobody asks for.
HELP = f"""
Generic flags:

      --feature-gates colonSeparatedMultimapStringString   A set of key=value pairs. Options are:
{chr(10).join(f"                kube:{name}=true|false (BETA - default=false)" for name in GATES)}
      --controllers strings              A list of controllers to enable.
                                         All controllers: {", ".join(sorted(controllers(37)))}
      --runtime-config mapStringString   A set of key=value pairs
      --enable-priority-and-fairness     If true
  -v, --v Level                          number for the log level verbosity
      --crds                             Serve custom resources.
      --aggregation                      Serve APIServices.
      --resources strings                Exactly the native resources to serve
      --disable-admission-plugins strings   admission plugins that should be disabled
      --enable-admission-plugins strings    to enable (NamespaceLifecycle). Comma-delimited list of admission plugins: {PLUGINS}. The order does not matter.
"""
PROGRESS = Progress(NullSink(), feature="plane")
LINKS = [{"ifname": "ballast-lab", "addr_info": [{"local": ADDRESS}]}, {"ifname": "lo", "addr_info": []}]


def params(**changes: Any) -> dict[str, Any]:
    """The parameters as the module gets them: every option, with its default."""
    return {
        **{name: option.get("default") for name, option in MAKE.items()},
        "name": "lab",
        "state_dir": STATE_DIR,
        "kubernetes_version": "1.37.1",
        "bin_dir": BIN_DIR,
        "address": ADDRESS,
        "nodes": [{"name": "n1", "addresses": ["10.97.1.11"]}] if changes.get("profile", "full") == "full" else [],
        **changes,
    }


def desired(**changes: Any) -> ControlPlaneRequest:
    return ControlPlaneRequest.from_params(params(**changes))


class Api:
    """The API server: answers while its service runs, and keeps what it is given. `version` is what it says it is."""

    def __init__(self, host: FakeHost, running: Any) -> None:
        self.objects: dict[str, dict[str, Any]] = {
            "/api/v1/namespaces/default/serviceaccounts/default": {"kind": "ServiceAccount"}
        }
        self.version = "v1.37.1+lab"
        self.failing = ""  # lines of /readyz
        self._host, self._running = host, running
        host.answer("https://", self._answer)
        host.answer("https://", self._patch, method="PATCH")
        host.answer("https://", self._delete, method="DELETE")

    def _answer(self, url: str, body: Optional[bytes]) -> Response:
        if not self._running():
            raise self._host_refuses(url)
        path = "/" + url.split("/", 3)[3]
        if path == "/readyz" and self.failing:
            return Response(status=500, body=self.failing.encode())
        if path in ("/readyz", "/healthz", "/health"):
            return Response(status=200, body=b"ok")
        if path == "/version":
            return json_answer(200, {"gitVersion": self.version})
        return json_answer(200, self.objects[path]) if path in self.objects else json_answer(404, {"kind": "Status"})

    def _patch(self, url: str, body: Optional[bytes]) -> Response:
        path = ("/" + url.split("/", 3)[3]).partition("?")[0]
        self.objects[path] = {**json.loads(body or b""), "status": {}}
        return json_answer(201, self.objects[path])

    def _delete(self, url: str, body: Optional[bytes]) -> Response:
        if not self._running():
            raise self._host_refuses(url)
        found = self.objects.pop("/" + url.split("/", 3)[3], None)
        return json_answer(404 if found is None else 200, found or {"kind": "Status"})

    def _host_refuses(self, url: str) -> Exception:
        from ansible_collections.ballast.kube.plugins.module_utils._core.host.web import no_answer_error

        return no_answer_error("GET", url, ConnectionRefusedError(111, "Connection refused"))


class Machine:
    def __init__(self, *, systemd: bool = False, cgroups: int = 1) -> None:
        self.host = FakeHost(systemd=systemd)
        self.host.given_cgroups(cgroups)
        self.supervisor = FakeSystemd(self.host) if systemd else FakeRunit(self.host)
        self.host.on("ip", "-json", "address", "show", answer=json.dumps(LINKS), reads=True)
        for component in PROGRAMS:
            path = f"{BIN_DIR}/{component}"
            self.host.given(path, "program", mode=0o755)
            said = "etcd Version: 3.6.14\n" if component == "etcd" else "Kubernetes v1.37.1+lab\n"
            self.host.on(path, answer=said, reads=True)  # arguments, then --version
            self.host.on(path, "--help", answer=HELP, reads=True)
        self.api = Api(self.host, self._serves)
        self.host.given_listener("/run/ballast-lab-aggregation/control", self._agent_status)

    def _agent_status(self) -> Optional[str]:
        """Of the aggregation agent: it takes its file when it is started, and when it is sent HUP."""
        if service_pid(self.host, f"{STATE_DIR}/sv/ballast-lab-aggregation") is None:
            return None
        config = self.host.text(f"{STATE_DIR}/config/aggregation.json")
        return json.dumps({"settings": asdict(parse_settings(config, name="the agent's")), "api_services": []})

    def _serves(self) -> bool:
        names = [f"ballast-lab-{name}" for name in API_SERVERS]
        if isinstance(self.supervisor, FakeSystemd):
            return any(f"{name}.service" in self.supervisor.active for name in names)
        return any(self.host.read(f"{STATE_DIR}/sv/{name}/supervise/pid") for name in names)

    def plan(self, **changes: Any) -> Plan:
        wanted = desired(**changes)
        return ENGINE.plan(wanted, ENGINE.observe(Context(wanted, self.host)))

    def run(self, **changes: Any) -> list[Step]:
        """One run, to its end; the steps it took."""
        wanted = desired(**changes)
        plan = ENGINE.plan(wanted, ENGINE.observe(Context(wanted, self.host)))
        ENGINE.apply(plan, Context(wanted, self.host, PROGRESS))
        assert ENGINE.verify(Context(wanted, self.host, PROGRESS)) == []
        return list(plan.steps)


def told(steps: Any) -> list[str]:
    """Steps in short: `change certificate admin.crt`."""
    return [f"{step.verb} {step.kind} {step.target.split(' ')[0].rpartition('/')[2]}" for step in steps]


def flags(argv: tuple[str, ...]) -> Mapping[str, str]:
    """The options of a command line."""
    return dict(word.lstrip("-").split("=", 1) for word in argv[1:])
