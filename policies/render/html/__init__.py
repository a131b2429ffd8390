"""What something comes to as a page: one file that needs nothing from elsewhere.

Elements are made with xml.etree, which escapes every text; styles and script are let in by their hashes alone.
"""

from __future__ import annotations

from forewarn.policies.render.html.whatif import page, report

__all__ = ["page", "report"]
