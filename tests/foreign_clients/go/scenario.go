// The calls. A name that ends in ".all" asks for everything that the name before it asks for a page of.

package main

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/qdrant/go-client/qdrant"
	"google.golang.org/protobuf/proto"
)

const patience = 60 * time.Second

// Scenario makes the calls of a plan with one client.
type Scenario struct {
	client   *qdrant.Client
	recorder *Recorder
	plan     Plan
}

// call names the wire calls that `ask` makes; their errors are recorded with them.
func (s *Scenario) call(name string, ask func(context.Context)) {
	s.recorder.name = name
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	ask(ctx)
}

func (s *Scenario) known() []*qdrant.PointId {
	var ids []*qdrant.PointId
	for _, id := range s.plan.Known {
		ids = append(ids, qdrant.NewIDNum(id))
	}
	return ids
}

func below(limit float64) *qdrant.Filter {
	return &qdrant.Filter{Must: []*qdrant.Condition{qdrant.NewRange("base", &qdrant.Range{Lt: &limit})}}
}

// write makes the collections and fills them.
func (s *Scenario) write() {
	dense := &qdrant.VectorParams{Size: uint64(len(s.plan.Query.Dense)), Distance: qdrant.Distance_Cosine}
	small := &qdrant.VectorParams{Size: uint64(len(s.plan.Query.Small)), Distance: qdrant.Distance_Euclid}
	several := map[string]*qdrant.VectorParams{"dense": dense, "small": small}
	sparse := map[string]*qdrant.SparseVectorParams{"words": {}}
	made := []*qdrant.CreateCollection{
		{CollectionName: "clean", VectorsConfig: qdrant.NewVectorsConfig(dense)},
		{CollectionName: "copied", VectorsConfig: qdrant.NewVectorsConfig(dense)},
		{
			CollectionName: "named", VectorsConfig: qdrant.NewVectorsConfigMap(several),
			SparseVectorsConfig: qdrant.NewSparseVectorsConfig(sparse),
		},
	}
	for _, one := range made {
		name := one.GetCollectionName()
		s.call(name+" create", func(ctx context.Context) { s.client.CreateCollection(ctx, one) })
		s.call(name+" upsert", func(ctx context.Context) {
			s.client.Upsert(ctx, &qdrant.UpsertPoints{
				CollectionName: name, Wait: proto.Bool(true), Points: stored(s.plan.Records[name], name == "named"),
			})
		})
	}
}

func stored(points []Point, isNamed bool) []*qdrant.PointStruct {
	var made []*qdrant.PointStruct
	for _, one := range points {
		vectors := qdrant.NewVectorsDense(one.Dense)
		if isNamed {
			vectors = qdrant.NewVectorsMap(map[string]*qdrant.Vector{
				"dense": qdrant.NewVectorDense(one.Dense),
				"small": qdrant.NewVectorDense(one.Small),
				"words": qdrant.NewVectorSparse(one.Indices, one.Values),
			})
		}
		payload := qdrant.NewValueMap(map[string]any{
			"text": one.Text, "base": one.Base, "big": int64(1) << 60, "half": 0.5, "none": nil,
			"deep": map[string]any{"flag": true, "of": []any{"x", 1}},
		})
		made = append(made, &qdrant.PointStruct{Id: qdrant.NewIDNum(one.ID), Vectors: vectors, Payload: payload})
	}
	return made
}

// search asks one unnamed vector's collection in every way that ranks.
func (s *Scenario) search(collection string) {
	vector := s.plan.Query.Dense
	nearest := qdrant.NewQueryDense(vector)
	recommend := qdrant.NewQueryRecommend(&qdrant.RecommendInput{Positive: []*qdrant.VectorInput{
		qdrant.NewVectorInputID(s.known()[0]), qdrant.NewVectorInputID(s.known()[1]),
	}})
	prefetched := []*qdrant.PrefetchQuery{
		{Query: nearest, Limit: proto.Uint64(s.plan.All / 2)},
		{Query: qdrant.NewQueryID(s.known()[0]), Limit: proto.Uint64(s.plan.All / 2)},
	}
	asked := map[string]*qdrant.QueryPoints{
		"nearest":   {Query: nearest},
		"offset":    {Query: nearest, Offset: proto.Uint64(3)},
		"payload":   {Query: nearest, WithPayload: qdrant.NewWithPayload(true)},
		"included":  {Query: nearest, WithPayload: qdrant.NewWithPayloadInclude("base", "deep.of")},
		"excluded":  {Query: nearest, WithPayload: qdrant.NewWithPayloadExclude("text")},
		"vectors":   {Query: nearest, WithVectors: qdrant.NewWithVectors(true)},
		"both":      {Query: nearest, WithVectors: qdrant.NewWithVectors(true), WithPayload: qdrant.NewWithPayload(true)},
		"filter":    {Query: nearest, Filter: below(s.plan.Below), WithPayload: qdrant.NewWithPayload(false)},
		"threshold": {Query: nearest, ScoreThreshold: proto.Float32(0.01)},
		"exact":     {Query: nearest, Params: &qdrant.SearchParams{Exact: proto.Bool(true)}},
		"id":        {Query: qdrant.NewQueryID(s.known()[0])},
		"recommend": {Query: recommend},
		"prefetch":  {Prefetch: prefetched, Query: qdrant.NewQueryFusion(qdrant.Fusion_DBSF)},
	}
	s.pages(collection, asked)
	s.call(collection+".default limit", func(ctx context.Context) {
		s.client.Query(ctx, &qdrant.QueryPoints{CollectionName: collection, Query: nearest})
	})
	s.batch(collection, "", nearest, proto.Uint64(s.plan.TopK))
	s.batch(collection, ".all", nearest, proto.Uint64(s.plan.All))
	s.legacy(collection, "", s.plan.TopK)
	s.legacy(collection, ".all", s.plan.All)
}

