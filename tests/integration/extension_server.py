# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A small extension API server: `flunders` of wardle.example.com/v1, kept in memory, and the cluster-scoped `callers`.

    extension_server.py --address 127.0.0.1:8443 --certificate FILE --key FILE --client-ca FILE

Only who has a client certificate that the front-proxy authority signed, for `front-proxy-client`, is believed the user that
its headers name. A flunder says in an annotation who made it; `callers/me` who asks. As an admission webhook, which anybody may
ask, `/admit` refuses what is called `refused`; as a conversion webhook, `/convert` notes in `spec.was` which version an object had. Standard library only.
"""

from __future__ import annotations

import argparse
import json
import re
import ssl
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

GROUP, VERSION = "wardle.example.com", "v1"
GROUP_VERSION = f"{GROUP}/{VERSION}"
_PROXY = "front-proxy-client"
_AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_VERBS = ["create", "delete", "get", "list", "watch"]
_FLUNDERS = re.compile(rf"/apis/{GROUP}/{VERSION}(?:/namespaces/([^/]+))?/flunders(?:/([^/]+))?")
_WATCH_SECONDS = 600

RESOURCES = [
    {"name": "flunders", "singularName": "flunder", "namespaced": True, "kind": "Flunder", "verbs": _VERBS},
    {"name": "callers", "singularName": "caller", "namespaced": False, "kind": "Caller", "verbs": ["get"]},
]
_GROUP = {
    "name": GROUP,
    "versions": [{"groupVersion": GROUP_VERSION, "version": VERSION}],
    "preferredVersion": {"groupVersion": GROUP_VERSION, "version": VERSION},
}


def command(address: str, certificate: str, client_ca: str) -> list[str]:
    """Its command line. The key lies beside the certificate."""
    argv = [sys.executable, __file__, "--address", address, "--certificate", certificate]
    return [*argv, "--key", certificate.removesuffix(".crt") + ".key", "--client-ca", client_ca]


class Flunders:
    """The objects by namespace and name, and what has happened to them."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.objects: dict[tuple[str, str], dict[str, Any]] = {}
        self.events: list[dict[str, Any]] = []  # that of number N made resourceVersion N + 1

    @property
    def version(self) -> str:
        return str(len(self.events))

    def happen(self, kind: str, key: tuple[str, str], item: dict[str, Any]) -> dict[str, Any]:
        with self.changed:
            metadata = {**item["metadata"], "resourceVersion": str(len(self.events) + 1)}
            item = {**item, "metadata": metadata}
            self.events.append({"type": kind, "object": item})
            if kind == "DELETED":
                del self.objects[key]
            else:
                self.objects[key] = item
            self.changed.notify_all()
        return item

    def after(self, number: int) -> list[dict[str, Any]]:
        """The events after this one; waits a little for one."""
        with self.changed:
            self.changed.wait_for(lambda: len(self.events) > number, timeout=5)
            return self.events[number:]

    def listed(self, namespace: str | None) -> list[dict[str, Any]]:
        with self.changed:
            return [item for (where, _name), item in sorted(self.objects.items()) if namespace in (None, where)]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    flunders: Flunders

    def do_GET(self) -> None:
        user = self._user()
        if user is None:
            return
        path, query = urlsplit(self.path).path.rstrip("/"), parse_qs(urlsplit(self.path).query)
        fixed = {
            "/apis": self._group_list,
            f"/apis/{GROUP}": lambda: self._say(200, {"kind": "APIGroup", "apiVersion": "v1", **_GROUP}),
            f"/apis/{GROUP_VERSION}": lambda: self._say(200, _resource_list()),
            f"/apis/{GROUP_VERSION}/callers/me": lambda: self._say(200, self._caller(user)),
            "/openapi/v2": lambda: self._say(200, _openapi_v2()),
            "/openapi/v3": lambda: self._say(200, _openapi_v3_index()),
            f"/openapi/v3/apis/{GROUP_VERSION}": lambda: self._say(200, _openapi_v3()),
            "/healthz": lambda: self._say(200, {}),
        }
        match = _FLUNDERS.fullmatch(path)
        if path in fixed:
            fixed[path]()
        elif match is None:
            self._fail(404, "NotFound", f"{path} is not here")
        elif match[2]:
            self._one(match[1], match[2])
        elif query.get("watch", [""])[0] in ("1", "true"):
            self._watch(match[1], query.get("resourceVersion", [""])[0])
        else:
            meta = {"resourceVersion": self.flunders.version}
            items = self.flunders.listed(match[1])
            self._say(200, {"kind": "FlunderList", "apiVersion": GROUP_VERSION, "metadata": meta, "items": items})

    def do_POST(self) -> None:
        if urlsplit(self.path).path == "/admit":
            self._admit()
            return
        if urlsplit(self.path).path == "/convert":
            self._convert()
            return
        user = self._user()
        if user is None:
            return
        match = _FLUNDERS.fullmatch(urlsplit(self.path).path)
        if match is None or not match[1] or match[2]:
            self._fail(404, "NotFound", "flunders are made in a namespace")
            return
        given = json.loads(self.rfile.read(int(self.headers.get("Content-Length", "0"))))
        key = (match[1], given["metadata"]["name"])
        if key in self.flunders.objects:
            self._fail(409, "AlreadyExists", f"{key[1]} is there")
            return
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        metadata = {
            **given["metadata"],
            "namespace": key[0],
            "uid": f"uid-{key[0]}-{key[1]}-{self.flunders.version}",
            "creationTimestamp": now,
            "annotations": {**given["metadata"].get("annotations", {}), "made-by": user},
        }
        made = {"kind": "Flunder", "apiVersion": GROUP_VERSION, "metadata": metadata, "spec": given.get("spec", {})}
        self._say(201, self.flunders.happen("ADDED", key, made))

    def do_DELETE(self) -> None:
        if self._user() is None:
            return
        self.rfile.read(int(self.headers.get("Content-Length", "0")))
        match = _FLUNDERS.fullmatch(urlsplit(self.path).path)
        key = (match[1], match[2]) if match else ("", "")
        if key not in self.flunders.objects:
            self._fail(404, "NotFound", "there is no such flunder")
            return
        self._say(200, self.flunders.happen("DELETED", key, self.flunders.objects[key]))

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        print(f"{self.command} {self.path} {code} as {self.headers.get('X-Remote-User')}", flush=True)

    def _user(self) -> str | None:
        """Whom the proxy vouches for; None, and an answer, where no proxy does."""
        connection: ssl.SSLSocket = self.connection
        subject = dict(pair for row in (connection.getpeercert() or {}).get("subject", ()) for pair in row)
        user = self.headers.get("X-Remote-User")
        if subject.get("commonName") != _PROXY or not user:
            self._fail(401, "Unauthorized", f"{subject.get('commonName')} is not the proxy, or names no user")
            return None
        return str(user)

    def _admit(self) -> None:
        review = json.loads(self.rfile.read(int(self.headers.get("Content-Length", "0"))))
        request = review["request"]
        allowed = request["name"] != "refused"
        answer = {"uid": request["uid"], "allowed": allowed, "status": {"message": "it is called refused"}}
        self._say(200, {"kind": "AdmissionReview", "apiVersion": review["apiVersion"], "response": answer})

    def _convert(self) -> None:
        review = json.loads(self.rfile.read(int(self.headers.get("Content-Length", "0"))))
        request = review["request"]
        version = request["desiredAPIVersion"]
        converted = [
            {**row, "apiVersion": version, "spec": {**row.get("spec", {}), "was": row["apiVersion"]}}
            for row in request["objects"]
        ]
        answer = {"uid": request["uid"], "convertedObjects": converted, "result": {"status": "Success"}}
        self._say(200, {"kind": "ConversionReview", "apiVersion": review["apiVersion"], "response": answer})

    def _caller(self, user: str) -> dict[str, Any]:
        groups = self.headers.get_all("X-Remote-Group", [])
        return {
            "kind": "Caller",
            "apiVersion": GROUP_VERSION,
            "metadata": {"name": "me"},
            "user": user,
            "groups": groups,
        }

    def _group_list(self) -> None:
        if _AGGREGATED in self.headers.get("Accept", "").replace(" ", ""):
            self._say(200, _aggregated(), _AGGREGATED)
        else:
            self._say(200, {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_GROUP]})

    def _one(self, namespace: str | None, name: str) -> None:
        found = self.flunders.objects.get((namespace or "", name))
        if found is None:
            self._fail(404, "NotFound", f'flunders.{GROUP} "{name}" not found')
        else:
            self._say(200, found)

    def _watch(self, namespace: str | None, version: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        following = int(version) if version.isdecimal() else 0
        deadline = time.monotonic() + _WATCH_SECONDS
        try:
            self.wfile.flush()
            while time.monotonic() < deadline:
                news = self.flunders.after(following)
                following += len(news)
                for event in news:
                    if namespace in (None, event["object"]["metadata"]["namespace"]):
                        line = json.dumps(event).encode() + b"\n"
                        self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
            self.wfile.write(b"0\r\n\r\n")
        except OSError:
            self.close_connection = True

    def _fail(self, code: int, reason: str, message: str) -> None:
        status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
        self._say(code, {**status, "code": code, "reason": reason, "message": message})

    def _say(self, code: int, body: object, kind: str = "application/json") -> None:
        data = json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def _resource_list() -> dict[str, Any]:
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": GROUP_VERSION, "resources": RESOURCES}


def _aggregated() -> dict[str, Any]:
    resources = [
        {
            "resource": row["name"],
            "responseKind": {"group": GROUP, "version": VERSION, "kind": row["kind"]},
            "scope": "Namespaced" if row["namespaced"] else "Cluster",
            "singularResource": row["singularName"],
            "verbs": row["verbs"],
        }
        for row in RESOURCES
    ]
    versions = [{"version": VERSION, "resources": resources, "freshness": "Current"}]
    items = [{"metadata": {"name": GROUP}, "versions": versions}]
    return {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items}


def _schema() -> dict[str, Any]:
    text = {"type": "string"}
    return {
        "type": "object",
        "description": "Flunder is what this server keeps.",
        "properties": {
            "apiVersion": text,
            "kind": text,
            "metadata": {"type": "object"},
            "spec": {"type": "object", "properties": {"size": {"type": "integer"}}},
        },
        "x-kubernetes-group-version-kind": [{"group": GROUP, "version": VERSION, "kind": "Flunder"}],
    }


_DEFINITION = "com.example.wardle.v1.Flunder"


def _openapi_v2() -> dict[str, Any]:
    paths = {f"/apis/{GROUP_VERSION}/namespaces/{{namespace}}/flunders": {}}
    about = {"title": "wardle", "version": VERSION}
    return {"swagger": "2.0", "info": about, "paths": paths, "definitions": {_DEFINITION: _schema()}}


def _openapi_v3_index() -> dict[str, Any]:
    return {"paths": {f"apis/{GROUP_VERSION}": {"serverRelativeURL": f"/openapi/v3/apis/{GROUP_VERSION}?hash=1"}}}


def _openapi_v3() -> dict[str, Any]:
    path = f"/apis/{GROUP_VERSION}/namespaces/{{namespace}}/flunders"
    about = {"title": "wardle", "version": VERSION}
    body = {"application/json": {"schema": {"$ref": f"#/components/schemas/{_DEFINITION}"}}}
    action = {
        "operationId": "createFlunder",
        "responses": {"201": {"description": "made", "content": body}},
        "x-kubernetes-action": "post",
        "x-kubernetes-group-version-kind": {"group": GROUP, "version": VERSION, "kind": "Flunder"},
    }
    components = {"schemas": {_DEFINITION: _schema()}}
    return {"openapi": "3.0.0", "info": about, "paths": {path: {"post": action}}, "components": components}


class Server(ThreadingHTTPServer):
    daemon_threads = True
    context: ssl.SSLContext

    def finish_request(self, request: Any, client_address: Any) -> None:
        """The handshake is made in the connection's thread: one that is slow holds up nobody."""
        request.settimeout(30)
        try:
            secured = self.context.wrap_socket(request, server_side=True)
        except (OSError, ValueError):
            return
        secured.settimeout(None)
        super().finish_request(secured, client_address)
        secured.close()


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("address", "certificate", "key", "client-ca"):
        parser.add_argument(f"--{name}", required=True)
    asked = parser.parse_args()
    host, _colon, port = asked.address.rpartition(":")
    server = Server((host, int(port)), Handler)
    server.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.context.load_cert_chain(asked.certificate, asked.key)
    server.context.load_verify_locations(asked.client_ca)
    server.context.verify_mode = ssl.CERT_OPTIONAL  # an API server shows a webhook none
    Handler.flunders = Flunders()
    print("ready", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
