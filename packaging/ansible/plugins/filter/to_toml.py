"""The filter that renders a dictionary as TOML."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from ansible.errors import AnsibleFilterError

DOCUMENTATION = r"""
name: to_toml
short_description: A dictionary as TOML
version_added: 1.0.0
author: etcd-agent maintainers
description:
  - Renders a dictionary as TOML 1.0.
  - Keys are sorted, so the text depends only on the values.
  - Refuses what TOML cannot express, and names the key.
options:
  _input:
    description: The dictionary. Its values are strings, integers, floats, booleans, lists and dictionaries.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Show the configuration of the agent
  ansible.builtin.debug:
    msg: "{{ {'backup': {'interval': '15m', 'retention': {'daily': 7}}} | etcd_agent.etcd_agent.to_toml }}"
"""

RETURN = r"""
_value:
  description: The text.
  type: str
"""

BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
# What a basic string cannot contain as it is.
SPECIAL = re.compile(r'["\\\x00-\x1f\x7f]')
SHORT = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}
# TOML's integers have 64 bits.
SMALLEST, LARGEST = -(2**63), 2**63 - 1


def to_toml(data):
    """Renders a dictionary. Ansible calls this."""
    if not isinstance(data, Mapping):
        raise AnsibleFilterError(f"to_toml needs a dictionary, not {_kind(data)}")
    blocks = []
    _table([], data, blocks)
    return "\n".join(blocks)


def _table(path, table, blocks):
    """Appends the text of a table and of the tables in it."""
    for key in table:
        if not isinstance(key, str):
            raise AnsibleFilterError(f"{_name(path + [str(key)])}: the key is {_kind(key)}, not a string: quote it")
    tables = [key for key in sorted(table) if isinstance(table[key], Mapping)]
    values = [key for key in sorted(table) if not isinstance(table[key], Mapping)]
    lines = [f"{_key(key, path)} = {_value(path + [key], table[key])}\n" for key in values]
    # A table that only has tables needs no header of its own.
    if path and (lines or not tables):
        lines.insert(0, f"[{_name(path)}]\n")
    if lines:
        blocks.append("".join(lines))
    for key in tables:
        _table(path + [key], table[key], blocks)


def _value(path, value):
    if isinstance(value, bool):  # before integers: a bool is one
        return "true" if value else "false"
    if isinstance(value, str):
        return _string(value, path)
    if isinstance(value, int) and SMALLEST <= value <= LARGEST:
        return str(int(value))
    if isinstance(value, float) and math.isfinite(value):
        return repr(float(value))
    if isinstance(value, list):
        return "[" + ", ".join(_value(path, item) for item in value) + "]"
    if isinstance(value, Mapping):  # in a list
        pairs = [f"{_key(key, path)} = {_value(path + [key], value[key])}" for key in sorted(value)]
        return "{ " + ", ".join(pairs) + " }" if pairs else "{}"
    if isinstance(value, int):
        raise AnsibleFilterError(f"{_name(path)}: {value} has more than 64 bits")
    raise AnsibleFilterError(f"{_name(path)}: {_kind(value)} cannot be written as TOML")


def _string(text, path):
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise AnsibleFilterError(f"{_name(path)}: the text is not valid Unicode") from None
    return '"' + SPECIAL.sub(lambda match: SHORT.get(match[0]) or f"\\u{ord(match[0]):04X}", str(text)) + '"'


def _key(key, path):
    return key if BARE_KEY.fullmatch(key) else _string(key, path)


def _name(path):
    """The dotted name of a key, as in the agent's own errors."""
    return ".".join(_key(key, []) for key in path)


def _kind(value):
    return "null" if value is None else f"a value of type {type(value).__name__}"


class FilterModule:
    """The filters of this file."""

    def filters(self):
        """Returns the filters by name."""
        return {"to_toml": to_toml}
