"""Tests of the filter `to_toml`, on the table of cases that the Puppet function is tested with too.

Arguments: the file of the filter, the file of the cases.
"""

import datetime
import importlib.util
import json
import sys
import tomllib
import unittest

FILTER, CASES = sys.argv[1:]
spec = importlib.util.spec_from_file_location("to_toml", FILTER)
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
to_toml = module.FilterModule().filters()["to_toml"]
with open(CASES, encoding="utf-8") as file:
    cases = json.load(file)


class ToToml(unittest.TestCase):
    """Each row of the table, and what JSON cannot express."""

    def test_rendered(self):
        for row in cases["rendered"]:
            with self.subTest(row["name"]):
                self.assertEqual(to_toml(row["value"]), row["toml"])

    def test_a_parser_reads_the_same_values(self):
        for row in cases["rendered"]:
            with self.subTest(row["name"]):
                self.assertEqual(tomllib.loads(row["toml"]), row["value"])

    def refused(self, value, error):
        with self.assertRaises(module.AnsibleFilterError) as raised:
            to_toml(value)
        self.assertEqual(str(raised.exception), error)

    def test_refused(self):
        for row in cases["refused"]:
            with self.subTest(row["name"]):
                self.refused(row["value"], row["error"])

    def test_what_yaml_makes_of_unquoted_values(self):
        time = datetime.datetime(2026, 3, 1)
        self.refused({"a": {"b": time}}, "a.b: a value of type datetime cannot be written as TOML")
        self.refused({"a": {True: 1}}, "a.True: the key is a value of type bool, not a string: quote it")
        self.refused({"a": float("nan")}, "a: a value of type float cannot be written as TOML")

    def test_subclasses(self):
        # From ansible-core 2.19 on, values carry tags and are of such classes.
        kinds = [type("Tagged", (kind,), {}) for kind in (int, str, float, list)]
        tagged = {name: kind(value) for name, kind, value in zip("abcd", kinds, (3, "x", 1.5, [1]))}
        self.assertEqual(to_toml(tagged), 'a = 3\nb = "x"\nc = 1.5\nd = [1]\n')

    def test_other_values(self):
        self.refused([1], "to_toml needs a dictionary, not a value of type list")
        self.refused({"a": "\ud800"}, "a: the text is not valid Unicode")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
