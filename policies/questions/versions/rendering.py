"""The output of `helm template` and `kustomize build` for a version of manifests.

Both tools execute instructions of the tree. The tree cannot allow more than the options of the command: helm in
kustomizations, files outside of a kustomization's directory, and the network need an option each.
"""

from __future__ import annotations

import os
import re
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from glob import glob
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.base.findings import cut, grouped
from forewarn.policies.inputs.manifests.groups import Member, reached
from forewarn.policies.inputs.manifests.kustomizations import KUSTOMIZATIONS, Kustomization, read_kustomization
from forewarn.policies.inputs.manifests.reading import first_value, read
from forewarn.policies.inputs.sources.files import SourceError, find_files, readable
from forewarn.policies.inputs.sources.git import upwards
from forewarn.policies.inputs.sources.programs import Trees, find_program, safe_path
from forewarn.policies.kubernetes.kinds.registry import DEFAULT_NAMESPACE, RELEASE_NAMESPACE, REMOVED
from forewarn.policies.kubernetes.releases.minors import NEWEST
from forewarn.policies.linting.lint.charts import CHART
from forewarn.policies.linting.lint.input import Input, LintRequest, is_excluded, wanted_kinds
from forewarn.policies.questions.versions import tools
from forewarn.policies.questions.versions.kustomizations import Checker, Limits, Refused

if TYPE_CHECKING:
    from forewarn.policies.linting.config.model import Config

ENABLE_HELM: Final = "--enable-helm"
ANY_FILE: Final = "--load-restrictor=LoadRestrictionsNone"
KUSTOMIZE_FLAGS: Final = (ENABLE_HELM, ANY_FILE)
"""Allowed flags of kustomize, which cannot run programs of the directory tree."""
RENDERED: Final = "(rendered)"
"""The end of the name of what helm or kustomize printed."""
_SOURCE: Final = re.compile(rb"^# Source: ([^\n/]+)/([^\n]+?)\r?$", re.MULTILINE)
_SEPARATOR: Final = re.compile(rb"^---[ \t]*(?:#[^\n]*)?\r?\n", re.MULTILINE)
_COMPONENT: Final = re.compile(rb"^kind:[ \t]*[\"']?Component\b", re.MULTILINE)
"""Matches a Component, which only works as part of another kustomization."""
_API_VERSIONS: Final = sorted({f"{new.replacement}/{old.rpartition('/')[2]}" for old, new in REMOVED.items()})
"""Versions with kinds that charts may ask for; without a cluster, helm knows only the versions."""
_DEPENDENCIES: Final = re.compile(r"missing in charts/ directory: (.+)")
_FIX: Final = "make the command succeed, or exclude the directory"
_VALUES: Final = "compare two directories with the output of `helm template`, or exclude the directory"
_FIXES: Final = {
    "network access is off": "pass --render-network, or exclude the directory",
    "link leaves the checked directories": "replace the link by the file, or exclude the directory",
    "must specify --enable-helm": "pass --kustomize-flag=--enable-helm",
    **dict.fromkeys(
        ("helm pull is not allowed", "HelmChartInflationGenerator"),
        "download the chart with `kustomize build --enable-helm`, and pass --kustomize-flag=--enable-helm",
    ),
    "is not in or below": f"pass --kustomize-flag={ANY_FILE}",
    "external plugins disabled": "exclude the directory: forewarn runs no plugins",
    "execution error at": _VALUES,
    "not defined": _FIX,
    "at <": _VALUES,
    "no such file or directory": "add the file, or exclude the directory",
}
"""Part of an error -> the fix."""
_VARIES: Final = re.compile(r"'[^']*'|\"[^\"]*\"|\S*[/:]\S*|[0-9]+")
"""Parts of an error that differ between directories with one cause: names, paths, positions."""
_MESSAGE: Final = 300
"""Maximum characters of a tool's message."""


class RenderRequest(NamedTuple):
    """Permissions of helm and kustomize when they render manifests.

    `flags`: flags of kustomize. `network`: whether kustomize may use the network. `checkout`: the working directory, if
    the rendered one is a copy of a commit: no program of it runs.
    """

    flags: Sequence[str] = ()
    network: bool = False
    checkout: str = ""


class Unrendered(NamedTuple):
    """Why a directory is not rendered, with the position and the fix. `others`: directories with the same cause."""

    file: str
    line: int
    why: str
    fix: str
    others: Sequence[str]


class _Found(NamedTuple):
    """The charts and kustomizations of a tree by directory, each with the file that defines it."""

    charts: dict[str, str]
    kustomizations: dict[str, tuple[str, Kustomization]]
    components: set[str]
    """The directories of kustomizations that only others can build."""

    def tops(self) -> Iterator[str]:
        """Yield the directories of the kustomizations that no other one includes."""
        bases = {path for _, k in self.kustomizations.values() for path in k.resources}
        for directory, (_, kustomization) in self.kustomizations.items():
            if kustomization.directory not in bases and directory not in self.components:
                yield directory


