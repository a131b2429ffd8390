"""HTML pages of results: each is one file without external resources.

Elements are created with xml.etree, which escapes all text. The CSP allows only the page's own styles and script, by
their hashes.
"""

from __future__ import annotations

from forewarn.policies.render.html.whatif import report

__all__ = ["report"]
