import static io.qdrant.client.ConditionFactory.range;
import static io.qdrant.client.PointIdFactory.id;
import static io.qdrant.client.QueryFactory.fusion;
import static io.qdrant.client.QueryFactory.nearest;
import static io.qdrant.client.QueryFactory.recommend;
import static io.qdrant.client.ValueFactory.list;
import static io.qdrant.client.ValueFactory.nullValue;
import static io.qdrant.client.ValueFactory.value;
import static io.qdrant.client.VectorFactory.vector;
import static io.qdrant.client.VectorInputFactory.vectorInput;
import static io.qdrant.client.VectorsFactory.namedVectors;
import static io.qdrant.client.VectorsFactory.vectors;

import com.google.common.util.concurrent.ListenableFuture;
import com.google.gson.Gson;
import io.grpc.Context;
import io.grpc.ManagedChannel;
import io.grpc.ManagedChannelBuilder;
import io.qdrant.client.QdrantClient;
import io.qdrant.client.QdrantGrpcClient;
import io.qdrant.client.RequestHeaders;
import io.qdrant.client.TargetVectorFactory;
import io.qdrant.client.WithPayloadSelectorFactory;
import io.qdrant.client.WithVectorsSelectorFactory;
import io.qdrant.client.grpc.Collections.CreateCollection;
import io.qdrant.client.grpc.Collections.Distance;
import io.qdrant.client.grpc.Collections.SparseVectorConfig;
import io.qdrant.client.grpc.Collections.SparseVectorParams;
import io.qdrant.client.grpc.Collections.VectorParams;
import io.qdrant.client.grpc.Collections.VectorParamsMap;
import io.qdrant.client.grpc.Collections.VectorsConfig;
import io.qdrant.client.grpc.Common.Filter;
import io.qdrant.client.grpc.Common.PointId;
import io.qdrant.client.grpc.Common.Range;
import io.qdrant.client.grpc.JsonWithInt.Value;
import io.qdrant.client.grpc.Points.*;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.stream.Collectors;

/**
 * The scenario of tests/foreign_clients in Java, with Qdrant's own client: `Scenario HOST PORT PLAN` makes the calls of the
 * plan and prints what each was answered, as JSON. A name that ends in ".all" asks for everything that the name before it
 * asks for a page of; an answer that is an error is an observation like any other.
 */
public final class Scenario {
  private static final WithPayloadSelector ALL_PAYLOAD = WithPayloadSelectorFactory.enable(true);
  private static final WithVectorsSelector ALL_VECTORS = WithVectorsSelectorFactory.enable(true);

  private final Plan plan;
  private final Recorder recorder;
  private final QdrantClient client;
  private final Query query;
  private final List<PointId> known;

  private Scenario(Plan plan, Recorder recorder, QdrantClient client) {
    this.plan = plan;
    this.recorder = recorder;
    this.client = client;
    this.query = nearest(plan.query.dense);
    this.known = plan.known.stream().map(number -> id(number)).collect(Collectors.toList());
  }

  public static void main(String[] given) throws Exception {
    Plan plan = new Gson().fromJson(Files.readString(Path.of(given[2])), Plan.class);
    Recorder recorder = new Recorder();
    ManagedChannel channel =
        ManagedChannelBuilder.forAddress(given[0], Integer.parseInt(given[1])).usePlaintext().intercept(recorder).build();
    try (QdrantClient client =
        new QdrantClient(QdrantGrpcClient.newBuilder(channel, true, false).withApiKey("k3y").build())) {
      Scenario scenario = new Scenario(plan, recorder, client);
      scenario.write();
      scenario.search("clean");
      scenario.search("copied");
      scenario.searchNamed();
      scenario.others();
      scenario.change();
    }
    System.out.println(recorder.asJson());
  }

  /** Names the wire calls that `ask` makes; an error is recorded with them. */
  private void call(String name, Callable<ListenableFuture<?>> ask) throws Exception {
    recorder.name = name;
    try {
      ask.call().get();
    } catch (ExecutionException error) {
      if (!(error.getCause() instanceof io.grpc.StatusRuntimeException)) {
        throw error;
      }
    }
  }

  private Filter below() {
    return Filter.newBuilder().addMust(range("base", Range.newBuilder().setLt(plan.below).build())).build();
  }

