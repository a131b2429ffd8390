//go:build !kubernetes_1_34 && !kubernetes_1_35

package main

import (
	"fmt"
	"math"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
)

// epoch is time 0 of every scenario.
var epoch = time.Date(2026, time.June, 1, 0, 0, 0, 0, time.UTC)

// happening is an entry of a timeline: t in seconds since time 0.
type happening struct {
	T       float64 `json:"t"`
	Event   string  `json:"event"`
	Pod     string  `json:"pod,omitempty"`
	Node    string  `json:"node,omitempty"`
	By      string  `json:"by,omitempty"`
	Message string  `json:"message,omitempty"`
	Group   string  `json:"group,omitempty"`
	Status  string  `json:"status,omitempty"`
	Reason  string  `json:"reason,omitempty"`
}

// timeline is what has happened, in order. `last`: when something other than a failed attempt did.
type timeline struct {
	mu     sync.Mutex
	events []happening
	last   time.Time
	muted  bool
}

func (l *timeline) add(h happening) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.muted {
		return
	}
	h.T = sinceStart()
	l.events = append(l.events, h)
	if h.Event != "unschedulable" && h.Event != "groupCondition" {
		l.last = time.Now()
	}
}

func sinceStart() float64 {
	return math.Round(time.Since(epoch).Seconds()*1e4) / 1e4
}

func (l *timeline) lastChange() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last
}

// preemptedBy says who had the victim deleted: the scheduler's event, which follows the DELETE, tells it.
func (l *timeline) preemptedBy(victim, preemptor string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.events {
		if e := &l.events[i]; e.Event == "preempted" && e.Pod == victim && e.By == "" {
			e.By = preemptor
			return
		}
	}
}

// recorder hears what the scheduler reports.
type recorder struct{ timeline *timeline }

func (r recorder) Eventf(regarding, related runtime.Object, _, reason, _, note string, args ...any) {
	pod, ok := regarding.(*v1.Pod)
	if !ok {
		return
	}
	switch reason {
	case "FailedScheduling":
		message := note
		if len(args) > 0 {
			message = fmt.Sprintf(note, args...)
		}
		r.timeline.add(happening{Event: "unschedulable", Pod: keyOf(pod).String(), Message: message})
	case "Preempted":
		if preemptor, ok := related.(metav1.Object); ok {
			by := keyOf(preemptor).String()
			if isGroup(related) {
				by = "PodGroup:" + by
			}
			r.timeline.preemptedBy(keyOf(pod).String(), by)
		}
	}
}

func (r recorder) WithLogger(klog.Logger) events.EventRecorderLogger { return r }
