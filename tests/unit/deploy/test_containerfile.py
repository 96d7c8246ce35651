"""The image holds what the package is made of, and runs as the manifests say: nobody builds it in these tests."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[3]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def instructions() -> list[tuple[str, str]]:
    """Each instruction of the Containerfile with the rest of its line."""
    text = (ROOT / "deploy/Containerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [(word, rest.strip()) for word, _, rest in (line.partition(" ") for line in lines)]


def copied() -> dict[str, str]:
    """What is copied out of the tree, and where to."""
    found = {}
    for word, rest in instructions():
        if word == "COPY" and not rest.startswith("--from"):
            *sources, target = rest.split()
            for source in sources:
                found[source] = target if len(sources) == 1 else f"{target}{source}"
    return found


def deployment(part: str) -> Any:
    (found,) = yaml.safe_load_all((ROOT / "deploy" / part / "deployment.yaml").read_text(encoding="utf-8"))
    return found["spec"]["template"]["spec"]


def test_each_source_is_there_and_keeps_its_name() -> None:
    assert copied()
    for source, target in copied().items():
        assert (ROOT / source).exists(), source
        assert target.removeprefix("./") == source


def test_the_packages_are_those_of_the_project() -> None:
    wanted = [name.removesuffix("*") for name in PROJECT["tool"]["setuptools"]["packages"]["find"]["include"]]
    assert sorted(name for name in copied() if (ROOT / name).is_dir()) == sorted(wanted)
    for name in wanted:
        assert (ROOT / name / "__init__.py").is_file()


def test_the_files_that_building_needs_are_with_them() -> None:
    project = PROJECT["project"]
    wanted = ["pyproject.toml", "constraints.txt", project["readme"], *project["license-files"]]
    assert sorted(name for name in copied() if (ROOT / name).is_file()) == sorted(wanted)


def test_its_python_is_one_that_the_project_runs_on() -> None:
    images = [rest.split()[0] for word, rest in instructions() if word == "FROM"]
    assert len(set(images)) == 1, "built and run by the same Python: the environment is copied over"
    version = tuple(int(part) for part in images[0].removeprefix("python:").partition("-")[0].split("."))
    least = tuple(int(part) for part in PROJECT["project"]["requires-python"].removeprefix(">=").split("."))
    assert version >= least


@pytest.mark.parametrize("part", ["recorder", "scheduler"])
def test_it_runs_as_the_manifests_say(part: str) -> None:
    said = dict(instructions())
    spec = deployment(part)
    (container,) = spec["containers"]
    (entrypoint,) = json.loads(said["ENTRYPOINT"])
    assert PROJECT["project"]["scripts"][entrypoint] == "cli.main:main"
    assert "command" not in container, "the arguments follow the image's entry point"
    assert container["args"][0] in ("record", "schedule")
    user, group = said["USER"].split(":")
    context = spec["securityContext"]
    assert (context["runAsUser"], context["runAsGroup"], context["runAsNonRoot"]) == (int(user), int(group), True)
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert said["WORKDIR"] in [one["mountPath"] for one in container["volumeMounts"]], "the one place to write to"
    environment, _, path = said["COPY"].removeprefix("--from=build ").partition(" ")
    assert environment == path and f"PATH={environment}/bin:$PATH" in said["ENV"]
