"""Common parts of commands about a cluster: options and errors."""

from __future__ import annotations

import argparse
import io
import os
import sys
from contextlib import contextmanager, redirect_stdout
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TextIO

from forewarn.policies.application import NO_ANSWER
from forewarn.policies.commands.impersonation import add_impersonation_options, use_impersonation
from forewarn.policies.commands.parser import integer_between
from forewarn.policies.config.model import ConfigError
from forewarn.policies.findings import cut, one_line, plural
from forewarn.policies.kinds.registry import NODE, POD, PRIORITY_CLASS
from forewarn.policies.sources import SourceError, status_of
from forewarn.policies.sources.errors import USAGE, MissingFile
from forewarn.policies.sources.files import STDIN, File
from forewarn.policies.sources.output_file import write_file
from forewarn.policies.terminal import COLOR_CHOICES, complain, counting, print_notice

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from forewarn.policies.application.places import Places
    from forewarn.policies.cluster.cache import Cache, ClusterSnapshot
    from forewarn.policies.commands.printing import Output

LIVE: Final = "live"
"""The value of `--cluster` for a running cluster."""

MAX_BY_DEFAULT: Final = 8
"""Clusters at the same time, without `--jobs`."""
DEFAULT_TIMEOUT: Final = 600
"""Seconds for each of several clusters."""

SEVERAL: Final = ("paths", "names")
"""Positional arguments that take any number of values."""
SEVERAL_CLUSTERS: Final = ("audit", "classes", "diff", "headroom", "lint", "predict", "risk", "whatif")
"""Commands that evaluate several clusters in one run (`many_clusters`)."""
_PATTERN: Final = frozenset("*?[")


def add_cluster_option(add: Callable[..., object], *, required: bool = True, several: bool = False) -> None:
    """Add `--cluster`, `--context` and `--kubeconfig` with `add`, a parser's `add_argument`.

    `required`: the command needs a cluster, so the current context is the default. `several`: the command can
    evaluate several clusters in one run, so `--context` takes several names and patterns; also add `--clusters` and
    its options.
    """
    default = "default: the current kubeconfig context" if required else "default: none"
    help_text = f"cluster snapshot (a file or directory, repeatable), or live for a running cluster ({default})"
    add("--cluster", action="append", default=[], metavar="SOURCE", help=help_text)
    if several:
        help_text = (
            "snapshots of several clusters, for example 'snapshots/*.json.gz': one cluster for each match (repeatable)"
        )
        add("--clusters", action="append", default=[], metavar="PATTERN", help=help_text)
    add_context_options(add, "" if required else "; implies --cluster live", several=several)
    if several:
        help_text = f"maximum number of clusters at the same time (default: number of CPUs, at most {MAX_BY_DEFAULT})"
        add("--jobs", type=integer_between(1, 64), metavar="N", help=help_text)
        help_text = f"time limit for each of several clusters (default: {DEFAULT_TIMEOUT})"
        add(
            "--cluster-timeout",
            type=integer_between(1, 86_400),
            default=DEFAULT_TIMEOUT,
            metavar="SECONDS",
            help=help_text,
        )


class _Contexts(argparse.Action):
    """Stores the last value as `context` and all values as `contexts`; rejects several values if the command takes
    one cluster.
    """

    def __init__(self, *, several: bool, **arguments: Any) -> None:
        super().__init__(**arguments)
        self._several = several

    def __call__(self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, value: Any, *_: object) -> None:
        given = [*getattr(namespace, "contexts", ()), value]
        if not self._several and (len(given) > 1 or is_pattern(value)):
            commands = ", ".join(SEVERAL_CLUSTERS)
            parser.error(f"--context {cut(value, 80)}: takes one context. Fix: pass one; {commands} take several")
        namespace.context, namespace.contexts = value, given


def is_pattern(name: str) -> bool:
    return not _PATTERN.isdisjoint(name)


