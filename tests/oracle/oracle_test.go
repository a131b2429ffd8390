package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
)

// pod is a pod of one CPU.
func pod(name, node string, priority int, start string) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":%q,"namespace":"default","uid":%q},
		"spec":{"schedulerName":"default-scheduler","nodeName":%q,"priority":%d,
		"containers":[{"name":"c","resources":{"requests":{"cpu":"1"}}}]},"status":{"startTime":%s}}`,
		name, name, node, priority, start)
}

func node(name string) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"Node","metadata":{"name":%q},
		"status":{"allocatable":{"cpu":"1","pods":"9"}}}`, name)
}

func caseOf(nodes, pods []string, incoming string) string {
	text := fmt.Sprintf(`{"id":"x","nodes":[%s],"pods":[%s],"pod":%s}`,
		strings.Join(nodes, ","), strings.Join(pods, ","), incoming)
	return strings.ReplaceAll(text, "\n", " ")
}

func answerOf(t *testing.T, text string, o options) *preemptionAnswer {
	t.Helper()
	r := answerPreemption([]byte(text), o)
	if r.err != nil {
		t.Fatal(r.err)
	}
	return r.answer.(*preemptionAnswer)
}

func TestAllNodesOfATieAreSelectable(t *testing.T) {
	early, late := `"2026-01-01T00:00:00Z"`, `"2026-01-02T00:00:00Z"`
	answer := answerOf(t, caseOf(
		[]string{node("n1"), node("n2"), node("n3"), node("n4")},
		[]string{pod("a", "n1", 0, late), pod("b", "n2", 0, late), pod("c", "n3", 0, early), pod("d", "n4", 0, late)},
		pod("incoming", "", 10, "null"),
	), options{})
	if len(answer.Candidates) != 4 || !slices.Equal(answer.Selected, []string{"n1", "n2", "n4"}) {
		t.Errorf("candidates %v, selected %v", answer.Candidates, answer.Selected)
	}
}

func TestNominatedPodsCountUnlessTheyAreLeftOut(t *testing.T) {
	nominated := strings.Replace(pod("waiting", "", 10, "null"), `"startTime":null`, `"nominatedNodeName":"n1"`, 1)
	text := caseOf([]string{node("n1")}, []string{nominated}, pod("incoming", "", 10, "null"))
	if answer := answerOf(t, text, options{}); len(answer.Feasible) != 0 {
		t.Errorf("the place of the nominated pod was given away: %v", answer.Feasible)
	}
	if answer := answerOf(t, text, options{withoutNominated: true}); len(answer.Feasible) != 1 {
		t.Errorf("the nominated pod was not left out: %v", answer.Statuses["n1"])
	}
}

func TestAPodWhoseVolumesAreBeingBoundIsOnItsNode(t *testing.T) {
	claim := func(node string) string {
		return `"pvcs":[{"metadata":{"name":"data","namespace":"default","annotations":{"volume.kubernetes.io/selected-node":"` + node + `"}}}]`
	}
	binding := strings.Replace(pod("binding", "", 0, "null"), `"startTime":null`, `"nominatedNodeName":"n1"`, 1)
	binding = strings.Replace(binding, `"spec":{`, `"spec":{"volumes":[{"name":"v","persistentVolumeClaim":{"claimName":"data"}}],`, 1)
	text := caseOf([]string{node("n1")}, []string{binding}, pod("incoming", "", 10, "null"))
	for told, feasible := range map[string]int{"n1": 0, "n2": 1} {
		answer := answerOf(t, strings.Replace(text, `"id":"x"`, `"id":"x",`+claim(told), 1), options{})
		if len(answer.Feasible) != feasible {
			t.Errorf("the claim was told %s, feasible: %v", told, answer.Feasible)
		}
	}
}

func TestAnswersComeInTheOrderOfTheCasesAndABrokenOneDoesNotStopTheOthers(t *testing.T) {
	var packed, out, errors bytes.Buffer
	writer := gzip.NewWriter(&packed)
	for i := range 40 {
		text := caseOf([]string{node("n1")}, nil, pod("incoming", "", 0, "null"))
		text = strings.Replace(text, `"id":"x"`, fmt.Sprintf(`"id":"x%d"`, i), 1)
		if i == 7 {
			text = strings.Replace(text, `"pods":[]`, `"pdos":[]`, 1)
		}
		fmt.Fprintln(writer, text)
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	if code := run([]string{"preemption", "--workers", "5"}, &packed, &out, &errors); code != 1 {
		t.Errorf("exit %d, want 1: %s", code, errors.String())
	}
	decoder := json.NewDecoder(&out)
	for i := range 40 {
		var answer struct{ ID, Error string }
		if err := decoder.Decode(&answer); err != nil {
			t.Fatal(err)
		}
		if answer.ID != fmt.Sprintf("x%d", i) || (answer.Error != "") != (i == 7) {
			t.Errorf("answer %d: %+v", i, answer)
		}
	}
}

func TestWrongUsage(t *testing.T) {
	for _, args := range [][]string{{}, {"nonsense"}, {"preemption", "--nonsense"}} {
		if code := run(args, strings.NewReader(""), io.Discard, io.Discard); code != 2 {
			t.Errorf("%v: exit %d, want 2", args, code)
		}
	}
	if code := run([]string{"preemption", "absent.jsonl"}, strings.NewReader(""), io.Discard, io.Discard); code != 3 {
		t.Errorf("absent file: exit %d, want 3", code)
	}
}
