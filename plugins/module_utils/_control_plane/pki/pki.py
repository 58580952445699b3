# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Certificates and keys as resources: what is requested of each, and what is wrong with the present one.

A certificate is `NAME.crt`, with its private key in `NAME.key`, which only root can read. It is replaced, with a new key,
when it differs from the request, when its key or its authority no longer matches it, and before it expires: 30 days before,
or when a third of a shorter life is left.

`cryptography` is imported where it is used, so that a host without it gets an error that names it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Optional

from ..._core.engine.context import Context
from ..._core.engine.kinds import Kind, fields
from ..._core.engine.plan import ABSENT, Resource, Value
from ..._core.host.host import Host
from ..._core.text.errors import Bug
from ..._core.text.run_messages import MESSAGES as CORE_MESSAGES
from ..messages import MESSAGES

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes, PublicKeyTypes

CLIENT, SERVER = "client", "server"
CA_DAYS = 3650
_DAY = 86400.0
_RENEW_BEFORE_DAYS = 30
_BACKDATE_SECONDS = 3600  # clocks of other machines may be behind
_SIGNED_BY = " signed by "
_RSA_BITS = 2048
_OTHER = "not a certificate that this collection makes"
# Client certificates that this process issued, with their time: by the authority's certificate and key, user, group, seconds.
_ISSUED: dict[tuple[bytes, bytes, str, str, int], tuple[float, tuple[bytes, bytes]]] = {}


@dataclass(frozen=True)
class Certificate:
    """A requested certificate. Without usages it is an authority; an authority without issuer signs itself."""

    path: str  # ends in .crt
    issuer: Optional[str]  # path of its authority's certificate
    common_name: str
    organization: str = ""
    usages: tuple[str, ...] = ()
    names: tuple[str, ...] = ()  # "DNS:localhost", "IP:127.0.0.1"
    days: int = CA_DAYS

    def resource(self, *, group: str) -> Resource:
        """The certificate as a resource of kind `certificate`; `paths_of` takes the target apart."""
        return Resource(
            kind="certificate",
            target=f"{self.path}{_SIGNED_BY}{self.issuer or self.path}",
            value=_value(self),
            title=f"certificate {self.path}",
            group=group,
        )


def key_path(certificate: str) -> str:
    """The path of a certificate's private key, beside it. `certificate` ends in .crt."""
    return certificate[: -len(".crt")] + ".key"


def paths_of(resource: Resource) -> tuple[str, str]:
    """The paths of the certificate that the resource makes, and of the one that signs it."""
    path, _by, issuer = resource.target.partition(_SIGNED_BY)
    return path, issuer


def sans(*names: str) -> tuple[str, ...]:
    """Addresses and DNS names as subject alternative names ("DNS:localhost"), sorted, each once."""
    return tuple(sorted({f"IP:{name}" if _is_address(name) else f"DNS:{name}" for name in names}))


def key_pair(path: str, *, group: str) -> Resource:
    """An RSA key pair `path` and its public half with the ending .pub, for signing ServiceAccount tokens."""
    value = {"algorithm": f"rsa-{_RSA_BITS}", "fault": ""}
    return Resource(kind="key-pair", target=path, value=value, title=f"key pair {path}", group=group)


def public_path(private: str) -> str:
    """The path of a key pair's public half. `private` ends in .key."""
    return private[: -len(".key")] + ".pub"


