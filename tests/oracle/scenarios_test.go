//go:build !kubernetes_1_34 && !kubernetes_1_35

package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

func scenarioText(workloads, pods, arrivals []string) string {
	text := fmt.Sprintf(`{"id":"x","nodes":[%s],"pods":[%s],"workloads":[%s],"arrivals":[%s],"horizonSeconds":900,"quietSeconds":100}`,
		node("n1"), strings.Join(pods, ","), strings.Join(workloads, ","), strings.Join(arrivals, ","))
	return strings.ReplaceAll(text, "\n", " ")
}

func arriving(at float64, op, object string) string {
	return fmt.Sprintf(`{"at":%g,"op":%q,"object":%s}`, at, op, object)
}

func owned(pod, kind, version, owner string) string {
	ref := fmt.Sprintf(`"labels":{"app":%q},"ownerReferences":[{"apiVersion":%q,"kind":%q,"name":%q,"uid":"","controller":true}],"namespace"`,
		owner, version, kind, owner)
	return strings.Replace(pod, `"namespace"`, ref, 1)
}

func sized(kind, name string, replicas, priority int) string {
	return fmt.Sprintf(`{"apiVersion":"apps/v1","kind":%q,"metadata":{"name":%q},"spec":{"replicas":%d,"selector":{"matchLabels":{"app":%q}},
		"template":{"metadata":{"labels":{"app":%q}},"spec":{"priority":%d,"terminationGracePeriodSeconds":10,
		"containers":[{"name":"c","image":"i","resources":{"requests":{"cpu":"1"}}}]}}}}`, kind, name, replicas, name, name, priority)
}

func played(t *testing.T, text string, o options) *scenarioAnswer {
	t.Helper()
	var r response
	inBubbles(t, func() { r = answerScenario([]byte(text), o) })
	if r.err != nil {
		t.Fatal(r.err)
	}
	return r.answer.(*scenarioAnswer)
}

func eventsOf(o *outcome) []string {
	var told []string
	for _, h := range o.Timeline {
		if h.Event != "unschedulable" {
			told = append(told, strings.TrimSpace(fmt.Sprintf("%.0f %s %s %s", h.T, h.Event, h.Pod, h.By)))
		}
	}
	return told
}

const started = `"2026-05-31T00:00:00Z"`

func TestAVictimEndsAfterItsGraceAndItsReplicaSetMakesAnother(t *testing.T) {
	victim := owned(pod("low-1", "n1", 0, started), "ReplicaSet", "apps/v1", "low")
	answer := played(t, scenarioText([]string{sized("ReplicaSet", "low", 1, 0)}, []string{victim},
		[]string{arriving(5, "create", pod("high", "", 100, "null"))}), options{runs: 1})
	came := answer.Outcomes[0]
	want := []string{
		"5 created default/high", "5 nominated default/high", "5 preempted default/low-1 default/high",
		"5 created default/low-2", "35 gone default/low-1", "35 scheduled default/high",
	}
	if got := eventsOf(came); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if came.Final["default/high"].Node != "n1" || !slices.Equal(came.Pending, []string{"default/low-2"}) {
		t.Errorf("final %v, pending %v", came.Final, came.Pending)
	}
}

func TestAStatefulSetKeepsItsPodsAndNames(t *testing.T) {
	first := owned(pod("set-0", "n1", 0, started), "StatefulSet", "apps/v1", "set")
	answer := played(t, scenarioText([]string{sized("StatefulSet", "set", 1, 0)}, []string{first},
		[]string{arriving(5, "delete", pod("set-0", "", 0, "null"))}), options{runs: 2})
	want := []string{"5 deleted default/set-0", "35 gone default/set-0", "35 created default/set-0", "35 scheduled default/set-0"}
	for _, came := range answer.Outcomes {
		if got := eventsOf(came); !slices.Equal(got, want) {
			t.Errorf("%q", got)
		}
	}
}