def add_context_options(add: Callable[..., object], more: str = "", *, several: bool = False) -> None:
    """Add `--context` and `--kubeconfig` by a parser's `add_argument`."""
    help_text = "kubeconfig context, repeatable, or a pattern such as 'prod-*'" if several else "kubeconfig context"
    help_text = f"{help_text} (default: current context{more})"
    add("--context", action=_Contexts, several=several, default="", metavar="NAME", help=help_text)
    add(
        "--kubeconfig",
        default="",
        type=_existing,
        metavar="FILE",
        help="kubeconfig (default: $KUBECONFIG, ~/.kube/config)",
    )
    add_impersonation_options(add)


def _existing(path: str) -> str:
    """The path, if the file exists or the path is "". Raises argparse.ArgumentTypeError otherwise."""
    if path and not os.path.exists(path):
        raise argparse.ArgumentTypeError(f"{cut(path, 200)}: no such file or directory")
    return path


def use_kubeconfig(options: argparse.Namespace) -> None:
    """Set KUBECONFIG to the value of `--kubeconfig`, because credential plugins also read this variable, and the user
    to impersonate.
    """
    use_impersonation(options)
    if options.kubeconfig:
        os.environ["KUBECONFIG"] = options.kubeconfig


def choose_cluster(options: argparse.Namespace, parser: argparse.ArgumentParser, *, required: bool = True) -> None:
    """Complete `options.cluster` from `--context` and `--kubeconfig`; the default is the current context if
    `required`. Exits if they have no effect.

    `options.announced` becomes the running cluster that is used by default; `loaded` prints its name on standard
    error. `options.several` becomes true if the command line selects several clusters, also if a pattern matches only
    one.
    """
    use_kubeconfig(options)
    options.command = getattr(options, "own", parser).prog.removeprefix("forewarn ")
    options.contexts = contexts = getattr(options, "contexts", ())
    snapshots = getattr(options, "clusters", ())
    _check_context(options, parser)
    options.several = bool(snapshots) or len(contexts) > 1 or any(map(is_pattern, contexts))
    if options.several:
        return
    live = f"{LIVE}:{options.context}" if options.context else LIVE
    options.announced = ""
    options.cluster = [live if source == LIVE else source for source in options.cluster]
    if not options.cluster and (required or options.context or options.kubeconfig):
        options.cluster, options.announced = [live], live


def _check_context(options: argparse.Namespace, parser: argparse.ArgumentParser) -> None:
    """Exit if `--context` or `--kubeconfig` is given, but all clusters of the command line are other ones."""
    given, snapshots = options.cluster, getattr(options, "clusters", [])
    is_live = any(source.partition(":")[0] == LIVE for source in given) or bool(options.contexts)
    for option, value, is_read in (
        ("context", options.contexts, not given or LIVE in given),
        ("kubeconfig", options.kubeconfig, is_live or not (given or snapshots)),
        ("as", options.as_user or options.as_group or options.as_uid, is_live or not (given or snapshots)),
    ):
        if value and not is_read:
            other, source = ("cluster", given[0]) if given else ("clusters", snapshots[0])
            getattr(options, "own", parser).error(
                f"--{option} selects a running cluster; remove it or --{other} {cut(source, 200)}"
            )


class Run(NamedTuple):
    """One cluster of a command: its sources, and where the answer goes.

    `announced`: see `choose_cluster`. `name`: of one of several clusters. `node_templates`: as the option.
    """

    command: str
    cluster: Sequence[str]
    output: Output
    errors: TextIO
    announced: str = ""
    name: str = ""
    node_templates: Sequence[str] = ()


