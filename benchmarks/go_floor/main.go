// The floor that an extender in Go has: net/http and encoding/json, half of the names failed with a reason.
// It decides nothing. Usage: go_floor PORT
package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
)

type args struct {
	Pod struct {
		Metadata struct {
			Name string `json:"name"`
			UID  string `json:"uid"`
		} `json:"metadata"`
	}
	NodeNames *[]string
}

type result struct {
	Nodes                      *struct{}
	NodeNames                  *[]string
	FailedNodes                map[string]string
	FailedAndUnresolvableNodes map[string]string
	Error                      string
}

const why = "NotAlignedNow: no NUMA nodes have 4 nvidia.com/gpu and 4 vke.volcengine.com/infiniband-rdma free together now"

func filter(w http.ResponseWriter, r *http.Request) {
	var asked args
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil || asked.NodeNames == nil {
		http.Error(w, "no request", http.StatusBadRequest)
		return
	}
	fit := make([]string, 0, 8)
	failed := make(map[string]string, len(*asked.NodeNames)/2)
	for i, name := range *asked.NodeNames {
		if i%2 == 1 {
			failed[name] = why
		} else if len(fit) < cap(fit) {
			fit = append(fit, name)
		}
	}
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(result{NodeNames: &fit, FailedNodes: failed, FailedAndUnresolvableNodes: map[string]string{}})
}

func main() {
	http.HandleFunc("/filter", filter)
	go fmt.Println("starting")
	if err := http.ListenAndServe("127.0.0.1:"+os.Args[1], nil); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