class CertificateKind:
    """Value: the request (`subject`, `usages`, `names`, `days`) and `fault`, which is empty for a valid certificate."""

    def read(self, ctx: Context[Any], target: str) -> Value:
        path, _by, issuer = target.partition(_SIGNED_BY)
        data, key = ctx.host.read(path), ctx.host.read(key_path(path))
        if data is None and key is None:
            return ABSENT
        require_cryptography()
        certificate = _parse_certificate(data or b"")
        if certificate is None:
            return {"fault": _OTHER}
        request = _parse_request(certificate, path, issuer)
        if request is None:
            return {"fault": _OTHER}
        fault = (
            _key_fault(ctx.host, key_path(path), certificate)
            or _issuer_fault(certificate, ctx.host.read(issuer) or b"", issuer)
            or _time_fault(certificate, ctx.host.now())
        )
        return {**fields(_value(request)), "fault": fault}

    def write(self, ctx: Context[Any], target: str, after: Value, before: Value) -> None:
        require_cryptography()
        path, _by, issuer = target.partition(_SIGNED_BY)
        certificate, key = _issue(ctx.host, fields(after), issuer if issuer != path else None)
        # The order does not matter: a run killed between the two writes leaves a pair that does not match, and the next run sees it.
        ctx.host.write(key_path(path), key, mode=0o600)
        ctx.host.write(path, certificate)

    def remove(self, ctx: Context[Any], target: str, before: Value) -> None:
        path, _by, _issuer = target.partition(_SIGNED_BY)
        ctx.host.remove(path)
        ctx.host.remove(key_path(path))


class KeyPairKind:
    """Value: `{algorithm, fault}`. It is never renewed while it is valid: that would end every token it signed."""

    def read(self, ctx: Context[Any], target: str) -> Value:
        private, public = ctx.host.read(target), ctx.host.read(public_path(target))
        if private is None and public is None:
            return ABSENT
        require_cryptography()
        key = _parse_key(private or b"")
        if key is None:
            return {"fault": f"{target} holds no private key"}
        fault = _mode_fault(ctx.host, target)
        if public is None or _public_pem(key.public_key()) != public:
            fault = f"{public_path(target)} does not belong to {target}"
        return {"algorithm": f"rsa-{getattr(key, 'key_size', 0)}", "fault": fault}

    def write(self, ctx: Context[Any], target: str, after: Value, before: Value) -> None:
        require_cryptography()
        from cryptography.hazmat.primitives.asymmetric import rsa

        key = rsa.generate_private_key(public_exponent=65537, key_size=_RSA_BITS)
        ctx.host.write(target, _private_pem(key), mode=0o600)
        ctx.host.write(public_path(target), _public_pem(key.public_key()))

    def remove(self, ctx: Context[Any], target: str, before: Value) -> None:
        ctx.host.remove(target)
        ctx.host.remove(public_path(target))


PKI_KINDS: dict[str, Kind] = {"certificate": CertificateKind(), "key-pair": KeyPairKind()}


def read_not_after(host: Host, path: str) -> Optional[str]:
    """When the certificate expires, as 2027-11-21T10:00:00Z; None when there is none."""
    require_cryptography()
    certificate = _parse_certificate(host.read(path) or b"")
    if certificate is None:
        return None
    import datetime

    end = datetime.datetime.fromtimestamp(_validity(certificate)[1], tz=datetime.timezone.utc)
    return end.strftime("%Y-%m-%dT%H:%M:%SZ")


def require_cryptography() -> None:
    """HostError when the running Python lacks the package."""
    try:
        import cryptography  # noqa: F401
    except ImportError as error:
        raise MESSAGES.error("plane-cryptography-missing", interpreter=sys.executable) from error


def _value(request: Certificate) -> Value:
    values = asdict(request)
    return {
        "subject": _subject(request.common_name, request.organization),
        "authority": not request.usages,
        "usages": sorted(values["usages"]),
        "names": sorted(values["names"]),
        "days": request.days,
        "fault": "",
    }


def _subject(common_name: str, organization: str) -> str:
    return f"O={organization}, CN={common_name}" if organization else f"CN={common_name}"


def _is_address(text: str) -> bool:
    return ":" in text or text.replace(".", "").isdigit()


def _parse_certificate(data: bytes) -> Optional[x509.Certificate]:
    from cryptography import x509

    try:
        return x509.load_pem_x509_certificate(data)
    except ValueError:
        return None


def _parse_key(data: bytes) -> Optional[PrivateKeyTypes]:
    from cryptography.hazmat.primitives import serialization

    try:
        return serialization.load_pem_private_key(data, password=None)
    except (ValueError, TypeError):
        return None