  private void write() throws Exception {
    VectorParams dense = params(plan.query.dense, Distance.Cosine);
    VectorParams small = params(plan.query.small, Distance.Euclid);
    for (String name : List.of("clean", "copied", "named")) {
      boolean isNamed = name.equals("named");
      VectorParamsMap several = VectorParamsMap.newBuilder().putMap("dense", dense).putMap("small", small).build();
      VectorsConfig.Builder config = VectorsConfig.newBuilder();
      CreateCollection.Builder made = CreateCollection.newBuilder().setCollectionName(name);
      made.setVectorsConfig(isNamed ? config.setParamsMap(several) : config.setParams(dense));
      if (isNamed) {
        made.setSparseVectorsConfig(SparseVectorConfig.newBuilder().putMap("words", SparseVectorParams.getDefaultInstance()));
      }
      call(name + " create", () -> client.createCollectionAsync(made.build()));
      List<PointStruct> points =
          plan.records.get(name).stream().map(one -> stored(one, isNamed)).collect(Collectors.toList());
      call(name + " upsert", () -> client.upsertAsync(name, points));
    }
  }

  private static VectorParams params(List<Float> vector, Distance distance) {
    return VectorParams.newBuilder().setSize(vector.size()).setDistance(distance).build();
  }

  private static PointStruct stored(Plan.Point one, boolean isNamed) {
    Map<String, Vector> several =
        Map.of("dense", vector(one.dense), "small", vector(one.small), "words", vector(one.values, one.indices));
    Map<String, Value> payload = new LinkedHashMap<>();
    payload.put("text", value(one.text));
    payload.put("base", value(one.base));
    payload.put("big", value(1L << 60));
    payload.put("half", value(0.5));
    payload.put("none", nullValue());
    payload.put("deep", value(Map.of("flag", value(true), "of", list(List.of(value("x"), value(1))))));
    return PointStruct.newBuilder()
        .setId(id(one.id))
        .setVectors(isNamed ? namedVectors(several) : vectors(one.dense))
        .putAllPayload(payload)
        .build();
  }

  private static QueryPoints.Builder by(Query query) {
    return QueryPoints.newBuilder().setQuery(query);
  }

  /** Asks one unnamed vector's collection in every way that ranks. */
  private void search(String collection) throws Exception {
    Query alike =
        recommend(
            RecommendInput.newBuilder()
                .addPositive(vectorInput(known.get(0)))
                .addPositive(vectorInput(known.get(1)))
                .build());
    PrefetchQuery.Builder half = PrefetchQuery.newBuilder().setLimit(plan.all / 2);
    Map<String, QueryPoints.Builder> asked = new LinkedHashMap<>();
    asked.put("nearest", by(query));
    asked.put("offset", by(query).setOffset(3));
    asked.put("payload", by(query).setWithPayload(ALL_PAYLOAD));
    asked.put("included", by(query).setWithPayload(WithPayloadSelectorFactory.include(List.of("base", "deep.of"))));
    asked.put("excluded", by(query).setWithPayload(WithPayloadSelectorFactory.exclude(List.of("text"))));
    asked.put("vectors", by(query).setWithVectors(ALL_VECTORS));
    asked.put("both", by(query).setWithVectors(ALL_VECTORS).setWithPayload(ALL_PAYLOAD));
    asked.put("filter", by(query).setFilter(below()).setWithPayload(WithPayloadSelectorFactory.enable(false)));
    asked.put("threshold", by(query).setScoreThreshold(0.01f));
    asked.put("exact", by(query).setParams(SearchParams.newBuilder().setExact(true)));
    asked.put("id", by(nearest(known.get(0))));
    asked.put("recommend", by(alike));
    // DBSF: rank fusion ties, and the engine breaks ties as it likes.
    QueryPoints.Builder fused = by(fusion(Fusion.DBSF)).addPrefetch(half.clone().setQuery(query));
    asked.put("prefetch", fused.addPrefetch(half.clone().setQuery(nearest(known.get(0)))));
    pages(collection, asked);
    QueryPoints unlimited = by(query).setCollectionName(collection).build();
    call(collection + ".default limit", () -> client.queryAsync(unlimited));
    several(collection, "", plan.top_k);
    several(collection, ".all", plan.all);
  }

  /** Asks for a page of each, and then for everything. */
  private void pages(String collection, Map<String, QueryPoints.Builder> asked) throws Exception {
    for (Map.Entry<String, QueryPoints.Builder> one : asked.entrySet()) {
      String name = collection + "." + one.getKey();
      QueryPoints page = one.getValue().setCollectionName(collection).setLimit(plan.top_k).build();
      QueryPoints all = page.toBuilder().clearOffset().setLimit(plan.all).build();
      call(name, () -> client.queryAsync(page));
      call(name + ".all", () -> client.queryAsync(all));
    }
  }

