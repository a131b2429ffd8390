"""HTML pages of results: each is one file without external resources.

Elements are created with xml.etree, which escapes all text. The CSP allows only the page's own styles and script, by
their hashes.
"""