// pages asks for a page of each, and then for everything.
func (s *Scenario) pages(collection string, asked map[string]*qdrant.QueryPoints) {
	for _, name := range slices.Sorted(maps.Keys(asked)) {
		one := asked[name]
		one.CollectionName, one.Limit = collection, proto.Uint64(s.plan.TopK)
		s.call(collection+"."+name, func(ctx context.Context) { s.client.Query(ctx, one) })
		one.Limit, one.Offset = proto.Uint64(s.plan.All), nil
		s.call(collection+"."+name+".all", func(ctx context.Context) { s.client.Query(ctx, one) })
	}
}

func (s *Scenario) batch(collection, suffix string, nearest *qdrant.Query, limit *uint64) {
	items := []*qdrant.QueryPoints{
		{CollectionName: collection, Query: nearest, Limit: limit, WithPayload: qdrant.NewWithPayload(true)},
		{CollectionName: collection, Query: qdrant.NewQueryID(s.known()[0]), Limit: limit},
		{CollectionName: collection, Query: nearest, Limit: limit, WithVectors: qdrant.NewWithVectors(true)},
	}
	s.call(collection+".batch"+suffix, func(ctx context.Context) {
		s.client.QueryBatch(ctx, &qdrant.QueryBatchPoints{CollectionName: collection, QueryPoints: items})
	})
}

// legacy asks by the methods that came before Query, which the client has only as bare stubs.
func (s *Scenario) legacy(collection, suffix string, limit uint64) {
	points, ids := s.client.GetPointsClient(), s.known()
	search := &qdrant.SearchPoints{
		CollectionName: collection, Vector: s.plan.Query.Dense, Limit: limit, WithPayload: qdrant.NewWithPayload(true),
	}
	recommend := &qdrant.RecommendPoints{CollectionName: collection, Positive: ids[:2], Negative: ids[2:3], Limit: limit}
	example := func(id *qdrant.PointId) *qdrant.VectorExample {
		return &qdrant.VectorExample{Example: &qdrant.VectorExample_Id{Id: id}}
	}
	discover := &qdrant.DiscoverPoints{
		CollectionName: collection, Target: qdrant.NewTargetID(ids[0]), Limit: limit,
		Context: []*qdrant.ContextExamplePair{{Positive: example(ids[1]), Negative: example(ids[2])}},
	}
	s.call(collection+".search"+suffix, func(ctx context.Context) { points.Search(ctx, search) })
	s.call(collection+".recommend old"+suffix, func(ctx context.Context) { points.Recommend(ctx, recommend) })
	s.call(collection+".discover"+suffix, func(ctx context.Context) { points.Discover(ctx, discover) })
	s.call(collection+".search batch"+suffix, func(ctx context.Context) {
		items := []*qdrant.SearchPoints{search, search}
		points.SearchBatch(ctx, &qdrant.SearchBatchPoints{CollectionName: collection, SearchPoints: items})
	})
}

// searchNamed asks a collection with several vectors a point.
func (s *Scenario) searchNamed() {
	query := s.plan.Query
	dense, sparse := qdrant.NewQueryDense(query.Dense), qdrant.NewQuerySparse(query.Indices, query.Values)
	prefetched := []*qdrant.PrefetchQuery{
		{Query: dense, Using: proto.String("dense"), Limit: proto.Uint64(s.plan.All / 2)},
		{Query: sparse, Using: proto.String("words"), Limit: proto.Uint64(s.plan.All / 2)},
	}
	asked := map[string]*qdrant.QueryPoints{
		"dense":  {Query: dense, Using: proto.String("dense")},
		"small":  {Query: qdrant.NewQueryDense(query.Small), Using: proto.String("small")},
		"other":  {Query: dense, Using: proto.String("dense"), WithVectors: qdrant.NewWithVectorsInclude("small")},
		"sparse": {Query: sparse, Using: proto.String("words"), WithVectors: qdrant.NewWithVectors(true)},
		"hybrid": {Prefetch: prefetched, Query: qdrant.NewQueryFusion(qdrant.Fusion_DBSF), WithPayload: qdrant.NewWithPayload(true)},
	}
	s.pages("named", asked)
}