class _Renderer:
    """Adds the output of helm and kustomize to an input."""

    def __init__(self, files: Input, request: LintRequest, allowed: RenderRequest) -> None:
        self._given, self._config, self._namespace = files, request.config, request.namespace or ""
        self._allowed, self._trees = allowed, Trees.from_paths(request.paths)
        self._checkout = Trees.from_paths([*request.paths, allowed.checkout or os.curdir])
        self._checker, self._path = Checker(), safe_path(self._checkout)
        self._wanted = wanted_kinds(request.config)
        self._failures = defaultdict[str, list[tuple[str, tools.Failure]]](list)

    def helm(self, directory: str, ci_values: str = "") -> tools.Job:
        """The helm command for a chart. `ci_values`: a values file that the chart has for its own tests."""
        given = [f"--namespace={self._namespace or RELEASE_NAMESPACE}", f"--kube-version={self._version}"]
        given.append(f"--api-versions={','.join(_API_VERSIONS)}")

        def arguments(files: str) -> list[str]:
            stage = tools.Stage(self._trees, files)
            values = [f"--values={stage.values(os.path.join(directory, ci_values))}"] if ci_values else []
            return [stage.chart(directory), *given, *values]

        return self._job(directory, "helm", "template", arguments)

    def kustomize(self, directory: str) -> tools.Job | tools.Failure:
        """The kustomize command for a kustomization; a Failure for one that must not be built."""
        path, flags, network = os.path.abspath(directory), self._allowed.flags, self._allowed.network
        helm = ENABLE_HELM in flags
        try:
            self._checker.check(path, Limits(self._trees, helm, ANY_FILE in flags, network))
        except Refused as fault:
            return tools.Failure(fault.why, fault.file, fault.line)

        def arguments(files: str) -> list[str]:
            options = sorted({*flags})
            if helm:
                gate = os.path.join(files, "helm")
                tools.write_gate(gate, find_program("helm", self._checkout) or "helm", self._trees)
                options += [f"--helm-kube-version={self._version}", f"--helm-command={gate}"]
            return [path, *options]

        program, command = "kustomize", "build"
        if not find_program(program, self._checkout):
            program, command = "kubectl", "kustomize"
        return self._job(directory, program, command, arguments)._replace(network=network)

    def _job(self, directory: str, program: str, command: str, arguments: Callable[[str], Sequence[str]]) -> tools.Job:
        return tools.Job(directory, program, command, arguments, find_program(program, self._checkout), self._path)

    @property
    def _version(self) -> str:
        return f"1.{self._config.options.minor or NEWEST}.0"

    def fail(self, file: str, failure: tools.Failure) -> None:
        """Record that a directory cannot be rendered."""
        known = "missing in charts/" if _DEPENDENCIES.search(failure.why) else _fix_of(failure.why)
        self._failures[known or _VARIES.sub("", failure.why.rpartition(": ")[2])].append((file, failure))

    def failures(self) -> Iterator[Unrendered]:
        """Yield each cause of failures, at the first directory that fails for it."""
        for failures in self._failures.values():
            file, failure = failures[0]
            why, fix = failure.why, _fix_of(failure.why) or _FIX
            if (missing := _DEPENDENCIES.search(why)) is not None:
                why = f"missing in charts/: {missing[1]}"
                fix = f"run `helm dependency build {os.path.dirname(file)}`"
            others = [os.path.dirname(other) for other, _ in failures[1:]]
            yield Unrendered(failure.file or file, failure.line, cut(why, _MESSAGE), cut(fix, _MESSAGE), others)

    def take_charts(self, charts: dict[str, str], jobs: Sequence[tools.Job]) -> None:
        """Render charts and add their objects. `charts`: directory -> the file that defines the chart.

        A chart that fails is rendered again with its first values file for tests, by the convention of chart-testing.
        """
        failures, again = dict[str, tools.Failure](), list[tools.Job]()
        for job, result in tools.run(jobs):
            if not isinstance(result, tools.Failure):
                self._take_chart(job.directory, result)
            elif name := min(glob("ci/*-values.yaml", root_dir=job.directory), default=""):
                failures[job.directory] = result
                again.append(self.helm(job.directory, name))
            else:
                self.fail(charts[job.directory], result)
        for job, result in tools.run(again):
            if isinstance(result, tools.Failure):
                self.fail(charts[job.directory], failures[job.directory])
            else:
                self._take_chart(job.directory, result)

    def _take_chart(self, directory: str, data: bytes) -> None:
        """Add the objects of a rendered chart. If no namespace is given, RELEASE_NAMESPACE is its placeholder."""
        for name, text in _split_by_template(directory, data):
            if not is_excluded(name, self._config.options.exclude):
                self._take(directory, name, text, self._namespace or RELEASE_NAMESPACE)

    def take_overlay(self, directory: str, data: bytes) -> None:
        """Add the objects of a rendered kustomization."""
        self._take(directory, directory, data, self._namespace or DEFAULT_NAMESPACE)

    def _take(self, directory: str, name: str, data: bytes, namespace: str) -> None:
        reading = read(data, f"{name} {RENDERED}", self._wanted, namespace=namespace)
        place = os.path.join(directory, RENDERED)
        self._given.members += (Member.from_object(subject, place) for subject in reading.subjects)
        self._given.diagnostics += reading.diagnostics


