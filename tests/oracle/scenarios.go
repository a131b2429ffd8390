//go:build !kubernetes_1_34 && !kubernetes_1_35

package main

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math/rand"
	"os"
	"os/signal"
	"sort"
	"syscall"
	"testing"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

// scenarioAnswer is what a scenario has come to: the runs that differ, that of fixed latencies first.
type scenarioAnswer struct {
	ID             string     `json:"id"`
	Category       string     `json:"category,omitempty"`
	Runs           int        `json:"runs"`
	DistinctFinals int        `json:"distinctFinals"`
	Outcomes       []*outcome `json:"outcomes"`
}

func answerScenario(line []byte, o options) response {
	s, err := parseScenario(line)
	if err != nil {
		return response{id: s.ID, err: err}
	}
	answer := &scenarioAnswer{ID: s.ID, Category: s.Category, Runs: max(o.runs, 1)}
	known, finals := map[string]*outcome{}, map[string]bool{}
	for run := range answer.Runs {
		came, err := play(bubbles, s, diceOf(s.ID, run))
		if err != nil {
			return response{id: s.ID, err: err}
		}
		signature, final := came.signature()
		finals[final] = true
		if same, ok := known[signature]; ok {
			same.Count++
			continue
		}
		known[signature] = came
		answer.Outcomes = append(answer.Outcomes, came)
	}
	answer.DistinctFinals = len(finals)
	return response{id: s.ID, answer: answer}
}

// diceOf: the first run has none.
func diceOf(id string, run int) *rand.Rand {
	if run == 0 {
		return nil
	}
	hash := fnv.New64a()
	fmt.Fprintf(hash, "%s %d", id, run)
	return rand.New(rand.NewSource(int64(hash.Sum64())))
}

// signature is the same for runs that are one outcome: the same end, and for each pod the same events in the same order, in
// the same whole seconds.
func (o *outcome) signature() (whole, final string) {
	byPod := map[string][]happening{}
	for _, h := range o.Timeline {
		if h.Pod != "" && h.Event != "unschedulable" {
			h.T, h.Message = float64(int(h.T)), ""
			byPod[h.Pod] = append(byPod[h.Pod], h)
		}
	}
	sort.Strings(o.Pending)
	end, _ := json.Marshal(o.Final)
	way, _ := json.Marshal(byPod)
	return string(end) + string(way), string(end)
}

// bubbles is the test that all scenarios are answered in: the standard library gives virtual time to tests alone.
var bubbles *testing.T

func scenarioCommands() []command {
	return []command{{"scenarios", "what becomes of a cluster over time: --runs N, with jitter after the first", answerScenario}}
}

// inBubbles does something that may run scenarios.
func inBubbles(t *testing.T, do func()) {
	// Process-wide things that must not be made in a bubble: the loop that signals come by, and error handlers, whose
	// rate limit would keep the time of one bubble for the next.
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGUSR2)
	signal.Stop(signals)
	utilruntime.ErrorHandlers = nil
	bubbles = t
	do()
}

// virtually calls a command where scenarios can be run, and ends the program with its exit status.
func virtually(do func() int) {
	all := func(t *testing.T) { inBubbles(t, func() { os.Exit(do()) }) }
	testing.Main(func(string, string) (bool, error) { return true, nil },
		[]testing.InternalTest{{Name: "scenarios", F: all}}, nil, nil)
}
