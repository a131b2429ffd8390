"""Rules about Namespaces: their default class and their exemption."""
