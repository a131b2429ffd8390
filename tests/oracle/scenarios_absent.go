//go:build kubernetes_1_34 || kubernetes_1_35 || kubernetes_1_37

package main

// Scenarios are for the release of go.mod alone: the constructors of kube-controller-manager's controllers change from
// minor to minor, and what forewarn simulates is that release's.

func scenarioCommands() []command { return nil }

func virtually(func() int) {}
