# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the redactor leaves out, what it keeps, that it is idempotent, and that no text takes long."""

from __future__ import annotations

import base64
import io
import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.ballast.kube.plugins.module_utils._agent.log import Log
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.events import Event, Progress
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.plan import Plan, Policy, Step
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.plan_report import plan_diff
from ansible_collections.ballast.kube.plugins.module_utils._core.host.web import no_answer_error
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import (
    BallastError,
    CommandFailed,
    Message,
    Messages,
    UserError,
)
from ansible_collections.ballast.kube.plugins.module_utils._core.text.redaction import (
    REDACTED,
    redact,
    redact_argv,
    redact_json,
    redact_message,
    redact_result,
)
from tests.unit.fakes import ListSink

S = "c4n4ry-Xy7"
TOKEN = "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJrdWJlIn0.c4n4ryXy7signature"
DOCKER = base64.b64encode(f'{{"auths":{{"r.test":{{"auth":"{S}"}}}}}}'.encode()).decode()

SECRETS = [
    # URLs
    (f"http://user:{S}@proxy.test:3128/x", "http://(redacted)@proxy.test:3128/x"),
    (f"http://user:a/{S}@proxy.test:3128/x", "http://(redacted)@proxy.test:3128/x"),
    (f"http://user:p@{S}@proxy.test/", "http://(redacted)@proxy.test/"),
    (f"https://{S}@git.test/x", "https://(redacted)@git.test/x"),
    (f"proxy user:{S}@proxy.test:3128", "proxy (redacted)@proxy.test:3128"),
    (f"https://h.test/x?token={S}&part=2", "https://h.test/x?token=(redacted)&part=2"),
    (f"https://h.test/x?part=2&X-Amz-Signature={S}", "https://h.test/x?part=2&X-Amz-Signature=(redacted)"),
    (f"https://h.test/x?sig={S}", "https://h.test/x?sig=(redacted)"),
    (f"https://h.test/#access_token={S}", "https://h.test/#access_token=(redacted)"),
    (f'Acquire::http::Proxy "http://user:{S}@h.test:1";', 'Acquire::http::Proxy "http://(redacted)@h.test:1";'),
    # settings
    (f'  password = "{S}"\n  username = "u"', '  password = "(redacted)"\n  username = "u"'),
    (f"password: my {S} phrase\nmode: 1", "password: (redacted)\nmode: 1"),
    (f"auth = '{S}'", "auth = '(redacted)'"),
    (f"password='it''s {S}'", "password='(redacted)'"),
    (f'password = """a\n{S}"""', 'password = """(redacted)"""'),
    (f"PASSWORD=my {S} phrase", "PASSWORD=(redacted)"),
    (f"AWS_SECRET_ACCESS_KEY={S}", "AWS_SECRET_ACCESS_KEY=(redacted)"),
    (f"spring.datasource.password={S}", "spring.datasource.password=(redacted)"),
    (f"encryption_key: {S}", "encryption_key: (redacted)"),
    (f'Environment="TOKEN={S}"', 'Environment="TOKEN=(redacted)"'),
    (f"passwordHash: {S}", "passwordHash: (redacted)"),
    (f"secret: |\n  line {S}\n   {S}\nnext: x", "secret: |\n(redacted)\nnext: x"),
    (f"tokens:\n  - {S}\n  - {S}\nnext: x", "tokens:\n(redacted)\nnext: x"),
    (f'tokens = ["{S}", "{S}"]', "tokens = (redacted)"),
    (f"- name: DB_PASSWORD\n  value: {S}", "- name: DB_PASSWORD\n  value: (redacted)"),
    (f'{{"name": "DB_PASSWORD", "value": "{S}"}}', '{"name": "DB_PASSWORD", "value": "(redacted)"}'),
    (f'{{"auths": {{"r": {{"auth": "{S}"}}}}}}', '{"auths": {"r": {"auth": "(redacted)"}}}'),
    (f'"auth": "{S}\\"{S}"', '"auth": "(redacted)"'),
    (f'{{\\"token\\": \\"{S}\\"}}', '{\\"token\\": \\"(redacted)\\"}'),
    (f"<password>{S}</password>", "<password>(redacted)</password>"),
    (f"machine h.test login u password {S}", "machine h.test login u password (redacted)"),
    (f"client-key-data: {S}\nname: x", "client-key-data: (redacted)\nname: x"),
    (f"kubectl.kubernetes.io/last-applied-configuration: |\n  {S}\n", None),
    # headers
    (f"Authorization: Bearer {S}", "Authorization: (redacted)"),
    (f"authorization: Basic {S}aaaa", "authorization: (redacted)"),
    (f"sent bearer {S} to it", "sent bearer (redacted) to it"),
    (f"X-Registry-Auth: {S}", "X-Registry-Auth: (redacted)"),
    (f"Set-Cookie: {S}", "Set-Cookie: (redacted)"),
    ("> Authorization: Basic canarywords\n> Accept: x", "> Authorization: (redacted)\n> Accept: x"),
    (f"curl -H 'Authorization: Token {S}' x", "curl -H 'Authorization: (redacted)' x"),
    (f"> Cookie: a=1; session={S}", "> Cookie: (redacted)"),
    # commands
    (f"kubectl create secret generic x --from-literal=password={S}", None),
    (f"SECRET_KEY_BASE={S}", "SECRET_KEY_BASE=(redacted)"),
    (f"PGPASSWORD={S} psql", None),
    (f"redis://:{S}@h.test/1", "redis://(redacted)@h.test/1"),
    (f"cmd --token={S} --other y", "cmd --token=(redacted) --other y"),
    (f"cmd --token {S} --other y", "cmd --token (redacted) --other y"),
    (f"cmd a=b TOKEN={S} c=d", "cmd a=b TOKEN=(redacted) c=d"),
    (f"curl -u user:{S} x", "curl -u user:(redacted) x"),
    (f"openssl -passin pass:{S} x", None),
    (f"['--token', '{S}']", "['--token', '(redacted)']"),
    (f'"--token",\n "{S}"', '"--token",\n "(redacted)"'),
    # forms
    (f"token {TOKEN} end", "token (redacted) end"),
    (f"x\\n{TOKEN}", None),
    (f".dockerconfigjson: {DOCKER}", ".dockerconfigjson: (redacted)"),
    ("ghp_0123456789abcdefghij0123456789abcdef", "(redacted)"),
    (
        f"a\n-----BEGIN RSA PRIVATE KEY-----\nMII{S}\n-----END RSA PRIVATE KEY-----\nrest",
        "a\n(redacted)\nrest",
    ),
    (f"-----BEGIN PRIVATE KEY-----\\nMII{S}\\n-----END PRIVATE KEY-----", "(redacted)"),
    (f"-----BEGIN OPENSSH PRIVATE KEY-----\nb3Bl{S.replace('-', '')}\n", None),
    ("MIIc4n4ry\nXy7==\n-----END PRIVATE KEY-----\nrest", "(redacted)\nrest"),
    (base64.b64encode(f"-----BEGIN EC PRIVATE KEY-----\n{S}".encode()).decode(), "(redacted)"),
]


