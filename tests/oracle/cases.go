package main

import (
	"encoding/json"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	kjson "sigs.k8s.io/json"
)

// preemptionCase is a cluster and one pod that wants a place in it.
type preemptionCase struct {
	ID                   string                          `json:"id"`
	Nodes                []*v1.Node                      `json:"nodes"`
	Pods                 []*v1.Pod                       `json:"pods"`
	Pod                  *v1.Pod                         `json:"pod"`
	PDBs                 []*policyv1.PodDisruptionBudget `json:"pdbs"`
	Namespaces           []*v1.Namespace                 `json:"namespaces"`
	PVCs                 []*v1.PersistentVolumeClaim     `json:"pvcs"`
	PVs                  []*v1.PersistentVolume          `json:"pvs"`
	StorageClasses       []*storagev1.StorageClass       `json:"storageClasses"`
	CSINodes             []*storagev1.CSINode            `json:"csiNodes"`
	CSIDrivers           []*storagev1.CSIDriver          `json:"csiDrivers"`
	CSIStorageCapacities []*storagev1.CSIStorageCapacity `json:"csiStorageCapacities"`
	ResourceClaims       []*resourcev1.ResourceClaim     `json:"resourceClaims"`
	DeviceClasses        []*resourcev1.DeviceClass       `json:"deviceClasses"`
	ResourceSlices       []*resourcev1.ResourceSlice     `json:"resourceSlices"`
	deviceTaintRules
	VolumeAttachments      []*storagev1.VolumeAttachment `json:"volumeAttachments"`
	Services               []*v1.Service                 `json:"services"`
	ReplicationControllers []*v1.ReplicationController   `json:"replicationControllers"`
	ReplicaSets            []*appsv1.ReplicaSet          `json:"replicaSets"`
	StatefulSets           []*appsv1.StatefulSet         `json:"statefulSets"`
	Config                 json.RawMessage               `json:"config"`
}

// parseCase reads a case and refuses fields that the API does not have: they would be dropped in silence.
func parseCase(line []byte) (*preemptionCase, error) {
	c := &preemptionCase{}
	var named struct {
		ID string `json:"id"`
	}
	_ = json.Unmarshal(line, &named) // a best effort, to name the case in the error
	c.ID = named.ID
	strict, err := kjson.UnmarshalStrict(line, c)
	if err != nil {
		return c, fmt.Errorf("not a case: %w", err)
	}
	if len(strict) > 0 {
		return c, fmt.Errorf("not a case: %w", errors.Join(strict...))
	}
	if c.Pod == nil {
		return c, errors.New("not a case: it has no pod")
	}
	return c, nil
}
