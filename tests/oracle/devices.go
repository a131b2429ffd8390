package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/kubernetes/pkg/scheduler/profile"
)

// deviceObjects are the objects of a case that the scheduler learns of by events alone: its caches of claims and slices
// cannot be filled from outside.
func (c *preemptionCase) deviceObjects() []runtime.Object {
	var objects []runtime.Object
	for _, claim := range c.ResourceClaims {
		objects = append(objects, claim)
	}
	for _, class := range c.DeviceClasses {
		objects = append(objects, class)
	}
	for _, slice := range c.ResourceSlices {
		objects = append(objects, slice)
	}
	return append(objects, c.deviceTaintRules.objects()...)
}

// clientOf is a client with the devices of a case; without any, the one that all cases share.
func clientOf(c *preemptionCase) kubernetes.Interface {
	if objects := c.deviceObjects(); len(objects) > 0 {
		return fake.NewClientset(objects...)
	}
	return emptyClient()
}

// followDevices runs the informers of devices until the scheduler's caches hold what the case has.
func followDevices(
	ctx context.Context, factory informers.SharedInformerFactory, profiles profile.Map, asked framework.Framework, c *preemptionCase,
) error {
	if len(c.deviceObjects()) == 0 || !followed(profiles) {
		return nil
	}
	resources := factory.Resource().V1()
	var synced []cache.InformerSynced
	for _, informer := range append(c.deviceTaintRules.informers(factory),
		resources.ResourceClaims().Informer(), resources.DeviceClasses().Informer(), resources.ResourceSlices().Informer(),
	) {
		go informer.RunWithContext(ctx)
		synced = append(synced, informer.HasSynced)
	}
	if !cache.WaitForCacheSync(ctx.Done(), synced...) {
		return errors.New("devices: the informers did not sync")
	}
	err := wait.PollUntilContextTimeout(ctx, time.Millisecond, 10*time.Second, true, func(context.Context) (bool, error) {
		return devicesKnown(asked, c)
	})
	if err != nil {
		return fmt.Errorf("devices: %w", err)
	}
	return nil
}

// followed says whether a plugin of some profile asks for events of device classes; where none does, the scheduler does
// not learn of them.
func followed(profiles profile.Map) bool {
	for _, each := range profiles {
		for _, plugin := range each.EnqueueExtensions() {
			if plugin.Name() == names.DynamicResources || plugin.Name() == names.NodeResourcesFit {
				return true
			}
		}
	}
	return false
}

func devicesKnown(asked framework.Framework, c *preemptionCase) (bool, error) {
	manager := asked.SharedDRAManager()
	claims, err := manager.ResourceClaims().List()
	if err != nil || len(claims) < len(c.ResourceClaims) {
		return false, err
	}
	slices, err := manager.ResourceSlices().ListWithDeviceTaintRules()
	if err != nil || len(slices) < len(c.ResourceSlices) || taintsOf(slices) < c.taints(c.ResourceSlices) {
		return false, err
	}
	allocated, err := manager.ResourceClaims().ListAllAllocatedDevices()
	if err != nil || allocated.Len() < inUse(c.ResourceClaims) {
		return false, err
	}
	if known, err := sharesKnown(manager, shares(c.ResourceClaims)); err != nil || !known {
		return false, err
	}
	return classesKnown(asked, c.DeviceClasses), nil
}

// taintsOf counts the taints of all devices.
func taintsOf(slices []*resourcev1.ResourceSlice) int {
	count := 0
	for _, slice := range slices {
		for _, device := range slice.Spec.Devices {
			count += len(device.Taints)
		}
	}
	return count
}

// shares counts what claims have of devices that others may have too.
func shares(claims []*resourcev1.ResourceClaim) int {
	count := 0
	for _, claim := range claims {
		if claim.Status.Allocation == nil {
			continue
		}
		for _, result := range claim.Status.Allocation.Devices.Results {
			if result.ShareID != nil && (result.AdminAccess == nil || !*result.AdminAccess) {
				count++
			}
		}
	}
	return count
}

// inUse counts the devices that claims have for themselves.
func inUse(claims []*resourcev1.ResourceClaim) int {
	found := sets.New[string]()
	for _, claim := range claims {
		if claim.Status.Allocation == nil {
			continue
		}
		for _, result := range claim.Status.Allocation.Devices.Results {
			if (result.AdminAccess == nil || !*result.AdminAccess) && result.ShareID == nil {
				found.Insert(result.Driver + "/" + result.Pool + "/" + result.Device)
			}
		}
	}
	return found.Len()
}
