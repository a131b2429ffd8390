package main

import (
	"os"
	"os/signal"
	"syscall"
	"time"
	_ "unsafe" // for go:linkname

	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/nodeshutdown/systemd"
)

// dbusInhibiter has the methods of the interface of this name in pkg/kubelet/nodeshutdown.
type dbusInhibiter interface {
	CurrentInhibitDelay() (time.Duration, error)
	InhibitShutdown() (systemd.InhibitLock, error)
	ReleaseInhibitLock(lock systemd.InhibitLock) error
	ReloadLogindConf() error
	MonitorShutdown(klog.Logger) (<-chan bool, error)
	OverrideInhibitDelay(inhibitDelayMax time.Duration) error
}

//go:linkname systemDbus k8s.io/kubernetes/pkg/kubelet/nodeshutdown.systemDbus
var systemDbus func() (dbusInhibiter, error)

// logind announces a shutdown of the node at SIGUSR1.
type logind struct{ signals chan os.Signal }

func newLogind() *logind {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGUSR1)
	return &logind{signals}
}

func (*logind) CurrentInhibitDelay() (time.Duration, error)   { return time.Minute, nil }
func (*logind) InhibitShutdown() (systemd.InhibitLock, error) { return 1, nil }
func (*logind) ReleaseInhibitLock(systemd.InhibitLock) error  { return nil }
func (*logind) ReloadLogindConf() error                       { return nil }
func (*logind) OverrideInhibitDelay(time.Duration) error      { return nil }
func (l *logind) MonitorShutdown(klog.Logger) (<-chan bool, error) {
	events := make(chan bool)
	go func() {
		for range l.signals {
			events <- true
		}
	}()
	return events, nil
}
