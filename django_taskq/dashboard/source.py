"""Where the pages read from: one backend of TASKS, for the length of one request."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TypeVar

from django.core.exceptions import ImproperlyConfigured
from django.http import HttpRequest
from django.utils.translation import gettext as _

from ..backend import RedisBackend
from ..broker.broker import Broker
from ..broker.client import connect
from ..broker.exceptions import BrokerUnavailable, TaskqError
from ..broker.inspector import Counts, Inspector
from ..broker.urls import mask_url
from ..compat import DEFAULT_TASK_BACKEND_ALIAS, task_backends

#: Seconds that a page waits for Redis, once.
TIMEOUT = 2
#: Name of the parameter that chooses the backend.
PARAMETER = "backend"
_ATTRIBUTE = "_taskq_source"

T = TypeVar("T")


def redis_backends() -> dict[str, RedisBackend]:
    """Return the entries of TASKS that keep their tasks in Redis."""
    found = {}
    for alias in task_backends:
        try:
            backend = task_backends[alias]
        except ImproperlyConfigured:
            continue  # The system checks name it.
        if isinstance(backend, RedisBackend):
            found[alias] = backend
    return found


class Source:
    """A backend as a page reads it: when Redis fails, it isn't asked again in this request."""

    def __init__(self, alias: str | None = None) -> None:
        self._backends = redis_backends()
        self.aliases = list(self._backends)
        default = DEFAULT_TASK_BACKEND_ALIAS if DEFAULT_TASK_BACKEND_ALIAS in self._backends else None
        self.default = default or next(iter(self._backends), "")
        self.alias = alias if alias in self._backends else self.default
        #: Why nothing can be read; empty while Redis answers.
        self.error = "" if self._backends else _("No entry of TASKS uses RedisBackend.")

    @classmethod
    def of(cls, request: HttpRequest, alias: str | None = None) -> Source:
        """Return the source of a request: the given backend, or the one that its query chooses."""
        source: Source | None = getattr(request, _ATTRIBUTE, None)
        if source is None or (alias is not None and alias != source.alias):
            source = cls(alias or request.GET.get(PARAMETER))
            setattr(request, _ATTRIBUTE, source)
        return source

    @property
    def backend(self) -> RedisBackend:
        return self._backends[self.alias]

    @cached_property
    def inspector(self) -> Inspector:
        """Return the read side, on connections that give up soon; raise when the options are wrong."""
        conf = self.backend.conf
        return Inspector(Broker(connect(conf.url, TIMEOUT), conf.namespace))

    @property
    def broker(self) -> Broker:
        return self.inspector.broker

    def read(self, question: Callable[[Inspector], T], otherwise: T) -> T:
        """Ask Redis, or return `otherwise` when it can't be asked; `error` then says why."""
        if not self.error:
            try:
                return question(self.inspector)
            except (TaskqError, ImproperlyConfigured) as error:
                self.error = explain(error)
            except ValueError as error:
                self.error = _("What Redis holds can't be read: %s") % error
        return otherwise

    @cached_property
    def counts(self) -> dict[str, Counts]:
        """The depths of each queue that was ever used or is configured."""
        return self.read(lambda inspector: inspector.counts(self._names(inspector)), {})

    def total(self, place: str) -> int:
        return sum(getattr(counts, place) for counts in self.counts.values())

    @property
    def url(self) -> str:
        """The address, without what logs in there."""
        try:
            return mask_url(self.backend.conf.url)
        except (KeyError, ImproperlyConfigured):
            return ""

    def _names(self, inspector: Inspector) -> list[str]:
        return sorted({*inspector.queues(), *self.backend.queues})


def explain(error: Exception) -> str:
    """Return what a page says of an error; never the options, which may hold a password."""
    if isinstance(error, ImproperlyConfigured):
        return _("The options of this backend are wrong; “manage.py check” says how.")
    if isinstance(error, BrokerUnavailable):
        return _("Redis can't be reached: %s") % error
    return str(error)
