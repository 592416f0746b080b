"""What a server's settings mean for the queue. Nothing here is needed for it to work."""

from __future__ import annotations

from .client import Client, translated
from .exceptions import BrokerError, ConfigurationError

_SAFE_POLICY = "noeviction"


def warnings(client: Client) -> list[str]:
    """Return a sentence for each setting that endangers the queue; what may not be read is passed over."""
    policy = eviction_policy(client)
    if policy is None or policy == _SAFE_POLICY:
        return []
    return [
        f"Redis has maxmemory-policy {policy!r}, under which it may throw queued tasks away when its memory is full; "
        f"set it to {_SAFE_POLICY!r}."
    ]


def eviction_policy(client: Client) -> str | None:
    """Return the maxmemory-policy, or None where neither INFO nor CONFIG may be asked."""
    for ask in (_from_info, _from_config):
        try:
            with translated(client):
                if policy := ask(client):
                    return policy
        except (BrokerError, ConfigurationError):
            continue
    return None


def _from_info(client: Client) -> str:
    return str(client.info("memory").get("maxmemory_policy", ""))


def _from_config(client: Client) -> str:
    return str(client.config_get("maxmemory-policy").get("maxmemory-policy", ""))
