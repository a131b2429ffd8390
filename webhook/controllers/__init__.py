"""Control loops beside the requests: certificates, registration, leader election, the global default class."""
