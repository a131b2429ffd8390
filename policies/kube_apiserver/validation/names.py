"""Validation of names, label keys and label values; each function returns upstream's messages.

Sources: apimachinery `util/validation`, `api/validate/content`, `api/validation/generic.go`.
"""

from __future__ import annotations

import re
from typing import Final

_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = rf"{_LABEL}(\.{_LABEL})*"
_KEY: Final = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE: Final = f"({_KEY})?"
_MATCH: Final = {form: re.compile(form, re.ASCII).fullmatch for form in (_LABEL, _SUBDOMAIN, _KEY, _VALUE)}

_LABEL_WORDS: Final = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
    "and must start and end with an alphanumeric character"
)
_SUBDOMAIN_WORDS: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
    "and must start and end with an alphanumeric character"
)
_KEY_WORDS: Final = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
)
_VALUE_WORDS: Final = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
    "and must start and end with an alphanumeric character"
)
_KEY_EXAMPLES: Final = ("MyName", "my.name", "123-abc")


def dns1123_label(name: str) -> list[str]:
    """The errors of a DNS label (namespaces, containers)."""
    faults = _too_long(name, 63)
    if not _MATCH[_LABEL](name):
        has_dots = _MATCH[_SUBDOMAIN](name)
        faults.append("must not contain dots" if has_dots else _form(_LABEL_WORDS, _LABEL, "my-name", "123-abc"))
    return faults


def dns1123_subdomain(name: str) -> list[str]:
    """The errors of a DNS subdomain (most objects)."""
    return _subdomain(name)


def qualified_name(key: str) -> list[str]:
    """The errors of a label key, resource name or finalizer: `[prefix/]name`."""
    prefix, slash, name = key.rpartition("/")
    if key.count("/") > 1:
        return [f"a valid label key {_TWO_PARTS}"]
    faults = []
    if slash:
        faults = [f"prefix part {f}" for f in (_subdomain(prefix, "bytes") if prefix else ["must be non-empty"])]
    if not name:
        faults.append("name part must be non-empty")
    faults += [f"name part {fault}" for fault in _too_long(name, 63, "bytes")]
    if not _MATCH[_KEY](name):
        faults.append("name part " + _form(_KEY_WORDS, _KEY, *_KEY_EXAMPLES))
    return faults


def label_value(value: str) -> list[str]:
    """The errors of a label value."""
    faults = _too_long(value, 63, "bytes")
    if not _MATCH[_VALUE](value):
        faults.append(_form(_VALUE_WORDS, _VALUE, "MyValue", "my_value", "12345"))
    return faults


def worded(text: str, minor: int | None) -> str:
    """Return the message of a field error in the words of a minor version; None: as in the supported versions after
    1.34.

    Until 1.34, label keys had the messages of `util/validation`.
    """
    if minor is None:
        return text
    from forewarn.policies.releases.semantics import Semantics  # only for a given minor version

    if Semantics(minor).label_keys_have_words_of_their_own:
        return text
    if text.endswith(f"a valid label key {_TWO_PARTS}"):
        return f"{text.removesuffix(f'a valid label key {_TWO_PARTS}')}a qualified name {_TWO_PARTS}"
    return f"{text.removesuffix(' bytes')} characters" if _LENGTH(text) else text


def path_segment(name: str, *, prefix: bool = False) -> list[str]:
    """The errors of a name as part of a URL path."""
    if name in (".", "..") and not prefix:
        return [f"may not be '{name}'"]
    return [f"may not contain '{char}'" for char in "/%" if char in name]


def mask_trailing_dash(prefix: str) -> str:
    """A generateName as upstream validates it: without a trailing dash, which upstream replaces by a letter."""
    return prefix[:-2] + "a" if len(prefix) > 1 and prefix.endswith("-") else prefix


def _subdomain(name: str, unit: str = "characters") -> list[str]:
    faults = _too_long(name, 253, unit)
    if not _MATCH[_SUBDOMAIN](name):
        faults.append(_form(_SUBDOMAIN_WORDS, _SUBDOMAIN, "example.com"))
    return faults


def _too_long(text: str, limit: int, unit: str = "characters") -> list[str]:
    """Return the error of a text with too many bytes.

    `unit`: upstream calls bytes "characters" in names, "bytes" in label keys and values.
    """
    too_long = len(text.encode(errors="surrogatepass")) > limit
    return [f"must be no more than {limit} {unit}"] if too_long else []


def _form(words: str, form: str, *examples: str) -> str:
    return (
        f"{words} (e.g. {' or '.join(f'{example!r}, ' for example in examples)}regex used for validation is '{form}')"
    )


_TWO_PARTS: Final = _form(_KEY_WORDS, _KEY, *_KEY_EXAMPLES) + (
    " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
)
_LENGTH: Final = re.compile(r"must be no more than [0-9]+ bytes\Z").search
