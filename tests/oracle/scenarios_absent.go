//go:build kubernetes_1_34 || kubernetes_1_35

package main

// Scenarios are for the release of go.mod and for 1.37: the constructors of kube-controller-manager's controllers change
// from minor to minor, and what forewarn simulates is that of 1.36.

func scenarioCommands() []command { return nil }

func virtually(func() int) {}