  /** Batches, and the methods that came before Query. */
  private void several(String collection, String suffix, int limit) throws Exception {
    List<QueryPoints> items =
        List.of(by(query).setWithPayload(ALL_PAYLOAD), by(nearest(known.get(0))), by(query).setWithVectors(ALL_VECTORS)).stream()
            .map(item -> item.setCollectionName(collection).setLimit(limit).build())
            .collect(Collectors.toList());
    SearchPoints search =
        SearchPoints.newBuilder()
            .setCollectionName(collection)
            .addAllVector(plan.query.dense)
            .setLimit(limit)
            .setWithPayload(ALL_PAYLOAD)
            .build();
    RecommendPoints like =
        RecommendPoints.newBuilder()
            .setCollectionName(collection)
            .addAllPositive(known.subList(0, 2))
            .addNegative(known.get(2))
            .setLimit(limit)
            .build();
    ContextExamplePair pair =
        ContextExamplePair.newBuilder().setPositive(example(known.get(1))).setNegative(example(known.get(2))).build();
    DiscoverPoints discover =
        DiscoverPoints.newBuilder()
            .setCollectionName(collection)
            .setTarget(TargetVectorFactory.targetVector(known.get(0)))
            .addContext(pair)
            .setLimit(limit)
            .build();
    call(collection + ".batch" + suffix, () -> client.queryBatchAsync(collection, items));
    call(collection + ".search" + suffix, () -> client.searchAsync(search));
    call(collection + ".search batch" + suffix, () -> client.searchBatchAsync(collection, List.of(search, search), null));
    call(collection + ".recommend old" + suffix, () -> client.recommendAsync(like));
    call(collection + ".discover" + suffix, () -> client.discoverAsync(discover));
  }

  private static VectorExample example(PointId point) {
    return VectorExample.newBuilder().setId(point).build();
  }

  private void searchNamed() throws Exception {
    Query sparse = nearest(plan.query.values, plan.query.indices);
    PrefetchQuery.Builder half = PrefetchQuery.newBuilder().setLimit(plan.all / 2);
    Map<String, QueryPoints.Builder> asked = new LinkedHashMap<>();
    asked.put("dense", by(query).setUsing("dense"));
    asked.put("small", by(nearest(plan.query.small)).setUsing("small"));
    asked.put(
        "other", by(query).setUsing("dense").setWithVectors(WithVectorsSelectorFactory.include(List.of("small"))));
    asked.put("sparse", by(sparse).setUsing("words").setWithVectors(ALL_VECTORS));
    QueryPoints.Builder fused =
        by(fusion(Fusion.DBSF)).addPrefetch(half.clone().setQuery(query).setUsing("dense")).setWithPayload(ALL_PAYLOAD);
    asked.put("hybrid", fused.addPrefetch(half.clone().setQuery(sparse).setUsing("words")));
    pages("named", asked);
  }

  /** What must come back as it is in every mode. */
  private void others() throws Exception {
    QueryPoints page = by(query).setCollectionName("copied").setLimit(plan.top_k).build();
    Query mmr = nearest(vectorInput(plan.query.dense), Mmr.newBuilder().setDiversity(0.5f).build());
    QueryPointGroups groups =
        QueryPointGroups.newBuilder()
            .setCollectionName("copied")
            .setQuery(query)
            .setGroupBy("base")
            .setLimit(plan.top_k)
            .setGroupSize(2)
            .build();
    Context off = RequestHeaders.withHeader(Context.current(), "x-vecsieve-mode", "off");
    call("health", () -> client.healthCheckAsync());
    call("collections", () -> client.listCollectionsAsync());
    call("exists", () -> client.collectionExistsAsync("nobody"));
    call("info", () -> client.getCollectionInfoAsync("named"));
    call("count", () -> client.countAsync("copied", below(), true));
    call("get", () -> client.retrieveAsync("named", known, true, true, null));
    call("scroll", () -> client.scrollAsync(ScrollPoints.newBuilder().setCollectionName("copied").setLimit(5).build()));
    call("groups", () -> client.queryGroupsAsync(groups));
    call("mmr", () -> client.queryAsync(page.toBuilder().setQuery(mmr).build()));
    call("one", () -> client.queryAsync(page.toBuilder().setLimit(1).build()));
    call("off by metadata", () -> off.call(() -> client.queryAsync(page)));
    call("error: no such collection", () -> client.queryAsync(page.toBuilder().setCollectionName("nobody").build()));
    call("error: wrong size", () -> client.queryAsync(page.toBuilder().setQuery(nearest(1, 2, 3)).build()));
  }

  /** Writes, a look at what was written, and everything is taken away. */
  private void change() throws Exception {
    Map<String, Value> added = Map.of("new", value("größe"));
    call("set payload", () -> client.setPayloadAsync("copied", added, known.get(0), true, null, null));
    call("delete points", () -> client.deleteAsync("copied", known.subList(1, 2)));
    call("written", () -> client.retrieveAsync("copied", known, true, false, null));
    for (String name : List.of("clean", "copied", "named")) {
      call(name + " delete", () -> client.deleteCollectionAsync(name));
    }
  }
}
