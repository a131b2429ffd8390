"""Control loops, independent of requests: certificates, registration, leader election, global default class."""