def loaded(options: argparse.Namespace | Run, into: Cache | None = None, **more: Any) -> Cache:
    """Load the cluster of the options with `load_cluster`; print the progress on a terminal, and the cluster's name if
    used by default. Raises SourceError.

    `into`: the Cache to fill. `more`: further arguments of `load_cluster`.
    """
    from forewarn.policies.sources.cluster import (  # a linter without a cluster does not wait for it
        described,
        load_cluster,
    )

    try:
        with counting("objects read", getattr(options, "errors", sys.stderr)) as show:
            if show is not None:
                show(0, 0)
                more["progress"] = lambda count: show(count, 0)
            cache = load_cluster(*options.cluster, into=into, **more)
    except SourceError as fault:
        if not options.announced or fault.file != options.announced or isinstance(fault, MissingFile):
            raise
        raise SourceError("", f"{fault.problem}. Fix: pass --cluster FILE or --kubeconfig FILE") from None
    snapshot = cache.snapshot()
    _check_lists(options, snapshot)
    if options.announced:
        counts = f"{plural(len(snapshot.objects.nodes), 'node')}, {plural(len(snapshot.pods), 'Pod')}"
        print_notice(f"cluster: {described(options.announced)} ({counts})")
    return cache


_CLASSES: Final = (PRIORITY_CLASS,)
_PODS: Final = (NODE, POD)
REQUIRED_LISTS: Final[Mapping[str, tuple[str, ...]]] = {
    "audit": (*_PODS, *_CLASSES),
    "classes": (*_PODS, *_CLASSES),
    "classes plan": (*_PODS, *_CLASSES),
    "headroom": _PODS,
    "lint": _CLASSES,
    "predict": _PODS,
    "test": _PODS,
    "ui": _PODS,
    "whatif pressure": _PODS,
    "whatif resize": _PODS,
}
"""Command -> kinds without whose list it has no answer (`require_lists`); questions of `application` check themselves.
"""


def _check_lists(options: argparse.Namespace | Run, cluster: ClusterSnapshot) -> None:
    """Raise SourceError if the cluster state lacks a list that the command requires (REQUIRED_LISTS)."""
    if required := REQUIRED_LISTS.get(options.command, ()):
        from forewarn.policies.application.cluster import require_lists

        has_groups = bool(getattr(options, "node_templates", None))
        require_lists(cluster, required, options.cluster, has_groups=has_groups)


def add_color_option(add: Callable[..., object]) -> None:
    """Add `--color` by a parser's `add_argument`."""
    add(
        "--color",
        choices=COLOR_CHOICES,
        default="auto",
        help="color the output (default: auto, on a terminal without NO_COLOR)",
    )


def parsed(parser: argparse.ArgumentParser, arguments: Sequence[str]) -> argparse.Namespace:
    """Parse the arguments. The last positional argument may be split, as in `lint a.yaml -q b.yaml`.

    argparse accepts positional arguments only in one place, and its method for intermixed arguments does not support
    subcommands, such as those of `whatif`.
    """
    options, rest = parser.parse_known_args(arguments)
    given = list(arguments)
    verbatim = given[given.index("--") + 1 :] if "--" in given else []
    rest = [argument for argument in rest if argument != "--"]
    wrong = [argument for argument in rest if argument[:1] == "-" and argument != "-" and argument not in verbatim]
    several = next((values for name in SEVERAL if isinstance(values := getattr(options, name, None), list)), None)
    if wrong or (rest and several is None):
        getattr(options, "own", parser).error(one_line(f"unrecognized arguments: {' '.join(wrong or rest)}"))
    if several is not None:
        several += rest
    return options


def unknown_format(form: str, formats: Sequence[str], near: str = "") -> str:
    return f"-o {cut(form, 40)}: unknown format{near}; known: {', '.join(formats)}, or FORMAT=FILE"


class _Output(argparse.Action):
    """Stores `FORMAT[=FILE]` as `output` and `output_file`, and sets `output_given`."""

    def __init__(self, *, formats: Sequence[str], **arguments: Any) -> None:
        super().__init__(**arguments)
        self._formats = formats

    def __call__(self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, value: Any, *_: object) -> None:
        form, sign, file = value.partition("=")
        if form not in self._formats:
            parser.error(unknown_format(form, self._formats))
        if sign and not file:
            parser.error(f"-o {form}=: no file given. Fix: write -o {form}=FILE")
        if getattr(namespace, "output_given", False):
            parser.error(f"-o {form}: -o is given twice. Fix: pass it once, because a run writes one format")
        namespace.output, namespace.output_file, namespace.output_given = form, file, True


