// What OpenSearch's client for Java sees: KIND URL INDEX PLAN; prints one JSON object: calls -> what they returned.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.File;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.hc.core5.http.HttpHost;
import org.opensearch.client.json.JsonData;
import org.opensearch.client.opensearch.OpenSearchClient;
import org.opensearch.client.opensearch._types.Refresh;
import org.opensearch.client.opensearch._types.SortOrder;
import org.opensearch.client.opensearch._types.Time;
import org.opensearch.client.opensearch._types.query_dsl.Query;
import org.opensearch.client.opensearch.core.SearchRequest;
import org.opensearch.client.opensearch.core.SearchResponse;
import org.opensearch.client.opensearch.core.msearch.RequestItem;
import org.opensearch.client.opensearch.core.search.HitsMetadata;
import org.opensearch.client.opensearch.core.search.Pit;
import org.opensearch.client.transport.httpclient5.ApacheHttpClient5TransportBuilder;

public final class OpenSearch {
    private static final Query PAGES = Query.of(q -> q.range(r -> r.field("page").gte(JsonData.of(2))));
    private static final Time MINUTE = Time.of(t -> t.time("1m"));

    public static void main(String[] given) throws Exception {
        ObjectMapper json = new ObjectMapper();
        JsonNode plan = json.readTree(new File(given[3]));
        String index = given[2];
        List<Float> query = new ArrayList<>();
        plan.get("query").forEach(value -> query.add(value.floatValue()));
        int count = plan.get("count").intValue();
        Map<String, List<String>> seen = new LinkedHashMap<>();
        try (var transport = ApacheHttpClient5TransportBuilder.builder(HttpHost.create(given[1])).build()) {
            OpenSearchClient client = new OpenSearchClient(transport);
            store(client, index, plan);
            Query near = Query.of(q -> q.knn(k -> k.field("vector").vector(query).k(count)));
            Query filtered = Query.of(q -> q.knn(k -> k.field("vector").vector(query).k(count).filter(PAGES)));
            SearchRequest.Builder whole = new SearchRequest.Builder().index(index).size(count).query(near);
            SearchResponse<JsonNode> answer = client.search(whole.build(), JsonNode.class);
            seen.put("whole", texts(answer.hits()));
            seen.put("total", List.of(String.valueOf(answer.hits().total().value())));
            seen.put("selected", texts(client.search(s -> s.index(index).size(count).query(near)
                .source(f -> f.filter(i -> i.includes("text"))), JsonNode.class).hits()));
            seen.put("unselected", families(client.search(s -> s.index(index).size(count).query(near)
                .source(f -> f.fetch(false)), JsonNode.class).hits()));
            seen.put("filtered", texts(client.search(s -> s.index(index).size(count).query(filtered), JsonNode.class).hits()));
            RequestItem item = RequestItem.of(i -> i.header(h -> h.index(index)).body(b -> b.size(count).query(near)));
            int number = 0;
            for (var each : client.msearch(m -> m.searches(item, item), JsonNode.class).responses()) {
                seen.put("batch " + number++, texts(each.result().hits()));
            }
            String first = plan.get("passages").get(0).get("id").textValue();
            seen.put("get", List.of(client.get(g -> g.index(index).id(first), JsonNode.class).source().toString()));
            seen.put("count", List.of(String.valueOf(client.count(c -> c.index(index).query(PAGES)).count())));
            seen.put("scroll", scrolled(client, index));
            String pit = client.createPit(p -> p.index(index).keepAlive(MINUTE)).pitId();
            seen.put("point in time", ids(client.search(s -> s.pit(Pit.of(p -> p.id(pit).keepAlive("1m"))).size(count).source(f -> f.fetch(false))
                .sort(o -> o.field(f -> f.field("page").order(SortOrder.Asc))), JsonNode.class).hits()));
            client.deletePit(p -> p.pitId(pit));
        }
        System.out.println(json.writeValueAsString(seen));
    }

    private static void store(OpenSearchClient client, String index, JsonNode plan) throws Exception {
        client.indices().create(c -> c.index(index).settings(s -> s.knn(true)).mappings(m -> m.properties("vector", p -> p.knnVector(v -> v
            .dimension(plan.get("query").size()).method(n -> n.name("hnsw").spaceType("cosinesimil").engine("lucene"))))));
        client.bulk(b -> {
            for (JsonNode each : plan.get("passages")) {
                b.operations(o -> o.index(i -> i.index(index).id(each.get("id").textValue()).document(each)));
            }
            return b.refresh(Refresh.True);
        });
    }

    private static List<String> scrolled(OpenSearchClient client, String index) throws Exception {
        SearchResponse<JsonNode> start = client.search(s -> s.index(index).scroll(MINUTE).size(40), JsonNode.class);
        List<String> seen = new ArrayList<>(ids(start.hits()));
        String scroll = start.scrollId();
        for (List<String> more = seen; !more.isEmpty(); seen.addAll(more)) {
            more = ids(client.scroll(s -> s.scrollId(scroll).scroll(MINUTE), JsonNode.class).hits());
        }
        client.clearScroll(c -> c.scrollId(scroll));
        return seen;
    }

    private static List<String> texts(HitsMetadata<JsonNode> hits) {
        return hits.hits().stream().map(hit -> hit.source().get("text").textValue()).toList();
    }

    private static List<String> ids(HitsMetadata<JsonNode> hits) {
        return hits.hits().stream().map(hit -> hit.id()).toList();
    }

    private static List<String> families(HitsMetadata<JsonNode> hits) {
        return ids(hits).stream().map(id -> id.split("-")[0]).toList();
    }
}
