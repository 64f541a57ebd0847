// What Elasticsearch's client for Java sees: KIND URL INDEX PLAN; prints one JSON object: calls -> what they returned.

import co.elastic.clients.elasticsearch.ElasticsearchClient;
import co.elastic.clients.elasticsearch._types.KnnSearch;
import co.elastic.clients.elasticsearch._types.Refresh;
import co.elastic.clients.elasticsearch._types.SortOrder;
import co.elastic.clients.elasticsearch._types.Time;
import co.elastic.clients.elasticsearch._types.mapping.DenseVectorSimilarity;
import co.elastic.clients.elasticsearch._types.query_dsl.Query;
import co.elastic.clients.elasticsearch.core.SearchResponse;
import co.elastic.clients.elasticsearch.core.msearch.RequestItem;
import co.elastic.clients.elasticsearch.core.search.HitsMetadata;
import co.elastic.clients.json.jackson.JacksonJsonpMapper;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.File;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

public final class Elasticsearch {
    private static final Query PAGES = Query.of(q -> q.range(r -> r.number(n -> n.field("page").gte(2.0))));
    private static final Time MINUTE = Time.of(t -> t.time("1m"));

    public static void main(String[] given) throws Exception {
        ObjectMapper json = new ObjectMapper();
        JsonNode plan = json.readTree(new File(given[3]));
        String index = given[2];
        List<Float> query = new ArrayList<>();
        plan.get("query").forEach(value -> query.add(value.floatValue()));
        int count = plan.get("count").intValue();
        Map<String, List<String>> seen = new LinkedHashMap<>();
        try (var client = ElasticsearchClient.of(c -> c.host(given[1]).jsonMapper(new JacksonJsonpMapper(json)))) {
            store(client, index, plan);
            KnnSearch near = KnnSearch.of(k -> k.field("vector").queryVector(query).k(count).numCandidates(100));
            KnnSearch filtered = KnnSearch.of(k -> k.field("vector").queryVector(query).k(count).numCandidates(100).filter(PAGES));
            SearchResponse<JsonNode> answer = client.search(s -> s.index(index).size(count).knn(near), JsonNode.class);
            seen.put("whole", texts(answer.hits()));
            seen.put("total", List.of(String.valueOf(answer.hits().total().value())));
            seen.put("selected", texts(client.search(s -> s.index(index).size(count).knn(near)
                .source(f -> f.filter(i -> i.includes("text"))), JsonNode.class).hits()));
            seen.put("unselected", families(client.search(s -> s.index(index).size(count).knn(near)
                .source(f -> f.fetch(false)), JsonNode.class).hits()));
            seen.put("filtered", texts(client.search(s -> s.index(index).size(count).knn(filtered), JsonNode.class).hits()));
            seen.put("retriever", texts(client.search(s -> s.index(index).size(count).retriever(r -> r.knn(k -> k
                .field("vector").queryVector(query).k(count).numCandidates(100))), JsonNode.class).hits()));
            RequestItem item = RequestItem.of(i -> i.header(h -> h.index(index)).body(b -> b.size(count).knn(near)));
            int number = 0;
            for (var each : client.msearch(m -> m.searches(item, item), JsonNode.class).responses()) {
                seen.put("batch " + number++, texts(each.result().hits()));
            }
            String first = plan.get("passages").get(0).get("id").textValue();
            seen.put("get", List.of(client.get(g -> g.index(index).id(first), JsonNode.class).source().toString()));
            seen.put("count", List.of(String.valueOf(client.count(c -> c.index(index).query(PAGES)).count())));
            seen.put("scroll", scrolled(client, index));
            String pit = client.openPointInTime(p -> p.index(index).keepAlive(MINUTE)).id();
            seen.put("point in time", ids(client.search(s -> s.pit(p -> p.id(pit).keepAlive(MINUTE)).size(count)
                .sort(o -> o.field(f -> f.field("page").order(SortOrder.Asc))), JsonNode.class).hits()));
            client.closePointInTime(p -> p.id(pit));
        }
        System.out.println(json.writeValueAsString(seen));
    }

    private static void store(ElasticsearchClient client, String index, JsonNode plan) throws Exception {
        client.indices().create(c -> c.index(index).mappings(m -> m.properties("vector", p -> p.denseVector(v -> v
            .dims(plan.get("query").size()).similarity(DenseVectorSimilarity.Cosine)))));
        client.bulk(b -> {
            for (JsonNode each : plan.get("passages")) {
                b.operations(o -> o.index(i -> i.index(index).id(each.get("id").textValue()).document(each)));
            }
            return b.refresh(Refresh.True);
        });
    }

    private static List<String> scrolled(ElasticsearchClient client, String index) throws Exception {
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