def add_output_option(add: Callable[..., object], formats: Sequence[str] = ("text", "json")) -> None:
    """Add `-o FORMAT[=FILE]` by a parser's `add_argument`."""
    help_text = f"{', '.join(formats)} (default: {formats[0]})"
    add("-o", "--output", action=_Output, formats=formats, default=formats[0], metavar="FORMAT[=FILE]", help=help_text)


def add_since_option(add: Callable[..., object]) -> None:
    add("--since", metavar="PREVIOUS.json", help="also show the changes since this earlier report of -o json")


def add_namespace_option(add: Callable[..., object]) -> None:
    add("-n", "--namespace", default="default", help="namespace of objects that name none (default: default)")


@contextmanager
def output_of(options: argparse.Namespace) -> Iterator[None]:
    """Redirect standard output to the file of `-o FORMAT=FILE`; a failed block writes nothing. Raises SourceError."""
    file = getattr(options, "output_file", "")
    if not file:
        yield
        return
    with redirect_stdout(io.StringIO()) as printed:
        yield
    write_file(file, printed.getvalue().encode())


def options_with_cluster(parser: argparse.ArgumentParser, arguments: Sequence[str]) -> argparse.Namespace:
    """Parse the options of a command about a cluster, and complete `options.cluster` (see `choose_cluster`)."""
    options = parsed(parser, arguments)
    choose_cluster(options, parser)
    if options.several:
        check_several(options, getattr(options, "own", parser))
    return options


def check_several(options: argparse.Namespace, parser: argparse.ArgumentParser) -> None:
    """Exit if an option does not work with several clusters."""
    if options.cluster:
        parser.error("--cluster combines its sources into one cluster. Fix: for several clusters, pass --clusters")
    if options.output in ("html", "svg"):
        parser.error(f"-o {options.output}: takes one cluster")
    for name in ("baseline", "write_baseline", "fix", "diff", "each", "timeline"):
        if getattr(options, name, None):
            parser.error(f"--{name.replace('_', '-')}: takes one cluster")
    files, option = getattr(options, "filename", None) or [], "-f "
    if paths := getattr(options, "paths", []):
        files, option = paths, ""
    for file in [files] if isinstance(files, str) else files:
        if file != STDIN and not os.path.exists(file):
            parser.error(f"{option}{cut(file, 200)}: no such file or directory")
        if File(file).is_stream and not os.path.isdir(file):
            what = f"{option}{cut(file, 80)}: takes one cluster, because forewarn can read it only once"
            parser.error(f"{what}. Fix: pass a file")


def answered(command: str, options: argparse.Namespace, answer: Callable[[], int], places: Places | None = None) -> int:
    """Return the exit status of `answer`; for an error, print one line on standard error and return 2 or 3.

    `places`: the positions of objects in files, for error messages.
    """
    try:
        with output_of(options):
            return answer()
    except NO_ANSWER as fault:
        return complain(command, places.located(fault) if places else fault, status_without_answer(fault))


def status_of_conditions(met: Collection[str], fail_on: Iterable[str]) -> int:
    """Return 1, and print the conditions on standard error, if conditions of `--fail-on` are met; otherwise 0."""
    for line in (failures := failures_of(met, fail_on)):
        print_notice(line)
    return len(failures)


def failures_of(met: Collection[str], fail_on: Iterable[str]) -> list[str]:
    """Return one line with the met conditions of `--fail-on`; empty if none is met."""
    failing = [condition for condition in dict.fromkeys(fail_on) if condition in met]
    return [f"forewarn: fails on {', '.join(failing)} (--fail-on)"] if failing else []


def status_without_answer(fault: BaseException) -> int:
    return USAGE if isinstance(fault, ConfigError) else status_of(fault)
