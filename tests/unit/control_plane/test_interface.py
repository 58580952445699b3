"""The role, its arguments and the module agree."""

from __future__ import annotations

from pathlib import Path

import yaml
from jinja2 import Environment

from ansible_collections.ballast.kube.plugins.module_utils._control_plane.spec import MAKE

ROLE = Path(__file__).resolve().parents[3] / "roles/control_plane"
PREFIX = "control_plane_"


def load(name: str):
    return yaml.safe_load((ROLE / name).read_text(encoding="utf-8"))


def test_the_role_has_a_variable_for_each_option_of_the_module():
    assert set(load("defaults/main.yml")) == {PREFIX + option for option in MAKE}


def test_the_role_hands_each_variable_to_its_option():
    given = load("tasks/main.yml")[0]["ballast.kube.control_plane"]
    assert set(given) == set(MAKE)
    assert [option for option, value in given.items() if PREFIX + option not in value] == []


def test_the_role_takes_the_former_variables_too():
    given = load("tasks/main.yml")[0]["ballast.kube.control_plane"]
    for former, option in {"shape": "deployment_mode", "events": "progress_log"}.items():
        expression = Environment(autoescape=True).from_string(given[option])
        assert expression.render({PREFIX + option: "", PREFIX + former: "former"}) == "former"
        assert expression.render({PREFIX + option: "new", PREFIX + former: "former"}) == "new"
        assert expression.render({PREFIX + option: "", "omit": "omitted"}) == "omitted"


def test_defaults_of_role_and_arguments_are_equal():
    arguments = load("meta/argument_specs.yml")["argument_specs"]["main"]["options"]
    assert {name: option["default"] for name, option in arguments.items()} == load("defaults/main.yml")


def test_defaults_of_role_and_module_are_equal_where_the_module_has_one():
    role = load("defaults/main.yml")
    for option, spec in MAKE.items():
        if "default" in spec:
            assert role[PREFIX + option] == spec["default"], option
