# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Kubernetes resource quantities, exactly: `500m`, `1Gi`, `2`, `1e3`. No floats.

Source: Kubernetes API conventions, "Quantity" (k8s.io/apimachinery/pkg/api/resource). As there, a value finer than a
thousandth is rounded up to a thousandth.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

from .errors import UserError, shorten
from .input_messages import MESSAGES

_SUFFIXES: dict[str, Fraction] = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 10**3),
    "": Fraction(1),
    "k": Fraction(10**3),
    "M": Fraction(10**6),
    "G": Fraction(10**9),
    "T": Fraction(10**12),
    "P": Fraction(10**15),
    "E": Fraction(10**18),
    "Ki": Fraction(2**10),
    "Mi": Fraction(2**20),
    "Gi": Fraction(2**30),
    "Ti": Fraction(2**40),
    "Pi": Fraction(2**50),
    "Ei": Fraction(2**60),
}
_LENGTH_LIMIT = 64  # characters; Python refuses to read numbers of thousands of digits
_FORM = re.compile(
    r"([+-]?)(\d+(?:\.\d*)?|\.\d+)(?:([eE][+-]?\d{1,2})|(n|u|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?)", re.ASCII
)


@dataclass(frozen=True, order=True)
class Quantity:
    """A number of thousandths: 1 cpu is `Quantity(1000)`, 1Ki of memory is `Quantity(1024000)`."""

    thousandths: int

    @property
    def whole(self) -> int:
        """The value in units (bytes, cpus), rounded up."""
        return -(-self.thousandths // 1000)

    @classmethod
    def of(cls, units: int) -> Quantity:
        return cls(units * 1000)


def parse_quantity(text: str, *, path: str = "quantity") -> Quantity:
    """Parse `text` as the API server does. UserError, naming `path`, if it is not a quantity."""
    match = _FORM.fullmatch(text) if len(text) <= _LENGTH_LIMIT else None
    if match is None:
        raise UserError(**MESSAGES.texts("core-quantity", path=path, value=shorten(repr(text))))
    sign, digits, exponent, suffix = match.groups()
    value = Fraction(digits if not digits.startswith(".") else "0" + digits)
    value *= Fraction(10) ** int(exponent[1:]) if exponent else _SUFFIXES[suffix or ""]
    scaled = value * 1000
    rounded = -(-scaled.numerator // scaled.denominator)  # away from zero, as the API server does
    return Quantity(-rounded if sign == "-" else rounded)


def format_memory(size: int) -> str:
    """Bytes as whole MiB for people: `83 MiB`."""
    return f"{round(size / 2**20)} MiB"
