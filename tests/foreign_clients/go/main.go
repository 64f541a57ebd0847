// The scenario of tests/foreign_clients in Go, with Qdrant's own client: `client HOST PORT PLAN` makes the calls of the plan
// and prints what each was answered, as JSON. An answer that is an error is an observation like any other.

package main

import (
	"encoding/json"
	"log"
	"os"
	"strconv"

	"github.com/qdrant/go-client/qdrant"
	"google.golang.org/grpc"
)

// Point is one record of the plan.
type Point struct {
	ID      uint64    `json:"id"`
	Base    int64     `json:"base"`
	Text    string    `json:"text"`
	Dense   []float32 `json:"dense"`
	Small   []float32 `json:"small"`
	Indices []uint32  `json:"indices"`
	Values  []float32 `json:"values"`
}

// Plan is what to store and to ask; see support/exchanges/foreign_plan.py.
type Plan struct {
	TopK    uint64             `json:"top_k"`
	All     uint64             `json:"all"`
	Below   float64            `json:"below"`
	Query   Point              `json:"query"`
	Known   []uint64           `json:"known"`
	Records map[string][]Point `json:"records"`
}

func main() {
	port, err := strconv.Atoi(os.Args[2])
	check(err)
	file, err := os.ReadFile(os.Args[3])
	check(err)
	var plan Plan
	check(json.Unmarshal(file, &plan))

	recorder := recording()
	client, err := qdrant.NewClient(&qdrant.Config{
		Host: os.Args[1], Port: port, APIKey: "k3y",
		GrpcOptions: []grpc.DialOption{grpc.WithChainUnaryInterceptor(recorder.intercept)},
	})
	check(err)
	defer client.Close()
	scenario := Scenario{client: client, recorder: recorder, plan: plan}
	scenario.write()
	scenario.search("clean")
	scenario.search("copied")
	scenario.searchNamed()
	scenario.others()
	scenario.change()
	check(json.NewEncoder(os.Stdout).Encode(recorder.calls))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