def _parse_request(certificate: x509.Certificate, path: str, issuer: str) -> Optional[Certificate]:
    """The request that the certificate answers; None when it has a form that we do not make."""
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    common_names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    organizations = certificate.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    if len(common_names) != 1 or len(organizations) > 1:
        return None
    try:
        authority = certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
        usages = () if authority else _usages(certificate)
        names = _names(certificate)
    except (x509.ExtensionNotFound, ValueError):
        return None
    start, end = _validity(certificate)
    return Certificate(
        path=path,
        issuer=issuer,
        common_name=str(common_names[0].value),
        organization=str(organizations[0].value) if organizations else "",
        usages=usages,
        names=names,
        days=round((end - start) / _DAY),
    )


def _usages(certificate: x509.Certificate) -> tuple[str, ...]:
    from cryptography import x509
    from cryptography.x509.oid import ExtendedKeyUsageOID

    words = {ExtendedKeyUsageOID.CLIENT_AUTH: CLIENT, ExtendedKeyUsageOID.SERVER_AUTH: SERVER}
    usages = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    return tuple(words.get(usage, usage.dotted_string) for usage in usages)


def _names(certificate: x509.Certificate) -> tuple[str, ...]:
    from cryptography import x509

    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return ()
    addresses = [str(address) for address in names.get_values_for_type(x509.IPAddress)]
    return sans(*addresses, *names.get_values_for_type(x509.DNSName))


def _validity(certificate: x509.Certificate) -> tuple[float, float]:
    """Begin and end as Unix time."""
    import calendar

    if hasattr(certificate, "not_valid_after_utc"):
        return certificate.not_valid_before_utc.timestamp(), certificate.not_valid_after_utc.timestamp()
    # cryptography before 42, which Debian 12 has: times without a zone, in UTC.
    begin, end = certificate.not_valid_before, certificate.not_valid_after
    return float(calendar.timegm(begin.timetuple())), float(calendar.timegm(end.timetuple()))


def _mode_fault(host: Host, path: str) -> str:
    stat = host.stat(path)
    return f"{path} has mode {stat.mode:04o}" if stat is not None and stat.mode != 0o600 else ""


def _key_fault(host: Host, path: str, certificate: x509.Certificate) -> str:
    key = _parse_key(host.read(path) or b"")
    if key is None:
        return f"{path} holds no private key"
    if _public_pem(key.public_key()) != _public_pem(certificate.public_key()):
        return f"{path} is not the key of this certificate"
    return _mode_fault(host, path)


def _issuer_fault(certificate: x509.Certificate, issuer_data: bytes, issuer_path: str) -> str:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric import ec

    fault = f"not signed by the present {os.path.basename(issuer_path)}"
    issuer = _parse_certificate(issuer_data)
    if issuer is None or certificate.issuer != issuer.subject or certificate.signature_hash_algorithm is None:
        return fault
    public = issuer.public_key()
    if not isinstance(public, ec.EllipticCurvePublicKey):
        return fault
    try:
        public.verify(
            certificate.signature, certificate.tbs_certificate_bytes, ec.ECDSA(certificate.signature_hash_algorithm)
        )
    except InvalidSignature:
        return fault
    return ""


def _time_fault(certificate: x509.Certificate, now: float) -> str:
    start, end = _validity(certificate)
    left = end - now
    if left < 0:
        return "has ended"
    if now < start:  # made while the clock was ahead
        return f"begins in {int((start - now) / _DAY)} days"
    return f"ends in {int(left / _DAY)} days" if left < min(_RENEW_BEFORE_DAYS * _DAY, (end - start) / 3) else ""


def issue_client_certificate(host: Host, authority: str, *, user: str, group: str, seconds: int) -> tuple[bytes, bytes]:
    """A client certificate, which no file keeps, and its key, as PEM. PeerError where `authority` cannot sign one.

    The requests of one run share it for half of its validity.
    """
    require_cryptography()
    signers = (host.read(authority) or b"", host.read(key_path(authority)) or b"")
    key = (*signers, user, group, seconds)
    at, issued = _ISSUED.get(key, (0.0, (b"", b"")))
    if issued[0] and 0 <= host.now() - at < seconds / 2:
        return issued
    if _parse_certificate(signers[0]) is None or _parse_key(signers[1]) is None:
        raise MESSAGES.error("plane-no-authority", path=authority)
    request = Certificate(path="", issuer=authority, common_name=user, organization=group, usages=(CLIENT,))
    _ISSUED[key] = (host.now(), _issue(host, fields(_value(request)), authority, seconds=seconds))
    return _ISSUED[key][1]