@pytest.mark.parametrize(("text", "shown"), SECRETS)
def test_a_secret_is_left_out_and_the_rest_is_kept(text: str, shown: str | None) -> None:
    found = redact(text)
    assert S not in found
    assert "c4n4ry" not in found
    assert "canarywords" not in found
    assert REDACTED in found
    assert shown is None or found == shown
    assert redact(found) == found
    assert "c4n4ry" not in redact_message(text) or " phrase" in text or "\n" in text or "openssl" in text


@pytest.mark.parametrize(
    "text",
    [
        "ssh_key: /var/lib/ballast/lab/vms/ssh_key",
        "key: node.kubernetes.io/unreachable",
        "docker.io/library/busybox:1.2@sha256:0123456789abcdef",
        "basic authentication failed, bearer authentication too",
        "--kubeconfig /etc/kubernetes/admin.conf",
        "token: /var/run/secrets/kubernetes.io/serviceaccount/token",
        "tokenFile: abc",
        "anonymous-auth=false",
        "--service-account-key-file=/etc/x/sa.key",
        "authorization-mode=Node,RBAC",
        "public_key: ssh-ed25519",
        "password: ${DB_PASSWORD}",
        "password = <password>",
        "monkey: banana",
        "the secret default/db is missing",
        "https://10.0.0.1:6443/api/v1/pods?limit=500&continue=abc",
        "http://[fe80::1]:8080/a@b",
        "-----BEGIN CERTIFICATE-----\nMIIabc\n-----END CERTIFICATE-----",
        "certificate-authority-data: LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1JSQ==",
        "ssh root@10.97.0.101",
        "",
    ],
)
def test_what_is_no_secret_is_kept(text: str) -> None:
    assert redact(text) == text
    assert redact_message(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "kubeconfig.token: not a text",
        "lab.nodes[0].taints.key: it is empty",
        "encryption_key: needs 32 bytes",
        "give --token to the command",
        "password: may not be empty",
    ],
)
def test_a_sentence_about_a_secret_is_kept(text: str) -> None:
    assert redact_message(text) == text


