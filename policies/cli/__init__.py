"""Commands, output formats and the pages of `forewarn ui`."""
