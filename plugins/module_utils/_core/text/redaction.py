# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The one redactor. Everything that leaves a machine in an archive, log, event, error, result or diff passes through it.

    redact(text)         keys, tokens, passwords, credentials in URLs; found by their form or by the name beside them
    redact_message(text) the same for prose, where "token: not a text" is about a token and contains none
    redact_argv(argv)    a command line, word by word
    redact_result(value) what a module returns
    redact_json(value)   JSON data, by field names; also `env`, `command` and `args` of containers, annotations of
                         objects, data of Secrets and ConfigMaps

`(redacted)` replaces what is removed. Pure, idempotent, and linear in the length of the text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Optional

REDACTED = "(redacted)"

_PASSWORDS = frozenset(("password", "passwords", "passwd", "passphrase", "pwd", "pass", "requirepass", "masterauth"))
_SECRETS = frozenset(
    (
        *("accesstoken", "apikey", "auth", "authorization", "authtoken", "cookie"),
        *("identitytoken", "jwt", "psk", "registrytoken", "secret", "secrets", "sig", "signature", "token", "tokens"),
    )
)
_KEYS = frozenset(("credential", "credentials", "key", "keys"))  # weaker hints: the value is often a path or a name
# Suffixes of names written as one word: dbpassword, clientsecret.
_ENDS_PASSWORD = ("password", "passwd", "passphrase")
_ENDS_SECRET = ("token", "secret", "apikey", "accesskey", "secretkey", "privatekey")
# Encodings that may follow the word that matters: client-key-data, passwordHash.
_FORMS = frozenset(("b64", "base", "base64", "data", "hash", "plain", "raw", "string", "text", "value"))
_PUBLIC = frozenset(("public", "pub"))  # public keys are not secret

_NOTHING, _KEY, _SECRET, _PASSWORD = range(4)  # how strongly a name suggests a secret

_HARMLESS = re.compile(r"(?i:true|false|yes|no|on|off|none|null|nil|unset|undefined)|[*x.]+|-+", re.ASCII)
_TEMPLATE = re.compile(r"\$\{[^{}]*\}|\$[A-Za-z_][A-Za-z0-9_]*|\{\{[^{}]*\}\}|<[^<>]*>|%\([^()]*\)s|%[a-z]", re.ASCII)
_SAID = re.compile(rf"{re.escape(REDACTED)}|(?:{_TEMPLATE.pattern})(?=[\s\"',;]|$)", re.ASCII)
_PLACE = re.compile(
    r"/(?:boot|dev|etc|home|lib|media|mnt|opt|proc|root|run|srv|sys|tmp|usr|var)(?:/[A-Za-z0-9._@:+,-]*)+", re.ASCII
)
_ANY_PLACE = re.compile(r"(?:/[A-Za-z0-9._@:,-]+){2,}", re.ASCII)
_DIGEST = re.compile(r"sha(?:256|384|512):[0-9a-f]{64,128}", re.ASCII)
_LABEL_KEY = re.compile(r"[a-z0-9-]+(?:\.[a-z0-9-]+)+/[A-Za-z0-9._-]+", re.ASCII)  # node.kubernetes.io/unreachable
_SHORT_NUMBER = re.compile(r"-?[0-9.]{1,5}", re.ASCII)  # a count of tokens, a version
_PROSE = re.compile(r"[a-z]{1,15}[,.;:]?|[A-Z][a-z]{1,14}[,.;:]?", re.ASCII)

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
# Fast check: text without any of these cannot contain one of the words above.
_MAY_NAME = re.compile(r"pass|pwd|secret|token|key|auth|cred|cookie|psk|sig|jwt|last-applied", re.IGNORECASE | re.ASCII)
_NAME_MAX = 200  # characters of a name before such a word
# A name and what assigns its value: `=`, `:`, `=>`, or a blank after a flag. Quotes may be escaped, as in JSON within JSON.
_SETS = re.compile(
    r"""(?<![\w.-])(?P<name>[\w.-]{1,400})(?:\\{0,8}["']|\])?(?:[ \t]{0,16}(?P<sign>=>|:=|=|:)|(?=[ \t]))[ \t]{0,64}"""
)
_QUOTE = re.compile(r"""\\{0,8}(\"\"\"|'''|["'])""")
_BARE = re.compile(r"""[^\s,;&"'\\)\]}]+""")
_BARE_LONG = re.compile(r"""[^\s"']+""")
_BARE_LINE = re.compile(r"""[^\n"']+""")
_HEADER = re.compile(r"(?i:(?:proxy-)?authorization|(?:set-)?cookie)")
_LINE = re.compile(r"[^\n]*")
_INDENTED = re.compile(r"(?:[ \t]*\n)*([ \t]+)[^\n]*")
_BLOCK = re.compile(r"[|>][-+0-9]{0,3}[ \t]*(?:#[^\n]*)?(?=\n)")