_PIECES = st.sampled_from(
    [
        *(
            "password",
            "token",
            "key",
            "=",
            ":",
            ": ",
            " = ",
            '"',
            "'",
            "\\",
            "\n",
            " ",
            "-",
            "- ",
            "http://",
            "@",
            "/",
            "?",
        ),
        *(
            "&",
            "eyJ",
            ".",
            "abc",
            "X1y2",
            "[",
            "]",
            "{",
            "}",
            ",",
            "--",
            "Bearer ",
            "|",
            "name: ",
            "value: ",
            "<",
            ">",
            "$",
        ),
        *("-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----", "LS0tLS1CRUdJTi", "Authorization", "(redacted)"),
    ]
)


@given(st.one_of(st.text(), st.lists(_PIECES, max_size=24).map("".join)))
def test_what_was_redacted_is_not_changed_again(text: str) -> None:
    once = redact(text)
    twice = redact(once)
    assert redact(twice) == twice
    assert len(twice) <= len(once) + len(REDACTED) * (len(text) + 1)


@pytest.mark.parametrize("separator", ["", "\n"])
@pytest.mark.parametrize(
    "piece",
    [
        *("a", "=", "token=", "token: ", "eyJ", "eyJ.", "://", "://a@", "a:b@", "\\", '"', 'token="', 'token="\\', "'"),
        *("-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----", "bearer ", "login a ", "[", "token: [", "key:"),
        *(
            "token:\n ",
            "password: |\n ",
            "name: x value",
            "name: token\n value: ",
            "LS0tLS1CRUdJTi",
            "http://a:b/",
            "-",
            " ",
        ),
        *(
            "?a=b",
            "ghp_",
            "tokens:\n- a\n",
            "name:a,  \n",
            "A+/",
            "--token -",
            "<token>",
            '"--token",',
            "-u a:",
            "\0",
            "\u00e9",
        ),
        *("password='", "password=''", "token \\\\", "a.", "a-", "token=a\\'", "key={", "token:\n\n"),
    ],
)
def test_no_long_text_takes_long(piece: str, separator: str) -> None:
    text = (piece + separator) * (2**18 // len(piece + separator))
    start = time.process_time()
    redact(text)
    assert time.process_time() - start < 2.5  # 0.4 s at most here; what is quadratic takes minutes


POD: dict[str, Any] = {
    "kind": "Pod",
    "metadata": {"name": "p", "annotations": {"kubectl.kubernetes.io/last-applied-configuration": S, "a": S}},
    "spec": {
        "containers": [
            {
                "name": "c",
                "image": "busybox:1",
                "env": [{"name": "PLAIN", "value": S}],
                "envFrom": [{"prefix": S}],
                "command": ["sh", "-c", S],
                "args": [S],
                "livenessProbe": {"exec": {"command": ["cat", S]}},
                "readinessProbe": {"httpGet": {"path": "/", "httpHeaders": [{"name": "X-Any", "value": S}]}},
            }
        ],
        "tolerations": [{"key": "node.kubernetes.io/unreachable", "operator": "Exists", "tolerationSeconds": 300}],
        "imagePullSecrets": [{"name": "pull"}],
        "automountServiceAccountToken": True,
    },
}


def test_of_a_pod_what_its_owner_wrote_is_left_out() -> None:
    found = redact_json({"items": [POD]})
    assert S not in json.dumps(found)
    pod = found["items"][0]
    assert pod["spec"]["containers"][0]["image"] == "busybox:1"
    assert pod["spec"]["containers"][0]["env"] == REDACTED
    assert set(pod["metadata"]["annotations"]) == set(POD["metadata"]["annotations"])
    assert pod["spec"]["tolerations"] == POD["spec"]["tolerations"]
    assert pod["spec"]["imagePullSecrets"] == [{"name": "pull"}]
    assert redact_json(found) == found


@pytest.mark.parametrize("kind", ["Secret", "ConfigMap"])
def test_data_of_an_object_that_holds_data_is_left_out(kind: str) -> None:
    found = redact_json({"kind": kind, "data": {"a": S}, "stringData": {"b": S}, "binaryData": {}})
    assert found == {"kind": kind, "data": {"a": REDACTED}, "stringData": {"b": REDACTED}, "binaryData": {}}


def test_fields_with_names_of_secrets_are_left_out() -> None:
    value = {
        "token": S,
        "password": 1234,
        "wrapped": {"password": {"value": S, "file": "/etc/x/pw"}},
        "overlay": {"env": [{"name": "PLAIN", "value": S}]},
        "nested": {"clientSecret": S, "tokens": [S]},
        "argv": ["kubectl", "--token", S, f"--password={S}"],
        "key": S,
        "ssh_key": "/srv/lab/ssh_key",
        "credentials": ["n1", "n2"],
        "secrets": 3,
        "enabled_auth": True,
        "labels": {"auth": "ldap", "key": "a", "token": "b"},
        "images": {"quay.test/x/auth:1": "sha256:" + "0" * 64, "quay.test/x/auth:2": "other"},
        "auth": "sha256:" + "0" * 64,
        "taint": {"key": "dedicated", "effect": "NoSchedule"},
    }
    found = redact_json(value)
    assert S not in json.dumps(found)
    for name in ("ssh_key", "credentials", "secrets", "enabled_auth", "taint", "labels", "images", "auth"):
        assert found[name] == value[name]
    assert found["password"] == REDACTED


def test_a_command_is_redacted_word_by_word() -> None:
    argv = [
        "curl",
        "-u",
        f"u:{S}",
        "-H",
        f"Authorization: Bearer {S}",
        "--token",
        S,
        "--token",
        "--other",
        "x",
        "-x",
        f"u:{S}@h",
    ]
    found = redact_argv(argv)
    assert S not in " ".join(found)
    assert len(found) == len(argv)
    assert redact_argv(found) == found
    assert "--other" in found


# Where it stands: each place that writes something for others.


def test_an_error_holds_no_secret() -> None:
    table = Messages("docs/x.md", [Message("x-y", UserError, "{url}: no", "see {url}")])
    url = f"https://u:{S}@h.test/?token={S}"
    errors = [
        table.error("x-y", url=url, found=f"password = {S}"),
        CommandFailed(["kubeadm", "join", "--token", S, url], status=1, output=f"TOKEN={S}\nrefused"),
        no_answer_error("GET", url, OSError(f"Bearer {S}")),
        BallastError(url, id="a", found=TOKEN, remedy=url),
    ]
    for error in errors:
        for text in (str(error), error.in_one_line, repr(error), str(error.args)):
            assert "c4n4ry" not in text
    assert "refused" in str(errors[1])
    assert "kubeadm join --token" in str(errors[1])


def test_an_event_holds_no_secret() -> None:
    sink = ListSink()
    progress = Progress(sink, feature="vm")
    progress.started(f"http://u:{S}@h/", f"waiting: --token={S}")
    progress.failed("x", f"curl http://u:{S}@h/ refused")
    assert all(isinstance(event, Event) for event in sink.events)
    assert S not in repr(sink.events)
    assert "refused" in repr(sink.events)


def test_an_agents_log_holds_no_secret() -> None:
    stream = io.StringIO()
    Log(stream).event(
        "pull-failed", image="r.test/a:1", error=f"GET https://u:{S}@r.test/?sig={S}: denied", token=S, code=7
    )
    text = stream.getvalue()
    assert S not in text
    assert "denied" in text
    assert "image=r.test/a:1" in text
    assert "code=7" in text


def test_a_difference_holds_no_secret() -> None:
    step = Step(kind="object", title="t", target="x", after={"token": S, "mode": "a"}, before=None)
    [row] = plan_diff(Plan(steps=(step,), policy=Policy.KEEP))
    assert S not in row["after"]
    assert '"mode": "a"' in row["after"]


def test_a_result_holds_no_secret_and_keeps_what_its_page_promises() -> None:
    found = redact_result(
        {
            "key": "0123456789abcdef",
            "ssh_key": "/srv/lab/vms/ssh_key",
            "msg": f"http://u:{S}@h/: no",
            "diff": [{"before": f'password = "{S}"\n', "after": "", "before_header": "config.toml"}],
            "settings": {"token": S},
        }
    )
    assert S not in json.dumps(found)
    assert (found["key"], found["ssh_key"]) == ("0123456789abcdef", "/srv/lab/vms/ssh_key")