func TestAScaledDownReplicaSetDeletesAPod(t *testing.T) {
	first := owned(pod("low-1", "n1", 0, started), "ReplicaSet", "apps/v1", "low")
	answer := played(t, scenarioText([]string{sized("ReplicaSet", "low", 1, 0)}, []string{first},
		[]string{arriving(5, "update", sized("ReplicaSet", "low", 0, 0))}), options{runs: 1})
	want := []string{"5 deleted default/low-1", "35 gone default/low-1"}
	if got := eventsOf(answer.Outcomes[0]); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

func TestADeploymentRollsOutAndComesToRest(t *testing.T) {
	deployment := sized("Deployment", "web", 1, 0)
	set := strings.Replace(sized("ReplicaSet", "web", 1, 0), `{"name":"web"}`,
		`{"name":"web-first","labels":{"app":"web"},"ownerReferences":[{"apiVersion":"apps/v1","kind":"Deployment","name":"web","uid":"","controller":true}]}`, 1)
	first := strings.Replace(owned(pod("web-first-1", "n1", 0, started), "ReplicaSet", "apps/v1", "web-first"), `"app":"web-first"`, `"app":"web"`, 1)
	changed := strings.Replace(deployment, `"priority":0`, `"priority":5`, 1)
	answer := played(t, scenarioText([]string{deployment, set}, []string{first}, []string{arriving(5, "update", changed)}), options{runs: 1})
	came := answer.Outcomes[0]
	if len(came.Final) != 1 || len(came.Pending) != 0 || came.Final["default/web-first-1"].Node != "" || came.EndedAt > 200 {
		t.Errorf("%q, %v, %v", eventsOf(came), came.Final, came.EndedAt)
	}
}

func TestARevisionTakesAsLongAsAnyWrite(t *testing.T) {
	first := owned(pod("set-0", "n1", 0, started), "StatefulSet", "apps/v1", "set")
	set := sized("StatefulSet", "set", 1, 0)
	changed := strings.Replace(set, `"priority":0`, `"priority":5`, 1)
	answer := played(t, scenarioText([]string{set}, []string{first}, []string{arriving(5, "update", changed)}), options{runs: 1})
	told := answer.Outcomes[0].Timeline[0]
	if told.Event != "deleted" || told.T < 5.002 || told.T > 5.0035 {
		t.Errorf("%v: the revision, the status, and then the pod", told)
	}
}

func TestADrainedPodIsDisruptedForItsJob(t *testing.T) {
	first := strings.Replace(owned(pod("job-1", "n1", 0, started), "Job", "batch/v1", "job"), `"nodeName"`, `"restartPolicy":"Never","nodeName"`, 1)
	job := `{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"job"},"spec":{"backoffLimit":0,
		"podFailurePolicy":{"rules":[{"action":"Ignore","onPodConditions":[{"type":"DisruptionTarget","status":"True"}]}]},
		"template":{"metadata":{"labels":{"app":"job"}},"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"i"}]}}}}`
	for op, object := range map[string]string{"drain": node("n1"), "delete": pod("job-1", "", 0, "null")} {
		answer := played(t, scenarioText([]string{job}, []string{first}, []string{arriving(5, op, object)}), options{runs: 1})
		if _, goesOn := answer.Outcomes[0].Final["default/job-2"]; goesOn != (op == "drain") {
			t.Errorf("%s: %q", op, eventsOf(answer.Outcomes[0]))
		}
	}
}

func TestAJobWaitsBeforeItReplacesAPodThatHadNoGrace(t *testing.T) {
	first := strings.Replace(owned(pod("job-1", "n1", 0, started), "Job", "batch/v1", "job"),
		`"nodeName"`, `"restartPolicy":"Never","terminationGracePeriodSeconds":0,"nodeName"`, 1)
	job := `{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"job"},"spec":{"parallelism":1,"template":{"metadata":{"labels":{"app":"job"}},
		"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"i"}]}}}}`
	answer := played(t, scenarioText([]string{job}, []string{first},
		[]string{arriving(5, "delete", pod("job-1", "", 0, "null"))}), options{runs: 1})
	want := []string{"5 deleted default/job-1", "5 gone default/job-1", "15 created default/job-2", "15 scheduled default/job-2"}
	if got := eventsOf(answer.Outcomes[0]); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

func TestWhoWatchesUnfinishedPodsHearsOnceThatOneHasFinished(t *testing.T) {
	s := newStore(&timeline{}, &latencies{})
	watching, err := s.Watch(podsGVR, "", metav1.ListOptions{FieldSelector: "status.phase!=Failed"})
	if err != nil {
		t.Fatal(err)
	}
	running := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", Finalizers: []string{batchv1.JobTrackingFinalizer}}}
	s.put(podsGVR, running)
	s.end(running)
	ended, _ := s.pod("", "a")
	released := ended.DeepCopy()
	released.Finalizers = nil
	s.changed(podsGVR, ended, released)
	var told []watch.EventType
	for len(watching.ResultChan()) > 0 {
		told = append(told, (<-watching.ResultChan()).Type)
	}
	if want := []watch.EventType{watch.Added, watch.Deleted}; !slices.Equal(told, want) {
		t.Errorf("%v", told)
	}
}

func TestWhatIsNotAScenarioIsRefused(t *testing.T) {
	for _, text := range []string{
		`{"id":"x","nodse":[]}`, `[]`,
		`{"id":"x","arrivals":[{"at":1,"op":"explode","object":{"apiVersion":"v1","kind":"Pod"}}]}`,
		`{"id":"x","workloads":[{"apiVersion":"v1","kind":"Secret"}]}`,
	} {
		if r := answerScenario([]byte(text), options{}); r.err == nil {
			t.Errorf("%s was taken", text)
		}
	}
}