def render(
    files: Input, request: LintRequest, allowed: RenderRequest, concerned: Callable[[str], bool]
) -> list[Unrendered]:
    """Render charts and kustomizations: their output replaces their files in the input. Returns the failures.
    `concerned`: reports whether to render a directory.
    """
    directories = _found(request.paths, request.config, as_git=request.gitignore)
    for directory in [directory for directory in directories.charts if not concerned(directory)]:
        del directories.charts[directory]
    renderer = _Renderer(files, request, allowed)
    kustomizes = list(_jobs_of_kustomizations(filter(concerned, directories.tops()), directories, renderer))
    charts = [renderer.helm(directory) for directory in directories.charts]
    absent = dict.fromkeys(job.program for job in (*charts, *kustomizes) if not job.program_path)
    for program in absent:
        why = "only in a checked directory, and not run" if shutil.which(program) else "not installed"
        files.unreadable.append(SourceError("diff", f"{program} is {why}"))
    renderer.take_charts(directories.charts, [job for job in charts if job.program not in absent])
    _take_overlays(files, directories, [job for job in kustomizes if job.program not in absent], renderer)
    return list(renderer.failures())


def _fix_of(why: str) -> str:
    return next((fix for part, fix in _FIXES.items() if part in why), "")


def _take_overlays(files: Input, directories: _Found, jobs: Sequence[tools.Job], renderer: _Renderer) -> None:
    """Build kustomizations; their objects replace their files in the input."""
    by_directory = {k.directory: k for _, k in directories.kustomizations.values()}
    real = {m.file: os.path.realpath(m.file) for m in files.members} if jobs else {}
    replaced, rendered = set[str](), set[str]()
    for job, result in tools.run(jobs):
        file, top = directories.kustomizations[job.directory]
        if isinstance(result, tools.Failure):
            renderer.fail(file, result)
            continue
        renderer.take_overlay(job.directory, result)
        used = reached(top.directory, by_directory)
        replaced.update(used)
        rendered |= {top.directory, *(path for path in used if path in by_directory)}
    names = {file for file, path in real.items() if path in replaced}
    files.members = [m for m in files.members if m.file not in names]
    files.kustomizations = [k for k in files.kustomizations if k.directory not in rendered]


def _jobs_of_kustomizations(tops: Iterable[str], directories: _Found, renderer: _Renderer) -> Iterator[tools.Job]:
    """Yield the kustomize commands; record kustomizations that must not be built as failures."""
    for directory in tops:
        job = renderer.kustomize(directory)
        if isinstance(job, tools.Failure):
            renderer.fail(directories.kustomizations[directory][0], job)
        else:
            yield job


def _found(paths: Sequence[str], config: Config, *, as_git: bool) -> _Found:
    """Return all kustomizations, and the charts, except charts in the charts/ directory of another chart."""
    result = _Found({}, {}, set())
    named = (CHART, *KUSTOMIZATIONS)
    for file in find_files(paths, tuple(name.lower() for name in named), as_git=as_git):
        directory, name = os.path.split(file.path)
        if not file.tree or name not in named or is_excluded(file.path, config.options.exclude):
            continue
        text = readable(file)
        if name == CHART:
            if _is_application(text, file.path) and not _is_dependency(directory, result.charts):
                result.charts[directory] = file.path
        elif (kustomization := read_kustomization(text, file.path)) is not None:
            result.kustomizations[directory] = file.path, kustomization
            if _COMPONENT.search(text):
                result.components.add(directory)
    return result


def _is_dependency(directory: str, charts: dict[str, str]) -> bool:
    """Report whether a chart is in another's charts/ directory. `charts`: found so far; parents are found first."""
    steps = map(os.path.split, islice(upwards(directory), 1, None))
    return any(step == "charts" and parent in charts for parent, step in steps)


def _is_application(text: bytes, path: str) -> bool:
    """True if a chart can be rendered; library charts cannot."""
    chart = first_value(text, path)
    return isinstance(chart, dict) and chart.get("type") != "library"


def _split_by_template(directory: str, data: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield the path of each template, and its output; for output without a template, the directory."""

    def name_of(part: bytes) -> str:
        source = _SOURCE.search(part)
        inside = source[2].decode("utf-8", "replace") if source else ""
        return os.path.join(directory, *(step for step in inside.split("/") if step not in ("", ".", "..")))

    by_source = grouped((name_of(part), part) for part in _SEPARATOR.split(data) if part.strip())
    for name, parts in by_source.items():
        yield name, b"---\n".join(parts)
