"""The sources of text and cluster state: files, directories, standard input, and sources of other packages."""
