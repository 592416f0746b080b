"""The strictest policy for what a page may load: nothing that stands in the page itself, nothing from elsewhere."""

from __future__ import annotations

POLICY = "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; form-action 'self'"


def forbid_inline(get_response):
    """Send the policy with every response."""

    def middleware(request):
        response = get_response(request)
        response["Content-Security-Policy"] = POLICY
        return response

    return middleware