def _issue(
    host: Host, values: Mapping[str, Value], issuer_path: Optional[str], *, seconds: int = 0
) -> tuple[bytes, bytes]:
    """A new certificate and its private key, as PEM. `seconds`, its validity from now on, overrides `days`."""
    import datetime

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    subject = _parse_subject(str(values["subject"]))
    issuer, signer = subject, key
    if issuer_path is not None:
        issuer, signer = _authority(host, issuer_path)
    begin = datetime.datetime.fromtimestamp(int(host.now()) - _BACKDATE_SECONDS, tz=datetime.timezone.utc)
    valid = datetime.timedelta(days=int(str(values["days"])))
    if seconds:
        valid = datetime.timedelta(seconds=_BACKDATE_SECONDS + seconds)
    authority = bool(values["authority"])
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(begin + valid)
        .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        .add_extension(_key_usage(authority=authority), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        # Lets verifiers distinguish an authority from its successor, which has the same name.
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
    )
    if values["usages"]:
        builder = builder.add_extension(_extended_usage(words_of(values["usages"])), critical=False)
    if values["names"]:
        builder = builder.add_extension(_alternative_names(words_of(values["names"])), critical=False)
    certificate = builder.sign(signer, hashes.SHA256())
    return certificate.public_bytes(serialization.Encoding.PEM), _private_pem(key)


def _authority(host: Host, path: str) -> tuple[x509.Name, ec.EllipticCurvePrivateKey]:
    from cryptography.hazmat.primitives.asymmetric import ec

    certificate = _parse_certificate(host.read(path) or b"")
    key = _parse_key(host.read(key_path(path)) or b"")
    if certificate is None or not isinstance(key, ec.EllipticCurvePrivateKey):
        raise Bug(f"{path} was planned to be an authority and is none", id="plane-authority")
    return certificate.subject, key


def _parse_subject(text: str) -> x509.Name:
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    oids = {"O": NameOID.ORGANIZATION_NAME, "CN": NameOID.COMMON_NAME}
    rows = [part.split("=", 1) for part in text.split(", ")]
    return x509.Name([x509.NameAttribute(oids[name], value) for name, value in rows])


def _key_usage(*, authority: bool) -> x509.KeyUsage:
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=authority,
        crl_sign=authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _extended_usage(words: list[str]) -> x509.ExtendedKeyUsage:
    from cryptography import x509
    from cryptography.x509.oid import ExtendedKeyUsageOID

    oids = {CLIENT: ExtendedKeyUsageOID.CLIENT_AUTH, SERVER: ExtendedKeyUsageOID.SERVER_AUTH}
    return x509.ExtendedKeyUsage([oids[word] for word in words])


def _alternative_names(names: list[str]) -> x509.SubjectAlternativeName:
    import ipaddress

    from cryptography import x509

    return x509.SubjectAlternativeName(
        [
            x509.IPAddress(ipaddress.ip_address(text)) if kind == "IP" else x509.DNSName(text)
            for kind, text in (name.split(":", 1) for name in names)
        ]
    )


def words_of(value: Value) -> list[str]:
    """The strings of a list in a resource's value; Bug when it is no list."""
    if not isinstance(value, Sequence):
        raise Bug(**CORE_MESSAGES.texts("core-value", expected="a list", value=repr(value)))
    return [str(word) for word in value]


def _public_pem(key: PublicKeyTypes) -> bytes:
    from cryptography.hazmat.primitives import serialization

    return key.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


def _private_pem(key: PrivateKeyTypes) -> bytes:
    from cryptography.hazmat.primitives import serialization

    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
