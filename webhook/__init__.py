"""How admission requests and cluster state get in, and answers get out."""