_PEM = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY[A-Z ]{0,10}-----|-----BEGIN OPENSSH [A-Z ]{0,30}-----")
_PEM_END = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY[A-Z ]{0,10}-----")
_PEM_BODY = re.compile(r"(?:[A-Za-z0-9+/=:,-]|\s|\\[nrt])*")
_PEM_LETTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=\\ \t\r\n")
# The base64 of `-----BEGIN `, not followed by that of CERTIFICATE.
_PEM_BASE64 = re.compile(r"LS0tLS1CRUdJTi(?!BDRVJUSUZJQ0FUR)[A-Za-z0-9+/_=-]*")
_RUN = re.compile(r"(?<![A-Za-z0-9_.-])[A-Za-z0-9_.-]{20,}")
_KNOWN = re.compile(
    r"gh[pousr]_[A-Za-z0-9]{20,255}|github_pat_[A-Za-z0-9_]{20,255}|glpat-[A-Za-z0-9_-]{16,255}|xox[abeprs]-[A-Za-z0-9-]{10,255}"
    r"|hvs\.[A-Za-z0-9_-]{16,255}|AGE-SECRET-KEY-1[A-Z0-9]{20,255}",
    re.ASCII,
)
_PREFIXES = ("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "xox", "hvs.", "AGE-")
_SCHEMES = ("bearer", "basic", "negotiate", "digest")
_SCHEME = re.compile(
    r"\b(bearer|basic|negotiate|digest)([ \t]{1,16}|%20|\+)([A-Za-z0-9._~+/=-]{6,})", re.IGNORECASE | re.ASCII
)
_URL = re.compile(r"""://[^\s"'<>`\\]+""")
_PLAIN_USER = re.compile(
    r"""(?<![\w.+%@/-])[\w.+%-]{1,64}:(?!//)[^\s:@/"'<>]{1,256}@(?=[\w\[])(?!sha(?:256|384|512):)""", re.ASCII
)
_LOGIN = re.compile(r"(?i)\b((?:login|machine|user)[ \t]{1,16}\S{1,200}[ \t\n]{1,16}password[ \t]{1,16})(\S+)")
# Values whose name stands in a separate field: name/value pairs of variables in JSON and YAML, a flag in a list of words, an
# XML element.
_ASIDE = re.compile(
    r"""["']?name["']?[ \t]{0,8}:[ \t]{0,8}["']?([\w.-]{1,200})["']?[ \t]{0,8},?\s{1,80}["']?value["']?[ \t]{0,8}:[ \t]{0,8}"""
    r"""|(?<=["'])(--?[\w.-]{1,200})["']\s{0,8},\s{0,80}(?=["'])"""
    r"""|<([\w.-]{1,200})>(?=[^<\s])"""
)
_USER_FLAG = re.compile(r"""((?:^|\s)(?:-u|--user|--proxy-user)[ =]["']?[^\s:"']{1,200}:)([^\s"']+)""")
_ELEMENT = re.compile(r"[^<\n]*")

# Fields of containers and objects that are redacted as a whole.
_CONTAINER = ("env", "envFrom", "command", "args")
_DATA = ("data", "stringData", "binaryData")
_LABELS = ("labels", "matchLabels", "nodeSelector")
_FIELD = re.compile(r"[\w.-]+")  # the name of a field, not of an image or a path
_HOLDERS = ("Secret", "ConfigMap")
# If one of these stands beside `key`, `key` names a label, taint or entry of a Secret, and is not a secret itself.
_SELECTORS = frozenset(("effect", "operator", "values", "path", "name", "optional", "topologyKey", "verb", "timeAdded"))
_USER_FLAGS = ("-u", "--user", "--proxy-user", "-U")


def redact(text: str) -> str:
    """Redact arbitrary text: a log, a configuration, the output of a command."""
    return _redact(text, prose=False)


def redact_message(text: str) -> str:
    """Redact text written for people: plain words after a name and a colon are prose, not a value."""
    return _redact(text, prose=True)


def redact_argv(argv: Sequence[str]) -> list[str]:
    fields: list[str] = []
    before = ""
    for word in argv:
        if before and not word.startswith("--"):
            user = before in _USER_FLAGS
            hidden = (":" in word) if user else _worth_hiding(word, _sureness(before), prose=False)
            fields.append(REDACTED if hidden else redact(word))
        else:
            fields.append(redact(word))
        is_flag = word.startswith("-") and "=" not in word
        before = word if is_flag and (word in _USER_FLAGS or _sureness(word) != _NOTHING) else ""
    return fields


def redact_result(result: Mapping[str, Any]) -> dict[str, Any]:
    """Redact what a module returns. Its top-level fields are documented, so they are kept; the content of each is
    redacted."""
    return {
        key: redact_message(value) if isinstance(value, str) else redact_json(value) for key, value in result.items()
    }


def redact_json(value: Any) -> Any:
    """JSON data of the same shape, redacted. Field names are kept."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, Mapping):
        return {key: _field(value, key, part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        if value and all(isinstance(part, str) for part in value):
            return redact_argv(value)
        return [redact_json(part) for part in value]
    return value


def _field(within: Mapping[Any, Any], key: Any, value: Any) -> Any:
    if not value and not isinstance(value, (int, float)):
        return value
    if not isinstance(key, str):
        return redact_json(value)
    if key in _CONTAINER and _is_container(within, key, value):
        return REDACTED
    if key in _LABELS and isinstance(value, Mapping):  # labels select nodes and pods; their names prove nothing
        return {name: redact(part) if isinstance(part, str) else part for name, part in value.items()}
    if key == "annotations" and isinstance(value, Mapping):
        return dict.fromkeys(value, REDACTED)
    if key in _DATA and within.get("kind") in _HOLDERS and isinstance(value, Mapping):
        return dict.fromkeys(value, REDACTED)
    if key == "httpHeaders" and isinstance(value, (list, tuple)):
        return [{**row, "value": REDACTED} if isinstance(row, Mapping) else REDACTED for row in value]
    if key == "value" and isinstance(within.get("name"), str) and _hides(value, _sureness(within["name"])):
        return REDACTED
    sure = _sureness(key) if _FIELD.fullmatch(key) else _NOTHING
    if sure == _KEY and not _SELECTORS.isdisjoint(within):
        sure = _NOTHING
    if _hides(value, sure):
        return REDACTED
    if sure > _KEY and isinstance(value, (list, tuple)) and all(isinstance(part, str) for part in value):
        return [REDACTED if _hides(part, sure) else redact(part) for part in value]
    if sure > _KEY and isinstance(value, Mapping):
        value = {name: REDACTED if name in _FORMS and _hides(part, sure) else part for name, part in value.items()}
    return redact_json(value)


def _is_container(within: Mapping[Any, Any], key: str, value: Any) -> bool:
    """Whether `within` is a container of a pod, or an exec action of a probe or hook."""
    if key == "env" and isinstance(value, (list, tuple)) and all(isinstance(row, Mapping) for row in value):
        return True
    return "image" in within or "imagePullPolicy" in within or (key == "command" and set(within) == {"command"})


def _hides(value: Any, sure: int) -> bool:
    if isinstance(value, bool) or sure == _NOTHING:
        return False
    if isinstance(value, (int, float)):
        return sure == _PASSWORD and not isinstance(value, float)
    return isinstance(value, str) and _worth_hiding(value, sure, prose=False)


def _sureness(name: str) -> int:
    """How strongly a name suggests that its value is a secret."""
    if not _MAY_NAME.search(name):
        return _NOTHING
    if name.endswith("last-applied-configuration"):  # a whole object, as it was applied
        return _PASSWORD
    words = [word.lower() for word in _WORDS.findall(name) if not word.isdigit()]
    while len(words) > 1 and words[-1] in _FORMS:
        words.pop()
    if not words:
        return _NOTHING
    last = words[-1]
    if last in _PASSWORDS or last.endswith(_ENDS_PASSWORD):
        return _PASSWORD
    if last in _SECRETS or last.endswith(_ENDS_SECRET):
        return _SECRET
    if last in _KEYS and not _PUBLIC.intersection(words):
        return _SECRET if {"secret", "private", "api", "access"}.intersection(words) else _KEY
    return _NOTHING


def _worth_hiding(value: str, sure: int, *, prose: bool) -> bool:
    """Whether a value may be the secret that its name suggests."""
    value = value.strip()
    if sure == _NOTHING or not value or value.startswith(REDACTED) or _HARMLESS.fullmatch(value):
        return False
    if _TEMPLATE.fullmatch(value) or _DIGEST.fullmatch(value):
        return False
    if sure == _PASSWORD:
        return not (prose and _PROSE.fullmatch(value))
    if (_ANY_PLACE if sure == _KEY else _PLACE).fullmatch(value) or _SHORT_NUMBER.fullmatch(value):
        return False
    if sure == _KEY and _LABEL_KEY.fullmatch(value):
        return False
    return not (prose and _PROSE.fullmatch(value))


def _redact(text: str, *, prose: bool) -> str:
    if len(text) < 4:
        return text
    if "PRIVATE KEY" in text or "BEGIN OPENSSH" in text:
        text = _without_pem(text)
    text = _PEM_BASE64.sub(REDACTED, text)
    if "://" in text:
        text = _URL.sub(_url, text)
    if "@" in text:
        text = _PLAIN_USER.sub(f"{REDACTED}@", text)
    if "eyJ" in text:
        text = _RUN.sub(_web_token, text)
    if any(prefix in text for prefix in _PREFIXES):
        text = _KNOWN.sub(REDACTED, text)
    lowered = text.lower()  # the checks below are faster on lower case, and most texts match none
    if any(scheme in lowered for scheme in _SCHEMES):
        text = _SCHEME.sub(_after_scheme, text)
    if "-u" in text or "-user" in text:
        text = _USER_FLAG.sub(rf"\1{REDACTED}", text)
    if any(word in lowered for word in _MAY_NAME.pattern.split("|")):
        text = _LOGIN.sub(rf"\1{REDACTED}", text)
        text = _without_named(text, prose=prose)
    return text


def _without_pem(text: str) -> str:
    """Remove private key blocks, including one whose beginning or end was cut off."""
    parts: list[str] = []
    at = 0
    first_end, first = _PEM_END.search(text), _PEM.search(text)
    if first_end and (first is None or first_end.start() < first.start()):
        start = first_end.start()
        while start > 0 and text[start - 1] in _PEM_LETTERS:
            start -= 1
        parts.append(text[:start] + REDACTED)
        at = first_end.end()
    while True:
        begin = _PEM.search(text, at)
        if begin is None:
            return "".join([*parts, text[at:]])
        end = _PEM_END.search(text, begin.end())
        body = _PEM_BODY.match(text, begin.end())
        parts.append(text[at : begin.start()] + REDACTED)
        at = end.end() if end else (body.end() if body else begin.end())


def _url(match: re.Match[str]) -> str:
    rest = match[0][3:]
    end = next((at for at, sign in enumerate(rest) if sign in "/?#"), len(rest))
    authority, path = rest[:end], rest[end:]
    if "@" in authority:
        authority = f"{REDACTED}@{authority.rpartition('@')[2]}"
    elif ":" in authority and not authority.startswith("[") and "@" in path:
        # The password contains a slash: what precedes it would otherwise be the port.
        port = authority.rpartition(":")[2]
        if not port.isdigit():
            host, path = path.rpartition("@")[2], ""
            end = next((at for at, sign in enumerate(host) if sign in "/?#"), len(host))
            authority, path = f"{REDACTED}@{host[:end]}", host[end:]
    return f"://{authority}{_path(path)}"


def _path(path: str) -> str:
    """Redact the query of a URL path, and a fragment that is written like a query."""
    if "=" not in path:
        return path
    parts = re.split(r"([?&;#])", path)
    return "".join(_parameter(part) if at and parts[at - 1] in "?&;#" else part for at, part in enumerate(parts))


def _parameter(part: str) -> str:
    name, sign, value = part.partition("=")
    sure = _sureness(name)
    if not sign or sure == _NOTHING and name.lower() not in ("x-amz-credential", "code"):
        return part
    return part if not value or value.startswith(REDACTED) or _HARMLESS.fullmatch(value) else f"{name}={REDACTED}"


def _web_token(match: re.Match[str]) -> str:
    """Base64 of JSON begins with "eyJ": a web token, or docker credentials as stored in a Secret."""
    run = match[0]
    at = run.find("eyJ")
    while at >= 0:
        part = run[at:]
        if (at == 0 and len(part) >= 20) or part.find(".", 8) > 0:
            return run[:at] + REDACTED
        at = run.find("eyJ", at + 3) if part.find(".") > 0 else -1
    return run


def _after_scheme(match: re.Match[str]) -> str:
    value = match[3]
    plain = value.rstrip(".").isalpha() and value.islower() and len(value) < 16
    return match[0] if plain or _HARMLESS.fullmatch(value) else f"{match[1]}{match[2]}{REDACTED}"


def _without_named(text: str, *, prose: bool) -> str:
    """Redact values whose name, beside them, suggests a secret."""
    text = _without_aside(text)
    parts: list[str] = []
    done = at = 0
    while True:
        word = _MAY_NAME.search(text, at)
        if word is None:
            return "".join([*parts, text[done:]])
        setting = _SETS.match(text, _name_start(text, word.start()))
        at = word.end() if setting is None else max(word.end(), setting.end("name"))
        if setting is None or setting.start() < done:
            continue
        sure = _sureness(setting["name"])
        if sure == _NOTHING:
            continue
        if not setting["sign"] and not setting["name"].startswith("-"):
            continue
        if (
            setting["name"].lower() == "pass" and text[setting.end() - 1] in " \t"
        ):  # a word in a sentence; openssl writes pass:...
            continue
        begin, end = _value(text, setting, prose=prose)
        replaced = _SAID.match(text, begin)
        if replaced:  # already redacted, or a placeholder
            at = max(at, replaced.end())
            continue
        value = text[begin:end]
        if end > begin and _worth_hiding(value, sure, prose=prose and not _is_quoted(text, begin)):
            parts.append(text[done:begin] + REDACTED)
            done = at = end
        else:
            at = max(at, begin)


def _name_start(text: str, at: int) -> int:
    start = at
    while start > 0 and at - start < _NAME_MAX and (text[start - 1].isalnum() or text[start - 1] in "_.-"):
        start -= 1
    return start


def _without_aside(text: str) -> str:
    parts: list[str] = []
    done = 0
    for match in _ASIDE.finditer(text):
        sure = _sureness(match[1] or match[2] or match[3])
        if sure == _NOTHING or match.end() < done:
            continue
        begin, end = _scalar(text, match.end(), _ELEMENT if match[3] else _LINE)
        if _worth_hiding(text[begin:end], sure, prose=False):
            parts.append(text[done:begin] + REDACTED)
            done = end
    return "".join([*parts, text[done:]])


def _is_quoted(text: str, begin: int) -> bool:
    return begin > 0 and text[begin - 1] in "\"'"


def _value(text: str, match: re.Match[str], *, prose: bool) -> tuple[int, int]:
    """The start and end of the value that follows a name."""
    at, sign = match.end(), match["sign"]
    if at >= len(text):
        return at, at
    indent = _indent_before(text, match.start("name"))
    if sign == ":" and indent is not None and not prose:
        block = _BLOCK.match(text, at)
        if block or text[at] == "\n":
            return _skip_indented(text, block.end() if block else at, indent, scalars=block is None)
    if text[at] == "[" and sign:
        end = text.find("]", at, at + 65536)
        inner = text[at:end] if end > 0 else ""
        return (at, end + 1) if inner.strip("[ \t\n\r") and "{" not in inner else (at, at)
    if text[at] == "\n" or text[at] in "{[":
        return at, at
    if indent is None or prose:
        if sign == ":" and _HEADER.fullmatch(match["name"]):  # an HTTP header: its value includes the scheme
            return _scalar(text, at, _BARE_LINE)
        # In the middle of a line the value is the next word. `token:abc` binds as tightly as `token=abc`.
        return _scalar(text, at, _BARE if prose or sign == ":" else _BARE_LONG)
    spaced = text[at - 1] in " \t"
    rest = _LINE.match(text, at)
    whole = spaced or (rest is not None and "=" not in rest[0])
    return _scalar(text, at, _LINE if sign and whole else _BARE_LONG)


def _scalar(text: str, at: int, bare: re.Pattern[str]) -> tuple[int, int]:
    """A quoted value (quotes may be escaped) up to its closing quote or the end of the line; otherwise what `bare`
    matches."""
    quote = _QUOTE.match(text, at)
    if quote is None:
        match = bare.match(text, at)
        end = match.end() if match else at
        while end > at and text[end - 1] in " \t\r,;":
            end -= 1
        return at, end
    begin, mark = quote.end(), quote[0]
    end = text.find(mark, begin)
    if len(quote[1]) == 1:
        while end > 0 and (
            _skip_escapes(text, end, begin) if mark == '"' else mark == "'" and text[end + 1 : end + 2] == "'"
        ):
            end = text.find(mark, end + (1 if mark == '"' else 2))
        line = text.find("\n", begin)
        if end < 0 or 0 <= line < end:
            end = line
    return begin, len(text) if end < 0 else end


def _skip_escapes(text: str, at: int, begin: int) -> bool:
    count = 0
    while at - 1 - count >= begin and text[at - 1 - count] == "\\":
        count += 1
    return count % 2 == 1


def _indent_before(text: str, at: int) -> Optional[int]:
    """The indentation of a name that begins its line, as a setting does; None if something else precedes it."""
    start = at
    if start > 0 and text[start - 1] == "/":  # kubectl.kubernetes.io/NAME
        while start > 0 and at - start < 200 and (text[start - 1].isalnum() or text[start - 1] in "./-"):
            start -= 1
    at = start
    while start > 0 and text[start - 1] in " \t\"'":
        start -= 1
        if at - start > 200:
            return None
    if start > 0 and text[start - 1] == "-" and (start == 1 or text[start - 2] in " \t\n"):  # a list entry
        start -= 1
        while start > 0 and text[start - 1] in " \t" and at - start < 200:
            start -= 1
    return at - start if start == 0 or text[start - 1] == "\n" else None


def _skip_indented(text: str, at: int, indent: int, *, scalars: bool) -> tuple[int, int]:
    """The lines below a name that are indented further: a block, or with `scalars` a list of plain values."""
    begin = end = at
    while end < len(text) and text[end] == "\n":
        line = _INDENTED.match(text, end + 1)
        if line is None or len(line[1]) < indent or (len(line[1]) == indent and not scalars):
            break
        if scalars and not re.match(r"[ \t]*-[ \t]+[^\s:{\[]+[ \t]*$", text[line.start(1) : line.end()]):
            break
        end = line.end()
    return (begin + 1, end) if end > begin else (at, at)
