"""Admission requests, from the bytes of a request to the bytes of its response.

A response to an AdmissionReview has HTTP status 200; any other response is a metav1.Status. An internal error has
status 500 and never `allowed: false`, so `failurePolicy` decides.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache, partial
from time import monotonic
from typing import TYPE_CHECKING, Final

from forewarn.webhook.admission.admitted_pods import key_of_object
from forewarn.webhook.admission.answer_cache import Answered, key_of
from forewarn.webhook.admission.call import Hook
from forewarn.webhook.admission.deadlines import Deadline, parse_timeout
from forewarn.webhook.admission.decision import passed
from forewarn.webhook.admission.directions import exemption_of, subject_of
from forewarn.webhook.admission.evaluation import Evaluation
from forewarn.webhook.admission.impact_annotation import cost_of
from forewarn.webhook.admission.lanes import Cost
from forewarn.webhook.admission.prediction_access import PredictionAccess, RequestAccess
from forewarn.webhook.admission.replies import (
    BROKEN,
    NO_TIME,
    TOO_DEEP,
    TOO_LONG,
    Reply,
    rejection,
)
from forewarn.webhook.admission.review import BadReview, TooDeep, parse_review
from forewarn.webhook.admission.services import Services
from forewarn.webhook.admission.sizes import MAX_DECODED, MAX_QUICK, MAX_SMALL, decoded_size
from forewarn.webhook.admission.steps import Guard, Step, Steps, advance
from forewarn.webhook.logs import LOGGER

if TYPE_CHECKING:
    from collections.abc import Callable

    from forewarn.policies.cluster.cache import ClusterSnapshot
    from forewarn.policies.config import Config
    from forewarn.webhook.admission.admitted_pods import Admitted
    from forewarn.webhook.admission.call import AdmissionCall
    from forewarn.webhook.admission.callers import Grant
    from forewarn.webhook.admission.review import AdmissionRequest

_MAX_SECONDS: Final = {Cost.RULES: 30.0, Cost.POD: 1.0, Cost.PODS: 3.0}
"""Maximum seconds for a prediction, even with a longer API server timeout: a user waits for `kubectl apply`."""


@dataclass(frozen=True, slots=True)
class Endpoint(Services):
    """Answers admission requests: parses, authenticates and classifies a request; webhook.admission.evaluation does
    the rest.
    """

    def answer(self, call: AdmissionCall) -> Reply | Step:
        """The response, or the next step towards it. Never raises."""
        guard = partial(self._guarded, call)
        return guard(partial(self._begun, call, guard))

    def _begun(self, call: AdmissionCall, guard: Guard) -> Reply | Step:
        if len(call.body) > MAX_SMALL:
            return advance(self._of_large(call), guard)
        parsed = self._parsed(call)
        return parsed if isinstance(parsed, Reply) else advance(parsed.steps(), guard)

    def _of_large(self, call: AdmissionCall) -> Steps[Reply]:
        # Parse on the evaluating thread, in turn.
        yield Step(lambda: None, cost=Cost.PODS, holds_up=len(call.body) > MAX_QUICK)
        if Deadline.after(call.received, parse_timeout(call.timeout)).expired():
            return self.not_evaluated(call, NO_TIME)
        parsed = self._parsed(call)
        return parsed if isinstance(parsed, Reply) else (yield from parsed.steps())

    def _parsed(self, call: AdmissionCall) -> Reply | Evaluation:
        """The response if the request needs no evaluation; otherwise the evaluation.

        Evaluates a large request immediately, so that only one request at a time has its large objects in memory.
        """
        started = monotonic()
        if decoded_size(call.body) > MAX_DECODED:
            return self.not_evaluated(call, TOO_LONG)
        request = parse_review(call.body)
        grant, cluster, config = self._authenticated(call, request)
        exemption = exemption_of(request, cluster, config, datetime.now(UTC))
        if exemption is not None:
            return self.respond(call.hook, request, _passed(exemption), started)
        is_large, staleness = len(call.body) > MAX_SMALL, self.staleness()
        cost = Cost.PODS if is_large else cost_of(request, cluster, config, len(call.body))
        admitted = self._admitted(request, cluster, config) if cost is not Cost.RULES else ()
        key = (
            None if staleness or cluster is None or is_large or grant.is_shown else key_of(call.hook, request, admitted)
        )
        if key is not None and (known := self.answers.get(key, (cluster, config))) is not None:
            return self.respond(call.hook, request, known, started)
        evaluation = Evaluation(
            services=self,
            call=call,
            request=request.stripped() if is_large else request,
            started=started,
            deadline=Deadline.after(call.received, parse_timeout(call.timeout)).within(_MAX_SECONDS[cost]),
            cost=cost,
            cluster=cluster,
            config=config,
            staleness=staleness,
            key=key,
            grant=grant,
            access=self._access(call.hook, request, config),
            admitted=admitted,
        )
        if is_large:
            evaluation.first = evaluation.attempt(request)
        return evaluation

    def _authenticated(
        self, call: AdmissionCall, request: AdmissionRequest
    ) -> tuple[Grant, ClusterSnapshot | None, Config]:
        """Return the caller's grant, with the cluster state and configuration that the grant allows.

        A caller without a valid token may claim any requester, so the cluster state is None for it. For a token that
        requesters can read, the configuration shows no names.
        """
        grant, cluster, config = self.callers.grant(call.tokens), self.cluster(), self.config()
        if not grant.covers(*request.resource_parts):
            self.metrics.unauthenticated.inc()
            return grant, None, config
        return grant, cluster, self.without_names(config) if grant.is_shown else config

    def _access(self, hook: Hook, request: AdmissionRequest, config: Config) -> RequestAccess:
        """The access of the requester to predictions, for one request."""
        count = partial(self.metrics.count, self.metrics.predictions_shown)
        shared = PredictionAccess(self.budget, count, self.reviews)
        return RequestAccess(shared, request, config, annotates=hook is Hook.MUTATE)

    def _admitted(
        self, request: AdmissionRequest, cluster: ClusterSnapshot | None, config: Config
    ) -> tuple[Admitted, ...]:
        """Recently admitted objects whose Pods count for this request."""
        if cluster is None or not self.admitted_pods:
            return ()
        subject = subject_of(request, cluster, config)
        if subject is None:
            return ()
        return self.admitted_pods.of(request.user.name, key_of_object(subject), cluster)

    def unsupported_headers(self, content_type: str, content_encoding: str) -> Reply | None:
        """Return the rejection of a request because of its headers; None if valid. A missing content type counts as
        JSON.
        """
        if content_type.partition(";")[0].strip().lower() not in ("", "application/json"):
            return rejection(415, f'the content type must be application/json, not "{content_type[:80]}"')
        if content_encoding.lower() not in ("", "identity"):
            return rejection(415, f'the content encoding must be identity, not "{content_encoding[:80]}"')
        return None

    def _guarded(self, call: AdmissionCall, run: Callable[[], Reply | Step]) -> Reply | Step:
        """Run a function; turn each exception into a reply."""
        try:
            return run()
        except (TooDeep, RecursionError):
            return self.not_evaluated(call, TOO_DEEP)
        except BadReview as fault:
            known, why = self.callers.are_known(call.tokens), str(fault)
            return self.rejected(call.hook, rejection(400, why), known=known, why=why, client=call.client)
        except Exception:
            return self._broken(call)

    def _broken(self, call: AdmissionCall) -> Reply:
        LOGGER.exception("internal error")
        return self.rejected(call.hook, BROKEN, client=call.client)


@lru_cache(maxsize=64)
def _passed(exemption: str) -> Answered:
    """The cached response for an exemption, without a uid."""
    return Answered.of(passed("", exemption))
