import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.langchain4j.data.document.Metadata;
import dev.langchain4j.data.embedding.Embedding;
import dev.langchain4j.data.segment.TextSegment;
import dev.langchain4j.store.embedding.qdrant.QdrantEmbeddingStore;
import io.qdrant.client.QdrantClient;
import io.qdrant.client.QdrantGrpcClient;
import io.qdrant.client.grpc.Collections.Distance;
import io.qdrant.client.grpc.Collections.VectorParams;
import java.io.File;
import java.util.ArrayList;
import java.util.List;

/** LangChain4j: text segments added to its embedding store over gRPC. {@code Writer qdrant HOST:PORT plan.json} */
public final class Writer {
  public static void main(String[] arguments) throws Exception {
    String[] address = arguments[1].split(":");
    JsonNode plan = new ObjectMapper().readTree(new File(arguments[2]));
    String collection = plan.get("collection").asText();
    QdrantClient client =
        new QdrantClient(QdrantGrpcClient.newBuilder(address[0], Integer.parseInt(address[1]), false).build());
    int dimension = plan.get("passages").get(0).get("vector").size();
    client
        .createCollectionAsync(
            collection, VectorParams.newBuilder().setSize(dimension).setDistance(Distance.Cosine).build())
        .get();
    List<String> identifiers = new ArrayList<>();
    List<Embedding> embeddings = new ArrayList<>();
    List<TextSegment> segments = new ArrayList<>();
    for (JsonNode passage : plan.get("passages")) {
      float[] vector = new float[dimension];
      for (int place = 0; place < dimension; place++) {
        vector[place] = (float) passage.get("vector").get(place).asDouble();
      }
      Metadata metadata =
          new Metadata()
              .put("title", passage.get("title").asText())
              .put("file_name", passage.get("file").asText())
              .put("page", passage.get("page").asInt())
              .put("date", passage.get("date").asText());
      identifiers.add(passage.get("identifier").asText());
      embeddings.add(Embedding.from(vector));
      segments.add(TextSegment.from(passage.get("text").asText(), metadata));
    }
    QdrantEmbeddingStore store = QdrantEmbeddingStore.builder().client(client).collectionName(collection).build();
    store.addAll(identifiers, embeddings, segments);
    client.close();
  }
}
