// The calls that are no ranked searches, or none that anything may be done with.

package main

import (
	"context"

	"github.com/qdrant/go-client/qdrant"
	"google.golang.org/protobuf/proto"
)

// others asks what must come back as it is in every mode.
func (s *Scenario) others() {
	nearest, limit := qdrant.NewQueryDense(s.plan.Query.Dense), proto.Uint64(s.plan.TopK)
	mmr := qdrant.NewQueryMMR(qdrant.NewVectorInputDense(s.plan.Query.Dense), &qdrant.Mmr{Diversity: proto.Float32(0.5)})
	page := &qdrant.QueryPoints{CollectionName: "copied", Query: nearest, Limit: limit}
	s.call("health", func(ctx context.Context) { s.client.HealthCheck(ctx) })
	s.call("collections", func(ctx context.Context) { s.client.ListCollections(ctx) })
	s.call("exists", func(ctx context.Context) { s.client.CollectionExists(ctx, "nobody") })
	s.call("info", func(ctx context.Context) { s.client.GetCollectionInfo(ctx, "named") })
	s.call("count", func(ctx context.Context) {
		s.client.Count(ctx, &qdrant.CountPoints{CollectionName: "copied", Filter: below(s.plan.Below)})
	})
	s.call("get", func(ctx context.Context) {
		asked := &qdrant.GetPoints{CollectionName: "named", Ids: s.known(), WithVectors: qdrant.NewWithVectors(true)}
		s.client.Get(ctx, asked)
	})
	s.call("scroll", func(ctx context.Context) {
		s.client.Scroll(ctx, &qdrant.ScrollPoints{CollectionName: "copied", Limit: proto.Uint32(5)})
	})
	s.call("groups", func(ctx context.Context) {
		s.client.QueryGroups(ctx, &qdrant.QueryPointGroups{
			CollectionName: "copied", Query: nearest, GroupBy: "base", Limit: limit, GroupSize: proto.Uint64(2),
		})
	})
	s.call("mmr", func(ctx context.Context) {
		s.client.Query(ctx, &qdrant.QueryPoints{CollectionName: "copied", Query: mmr, Limit: limit})
	})
	s.call("one", func(ctx context.Context) {
		s.client.Query(ctx, &qdrant.QueryPoints{CollectionName: "copied", Query: nearest, Limit: proto.Uint64(1)})
	})
	s.call("off by metadata", func(ctx context.Context) {
		s.client.Query(qdrant.WithHeader(ctx, "x-vecsieve-mode", "off"), page)
	})
	s.call("error: no such collection", func(ctx context.Context) {
		s.client.Query(ctx, &qdrant.QueryPoints{CollectionName: "nobody", Query: nearest})
	})
	s.call("error: wrong size", func(ctx context.Context) {
		s.client.Query(ctx, &qdrant.QueryPoints{CollectionName: "copied", Query: qdrant.NewQuery(1, 2, 3), Limit: limit})
	})
}

// change writes, looks at what was written, and takes everything away.
func (s *Scenario) change() {
	first := qdrant.NewPointsSelector(s.known()[0])
	s.call("set payload", func(ctx context.Context) {
		s.client.SetPayload(ctx, &qdrant.SetPayloadPoints{
			CollectionName: "copied", Wait: proto.Bool(true), PointsSelector: first,
			Payload: qdrant.NewValueMap(map[string]any{"new": "größe"}),
		})
	})
	s.call("delete points", func(ctx context.Context) {
		s.client.Delete(ctx, &qdrant.DeletePoints{
			CollectionName: "copied", Wait: proto.Bool(true), Points: qdrant.NewPointsSelector(s.known()[1]),
		})
	})
	s.call("written", func(ctx context.Context) {
		asked := &qdrant.GetPoints{CollectionName: "copied", Ids: s.known(), WithPayload: qdrant.NewWithPayload(true)}
		s.client.Get(ctx, asked)
	})
	for _, name := range []string{"clean", "copied", "named"} {
		s.call(name+" delete", func(ctx context.Context) { s.client.DeleteCollection(ctx, name) })
	}
}
