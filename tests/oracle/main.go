// Oracle answers test cases with the code of Kubernetes itself.
//
// Each sub-command reads cases as JSON lines and prints one answer a line, in the order of the cases.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"slices"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/klog/v2"
)

// command answers one kind of cases. answer never fails: what went wrong is part of what it returns.
type command struct {
	name   string
	help   string
	answer func(line []byte, o options) response
}

// options are the flags that change an answer.
type options struct {
	withoutNominated bool
	runs             int
}

func commands() []command {
	return append([]command{
		{"preemption", "what one scheduling cycle of kube-scheduler does with a pod", answerPreemption},
		{"quota", "what a ResourceQuota makes of a pod: usage, scopes, constraints", answerQuota},
		{"validate", "whether kube-apiserver would store the objects of a preemption case", answerValidation},
	}, scenarioCommands()...)
}

func usage(out io.Writer) {
	fmt.Fprintln(out, "usage: oracle COMMAND [--workers N] [--without-nominated] [CASES|-]")
	fmt.Fprintln(out, "\nCASES is a file of JSON lines, gzipped or not; answers go to standard output.")
	for _, c := range commands() {
		fmt.Fprintf(out, "  %-12s %s\n", c.name, c.help)
	}
	fmt.Fprintf(out, "  %-12s %s\n", "version", "the Kubernetes release whose code answers")
}

func main() {
	answer := func() int { return run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr) }
	if len(os.Args) > 1 && os.Args[1] == "scenarios" {
		virtually(answer)
	}
	os.Exit(answer())
}

func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		usage(stderr)
		return 2
	}
	if args[0] == "version" {
		fmt.Fprintln(stdout, "Kubernetes", kubernetesVersion())
		return 0
	}
	known := commands()
	at := slices.IndexFunc(known, func(c command) bool { return c.name == args[0] })
	if at < 0 {
		usage(stderr)
		return 2
	}
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	flags.SetOutput(stderr)
	workers := flags.Int("workers", runtime.GOMAXPROCS(0), "cases answered at the same time")
	var o options
	flags.IntVar(&o.runs, "runs", 1, "how often a scenario is run, with dice after the first time")
	gates := flags.String("feature-gates", "", "feature gates of all components, such as GenericWorkload=true")
	flags.BoolVar(&o.withoutNominated, "without-nominated", false, "leave out pods that are nominated to a node but not bound")
	if err := flags.Parse(args[1:]); err != nil {
		return 2
	}
	if err := utilfeature.DefaultMutableFeatureGate.Set(*gates); err != nil {
		fmt.Fprintln(stderr, "oracle:", err)
		return 2
	}
	silenceUpstream()
	if args[0] == "scenarios" {
		*workers = 1 // upstream's process-wide state is not made for two times
	}

	cases, err := openCases(flags.Arg(0), stdin)
	if err != nil {
		fmt.Fprintln(stderr, "oracle:", err)
		return 3
	}
	defer cases.Close()
	answer := func(line []byte) response { return known[at].answer(line, o) }
	failed, err := answerAll(cases, stdout, *workers, answer)
	if err != nil {
		fmt.Fprintln(stderr, "oracle:", err)
		return 3
	}
	if failed > 0 {
		fmt.Fprintf(stderr, "oracle: %d cases could not be answered\n", failed)
		return 1
	}
	return 0
}

// kubernetesVersion is what go.mod said when the program was built.
func kubernetesVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, module := range info.Deps {
			if module.Path == "k8s.io/kubernetes" {
				return module.Version
			}
		}
	}
	return "unknown"
}

// silenceUpstream drops the scheduler's log: what matters is in the answers.
func silenceUpstream() {
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	klog.SetLogger(klog.Logger{})
	utilruntime.ReallyCrash = false // a crash is the answer to its case alone: see crashed
	utilruntime.PanicHandlers = []func(context.Context, any){noteCrash}
}
